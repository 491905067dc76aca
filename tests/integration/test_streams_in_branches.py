"""Streams beside other branches: chunks come when they come, ends in the order of the journal (J5)."""

import asyncio
import contextlib

import msgspec
import pytest
from tests.integration.outside import OUTSIDE, answer, lasts, refuses
from tests.integration.source import END, HEAD, HELD, SOURCE, pieces_of, stream, streamed, words_of

import counterfoil
from counterfoil import Context, RunPausedError, RunStoppedError, workflow
from counterfoil.core.events import StepCancelled
from counterfoil.core.state import fold
from counterfoil.engine.calls import MODEL, Call

pytestmark = pytest.mark.anyio

SEEN: list[str] = []


@pytest.fixture(autouse=True)
def fresh():
    SEEN.clear()
    SOURCE.plan(["a", "b", END])


@pytest.fixture
async def memory(memory_desk):
    async with memory_desk.open() as journal:
        yield journal


async def read_all(ctx: Context, question: str, seen: list[str]) -> list[str]:
    async with streamed(ctx, question) as opened:
        words = [word async for word in words_of(opened)]
    seen.append(question)
    return words


@workflow(name="test_streams_in_branches.beside")
async def beside(ctx: Context) -> object:
    seen: list[str] = []
    calls = read_all(ctx, "p", seen), read_all(ctx, "q", seen), ctx.step(answer, 1)
    found = await asyncio.gather(*calls)
    return [found, seen, await ctx.step(answer, "after")]


async def test_streams_in_branches_end_in_one_order_after_a_crash_at_any_event(memory, crashes):
    whole = await memory.run(beside, id="r")
    assert whole == [[["a", "b", "[DONE]"]] * 2 + [1], whole[1], "after"]
    ends = await crashes(beside, memory.store)
    assert [end[0] for end in ends] == [whole[0]] * len(ends)
    assert ends[-1] == whole  # all on record: the ends came in the recorded order


@workflow(name="test_streams_in_branches.outlasted")
async def outlasted(ctx: Context) -> object:
    order: list[object] = []

    async def noted(call: object) -> None:
        await call
        order.append(getattr(call, "__name__", "?"))

    async with asyncio.TaskGroup() as group:
        group.create_task(noted(read_all(ctx, "q", order)))
        group.create_task(noted(ctx.step(lasts, "long")))
    return order


async def test_a_stream_that_was_opened_first_and_ended_last_ends_last_on_a_replay(memory, crashed):
    SOURCE.plan(["a", HELD, "b", END])
    running = asyncio.create_task(memory.run(outlasted, id="r"))
    await OUTSIDE.all_begun("piece", "long")
    OUTSIDE.free("long").set()
    while fold("r", await memory.events("r")).order != ["1/0"]:  # noqa: ASYNC110 - the journal tells nobody
        await asyncio.sleep(0)
    OUTSIDE.free("piece").set()
    assert await running == ["step", "q", "read_all"]
    left = await crashed(await memory.store.read("r"), len(await memory.events("r")) - 1)
    async with counterfoil.open(left) as journal:
        assert await journal.run(outlasted, id="r") == ["step", "q", "read_all"]
    assert OUTSIDE.calls == {"stream": 1, "long": 1}


# --- what passes chunks on, without calls that hang on them ---


@workflow(name="test_streams_in_branches.passed_on")
async def passed_on(ctx: Context) -> object:
    queue: asyncio.Queue[str | None] = asyncio.Queue()
    shown: list[str] = []

    async def show() -> None:
        while (word := await queue.get()) is not None:
            shown.append(word)

    async with asyncio.TaskGroup() as group:
        group.create_task(show())
        async with streamed(ctx) as opened:
            async for word in words_of(opened):
                queue.put_nowait(word)
        queue.put_nowait(None)
    return [shown, await ctx.step(answer, "after")]


async def test_another_branch_may_show_the_chunks(memory, crashes):
    assert await memory.run(passed_on, id="r") == [["a", "b", "[DONE]"], "after"]
    ends = await crashes(passed_on, memory.store)
    assert ends == [[["a", "b", "[DONE]"], "after"]] * len(ends)


