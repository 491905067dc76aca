"""Streams of wrapped clients: the events that the client gives, live as on replay, and no answer that was cut (J2, J6).

Tried with the real clients, over HTTP, and counted by the server.
"""

import asyncio
import sys
from contextlib import aclosing, suppress
from typing import Any

import msgspec
import pytest
from tests.integration.outside import answer
from tests.integration.streaming import STREAMS, read, read_plainly
from tests.integration.wrapping import HERE, KEY

import counterfoil
from counterfoil import Context, RunPausedError, RunStoppedError, workflow
from counterfoil.core.events import StepFailed, StepSucceeded
from counterfoil.errors import ConcurrentCallError, StreamCutError
from counterfoil.testing.stubs import StubModel

pytestmark = [pytest.mark.anyio, pytest.mark.sdk]

WORDS = " ".join(f"word{n}" for n in range(100))
LONG = {"role": "assistant", "content": WORDS}


@pytest.fixture
def stub():
    with StubModel(script=[LONG]) as running:
        yield running


@pytest.fixture(params=STREAMS)
async def form(request, stub):
    form = HERE.form = STREAMS[request.param]
    HERE.seen, HERE.most, HERE.crashes = [], 1_000_000, False
    async with counterfoil.wrap(form.async_client(base_url=stub.url + form.base, api_key=KEY)) as HERE.client:
        yield form


@pytest.fixture
def plain(form, stub):
    with counterfoil.wrap(form.plain_client(base_url=stub.url + form.base, api_key=KEY)) as HERE.client:
        yield form


async def bare(form, stub, *, before: int = 0) -> tuple[list[str], str | None]:
    """What the client itself gives, when so many were asked for before it."""
    async with form.async_client(base_url=stub.url + form.base, api_key=KEY) as client:
        for _ in range(before):
            await read(form, client, [])
        seen: list[str] = []
        final = await read(form, client, seen)
    stub.configure(script=[LONG])
    return seen, final


@workflow(name="test_wrap_streams.reads")
async def reads(ctx: Context) -> Any:
    HERE.seen = []
    final = await read(HERE.form, HERE.client, HERE.seen, HERE.most)
    if HERE.crashes:
        sys.exit(1)
    return [len(HERE.seen), final]


@workflow(name="test_wrap_streams.reads_plainly")
async def reads_plainly(ctx: Context) -> Any:
    HERE.seen = []
    final = read_plainly(HERE.form, HERE.client, HERE.seen, HERE.most)
    if HERE.crashes:
        sys.exit(1)
    return [len(HERE.seen), final]


async def crashed_and_resumed(desk, of) -> tuple[Any, list[Any], list[Any]]:
    """What a run ends with whose process leaves at the end of its first attempt, and what each attempt saw."""
    async with desk.open() as journal:
        HERE.crashes = True
        with pytest.raises(RunStoppedError):
            await journal.run(of, id="r")
        first, HERE.crashes = HERE.seen, False
        return await journal.run(of, id="r"), first, await journal.events("r")


def outcome(events) -> Any:
    return next(event.body for event in events if isinstance(event.body, StepSucceeded | StepFailed))


# --- the same as the client's own ---


async def test_a_body_sees_the_client_s_own_events_live_as_on_replay_and_no_connection_is_opened(
    form, stub, memory_desk
):
    expected = await bare(form, stub)
    result, first, events = await crashed_and_resumed(memory_desk, reads)
    assert (first, HERE.seen) == (expected[0], expected[0])
    assert result == [len(first), expected[1]]
    assert len(stub.log) == 1
    assert msgspec.json.decode(outcome(events).result)["complete"] is True


async def test_a_plain_client_streams_in_an_async_body(plain, stub, memory_desk):
    expected = await bare(plain, stub)
    result, first, _ = await crashed_and_resumed(memory_desk, reads_plainly)
    assert (first, HERE.seen) == (expected[0], expected[0])
    assert result == [len(first), expected[1]]
    assert len(stub.log) == 1


@pytest.mark.parametrize("of", [reads, reads_plainly])
async def test_a_stream_left_early_is_left_at_the_same_event_on_a_replay(request, form, stub, memory_desk, of):
    if of is reads_plainly:
        request.getfixturevalue("plain")
    HERE.most = 7
    result, first, events = await crashed_and_resumed(memory_desk, of)
    assert (result, first, len(stub.log)) == ([7, None], HERE.seen, 1)
    assert msgspec.json.decode(outcome(events).result)["complete"] is False


async def passed_through() -> Any:
    """A generator of the program's own, around a stream that it closes."""
    opened = HERE.form.ask(HERE.client)
    async with opened if HERE.form.is_helper else await opened as stream:
        async for event in stream:
            yield event


@workflow(name="test_wrap_streams.closes_a_generator")
async def closes_a_generator(ctx: Context) -> str:
    async with aclosing(passed_through()) as events:
        async for _ in events:
            break
    return await ctx.step(answer, "after")


