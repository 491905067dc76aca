"""How a run with several branches ends: what is under way is recorded, and a resume repeats nothing (J2, J4)."""

import asyncio
from typing import Any

import pytest
from tests.integration.outside import OUTSIDE, RefusalError, answer, lasts, refuses

import counterfoil
from counterfoil import Context, RunFailedError, RunPausedError, RunStoppedError, Status, workflow
from counterfoil.core.state import fold
from counterfoil.errors import BranchLeftError, UnfinishedError

pytestmark = pytest.mark.anyio


def redeclare(function: Any) -> Any:
    """Mended code, under the name that the run has."""
    return workflow(name="test_branch_ends")(function)


async def results(journal) -> list[object]:
    """What the record holds, by the keys of the steps."""
    return sorted(fold("r", await journal.events("r")).order)


# --- tasks that are left behind ---


def leaving(*, mended: bool) -> Any:
    @redeclare
    async def leaves(ctx: Context) -> object:
        task = asyncio.create_task(ctx.model(lasts, "behind"))
        first = await ctx.step(answer, "first")
        return [first, await task] if mended else first

    return leaves


async def test_a_task_left_behind_is_named_and_its_call_under_way_is_recorded(journal, types_of):
    running = asyncio.create_task(journal.run(leaving(mended=False), id="r"))
    await OUTSIDE.begun("behind").wait()
    asyncio.get_running_loop().call_later(0.01, OUTSIDE.free("behind").set)
    with pytest.raises(RunPausedError, match="branch_left") as caught:
        await running
    assert caught.value.__cause__.facts == BranchLeftError(count=1, names="Context.model").facts
    assert types_of(await journal.events("r"))[-2:] == ["step_succeeded", "run_paused"]


async def test_mended_code_goes_on_from_a_task_that_was_left_behind_and_repeats_nothing(journal):
    OUTSIDE.open()
    with pytest.raises(RunPausedError, match="branch_left"):
        await journal.run(leaving(mended=False), id="r")
    assert await journal.resume("r", leaving(mended=True)) == ["first", "behind"]
    assert OUTSIDE.calls == {"answer": 1, "behind": 1}


# --- failures ---

MENDED: list[bool] = []


async def fails_until_mended(*beside: str) -> str:
    OUTSIDE.calls["fails"] += 1
    await OUTSIDE.all_begun(*beside)
    if not MENDED:
        raise RefusalError("not yet")
    return "mended"


@workflow(name="test_branch_ends.gathering")
async def gathering(ctx: Context) -> list[str]:
    return await asyncio.gather(
        ctx.model(lasts, "left"), ctx.step(fails_until_mended, "left", "right"), ctx.step(lasts, "right")
    )


async def test_a_gather_that_fails_lets_its_siblings_land_and_a_resume_tries_that_one_step_only(journal, types_of):
    MENDED.clear()
    running = asyncio.create_task(journal.run(gathering, id="r"))
    await OUTSIDE.all_begun("left", "right")
    for name in ("left", "right"):
        asyncio.get_running_loop().call_later(0.01, OUTSIDE.free(name).set)
    with pytest.raises(RunPausedError, match="step_failed") as caught:
        await running
    assert "step 1/0 (tool fails_until_mended)" in str(caught.value)
    assert types_of(await journal.events("r"))[-4:] == ["step_failed", "step_succeeded", "step_succeeded", "run_paused"]
    MENDED.append(True)
    assert await journal.resume("r") == ["left", "mended", "right"]
    assert OUTSIDE.calls == {"left": 1, "right": 1, "fails": 2}


def grouping(own: Exception | None) -> Any:
    @redeclare
    async def groups(ctx: Context) -> None:
        async def fails() -> None:
            await OUTSIDE.begun("failing").wait()
            raise own or RuntimeError

        async with asyncio.TaskGroup() as group:
            group.create_task(ctx.step(refuses))
            group.create_task(ctx.step(refuses))
            if own:
                group.create_task(fails())
                OUTSIDE.begun("failing").set()

    return groups


async def test_a_group_of_nothing_but_failures_of_steps_pauses_the_run_at_the_first(journal):
    with pytest.raises(RunPausedError, match="step_failed"):
        await journal.run(grouping(None), id="r")
    state = fold("r", await journal.events("r"))
    assert state.pause.step == state.order[0]


async def test_a_group_with_a_failure_of_the_workflows_own_fails_the_run(journal):
    with pytest.raises(RunFailedError, match="ExceptionGroup"):
        await journal.run(grouping(KeyError("own")), id="r")
    assert (await journal.get("r")).state is Status.FAILED


# --- verdicts beside a call under way ---


@workflow(name="test_branch_ends.careful")
async def careful(ctx: Context) -> list[object]:
    pausing = ctx.with_options(on_unknown="pause")
    return await asyncio.gather(pausing.step(lasts, "careful"), ctx.model(lasts, "beside"))


