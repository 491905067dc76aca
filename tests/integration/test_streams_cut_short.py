"""Streams that are left or cancelled at an awkward moment, or whose branch waits without an end (J2, J5)."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any

import pytest
from tests.integration.outside import OUTSIDE, answer, refuses
from tests.integration.source import END, HEAD, SOURCE, pieces_of, stream, streamed, words_of

from counterfoil import Context, RunFailedError, RunPausedError, RunStoppedError, workflow
from counterfoil.engine import ending
from counterfoil.engine.calls import MODEL, Call
from counterfoil.engine.queries import timeline

pytestmark = pytest.mark.anyio


@pytest.fixture(autouse=True)
def fresh():
    SOURCE.plan(["a", "b", "c", END])


@pytest.fixture
async def memory(memory_desk):
    async with memory_desk.open() as journal:
        yield journal


# --- left before the first chunk ---


async def leaves_at_once(ctx: Context, word: str) -> object:
    async with streamed(ctx, word):
        pass
    return await ctx.step(answer, word)


@workflow(name="test_streams_cut_short.left_at_once")
async def left_at_once(ctx: Context) -> object:
    branches = leaves_at_once(ctx, "p"), leaves_at_once(ctx, "q")
    return [await leaves_at_once(ctx, "alone"), await asyncio.gather(*branches), await ctx.step(answer, "after")]


async def test_a_stream_left_before_its_first_chunk_is_left_so_on_every_replay(memory, crashes):
    whole = await memory.run(left_at_once, id="r")
    assert whole == ["alone", ["p", "q"], "after"]
    ends = await crashes(left_at_once, memory.store)
    assert ends == [whole] * len(ends)


async def test_the_timeline_says_that_it_was_left_after_none(memory):
    await memory.run(left_at_once, id="r")
    notes = [entry.notes for entry in timeline(await memory.events("r")) if entry.name == "stream"]
    assert ("left after 0 chunks",) in notes


# --- cancelled while its connection is being closed ---


async def closes_slowly(question: str) -> AsyncIterator[Any]:
    """A streamed call that takes its time to let go."""
    try:
        yield HEAD
        for piece in pieces_of("a", END):
            yield piece
    finally:
        OUTSIDE.begun("closing").set()
        try:
            await OUTSIDE.free("closing").wait()
        finally:
            OUTSIDE.calls["closed"] += 1


async def reads(ctx: Context, words: list[str], *, most: int) -> None:
    opened = await ctx.open_stream(MODEL, Call(closes_slowly, ("q",), {}))
    async for word in words_of(opened, most):
        words.append(word)  # noqa: PERF401 - what was seen before it was cut off counts
    await opened.close()


async def cancelled_in_the_close(ctx: Context, *, most: int) -> object:
    words: list[str] = []
    with contextlib.suppress(ExceptionGroup):
        async with asyncio.TaskGroup() as group:
            group.create_task(reads(ctx, words, most=most))
            group.create_task(ctx.step(refuses, "closing"))
    return [words, await ctx.step(answer, "after")]


@workflow(name="test_streams_cut_short.while_leaving")
async def while_leaving(ctx: Context) -> object:
    return await cancelled_in_the_close(ctx, most=1)


@workflow(name="test_streams_cut_short.at_the_end")
async def at_the_end(ctx: Context) -> object:
    return await cancelled_in_the_close(ctx, most=9)


@pytest.mark.parametrize("of", [while_leaving, at_the_end])
async def test_cancelled_while_it_is_closed_a_stream_gives_again_what_it_had_handed_on(memory, crashes, of):
    assert await memory.run(of, id="r") == [["a"], "after"]
    assert OUTSIDE.calls["closed"] == 1
    assert (await crashes(of, memory.store))[-3:] == [[["a"], "after"]] * 3


# --- a branch that waits for what will never be, with a stream open ---


@pytest.fixture
def impatient(monkeypatch):
    monkeypatch.setattr(ending, "STILL_SECONDS", 0.05)


async def passes_on(ctx: Context, queue: "asyncio.Queue[str]") -> None:
    async with streamed(ctx) as opened:
        async for word in words_of(opened):
            await queue.put(word)


async def takes_one_and_fails(queue: "asyncio.Queue[str]") -> None:
    await queue.get()
    raise ValueError("enough")


@workflow(name="test_streams_cut_short.nobody_takes")
async def nobody_takes(ctx: Context) -> object:
    queue: asyncio.Queue[str] = asyncio.Queue(1)
    return await asyncio.gather(passes_on(ctx, queue), takes_one_and_fails(queue))


async def test_a_body_that_fails_ends_though_a_branch_waits_with_a_stream_open(memory, impatient):
    async with asyncio.timeout(10):
        with pytest.raises(RunFailedError, match="enough"):
            await memory.run(nobody_takes, id="r")
    assert SOURCE.closed == 1


async def leaves_open(ctx: Context, queue: "asyncio.Queue[str]") -> None:
    await (await ctx.open_stream(MODEL, Call(stream, ("q",), {}))).next()


@workflow(name="test_streams_cut_short.misused")
async def misused(ctx: Context) -> object:
    queue: asyncio.Queue[str] = asyncio.Queue(1)
    return await asyncio.gather(passes_on(ctx, queue), leaves_open(ctx, queue))


async def test_a_misuse_pauses_the_run_though_another_branch_waits_with_a_stream_open(memory, impatient):
    async with asyncio.timeout(10):
        with pytest.raises(RunPausedError, match="stream_left"):
            await memory.run(misused, id="r")
    assert SOURCE.closed == 2


@workflow(name="test_streams_cut_short.shown_slowly")
async def shown_slowly(ctx: Context) -> object:
    async with streamed(ctx) as opened:
        async for word in words_of(opened):
            OUTSIDE.begun(word).set()
            await OUTSIDE.free(word).wait()
    return "shown"


async def test_a_stop_lets_code_that_reads_on_now_and_then_come_to_the_end_of_its_stream(memory, types_of):
    running = asyncio.create_task(memory.run(shown_slowly, id="r"))
    await OUTSIDE.begun("a").wait()
    stopped = asyncio.create_task(memory.stop("told to"))
    for word in ("a", "b", "c", "[DONE]"):
        await OUTSIDE.begun(word).wait()
        OUTSIDE.free(word).set()
    await stopped
    with contextlib.suppress(RunStoppedError):
        assert await running == "shown"
    assert "step_succeeded" in types_of(await memory.events("r"))
