"""Stopping: a caller may leave, a journal may close, a body may misbehave; the run is left resumable."""

import asyncio
import contextlib
import gc
import logging
import threading
from collections.abc import Awaitable

import pytest

import counterfoil
from counterfoil import Context, RunPausedError, RunStoppedError, Status, workflow
from counterfoil.errors import CallCancelledError, ConcurrentCallError
from counterfoil.store import Append
from counterfoil.stores.memory import MemoryStore

pytestmark = pytest.mark.anyio


def gated(gate, calls):
    first, last = calls.function("first", 1), calls.function("last", 2)

    @workflow
    async def three(ctx: Context) -> list[object]:
        return [await ctx.step(first), await ctx.step(gate.pass_through), await ctx.step(last)]

    return three


async def test_cancelling_the_caller_leaves_the_run_going(journal, gate, calls):
    three = gated(gate, calls)
    caller = asyncio.create_task(journal.run(three, id="r"))
    await gate.begun.wait()
    caller.cancel()
    with pytest.raises(asyncio.CancelledError):
        await caller
    gate.free.set()
    assert await journal.run(three, id="r") == [1, "through", 2]
    assert (calls, gate.count) == ({"first": 1, "last": 1}, 1)


class SlowDisk(MemoryStore):
    """Writes an intent alone only when it may."""

    def __init__(self) -> None:
        super().__init__()
        self.begun, self.free = asyncio.Event(), asyncio.Event()

    def append(self, append: Append) -> Awaitable[None]:
        if len(append.records) >= 3:
            return super().append(append)
        return asyncio.shield(asyncio.ensure_future(self._slowly(append)))

    async def _slowly(self, append: Append) -> None:
        self.begun.set()
        await self.free.wait()
        await super().append(append)


async def test_a_step_that_has_ended_keeps_its_outcome_when_the_stop_comes_before_its_intent_is_on_disk(gate):
    @workflow
    async def one(ctx: Context) -> str:
        return await ctx.step(gate.pass_through) + await ctx.step(gate.pass_through)

    disk = SlowDisk()
    async with counterfoil.open(disk) as journal:
        run = asyncio.create_task(journal.run(one, id="r"))
        await disk.begun.wait()
        gate.free.set()
        await asyncio.sleep(0)
        stopped = asyncio.create_task(journal.stop("told to"))
        asyncio.get_running_loop().call_later(0.01, disk.free.set)
        await stopped
        with pytest.raises(RunStoppedError):
            await run
        assert "step_succeeded" in [event.type for event in await journal.events("r")]


async def test_a_caller_that_times_out_leaves_the_run_going(journal, gate, calls):
    three = gated(gate, calls)
    run = await journal.start(three, id="r")
    resumed = asyncio.create_task(journal.resume("r"))
    await gate.begun.wait()
    with pytest.raises(TimeoutError):
        await run.result(timeout=0.01)
    gate.free.set()
    assert await resumed == await run.result(timeout=10) == [1, "through", 2]


async def test_closing_lets_a_step_end_and_leaves_the_run_suspended(desk, gate, calls):
    three = gated(gate, calls)
    async with desk.open() as journal:
        caller = asyncio.create_task(journal.run(three, id="r"))
        await gate.begun.wait()
        asyncio.get_running_loop().call_later(0.01, gate.free.set)
    with pytest.raises(RunStoppedError) as caught:
        await caller
    assert caught.value.facts == {"run": "r", "why": "the journal was closed"}
    async with desk.open() as journal:
        run = await journal.get("r")
        assert (run.state, run.reason, run.head.owner) == (Status.SUSPENDED, "stopped", None)
        assert await journal.run(three, id="r") == [1, "through", 2]
    assert (calls, gate.count) == ({"first": 1, "last": 1}, 1)


async def test_a_step_that_does_not_end_in_time_is_cut_and_its_outcome_is_unknown(desk, gate, calls, *, types_of):
    three = gated(gate, calls)
    async with desk.open() as journal:
        caller = asyncio.create_task(journal.run(three, id="r"))
        await gate.begun.wait()
        await journal.close(grace=0.01)
    with pytest.raises(RunStoppedError):
        await caller
    gate.free.set()
    async with desk.open() as journal:
        assert await journal.run(three, id="r") == [1, "through", 2]
        assert types_of(await journal.events("r")).count("outcome_unknown") == 1
    assert (calls, gate.count) == ({"first": 1, "last": 1}, 2)


