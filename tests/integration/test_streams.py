"""Streamed calls of one branch: handed on as they come, one outcome in the record, the same on a replay (J2 to J6)."""

import asyncio
from typing import Any

import msgspec
import pytest
from tests.integration.outside import OUTSIDE, answer
from tests.integration.source import END, HEAD, HELD, SOURCE, CutOffError, pieces_of, stream, streamed, words_of

import counterfoil
from counterfoil import Context, RunFailedError, RunPausedError, RunStoppedError, workflow
from counterfoil.core.events import StepFailed, StepSucceeded
from counterfoil.core.state import fold
from counterfoil.engine import provisional
from counterfoil.engine.calls import MODEL, Call
from counterfoil.engine.queries import timeline
from counterfoil.errors import (
    ConcurrentCallError,
    StepMismatchError,
    StoreUnavailableError,
    StreamCutError,
    StreamLeftError,
)
from counterfoil.store import Chunk, Stream
from counterfoil.stores.memory import MemoryStore

pytestmark = pytest.mark.anyio

STREAMED = ["a", "b", "c", END]
SEEN: list[str] = []
"""What the body has seen, in the last pass."""


@pytest.fixture(autouse=True)
def fresh():
    SEEN.clear()
    SOURCE.plan(STREAMED)


@pytest.fixture
async def memory(memory_desk):
    async with memory_desk.open() as journal:
        yield journal


def outcome(events) -> Any:
    """The last outcome of the streamed step, as it is recorded."""
    return [event.body for event in events if isinstance(event.body, StepSucceeded | StepFailed)][-1]


async def chunks(journal, try_number: int = 1, step: str = "0") -> list[str]:
    """What the store has of a stream that no event holds."""
    return [chunk.text for chunk in await journal.store.chunks("r", stream=Stream(step, try_number))]


async def written(journal, count: int) -> list[Chunk]:
    """The provisional chunks, when there are so many."""
    while len(found := await journal.store.chunks("r")) < count:  # noqa: ASYNC110 - the store tells nobody
        await asyncio.sleep(0.001)
    return found


@workflow(name="test_streams.reads")
async def reads(ctx: Context) -> str:
    SEEN.clear()
    async with streamed(ctx) as opened:
        async for word in words_of(opened):
            SEEN.append(word)  # noqa: PERF401 - what was seen before a failure counts
    return " ".join(SEEN)


# --- a whole answer ---


async def test_a_streamed_answer_is_one_outcome_with_each_chunk_once(journal, types_of):
    assert await journal.run(reads, id="r") == "a b c [DONE]"
    events = await journal.events("r")
    assert types_of(events)[2:] == ["step_intended", "step_succeeded", "run_completed"]
    recorded = {**HEAD, "chunks": pieces_of(*STREAMED), "complete": True}
    assert msgspec.json.decode(outcome(events).result) == recorded
    assert (OUTSIDE.calls, SOURCE.closed, await chunks(journal)) == ({"stream": 1}, 1, [])


async def test_a_crash_at_any_event_makes_the_stream_again_unless_it_is_on_record(memory, crashes):
    await memory.run(reads, id="r")
    assert await crashes(reads, memory.store) == ["a b c [DONE]"] * 4
    assert OUTSIDE.calls == {}  # the last one had the outcome on record
    assert SEEN == ["a", "b", "c", "[DONE]"]


@workflow(name="test_streams.head")
async def tells_head(ctx: Context) -> object:
    async with streamed(ctx) as opened:
        head = opened.head
        assert [word async for word in words_of(opened)] == ["a", "b", "c", "[DONE]"]
    return [head, await ctx.step(answer, "after")]


async def test_the_head_is_known_once_it_is_open_live_as_on_replay(memory, crashes):
    assert await memory.run(tells_head, id="r") == [HEAD, "after"]
    assert await crashes(tells_head, memory.store) == [[HEAD, "after"]] * 6


async def test_after_its_end_it_gives_nothing_and_a_close_changes_nothing(journal):
    @workflow
    async def asks_on(ctx: Context) -> object:
        opened = await ctx.open_stream(MODEL, Call(stream, ("q",), {}))
        words = [word async for word in words_of(opened)]
        await opened.close()
        return [len(words), [word async for word in words_of(opened)], await ctx.step(answer, 1)]

    assert await journal.run(asks_on, id="r") == [4, [], 1]


async def test_the_end_is_on_disk_before_the_last_chunk_is_handed_on(journal):
    @workflow
    async def looks(ctx: Context) -> list[bool]:
        async with streamed(ctx) as opened:
            return ["0" in fold("r", await journal.events("r")).order async for _ in words_of(opened)]

    assert await journal.run(looks, id="r") == [False, False, False, True]


