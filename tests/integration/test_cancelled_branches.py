"""Branches that are cancelled: what becomes of their calls, and that a replay sees the same in one order (J2, J5)."""

import asyncio
import contextlib
import threading
from collections.abc import Awaitable, Callable

import anyio
import pytest
from tests.integration.outside import OUTSIDE, RefusalError, answer, lasts, lingers, refuses

import counterfoil
from counterfoil import Context, RunPausedError, workflow
from counterfoil.core.events import LateReport, StepCancelled
from counterfoil.core.state import StepStatus, fold
from counterfoil.errors import CallCancelledError
from counterfoil.stores.memory import MemoryStore

pytestmark = pytest.mark.anyio

FAR = 1 << 62


@pytest.fixture
async def memory(memory_desk):
    async with memory_desk.open() as journal:
        yield journal


# --- a group with a failing child ---


@workflow(name="test_cancelled_branches.grouped")
async def grouped(ctx: Context) -> object:
    with contextlib.suppress(ExceptionGroup):
        async with asyncio.TaskGroup() as group:
            group.create_task(ctx.step(lasts, "left"))
            group.create_task(ctx.model(lasts, "right"))
            group.create_task(ctx.step(refuses, "left", "right"))
    return await ctx.step(answer, "after")


async def test_a_failing_child_cuts_its_siblings_off_and_their_cleanup_runs(journal, types_of):
    assert await journal.run(grouped, id="r") == "after"
    assert sorted(OUTSIDE.ended) == ["left", "right"]
    assert sorted(types_of(await journal.events("r"))[5:8]) == ["step_cancelled", "step_cancelled", "step_failed"]
    state = fold("r", await journal.events("r"))
    assert (state.steps["0/0"].status, state.steps["1/0"].status, state.order) == (
        "cancelled",
        "cancelled",
        ["2/0", "0"],
    )


async def test_a_replay_cuts_off_what_was_cut_off_and_calls_nothing_again(memory, crashes):
    await memory.run(grouped, id="r")
    assert await crashes(grouped, memory.store) == ["after"] * 10
    assert OUTSIDE.calls == {}  # the last one had all outcomes on record


@workflow(name="test_cancelled_branches.parent")
async def parent(ctx: Context) -> object:
    with contextlib.suppress(ExceptionGroup):
        async with asyncio.TaskGroup() as group:
            group.create_task(ctx.step(refuses, "own"))
            await ctx.step(lasts, "own")
    return await ctx.step(answer, "after")


async def test_a_group_whose_only_child_fails_cuts_off_the_call_of_its_own_body(journal):
    assert await journal.run(parent, id="r") == "after"


# --- a plain function runs on ---


class Thread:
    begun, free = threading.Event(), threading.Event()


def stuck() -> int:
    Thread.begun.set()
    assert Thread.free.wait(20)
    return 7


async def refuses_beside_a_thread() -> None:
    await asyncio.to_thread(Thread.begun.wait, 10)
    raise RefusalError("no")


@workflow(name="test_cancelled_branches.threaded")
async def threaded(ctx: Context) -> object:
    with contextlib.suppress(ExceptionGroup):
        async with asyncio.TaskGroup() as group:
            group.create_task(ctx.step(stuck))
            group.create_task(ctx.step(refuses_beside_a_thread))
    return await ctx.step(lasts, "after")


async def reported(journal):
    """The run's events, once there is a late report."""
    while True:
        events = await journal.events("r")
        if any(isinstance(event.body, LateReport) for event in events):
            return events
        await asyncio.sleep(0.001)  # a thread is waited for