def stuck(begun: threading.Event, free: threading.Event) -> int:
    begun.set()
    free.wait(20)
    return 1


async def test_a_plain_step_that_does_not_end_keeps_nobody_waiting(desk):
    begun, free = threading.Event(), threading.Event()

    @workflow
    async def waits(ctx: Context) -> int:
        return await ctx.with_options(opaque=("begun", "free")).step(stuck, begun, free)

    async with desk.open() as journal:
        caller = asyncio.create_task(journal.run(waits, id="r"))
        await asyncio.to_thread(begun.wait, 10)
        await journal.close(grace=0.01)
    with pytest.raises(RunStoppedError):
        await caller
    free.set()


async def test_closing_ends_a_wait_at_once(desk):
    @workflow
    async def waits(ctx: Context) -> str:
        await ctx.sleep(10_000)
        return "over"

    desk.system.hold()
    async with desk.open() as journal:
        caller = asyncio.create_task(journal.run(waits, id="r"))
        await desk.system.waiting(1)
    with pytest.raises(RunStoppedError):
        await caller
    desk.system.advance(10_000)
    async with desk.open() as journal:
        assert await journal.run(waits, id="r") == "over"


async def test_a_run_that_is_stopped_many_times_is_not_taken_for_crashing(desk, gate, calls):
    three = gated(gate, calls)
    for _ in range(6):
        gate.begun.clear()
        async with desk.open() as journal:
            caller = asyncio.create_task(journal.run(three, id="r"))
            await gate.begun.wait()
            await journal.close(grace=0)
        await asyncio.gather(caller, return_exceptions=True)
    gate.free.set()
    async with desk.open() as journal:
        assert await journal.run(three, id="r") == [1, "through", 2]
    assert calls == {"first": 1, "last": 1}


async def test_cleanup_code_runs_when_a_run_is_stopped(desk, gate):
    cleaned: list[str] = []

    @workflow
    async def tidy(ctx: Context) -> None:
        try:
            await ctx.step(gate.pass_through)
        finally:
            cleaned.append("yes")

    async with desk.open() as journal:
        caller = asyncio.create_task(journal.run(tidy, id="r"))
        await gate.begun.wait()
        await journal.close(grace=0)
    await asyncio.gather(caller, return_exceptions=True)
    assert cleaned == ["yes"]


@pytest.mark.parametrize("swallowed", [1, 2, 5])
async def test_a_body_that_swallows_its_end_is_abandoned_and_named(desk, gate, caplog, *, swallowed):
    caplog.set_level(logging.ERROR, logger="counterfoil.run")
    ran: list[int] = []

    async def after() -> None:
        ran.append(1)

    @workflow
    async def stubborn(ctx: Context) -> str:
        for n in range(swallowed):
            try:
                await ctx.step(gate.pass_through if n == 0 else after)
            except BaseException:  # noqa: BLE001 - the case under test
                continue
        return "went on"

    async with desk.open() as journal:
        caller = asyncio.create_task(journal.run(stubborn, id="r"))
        await gate.begun.wait()
        await asyncio.wait_for(journal.close(grace=0), 10)
    with pytest.raises(RunStoppedError):
        await caller
    assert ran == []
    assert [("r" in record.getMessage()) for record in caplog.records] == [True] * (swallowed > 2)


async def test_a_mismatch_can_not_be_swallowed(desk, calls):
    one, other, end = calls.function("one", 1), calls.function("other", 2), calls.function("end", ValueError("no"), 3)
    order = [one, end]

    @workflow
    async def stubborn(ctx: Context) -> str:
        for each in order:
            try:
                await ctx.step(each)
            except Exception:
                raise
            except BaseException:  # noqa: BLE001 - the case under test
                pass
        return "went on"

    async with desk.open() as journal:
        with pytest.raises(RunPausedError, match="step_failed"):
            await journal.run(stubborn, id="r")
        order[0] = other
        with pytest.raises(RunPausedError, match="step_mismatch"):
            await asyncio.wait_for(journal.resume("r"), 10)
        assert (await journal.get("r")).state is Status.PAUSED
    assert calls == {"one": 1, "end": 1}


# --- calls that can not be recorded ---


async def nothing() -> None:
    """A step."""