async def test_a_secret_in_a_chunk_is_seen_by_nobody(memory_desk, monkeypatch):
    monkeypatch.setenv("KEY", "opensesame")
    SOURCE.plan(["say", "opensesame", END])
    async with memory_desk.open(secrets=["KEY"]) as journal:
        assert await journal.run(reads, id="r") == "say [secret KEY] [DONE]"
        assert b"opensesame" not in bytes(outcome(await journal.events("r")).result)


# --- provisional ---


async def test_chunks_can_be_read_while_the_stream_is_under_way(journal):
    SOURCE.plan(["a", "b", HELD, "c", END])
    running = asyncio.create_task(journal.run(reads, id="r"))
    assert await written(journal, 2) == [Chunk(Stream("0", 1), n, f"data: {word}\n\n") for n, word in enumerate("ab")]
    OUTSIDE.free("piece").set()
    await running
    assert await chunks(journal) == []


async def test_a_fast_stream_costs_few_writes(memory, monkeypatch):
    SOURCE.plan([*map(str, range(1000)), END])
    writes, put = [], memory.store.put_chunks

    def counted(*args, **options):
        writes.append(args)
        return put(*args, **options)

    monkeypatch.setattr(memory.store, "put_chunks", counted)
    await memory.run(reads, id="r")
    assert len(writes) < 20


async def test_chunks_that_came_before_a_cut_stay_and_those_of_the_next_try_are_marked_by_theirs(desk):
    SOURCE.plan(["a", "b", HELD], ["a", "x", HELD, END])
    async with desk.open() as journal:
        running = asyncio.create_task(journal.run(reads, id="r"))
        await OUTSIDE.begun("piece").wait()
        await journal.stop("told to", grace=0)
        with pytest.raises(RunStoppedError):
            await running
        assert await chunks(journal) == pieces_of("a", "b")
    OUTSIDE.begun("piece").clear()
    async with desk.open() as journal:
        running = asyncio.create_task(journal.run(reads, id="r"))
        found = await written(journal, 4)
        assert [(chunk.stream.try_number, chunk.text) for chunk in found[2:]] == [(2, p) for p in pieces_of("a", "x")]
        OUTSIDE.free("piece").set()
        assert await running == "a x [DONE]"
        assert (await chunks(journal), await chunks(journal, 2)) == (pieces_of("a", "b"), [])


async def test_a_stream_of_a_replaced_owner_ends_when_its_chunks_are_refused(journal, monkeypatch):
    monkeypatch.setattr(provisional, "WRITE_SECONDS", 0)
    SOURCE.plan(["a", HELD, "b", "c", END])
    running = asyncio.create_task(journal.run(reads, id="r"))
    await OUTSIDE.begun("piece").wait()
    await written(journal, 1)
    head = await journal.store.head("r")
    await journal.store.take("r", head.owner, now=0)  # a later life of it
    OUTSIDE.free("piece").set()
    with pytest.raises(RunStoppedError, match="has been replaced"):
        await running
    assert "late_report" in [message.kind for message in await journal.store.inbox("r")]


class FullDisk(MemoryStore):
    """Has no room for chunks."""

    def __init__(self) -> None:
        super().__init__()
        self.refused = asyncio.Event()

    def put_chunks(self, run, chunks, *, epoch):
        done = asyncio.get_running_loop().create_future()
        done.set_exception(StoreUnavailableError(store=self.name, problem="the disk is full"))
        done.add_done_callback(lambda _: self.refused.set())
        return done


async def test_a_full_disk_stops_the_run_as_it_does_at_an_event(monkeypatch):
    monkeypatch.setattr(provisional, "WRITE_SECONDS", 0)
    SOURCE.plan(["a", HELD, "b", END])
    disk = FullDisk()
    async with counterfoil.open(disk) as journal:
        running = asyncio.create_task(journal.run(reads, id="r"))
        await OUTSIDE.begun("piece").wait()
        await disk.refused.wait()
        OUTSIDE.free("piece").set()
        with pytest.raises(RunStoppedError, match="the disk is full"):
            await running
    assert SOURCE.closed == 1


# --- left early ---


def leaving(most: int) -> Any:
    @workflow(name="test_streams.leaves")
    async def leaves(ctx: Context) -> object:
        async with streamed(ctx) as opened:
            words = [word async for word in words_of(opened, most)]
        return [words, await ctx.step(answer, "after")]

    return leaves


async def test_a_stream_left_early_gives_as_many_chunks_on_every_replay(memory, crashes):
    leaves = leaving(2)
    assert await memory.run(leaves, id="r") == [["a", "b"], "after"]
    recorded = {**HEAD, "chunks": pieces_of("a", "b"), "complete": False}
    events = await memory.events("r")
    assert msgspec.json.decode(next(e.body for e in events if isinstance(e.body, StepSucceeded)).result) == recorded
    assert await crashes(leaves, memory.store) == [[["a", "b"], "after"]] * 6
    assert OUTSIDE.calls == {}