async def test_a_plain_function_runs_on_and_what_it_comes_back_with_is_evidence_only(journal):
    Thread.begun.clear()
    Thread.free.clear()
    running = asyncio.create_task(journal.run(threaded, id="r"))
    await OUTSIDE.begun("after").wait()
    Thread.free.set()
    events = await reported(journal)
    OUTSIDE.free("after").set()
    assert await running == "after"
    (cut,) = [event.body for event in events if isinstance(event.body, StepCancelled)]
    (late,) = [event.body for event in events if isinstance(event.body, LateReport)]
    assert (cut.still_running, late.event, late.of_step, bytes(late.report)) == (True, "step_succeeded", "0/0", b"7")
    assert fold("r", events).steps["0/0"].status is StepStatus.CANCELLED


# --- a step that makes something of its cancellation ---


async def returns_all_the_same() -> str:
    OUTSIDE.calls["cut"] += 1
    with contextlib.suppress(asyncio.CancelledError):
        await asyncio.Event().wait()
    return "swallowed"


async def uncancels() -> str:
    OUTSIDE.calls["cut"] += 1
    with contextlib.suppress(asyncio.CancelledError):
        await asyncio.Event().wait()
    asyncio.current_task().uncancel()
    return "swallowed"


async def raises_another() -> str:
    OUTSIDE.calls["cut"] += 1
    try:
        await asyncio.Event().wait()
    except asyncio.CancelledError:
        raise RefusalError("cut") from None


async def raises_what_may_pass() -> str:
    OUTSIDE.calls["cut"] += 1
    try:
        await asyncio.Event().wait()
    except asyncio.CancelledError:
        raise ConnectionError("cut") from None


SWALLOWING = {
    returns_all_the_same: "step_succeeded",
    uncancels: "step_succeeded",
    raises_another: "step_failed",
    raises_what_may_pass: "step_failed",
}


def cutting(function: Callable[[], Awaitable[str]]):
    @workflow(name="test_cancelled_branches.cutting")
    async def cutting(ctx: Context) -> list[str]:
        seen: list[str] = []

        async def cut() -> None:
            try:
                seen.append(await ctx.step(function))
            except BaseException as error:
                seen.append(type(error).__name__)
                raise

        task = asyncio.create_task(cut())
        await ctx.step(answer)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        return seen

    return cutting


@pytest.mark.parametrize(("function", "outcome"), SWALLOWING.items(), ids=lambda it: getattr(it, "__name__", it))
async def test_a_swallowed_cancellation_goes_on_live_and_on_replay_and_the_outcome_is_recorded(
    memory, crashes, types_of, *, function, outcome
):
    assert await memory.run(cutting(function), id="r") == ["CancelledError"]
    assert (types_of(await memory.events("r"))[5], OUTSIDE.calls["cut"]) == (outcome, 1)
    assert await crashes(cutting(function), memory.store) == [["CancelledError"]] * 6


# --- where a branch may be when it is cancelled ---


async def in_a_step(ctx: Context) -> None:
    await ctx.step(lingers, "cut")


async def in_a_model_call(ctx: Context) -> None:
    await ctx.model(lingers, "cut")


async def in_a_sleep(ctx: Context) -> None:
    await ctx.sleep(1000)


async def in_a_lock(ctx: Context) -> None:
    lock = asyncio.Lock()
    await lock.acquire()
    await lock.acquire()


async def in_a_gather(ctx: Context) -> None:
    await asyncio.gather(ctx.step(lingers, "cut"), ctx.sleep(1000))


PLACES = [in_a_step, in_a_model_call, in_a_sleep, in_a_lock, in_a_gather]


def cancelling(place: Callable[[Context], Awaitable[None]], *, turns: int):
    @workflow(name="test_cancelled_branches.cancelling")
    async def cancelling(ctx: Context) -> str:
        task = asyncio.create_task(place(ctx))
        for _ in range(turns):
            await ctx.step(answer)
        task.cancel()
        (end,) = await asyncio.gather(task, return_exceptions=True)
        return await ctx.step(answer, type(end).__name__)

    return cancelling