async def test_a_stream_inside_a_generator_is_closed_with_it(form, memory_desk):
    async with memory_desk.open() as journal:
        assert await journal.run(closes_a_generator, id="r") == "after"
        assert msgspec.json.decode(outcome(await journal.events("r")).result)["complete"] is False


async def fails(sent: int) -> None:
    await asyncio.to_thread(HERE.stub.wait_for, lambda log: log and log[0].events_sent == sent)
    raise ValueError("no")


@workflow(name="test_wrap_streams.is_cut_off")
async def is_cut_off(ctx: Context, sent: int) -> None:
    async def reads_on() -> None:
        read_plainly(HERE.form, HERE.client, [])

    with suppress(ExceptionGroup):
        async with asyncio.TaskGroup() as group:
            group.create_task(reads_on())
            group.create_task(ctx.step(fails, sent))


@pytest.mark.parametrize(("sent", "delay"), [(3, 0.0), (0, 0.3)], ids=["midway", "before the answer"])
async def test_a_plain_client_whose_stream_is_cancelled_hangs_up(plain, stub, memory_desk, sent, delay):
    HERE.stub = stub
    stub.configure(script=[LONG], stalls=[3], delays=[delay])
    async with memory_desk.open() as journal:
        await journal.run(is_cut_off, sent, id="r")
        await asyncio.to_thread(stub.wait_for, lambda log: log[0].delivered is False)


async def test_several_streams_at_once_are_handed_out_as_recorded(form, stub, memory_desk):
    seen: dict[str, list[Any]] = {}

    @workflow(name="test_wrap_streams.thrice")
    async def thrice(ctx: Context) -> list[str]:
        async def one(name: str) -> str:
            seen[name] = []
            await read(HERE.form, HERE.client, seen[name])
            return name

        found = await asyncio.gather(*map(one, "abc"))
        if HERE.crashes:
            sys.exit(1)
        return found

    stub.configure(script=[LONG], vary=True)
    async with memory_desk.open() as journal:
        HERE.crashes = True
        with pytest.raises(RunStoppedError):
            await journal.run(thrice, id="r")
        first, HERE.crashes = dict(seen), False
        assert await journal.run(thrice, id="r") == ["a", "b", "c"]
    assert (seen, len(stub.log)) == (first, 3)


# --- broken ---


@pytest.mark.parametrize("how", ["cuts", "clean_cuts"])
async def test_a_stream_that_breaks_after_40_chunks_pauses_the_run_and_a_resume_has_the_second_one_only(
    form, stub, memory_desk, how
):
    expected = await bare(form, stub, before=1)
    stub.configure(script=[LONG], **{how: [40]})
    async with memory_desk.open() as journal:
        with pytest.raises(RunPausedError, match=r"step_failed.*StreamCutError"):
            await journal.run(reads, id="r")
        failed = outcome(await journal.events("r"))
        assert len(msgspec.json.decode(failed.chunks)["chunks"]) == 40
        assert await journal.resume("r") == [len(expected[0]), expected[1]]
    assert (HERE.seen, len(stub.log)) == (expected[0], 2)


async def test_an_event_that_says_that_the_answer_failed_is_raised_as_the_client_raises_it(form, stub, memory_desk):
    stub.configure(script=[LONG], error_events=[5])
    with pytest.raises(Exception) as bare_error:  # noqa: PT011 - whatever it is
        await bare(form, stub)
    stub.configure(script=[LONG], error_events=[5])
    async with memory_desk.open() as journal:
        with pytest.raises(RunPausedError, match="step_failed") as caught:
            await journal.run(reads, id="r")
        cause = caught.value.__cause__
        if not isinstance(bare_error.value, RuntimeError | AssertionError):
            assert (type(cause), str(cause)) == (type(bare_error.value), str(bare_error.value))


async def test_a_failure_before_the_first_event_is_tried_again(form, stub, memory_desk):
    stub.configure(script=[LONG], cuts=[0])
    async with memory_desk.open() as journal:
        assert (await journal.run(reads, id="r"))[0] == len(HERE.seen)
        types = [event.type for event in await journal.events("r")]
    assert types[2:6] == ["step_intended", "retry_set", "step_intended", "step_succeeded"]
    assert len(stub.log) == 2


async def test_a_body_that_breaks_off_without_closing_is_told_to_close(form, memory_desk):
    @workflow(name="test_wrap_streams.breaks")
    async def breaks(ctx: Context) -> None:
        opened = HERE.form.ask(HERE.client)
        stream = await (opened.__aenter__() if HERE.form.is_helper else opened)
        async for _ in stream:
            break
        ctx.now()

    async with memory_desk.open() as journal:
        with pytest.raises(RunPausedError, match=r"concurrent_call.*close it") as caught:
            await journal.run(breaks, id="r")
    assert type(caught.value.__cause__) is ConcurrentCallError


def test_a_cut_stream_names_the_address_without_its_query():
    assert StreamCutError(url="u", events=1).facts == {"url": "u", "events": 1}