@pytest.mark.parametrize("most", [1, 3])
async def test_code_that_leaves_elsewhere_does_not_fit_the_record(memory, crashed, most):
    await memory.run(leaving(2), id="r")
    left = await crashed(await memory.store.read("r"), 4)
    async with counterfoil.open(left) as journal:
        with pytest.raises(RunPausedError, match="step_mismatch") as caught:
            await journal.run(leaving(most), id="r")
    assert type(caught.value.__cause__) is StepMismatchError
    assert caught.value.__cause__.recorded == "model stream, left after 2 chunks"
    assert OUTSIDE.calls["stream"] == 1


# --- failures ---


async def test_a_failure_before_the_first_chunk_is_tried_again(journal, types_of):
    SOURCE.plan([CutOffError("gone")], [END])
    assert await journal.run(reads, id="r") == "[DONE]"
    assert types_of(await journal.events("r"))[3:6] == ["retry_set", "step_intended", "step_succeeded"]
    assert (SOURCE.opened, SOURCE.closed) == (2, 2)


async def test_a_stream_that_ends_without_its_mark_is_no_answer(journal):
    SOURCE.plan([], ["a", "b"])
    with pytest.raises(RunPausedError, match="step_failed"):
        await journal.run(reads, id="r")
    failed = outcome(await journal.events("r"))
    assert (SOURCE.opened, failed.error.type) == (2, "counterfoil.errors:StreamCutError")  # the first try had no chunk
    assert msgspec.json.decode(failed.chunks) == {**HEAD, "chunks": pieces_of("a", "b")}


@workflow(name="test_streams.catches")
async def catches(ctx: Context) -> object:
    words = []
    try:
        async with streamed(ctx) as opened:
            async for word in words_of(opened):
                words.append(word)  # noqa: PERF401 - it keeps what came before the failure
    except CutOffError as error:
        words.append(f"{type(error).__name__}: {error}")
    return [words, await ctx.step(answer, "after")]


async def test_a_stream_that_breaks_gives_its_chunks_and_its_failure_again_on_every_replay(memory, crashes):
    SOURCE.plan(["a", "b", CutOffError("gone")])
    assert await memory.run(catches, id="r") == [["a", "b", "CutOffError: gone"], "after"]
    assert await crashes(catches, memory.store) == [[["a", "b", "CutOffError: gone"], "after"]] * 6
    assert OUTSIDE.calls == {}


async def test_a_broken_stream_that_nobody_catches_pauses_the_run_and_is_made_again_by_a_resume(journal):
    SOURCE.plan(["a", "b", CutOffError("gone")], STREAMED)
    with pytest.raises(RunPausedError, match="step_failed"):
        await journal.run(reads, id="r")
    assert SEEN == ["a", "b"]
    assert await chunks(journal) == []  # the event has them
    assert await journal.resume("r") == "a b c [DONE]"
    assert SOURCE.opened == 2


async def test_a_time_limit_covers_the_whole_stream(journal):
    @workflow
    async def limited(ctx: Context) -> object:
        words = []
        try:
            async with streamed(ctx, timeout=0.05) as opened:
                async for word in words_of(opened):
                    words.append(word)  # noqa: PERF401 - it keeps what came before the failure
        except TimeoutError as error:
            return [words, str(error)]

    SOURCE.plan(["a", HELD])
    assert await journal.run(limited, id="r") == [["a"], "stream took longer than 0.05 seconds"]
    assert SOURCE.closed == 1


async def test_a_lost_stream_pauses_the_run_if_it_is_told_to(memory, crashed):
    @workflow(name="test_streams.careful")
    async def careful(ctx: Context) -> object:
        async with streamed(ctx, on_unknown="pause") as opened:
            return [word async for word in words_of(opened)]

    await memory.run(careful, id="r")
    async with counterfoil.open(await crashed(await memory.store.read("r"), 3)) as journal:
        with pytest.raises(RunPausedError, match="outcome_unknown"):
            await journal.run(careful, id="r")
        assert OUTSIDE.calls["stream"] == 1
        assert await journal.resume("r") == ["a", "b", "c", "[DONE]"]


async def test_an_exception_of_the_body_between_chunks_fails_the_run(journal):
    @workflow
    async def stumbles(ctx: Context) -> None:
        async with streamed(ctx) as opened:
            async for word in words_of(opened):
                raise LookupError(word)

    with pytest.raises(RunFailedError, match="LookupError: a"):
        await journal.run(stumbles, id="r")
    assert SOURCE.closed == 1


# --- misuse ---


def misusing(act: Any) -> Any:
    @workflow(name="test_streams.misuse")
    async def misuse(ctx: Context) -> object:
        opened = await ctx.open_stream(MODEL, Call(stream, ("q",), {}))
        await opened.next()
        return await act(ctx, opened)

    return misuse