@pytest.mark.parametrize("turns", [0, 1, 2])
@pytest.mark.parametrize("place", PLACES)
async def test_the_runs_own_code_may_cancel_a_branch_anywhere(memory_desk, crashes, place, *, turns):
    memory_desk.system.hold()
    OUTSIDE.open()
    async with memory_desk.open() as journal:
        assert await journal.run(cancelling(place, turns=turns), id="r") == "CancelledError"
        ends = await crashes(cancelling(place, turns=turns), journal.store, is_held=True)
    assert ends == ["CancelledError"] * len(ends)


async def test_the_timer_of_a_cancelled_sleep_is_removed_from_the_store(desk):
    desk.system.hold()
    async with desk.open() as journal:
        assert await journal.run(cancelling(in_a_sleep, turns=1), id="r") == "CancelledError"
        assert await journal.store.timers(due_until=FAR) == []
        assert fold("r", await journal.events("r")).steps["0/0"].status is StepStatus.CANCELLED


@workflow(name="test_cancelled_branches.cancels_itself")
async def cancels_itself(ctx: Context) -> list[str]:
    ends = []
    for _ in range(2):
        asyncio.current_task().cancel()
        try:
            ends.append(str(await ctx.step(answer, "not cut")))
        except asyncio.CancelledError:
            ends.append("cut")
    return [*ends, str(await ctx.step(answer, "after"))]


async def test_a_body_that_cancels_itself_is_cut_before_its_next_call_is_made(journal):
    assert await journal.run(cancels_itself, id="r") == ["cut", "cut", "after"]
    assert OUTSIDE.calls == {"answer": 1}


async def test_a_body_that_cancels_itself_does_so_on_a_replay(memory, crashes):
    await memory.run(cancels_itself, id="r")
    assert await crashes(cancels_itself, memory.store) == [["cut", "cut", "after"]] * 4


# --- who is cut first, and what it takes, shows in nothing ---


def listing(function: Callable[[str], Awaitable[str]], count: int):
    @workflow(name="test_cancelled_branches.listing")
    async def listing(ctx: Context) -> list[str]:
        names, seen = [f"cut {number}" for number in range(count)], []

        async def cut(name: str) -> None:
            try:
                await ctx.step(function, name)
            finally:
                seen.append(name)
                seen.append(await ctx.step(answer, f"after {name}, {len(seen)}"))

        async def other() -> None:
            await ctx.step(lasts, "other")
            seen.append(await ctx.step(answer, f"other, {len(seen)}"))

        beside = asyncio.create_task(other())
        with contextlib.suppress(ExceptionGroup):
            async with asyncio.TaskGroup() as group:
                for name in names:
                    group.create_task(cut(name))
                group.create_task(ctx.step(refuses, "other", *names))
        await beside
        return await ctx.step(answer, seen)

    return listing


async def test_a_group_cuts_its_children_off_in_one_order_on_every_pass(memory, crashes):
    OUTSIDE.open()
    seen = await memory.run(listing(lingers, 20), id="r")
    ends = await crashes(listing(lingers, 20), memory.store)
    assert [end for end in ends if "is paused" in end] == []
    assert ends[-1] == seen


async def test_how_long_a_cleanup_takes_shows_in_nothing(memory, crashes):
    running = asyncio.create_task(memory.run(listing(lingers, 3), id="r"))
    await OUTSIDE.all_begun("other", "cut 0", "cut 1", "cut 2")
    for name in ("other", "cut 2", "cut 1", "cut 0"):  # the last one is the first to be handed to the body
        await asyncio.sleep(0.001)
        OUTSIDE.free(name).set()
    seen = await running
    assert OUTSIDE.ended == ["other", "cut 2", "cut 1", "cut 0"]
    assert [name for name in seen if name.startswith("cut")] == ["cut 0", "cut 1", "cut 2"]
    ends = await crashes(listing(lingers, 3), memory.store)
    assert [end for end in ends if "is paused" in end] == []
    assert ends[-1] == seen