async def test_a_verdict_in_one_branch_lets_the_call_of_another_land(desk):
    async with desk.open() as journal:
        running = asyncio.create_task(journal.run(careful, id="r"))
        await OUTSIDE.all_begun("careful", "beside")
        await journal.close(grace=0)
        await asyncio.gather(running, return_exceptions=True)
    async with desk.open() as journal:
        OUTSIDE.open()
        with pytest.raises(RunPausedError, match="outcome_unknown"):
            await journal.run(careful, id="r")
        assert OUTSIDE.calls["careful"] == 1
        assert await results(journal) == ["1/0"] * (OUTSIDE.calls["beside"] - 1)
        assert await journal.resume("r", careful) == ["careful", "beside"]
    assert OUTSIDE.calls == {"careful": 2, "beside": 2}


def asking(*, given: str) -> Any:
    @redeclare
    async def asks(ctx: Context) -> list[object]:
        async def both(name: str, given: str) -> list[object]:
            return [await ctx.step(answer, given), await ctx.model(lasts, name)]

        return await asyncio.gather(both("left", "same"), both("right", given))

    return asks


@pytest.mark.parametrize("recorded", range(5, 10))
async def test_code_that_does_not_fit_in_one_branch_makes_no_call_in_another(memory_desk, crashed, recorded):
    OUTSIDE.open()
    async with memory_desk.open() as journal:
        await journal.run(asking(given="recorded"), id="r")
        left = await crashed(await journal.store.read("r"), recorded)
    OUTSIDE.forget()
    async with counterfoil.open(left) as journal:
        with pytest.raises(RunPausedError, match="input_mismatch"):
            await journal.run(asking(given="another"), id="r")
    assert OUTSIDE.calls == {}


def shrinking(count: int) -> Any:
    @redeclare
    async def shrinks(ctx: Context) -> list[object]:
        return await asyncio.gather(*(ctx.step(answer, number) for number in range(count)))

    return shrinks


async def test_code_with_fewer_branches_than_recorded_is_unfinished(memory_desk, crashed):
    async with memory_desk.open() as journal:
        await journal.run(shrinking(3), id="r")
        records = await journal.store.read("r")
    async with counterfoil.open(await crashed(records, len(records) - 1)) as journal:
        with pytest.raises(RunPausedError, match="unfinished") as caught:
            await journal.run(shrinking(2), id="r")
    assert type(caught.value.__cause__) is UnfinishedError


# --- a journal that closes ---


@workflow(name="test_branch_ends.twofold")
async def twofold(ctx: Context) -> list[object]:
    async def both(name: str) -> list[object]:
        return [await ctx.model(lasts, name), await ctx.step(answer, name)]

    return await asyncio.gather(both("left"), both("right"))


RESULT = [["left", "left"], ["right", "right"]]


async def test_closing_lets_the_calls_of_all_branches_land_and_begins_no_other(desk):
    async with desk.open() as journal:
        running = asyncio.create_task(journal.run(twofold, id="r"))
        await OUTSIDE.all_begun("left", "right")
        asyncio.get_running_loop().call_later(0.01, OUTSIDE.free("left").set)
        asyncio.get_running_loop().call_later(0.02, OUTSIDE.free("right").set)
    with pytest.raises(RunStoppedError):
        await running
    assert OUTSIDE.calls == {"left": 1, "right": 1}
    async with desk.open() as journal:
        assert (await journal.get("r")).state is Status.SUSPENDED
        assert await journal.run(twofold, id="r") == RESULT
    assert OUTSIDE.calls == {"left": 1, "right": 1, "answer": 2}


async def test_only_the_call_that_does_not_end_in_time_is_cut(desk, types_of):
    async with desk.open() as journal:
        running = asyncio.create_task(journal.run(twofold, id="r"))
        await OUTSIDE.all_begun("left", "right")
        OUTSIDE.free("left").set()
        await journal.close(grace=0.05)
    with pytest.raises(RunStoppedError):
        await running
    OUTSIDE.open()
    async with desk.open() as journal:
        assert await journal.run(twofold, id="r") == RESULT
        assert types_of(await journal.events("r")).count("outcome_unknown") == 1
    assert OUTSIDE.calls == {"left": 1, "right": 2, "answer": 2}


async def test_closing_ends_branches_that_wait_for_each_other(desk):
    @workflow
    async def stuck(ctx: Context) -> None:
        lock = asyncio.Lock()

        async def one() -> None:
            async with lock:
                await asyncio.Event().wait()

        await asyncio.gather(one(), one(), ctx.step(lasts, "step"), ctx.sleep(1000))

    desk.system.hold()
    async with desk.open() as journal:
        running = asyncio.create_task(journal.run(stuck, id="r"))
        await OUTSIDE.begun("step").wait()
        await asyncio.wait_for(journal.close(grace=0.01), 10)
    with pytest.raises(RunStoppedError):
        await running
