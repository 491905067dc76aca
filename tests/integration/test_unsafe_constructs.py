"""What hangs on real time is refused where it is first used, by a message that names the safe construct (FC-16)."""

import asyncio
import time
from collections.abc import Awaitable, Callable

import pytest

from counterfoil import Context, RunPausedError, workflow
from counterfoil.engine import turns
from counterfoil.errors import UnsafeConstructError

pytestmark = pytest.mark.anyio

CALLS: list[int] = []


async def work(number: int = 0) -> int:
    CALLS.append(number)
    return number


def tasks(ctx: Context) -> list[asyncio.Task[int]]:
    return [asyncio.create_task(ctx.step(work, number)) for number in range(3)]


async def sleep(ctx: Context) -> None:
    await asyncio.sleep(0.001)


async def sleep_in_a_branch(ctx: Context) -> None:
    await asyncio.gather(asyncio.sleep(0.001), asyncio.sleep(0))


async def timeout(ctx: Context) -> None:
    async with asyncio.timeout(1):
        await ctx.step(work)


async def timeout_around_branches(ctx: Context) -> None:
    async with asyncio.timeout(1):
        await asyncio.gather(ctx.step(work), ctx.step(work))


async def timeout_of_a_wait_for_another_branch(ctx: Context) -> None:
    is_over = asyncio.Event()

    async def waits() -> None:
        async with asyncio.timeout(1):
            await is_over.wait()

    async def works() -> None:
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        await ctx.step(work)
        is_over.set()

    await asyncio.gather(waits(), works())


async def timeout_that_is_due(ctx: Context) -> None:
    async with asyncio.timeout(0.001):
        time.sleep(0.002)  # noqa: ASYNC251 - the loop has had no turn in which to cancel anything
        await ctx.step(work)


async def wait_for(ctx: Context) -> None:
    await asyncio.wait_for(ctx.step(work), 1)


async def wait_for_a_task(ctx: Context) -> None:
    await asyncio.wait_for(asyncio.create_task(ctx.step(work)), 1)


async def shield(ctx: Context) -> None:
    await asyncio.shield(ctx.step(work))


async def first_completed(ctx: Context) -> None:
    await asyncio.wait(tasks(ctx), return_when=asyncio.FIRST_COMPLETED)


async def first_exception(ctx: Context) -> None:
    await asyncio.wait(tasks(ctx), return_when=asyncio.FIRST_EXCEPTION)


async def wait_with_a_timeout(ctx: Context) -> None:
    await asyncio.wait(tasks(ctx), timeout=1)


async def as_completed(ctx: Context) -> None:
    for each in asyncio.as_completed([ctx.step(work)]):
        await each


async def as_completed_of_tasks(ctx: Context) -> None:
    for each in asyncio.as_completed(tasks(ctx)):
        await each


async def to_thread_beside_another_branch(ctx: Context) -> None:
    await asyncio.gather(asyncio.to_thread(int), ctx.step(work))


UNSAFE: dict[Callable[[Context], Awaitable[None]], str] = {
    sleep: "asyncio.sleep",
    sleep_in_a_branch: "asyncio.sleep",
    timeout: "asyncio.timeout",
    timeout_around_branches: "asyncio.timeout",
    timeout_of_a_wait_for_another_branch: "asyncio.timeout",
    timeout_that_is_due: "asyncio.timeout",
    shield: "asyncio.shield",
    first_completed: "asyncio.wait(FIRST_COMPLETED)",
    first_exception: "asyncio.wait(FIRST_EXCEPTION)",
    wait_with_a_timeout: "asyncio.wait(timeout=...)",
    as_completed: "asyncio.as_completed",
    as_completed_of_tasks: "asyncio.as_completed",
    to_thread_beside_another_branch: "asyncio.to_thread",
}


def using(construct: Callable[[Context], Awaitable[None]]) -> Callable[[Context], Awaitable[str]]:
    @workflow
    async def uses(ctx: Context) -> str:
        CALLS.clear()
        try:
            await construct(ctx)
        except BaseException as error:  # noqa: BLE001 - the case under test
            return f"swallowed {error!r}"
        return "went on"

    return uses