@workflow(name="test_cancelled_branches.with_anyio")
async def with_anyio(ctx: Context) -> list[str]:
    seen: list[str] = []

    async def cut(name: str) -> None:
        try:
            await ctx.step(lasts, name)
        finally:
            seen.append(name)

    async with anyio.create_task_group() as group:
        for number in range(5):
            group.start_soon(cut, f"cut {number}")
        await ctx.step(answer)
        group.cancel_scope.cancel()
    return await ctx.step(answer, seen)


async def test_a_scope_of_anyio_may_be_cancelled(memory, crashes):
    seen = [f"cut {number}" for number in range(5)]
    assert await memory.run(with_anyio, id="r") == seen
    assert await crashes(with_anyio, memory.store) == [seen] * 16


# --- cancelled by something that is not recorded ---

TASKS: list[asyncio.Task[object]] = []


@workflow(name="test_cancelled_branches.exposed")
async def exposed(ctx: Context) -> None:
    async def shown() -> None:
        TASKS.append(asyncio.current_task())
        await ctx.step(lasts, "shown")

    await asyncio.gather(shown(), ctx.model(lasts, "beside"))


async def by_a_task() -> None:
    await asyncio.create_task(asyncio.to_thread(int))
    TASKS[-1].cancel()


async def by_a_timer() -> None:
    cut = asyncio.Event()
    asyncio.get_running_loop().call_later(0.001, lambda: cut.set() if TASKS[-1].cancel() else None)
    await cut.wait()


@pytest.mark.parametrize("cut", [by_a_task, by_a_timer])
async def test_a_branch_cancelled_from_outside_pauses_the_run_and_the_others_land(journal, types_of, cut):
    running = asyncio.create_task(journal.run(exposed, id="r"))
    await OUTSIDE.all_begun("shown", "beside")
    await cut()
    OUTSIDE.free("beside").set()
    with pytest.raises(RunPausedError, match="call_cancelled") as caught:
        await running
    assert type(caught.value.__cause__) is CallCancelledError
    assert types_of(await journal.events("r"))[-2:] == ["step_succeeded", "run_paused"]


# --- what is given to a call ---


@workflow(name="test_cancelled_branches.sharing")
async def sharing(ctx: Context) -> list[object]:
    seen: list[object] = []

    async def one(number: int) -> None:
        seen.append(number)
        seen.append(await ctx.step(answer, seen))

    await asyncio.gather(one(1), one(2))
    return seen


async def test_a_call_that_waits_for_its_turn_is_given_what_is_recorded(memory, crashes):
    assert await memory.run(sharing, id="r") == [1, 2, [1], [1, 2]]
    assert await crashes(sharing, memory.store) == [[1, 2, [1], [1, 2]]] * 6


# --- reads from beside the journal ---


class SlowReads(MemoryStore):
    """The larger, the slower."""

    async def artifact(self, digest: str) -> bytes | None:
        content = await super().artifact(digest)
        await asyncio.sleep(len(content or b"") / 1e6)
        return content


@workflow(name="test_cancelled_branches.reading")
async def reading(ctx: Context) -> list[str]:
    kept = [await ctx.artifact(bytes(size)) for size in (20_000, 10_000, 1)]
    seen: list[str] = []

    async def one(number: int) -> None:
        seen.append(f"{number}: {len(await ctx.read(kept[number]))}")
        seen.append(await ctx.step(answer, f"{number} of {len(seen)}"))

    await asyncio.gather(*map(one, range(3)))
    return seen


@pytest.mark.parametrize("lost", [1, 2, 3, 5, 7])
async def test_what_branches_read_comes_in_their_order_however_long_it_takes(crashed, lost):
    store = SlowReads()
    async with counterfoil.open(store) as journal:
        seen, records = await journal.run(reading, id="r"), await journal.store.read("r")
        assert [each for each in seen if ":" in each] == ["0: 20000", "1: 10000", "2: 1"]
        left = await crashed(records, len(records) - lost)
        left.artifact = store.artifact
        async with counterfoil.open(left) as again:
            assert await again.run(reading, id="r") == seen