async def from_a_foreign_task(ctx: Context) -> None:
    """A task that was made by no code of the run: the loop calls back."""
    made: list[asyncio.Task[None]] = []
    loop = asyncio.get_running_loop()
    loop.call_soon(lambda: made.append(loop.create_task(ctx.step(nothing))))
    await asyncio.sleep(0)
    await made[0]


async def from_a_thread(ctx: Context) -> None:
    await asyncio.to_thread(ctx.now)


@pytest.mark.parametrize("call", [from_a_foreign_task, from_a_thread])
async def test_a_call_from_outside_the_runs_tasks_is_refused_and_nothing_is_called(journal, types_of, call):
    @workflow
    async def astray(ctx: Context) -> None:
        await call(ctx)

    with pytest.raises(RunPausedError) as caught:
        await journal.run(astray, id="r")
    assert (caught.value.facts["reason"], type(caught.value.__cause__)) == ("concurrent_call", ConcurrentCallError)
    assert types_of(await journal.events("r"))[2:] == ["run_paused"]


async def test_a_call_cancelled_by_a_timer_is_refused(journal, gate):
    @workflow
    async def hurried(ctx: Context) -> str:
        asyncio.get_running_loop().call_later(0.01, asyncio.current_task().cancel)
        try:
            return await ctx.step(gate.pass_through)
        except asyncio.CancelledError:
            return "too late"

    with pytest.raises(RunPausedError) as caught:
        await journal.run(hurried, id="r")
    assert type(caught.value.__cause__) is CallCancelledError


async def test_many_runs_go_on_side_by_side(journal, calls):
    @workflow
    async def small(ctx: Context, n: int) -> int:
        await ctx.sleep(1)
        return await ctx.step(calls.function("each", n))

    results = await asyncio.gather(*(journal.run(small, n, id=str(n)) for n in range(50)))
    assert (results, calls["each"]) == (list(range(50)), 50)


async def test_a_run_started_by_a_step_of_another_is_a_run_of_its_own(journal):
    @workflow
    async def inner(ctx: Context) -> list[str]:
        return [ctx.run_id, await ctx.step(calls_nothing)]

    @workflow
    async def outer(ctx: Context) -> list[str]:
        async def begin() -> list[str]:
            return await journal.run(inner, id="inner")

        return [ctx.run_id, *await ctx.step(begin)]

    async def calls_nothing() -> str:
        return "x"

    assert await journal.run(outer, id="outer") == ["outer", "inner", "x"]


@pytest.mark.parametrize(
    ("leave", "way"), [(SystemExit(3), "called sys.exit(3)"), (KeyboardInterrupt(), "was left by KeyboardInterrupt")]
)
async def test_a_body_that_leaves_the_program_ends_its_own_run_only(journal, calls, leave, way):
    @workflow
    async def leaves(ctx: Context) -> int:
        await ctx.step(calls.function("first", 1))
        if calls["tried"] == 0:
            calls["tried"] += 1
            raise leave
        return 2

    with pytest.raises(RunStoppedError) as stopped:
        await journal.run(leaves, id="r")
    assert (stopped.value.why, (await journal.get("r")).state) == (f"the workflow's code {way}", Status.SUSPENDED)
    assert (await journal.run(leaves, id="r"), calls["first"]) == (2, 1)


async def test_a_body_that_swallows_its_cancellation_is_left_when_the_journal_closes(desk):
    begun = asyncio.Event()

    @workflow
    async def endless(ctx: Context) -> None:
        while True:
            begun.set()
            with contextlib.suppress(BaseException):
                await asyncio.Event().wait()

    async with desk.open() as journal:
        run = asyncio.create_task(journal.run(endless, id="r"))
        await begun.wait()
        await journal.close(grace=0)
    with pytest.raises(RunStoppedError):
        await run
    async with desk.open() as journal:
        assert (await journal.get("r")).state == Status.SUSPENDED


@pytest.mark.parametrize("turns", range(5))
async def test_a_journal_that_closes_before_a_body_has_begun_leaves_no_coroutine_unawaited(desk, calls, turns):
    @workflow
    async def short(ctx: Context) -> object:
        return await ctx.step(calls.function("short", 1))

    async with desk.open() as journal:
        running = asyncio.create_task(journal.run(short, id="r"))
        for _ in range(turns):
            await asyncio.sleep(0)
    await asyncio.gather(running, return_exceptions=True)
    gc.collect()  # a warning would be an error
    async with desk.open() as journal:
        assert await journal.run(short, id="r") == 1