async def calls_a_step(ctx: Context, _: Any) -> object:
    return await ctx.step(answer, 1)


async def reads_the_clock(ctx: Context, _: Any) -> object:
    return ctx.now()


async def opens_another(ctx: Context, _: Any) -> object:
    async with streamed(ctx, "another") as opened:
        return await opened.next()


async def swallows(ctx: Context, opened: Any) -> object:
    try:
        await ctx.step(answer, 1)
    except ConcurrentCallError:
        await opened.close()
    return 1


@pytest.mark.parametrize("act", [calls_a_step, reads_the_clock, opens_another, swallows])
async def test_another_call_while_a_stream_is_open_is_refused_and_the_stream_has_no_outcome(journal, act):
    with pytest.raises(RunPausedError, match=r"concurrent_call.*while model stream was under way.*close it"):
        await journal.run(misusing(act), id="r")
    assert (OUTSIDE.calls, SOURCE.closed) == ({"stream": 1}, 1)
    assert fold("r", await journal.events("r")).order == []


async def returns(ctx: Context, opened: Any) -> object:
    return 1


async def reads_on(ctx: Context, opened: Any) -> object:
    return [word async for word in words_of(opened)]


async def test_a_body_that_returns_with_an_open_stream_is_paused_and_goes_on_when_mended(journal):
    with pytest.raises(RunPausedError, match="stream_left") as caught:
        await journal.run(misusing(returns), id="r")
    assert caught.value.__cause__.facts == StreamLeftError(what="model stream").facts
    assert SOURCE.closed == 1
    assert await journal.resume("r", misusing(reads_on)) == ["b", "c", "[DONE]"]
    assert SOURCE.opened == 2


async def test_what_was_dropped_and_is_collected_in_time_closes_nothing(journal):
    @workflow
    async def drops(ctx: Context) -> object:
        async def part() -> None:
            async with streamed(ctx) as opened:
                async for _ in words_of(opened, 1):
                    await asyncio.get_running_loop().create_task(asyncio.sleep(0))

        await part()
        return await ctx.step(answer, "after")

    assert await journal.run(drops, id="r") == "after"


async def test_a_stream_can_be_read_by_the_branch_that_opened_it_only(journal):
    @workflow
    async def hands_over(ctx: Context) -> object:
        opened = await ctx.open_stream(MODEL, Call(stream, ("q",), {}))
        return await asyncio.gather(opened.next())

    with pytest.raises(RunPausedError, match=r"concurrent_call.*another task"):
        await journal.run(hands_over, id="r")


# --- as a person sees it ---


async def test_the_timeline_says_how_much_came_of_a_stream_that_did_not_end(journal):
    await journal.run(leaving(2), id="left")
    SOURCE.plan(["a", CutOffError("gone")])
    await journal.run(catches, id="broken")
    assert [entry.notes for entry in timeline(await journal.events("left"))][2] == ("left after 2 chunks",)
    assert [entry.notes for entry in timeline(await journal.events("broken"))][2][1:] == ("broke after 1 chunk",)


async def test_the_timeline_of_a_whole_stream_has_two_entries(journal):
    SOURCE.plan([*map(str, range(100)), END])
    await journal.run(reads, id="r")
    assert [(e.what, e.notes) for e in timeline(await journal.events("r"))][1:3] == [
        ("intended", ()),
        ("succeeded", ()),
    ]


# --- stopping ---


async def test_a_stop_lets_a_stream_come_to_its_end(desk):
    SOURCE.plan(["a", HELD, "b", END])
    async with desk.open() as journal:
        running = asyncio.create_task(journal.run(reads, id="r"))
        await OUTSIDE.begun("piece").wait()
        asyncio.get_running_loop().call_later(0.01, OUTSIDE.free("piece").set)
    assert await running == "a b [DONE]"  # no further call was needed
    assert SOURCE.opened == 1


async def test_a_stream_that_does_not_end_in_time_is_cut_and_its_outcome_is_unknown(desk, types_of):
    SOURCE.plan(["a", HELD], STREAMED)
    async with desk.open() as journal:
        running = asyncio.create_task(journal.run(reads, id="r"))
        await OUTSIDE.begun("piece").wait()
        await journal.stop("told to", grace=0)
        with pytest.raises(RunStoppedError):
            await running
        assert types_of(await journal.events("r"))[2:] == ["step_intended", "run_suspended"]
        assert SOURCE.closed == 1
    async with desk.open() as journal:
        assert await journal.run(reads, id="r") == "a b c [DONE]"
        assert types_of(await journal.events("r"))[5] == "outcome_unknown"


def test_a_cut_stream_is_worth_another_try():
    assert counterfoil.core.retry.is_transient(StreamCutError(url="u", events=3))