@pytest.mark.parametrize(("construct", "name"), UNSAFE.items(), ids=lambda it: getattr(it, "__name__", None))
async def test_an_unsafe_construct_is_refused_before_anything_is_called(journal, construct, name):
    with pytest.raises(RunPausedError, match="unsafe_construct") as caught:
        await journal.run(using(construct), id="r")
    error = caught.value.__cause__
    assert (type(error), error.construct, CALLS) == (UnsafeConstructError, name, [])
    assert __file__ in error.source
    assert error.hint


@pytest.mark.parametrize("construct", [wait_for, wait_for_a_task])
async def test_wait_for_is_refused_by_one_of_its_names(journal, construct):
    with pytest.raises(RunPausedError, match="unsafe_construct") as caught:
        await journal.run(using(construct), id="r")
    assert caught.value.__cause__.construct in {"asyncio.wait_for", "asyncio.timeout"}  # it is one since Python 3.12
    assert CALLS == []


async def wait_for_all(ctx: Context) -> None:
    await asyncio.wait(tasks(ctx))


async def without_a_limit(ctx: Context) -> None:
    async with asyncio.timeout(None):
        await ctx.step(work)


async def past_a_limit(ctx: Context) -> None:
    async with asyncio.timeout(1):
        await asyncio.sleep(0)
    await ctx.step(work)


async def to_thread_alone(ctx: Context) -> None:
    await asyncio.to_thread(int)
    await ctx.step(work)


async def inside_a_step(ctx: Context) -> None:
    async def free() -> None:
        async with asyncio.timeout(1):
            await asyncio.wait_for(asyncio.shield(asyncio.sleep(0.001)), 1)
            await asyncio.wait([asyncio.create_task(work())], return_when=asyncio.FIRST_COMPLETED)

    await ctx.step(free)


@pytest.mark.parametrize("construct", [wait_for_all, without_a_limit, past_a_limit, to_thread_alone, inside_a_step])
async def test_what_hangs_on_no_real_time_is_not_refused(journal, construct):
    assert await journal.run(using(construct), id="r") == "went on"


async def test_a_call_under_way_in_another_branch_is_recorded_before_the_run_pauses(journal, gate, types_of):
    @workflow
    async def mixed(ctx: Context) -> None:
        async def naps() -> None:
            await gate.begun.wait()
            await asyncio.sleep(0.001)

        async with asyncio.TaskGroup() as group:
            group.create_task(ctx.model(gate.pass_through))
            group.create_task(naps())

    running = asyncio.create_task(journal.run(mixed, id="r"))
    await gate.begun.wait()
    gate.free.set()
    with pytest.raises(RunPausedError, match=r"asyncio\.sleep"):
        await running
    assert types_of(await journal.events("r"))[2:] == ["step_intended", "step_succeeded", "run_paused"]


async def test_a_branch_that_asks_again_and_again_for_an_outcome_is_refused(journal, monkeypatch, types_of):
    monkeypatch.setattr(turns, "POLLING_TURNS", 100)

    @workflow
    async def polls(ctx: Context) -> int:
        task = asyncio.create_task(ctx.step(work))
        while not task.done():  # noqa: ASYNC110 - the case under test
            await asyncio.sleep(0)
        return task.result()

    with pytest.raises(RunPausedError, match=r"asyncio\.sleep\(0\) in a loop"):
        await journal.run(polls, id="r")
    assert types_of(await journal.events("r"))[2:] == ["step_intended", "step_succeeded", "run_paused"]


async def test_the_loop_has_its_own_factory_and_timers_back_after_the_run(journal):
    loop = asyncio.get_running_loop()
    before = loop.get_task_factory()
    await journal.run(using(wait_for_all), id="r")
    assert (loop.get_task_factory(), "call_at" in loop.__dict__) == (before, False)
