"""A failure is an outcome: it replays as the same exception, pauses if nobody catches it, is reopened by a person.

J2, J6; FC-34, FC-38.
"""

import pytest

from counterfoil import Context, RecordedError, Retry, RunFailedError, RunPausedError, Status, workflow
from counterfoil.core.events import RunPaused, RunResumed

pytestmark = pytest.mark.anyio


class DeclinedError(Exception):
    def __init__(self, code: int, reason: str) -> None:
        super().__init__(f"{code}: {reason}")
        self.code_number, self.reason = code, reason


def five_of(calls, third):
    """A workflow of five steps, whose third has these outcomes."""
    steps = [calls.function(f"s{n}", n) for n in range(1, 6)]
    steps[2] = calls.function("s3", *third)

    @workflow
    async def five(ctx: Context) -> list[object]:
        return [await ctx.with_options(retry=Retry(tries=2, first_seconds=1)).step(each) for each in steps]

    return five


async def test_a_failed_step_pauses_the_run_and_names_it(journal, calls):
    with pytest.raises(RunPausedError) as caught:
        await journal.run(five_of(calls, [ValueError("no")]), id="r")
    run = await journal.get("r")
    paused = (await journal.events("r"))[-1].body
    assert (run.state, run.reason, paused.reason, paused.step) == (Status.PAUSED, "step_failed", "step_failed", "2")
    assert (type(caught.value.__cause__), caught.value.__cause__.args) == (ValueError, ("no",))
    assert calls == {"s1": 1, "s2": 1, "s3": 1}


async def test_resume_runs_the_failed_step_again_and_no_other(journal, calls):
    five = five_of(calls, [ValueError("no"), 33])
    with pytest.raises(RunPausedError):
        await journal.run(five, id="r")
    assert await journal.resume("r", who="ada", why="mended") == [1, 2, 33, 4, 5]
    assert calls == {"s1": 1, "s2": 1, "s3": 2, "s4": 1, "s5": 1}
    resumed = next(event.body for event in await journal.events("r") if isinstance(event.body, RunResumed))
    assert resumed == RunResumed(reopened="2", who="ada", why="mended")


async def test_a_step_whose_tries_are_used_up_has_new_ones_after_resume(journal, calls):
    five = five_of(calls, [*[TimeoutError("late")] * 3, 33])
    with pytest.raises(RunPausedError, match="try 2"):
        await journal.run(five, id="r")
    assert calls["s3"] == 2
    assert await journal.resume("r") == [1, 2, 33, 4, 5]
    assert calls == {"s1": 1, "s2": 1, "s3": 4, "s4": 1, "s5": 1}


async def test_resume_of_a_step_that_still_fails_pauses_again(journal, calls):
    five = five_of(calls, [ValueError("no")])
    with pytest.raises(RunPausedError):
        await journal.run(five, id="r")
    for _ in range(3):
        with pytest.raises(RunPausedError, match="ValueError: no"):
            await journal.resume("r")
    assert calls == {"s1": 1, "s2": 1, "s3": 4}


async def test_run_with_the_id_of_a_paused_run_does_not_resume_it(journal, calls):
    five = five_of(calls, [ValueError("no"), 33])
    for _ in range(10):
        with pytest.raises(RunPausedError, match="step_failed"):
            await journal.run(five, id="r")
    assert calls == {"s1": 1, "s2": 1, "s3": 1}


async def test_a_paused_run_is_resumed_in_another_process(desk, calls):
    five = five_of(calls, [ValueError("no"), 33])
    async with desk.open() as journal:
        with pytest.raises(RunPausedError):
            await journal.run(five, id="r")
    async with desk.open() as journal:
        assert await journal.resume("r") == [1, 2, 33, 4, 5]
    assert calls == {"s1": 1, "s2": 1, "s3": 2, "s4": 1, "s5": 1}


FAILURES = [
    ValueError("bad", 3),
    KeyError("x"),
    FileNotFoundError(2, "No such file or directory", "/nowhere"),
    DeclinedError(51, "no funds"),
    TimeoutError("late"),
]


@pytest.mark.parametrize("failure", FAILURES, ids=lambda error: type(error).__name__)
async def test_a_caught_failure_is_the_same_live_and_on_every_replay(desk, calls, failure):
    bad, end = calls.function("bad", failure), calls.function("end", ValueError("stop"), "end")
    seen: list[object] = []

    @workflow
    async def catching(ctx: Context) -> object:
        try:
            value = await ctx.with_options(retry=Retry(tries=1)).step(bad)
        except type(failure) as error:
            seen.append((type(error), error.args, str(error), vars(error)))
            return await ctx.step(end)
        return value

    async with desk.open() as journal:
        with pytest.raises(RunPausedError):
            await journal.run(catching, id="r")
    async with desk.open() as journal:
        assert await journal.resume("r") == "end"
    assert seen == [(type(failure), failure.args, str(failure), vars(failure))] * 2
    assert calls == {"bad": 1, "end": 2}