# --- cancelled ---


@workflow(name="test_streams_in_branches.cut_off")
async def cut_off(ctx: Context) -> object:
    words: list[str] = []

    async def read() -> None:
        async with streamed(ctx) as opened:
            async for word in words_of(opened):
                words.append(word)  # noqa: PERF401 - what was seen before it was cut off counts

    with contextlib.suppress(ExceptionGroup):
        async with asyncio.TaskGroup() as group:
            group.create_task(read())
            group.create_task(ctx.step(refuses, "piece"))
    return [words, await ctx.step(answer, "after")]


async def test_a_stream_that_is_cancelled_is_recorded_with_what_it_had_handed_on(journal):
    SOURCE.plan(["a", "b", HELD, END])
    assert await journal.run(cut_off, id="r") == [["a", "b"], "after"]
    (cancelled,) = [e.body for e in await journal.events("r") if isinstance(e.body, StepCancelled)]
    assert msgspec.json.decode(cancelled.chunks) == {**HEAD, "chunks": pieces_of("a", "b")}
    assert (SOURCE.closed, await journal.store.chunks("r")) == (1, [])


async def test_a_replay_hands_on_what_a_cancelled_stream_had_and_cuts_it_off_again(memory, crashes):
    SOURCE.plan(["a", "b", HELD, END])
    await memory.run(cut_off, id="r")
    ends = await crashes(cut_off, memory.store)
    assert ends[-3:] == [[["a", "b"], "after"]] * 3
    assert OUTSIDE.calls == {}


@workflow(name="test_streams_in_branches.waits")
async def waits(ctx: Context) -> object:
    words: list[str] = []

    async def read() -> None:
        async with streamed(ctx) as opened:
            async for word in words_of(opened):
                words.append(word)
                OUTSIDE.begun("piece").set()
                await asyncio.Event().wait()

    with contextlib.suppress(ExceptionGroup):
        async with asyncio.TaskGroup() as group:
            group.create_task(read())
            group.create_task(ctx.step(refuses, "piece"))
    return [words, await ctx.step(answer, "after")]


async def test_a_branch_cancelled_between_chunks_keeps_what_it_had_seen(memory, crashes):
    assert await memory.run(waits, id="r") == [["a"], "after"]
    state = fold("r", await memory.events("r"))
    assert (state.steps["0/0"].status, SOURCE.closed) == ("cancelled", 1)
    assert (await crashes(waits, memory.store))[-3:] == [[["a"], "after"]] * 3


# --- ends ---


async def leaves_open(ctx: Context) -> None:
    opened = await ctx.open_stream(MODEL, Call(stream, ("q",), {}))
    await opened.next()


@workflow(name="test_streams_in_branches.left_open")
async def left_open(ctx: Context) -> object:
    return [await asyncio.gather(leaves_open(ctx), ctx.step(answer, 1)), await ctx.step(answer, "after")]


async def test_a_branch_that_ends_with_an_open_stream_pauses_the_run(journal):
    with pytest.raises(RunPausedError, match="stream_left"):
        await journal.run(left_open, id="r")
    assert (SOURCE.closed, "0/0" in fold("r", await journal.events("r")).order) == (1, False)


async def test_a_stop_lets_streams_of_several_branches_come_to_their_ends(desk):
    SOURCE.plan(["a", HELD, "b", END])
    async with desk.open() as journal:
        running = asyncio.create_task(journal.run(beside, id="r"))
        await OUTSIDE.begun("piece").wait()
        while OUTSIDE.calls["stream"] < 2:  # noqa: ASYNC110 - a count tells nobody
            await asyncio.sleep(0)
        asyncio.get_running_loop().call_later(0.01, OUTSIDE.free("piece").set)
        await journal.stop("told to")
        with pytest.raises(RunStoppedError):
            await running
        assert {"0/0", "1/0"} <= set(fold("r", await journal.events("r")).order)
    async with desk.open() as journal:
        assert (await journal.run(beside, id="r"))[0] == [["a", "b", "[DONE]"]] * 2 + [1]
    assert OUTSIDE.calls["stream"] == 2