async def test_a_failure_that_can_not_be_rebuilt_is_the_same_stand_in_live_and_on_replay(desk, calls):
    class LocalError(Exception):
        """No other process could find it."""

    bad, end = calls.function("bad", LocalError("odd")), calls.function("end", ValueError("stop"), "end")
    seen: list[object] = []

    @workflow
    async def catching(ctx: Context) -> object:
        try:
            await ctx.step(bad)
        except RecordedError as error:
            seen.append(error.facts["message"])
        return await ctx.step(end)

    async with desk.open() as journal:
        with pytest.raises(RunPausedError):
            await journal.run(catching, id="r")
        assert await journal.resume("r") == "end"
    assert seen == ["odd", "odd"]


async def test_a_failure_raised_again_by_the_body_pauses(journal, calls):
    @workflow
    async def again(ctx: Context) -> None:
        try:
            await ctx.step(bad)
        except ValueError:
            raise

    bad = calls.function("bad", ValueError("no"))
    with pytest.raises(RunPausedError, match="step_failed"):
        await journal.run(again, id="r")


@pytest.mark.parametrize("is_chained", [True, False])
async def test_another_exception_of_the_body_fails_the_run(journal, calls, is_chained):
    bad = calls.function("bad", ValueError("no"))

    @workflow
    async def wraps(ctx: Context) -> None:
        try:
            await ctx.step(bad)
        except ValueError as error:
            raise LookupError("wrapped") from (error if is_chained else None)

    with pytest.raises(RunFailedError) as caught:
        await journal.run(wraps, id="r")
    assert ((await journal.get("r")).state, caught.value.facts) == (
        Status.FAILED, {"run": "r", "type": "LookupError", "message": "wrapped"},
    )  # fmt: skip
    assert type(caught.value.__cause__) is LookupError


async def test_a_failed_run_stays_failed_and_nothing_is_called(desk, calls):
    once = calls.function("once", 1)

    @workflow
    async def fails(ctx: Context) -> None:
        await ctx.step(once)
        raise LookupError("end")

    for _ in range(5):
        async with desk.open() as journal:
            for call in (lambda j: j.run(fails, id="r"), lambda j: j.resume("r")):
                with pytest.raises(RunFailedError, match="LookupError: end") as caught:
                    await call(journal)
                assert (type(caught.value.__cause__), caught.value.__cause__.args) == (LookupError, ("end",))
    assert calls == {"once": 1}


NOTHINGS = [None, "", [], 0, False, {}, 0.0, "skipped"]


@pytest.mark.parametrize("nothing", NOTHINGS, ids=repr)
async def test_a_step_that_gives_nothing_is_never_taken_for_missing(desk, calls, nothing):
    empty, end = calls.function("empty", nothing), calls.function("end", ValueError("stop"), "end")
    seen: list[object] = []

    @workflow
    async def hollow(ctx: Context) -> object:
        seen.append(await ctx.step(empty))
        await ctx.step(end)
        return nothing

    async with desk.open() as journal:
        with pytest.raises(RunPausedError):
            await journal.run(hollow, id="r")
    for _ in range(5):
        async with desk.open() as journal:
            results = [await journal.resume("r"), await journal.run(hollow, id="r")]
            assert [repr(each) for each in (*results, *seen)] == [repr(nothing)] * 4
    assert calls == {"empty": 1, "end": 2}


async def test_a_run_of_no_steps_is_recorded_and_never_run_again(desk):
    ran: list[int] = []

    @workflow
    async def bare(ctx: Context) -> None:
        ran.append(1)

    for _ in range(10):
        async with desk.open() as journal:
            assert await journal.run(bare, id="r") is None
    assert ran == [1]


async def test_a_result_that_can_not_be_recorded_is_a_failure_of_the_step(journal, calls):
    @workflow
    async def odd(ctx: Context) -> None:
        await ctx.step(gives)

    gives = calls.function("gives", {"a": object()})
    with pytest.raises(RunPausedError) as caught:
        await journal.run(odd, id="r")
    paused = (await journal.events("r"))[-1].body
    assert isinstance(paused, RunPaused)
    assert (paused.reason, paused.step, calls["gives"]) == ("result_not_storable", None, 1)
    assert caught.value.__cause__.facts["path"] == "$.a"


async def test_a_workflow_result_that_can_not_be_recorded_pauses_the_run_by_its_path(journal):
    @workflow
    async def odd(ctx: Context) -> object:
        return {"a": [1, object()]}

    with pytest.raises(RunPausedError, match=r"not_storable.*\$\.a\[1\]"):
        await journal.run(odd, id="r")


class SilentError(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no text")


async def test_a_failure_that_cannot_say_what_it_is_pauses_the_run(journal, calls):
    for _ in range(2):
        with pytest.raises(RunPausedError, match="try 1: SilentError: SilentError"):
            await journal.run(five_of(calls, [SilentError("x")]), id="r")
    assert calls == {"s1": 1, "s2": 1, "s3": 1}
