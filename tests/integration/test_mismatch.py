"""Changed code is stopped at the first differing place, before any body runs (J5; FC-15)."""

import asyncio
import contextlib
import os

import pytest

from counterfoil import (
    Context,
    InputMismatchError,
    RunPausedError,
    RunStoppedError,
    Status,
    StepMismatchError,
    UnfinishedError,
    bind,
    workflow,
)

pytestmark = pytest.mark.anyio
STEP, INPUT, UNFINISHED = "step_mismatch", "input_mismatch", "unfinished"


async def book(what: str, *, seats: int = 1) -> str:
    CALLED.append(what)
    return f"{what} {seats}"


async def pay(what: str) -> str:
    CALLED.append(what)
    return what


async def gate() -> None:
    """The step that the first attempt is stopped in."""
    ENTERED[-1].set()
    await GATES[-1].wait()


CALLED: list[str] = []
GATES: list[asyncio.Event] = []
ENTERED: list[asyncio.Event] = []


async def original(ctx: Context, _: str) -> list[str]:
    await ctx.sleep(5)
    a = await ctx.step(book, "a")
    b = await ctx.model(pay, "b")
    ctx.now()
    await ctx.step(gate)
    return [a, b]


async def wait_skipped(ctx: Context, _: str) -> object:
    return [await ctx.step(book, "a"), await ctx.model(pay, "b"), ctx.now(), await ctx.step(gate)]


async def step_for_wait(ctx: Context, _: str) -> object:
    return [await ctx.step(pay, "wait"), await ctx.step(book, "a")]


async def other_wait(ctx: Context, _: str) -> object:
    await ctx.sleep(6)
    return await ctx.step(book, "a")


async def model_for_tool(ctx: Context, _: str) -> object:
    await ctx.sleep(5)
    return await ctx.model(book, "a")


async def tool_for_model(ctx: Context, _: str) -> object:
    await ctx.sleep(5)
    return [await ctx.step(book, "a"), await ctx.step(pay, "b")]


async def swapped(ctx: Context, _: str) -> object:
    await ctx.sleep(5)
    return [await ctx.model(pay, "b"), await ctx.step(book, "a")]


async def renamed(ctx: Context, _: str) -> object:
    await ctx.sleep(5)
    return await ctx.with_options(name="reserve").step(book, "a")


async def other_argument(ctx: Context, _: str) -> object:
    await ctx.sleep(5)
    return await ctx.step(book, "z")


async def other_default(ctx: Context, _: str) -> object:
    await ctx.sleep(5)
    return await ctx.step(book, "a", seats=2)


async def inserted(ctx: Context, _: str) -> object:
    await ctx.sleep(5)
    return [await ctx.step(book, "a"), await ctx.step(book, "new"), await ctx.model(pay, "b")]


async def removed(ctx: Context, _: str) -> object:
    await ctx.sleep(5)
    return [await ctx.model(pay, "b"), ctx.now(), await ctx.step(gate)]


async def other_read(ctx: Context, _: str) -> object:
    await ctx.sleep(5)
    return [await ctx.step(book, "a"), await ctx.model(pay, "b"), ctx.random(), await ctx.step(gate)]


async def read_removed(ctx: Context, _: str) -> object:
    await ctx.sleep(5)
    return [await ctx.step(book, "a"), await ctx.model(pay, "b"), await ctx.step(gate)]


async def ended_early(ctx: Context, _: str) -> object:
    await ctx.sleep(5)
    return [await ctx.step(book, "a")]


async def ended_at_once(ctx: Context, _: str) -> object:
    return ["nothing"]


async def branches_on_its_input(ctx: Context, _: str) -> object:
    await ctx.sleep(5)
    try:
        return await ctx.step(book, "z")
    except Exception:  # noqa: BLE001 - the case under test: a broad net under a verdict
        return "caught"


CHANGES = [
    (wait_skipped, STEP, "0", "sleep", "tool book", []),
    (step_for_wait, STEP, "0", "sleep", "tool pay", []),
    (other_wait, INPUT, "0", "sleep", "sleep", [("/seconds", "5", "6")]),
    (model_for_tool, STEP, "1", "tool book", "model book", []),
    (tool_for_model, STEP, "2", "model pay", "tool pay", []),
    (swapped, STEP, "1", "tool book", "model pay", []),
    (renamed, STEP, "1", "tool book", "tool reserve", []),
    (other_argument, INPUT, "1", "tool book", "tool book", [("/what", '"a"', '"z"')]),
    (other_default, INPUT, "1", "tool book", "tool book", [("/seats", "1", "2")]),
    (inserted, STEP, "2", "model pay", "tool book", []),
    (removed, STEP, "1", "tool book", "model pay", []),
    (other_read, STEP, "3", "time", "random", []),
    (read_removed, STEP, "3", "time", "tool gate", []),
    (ended_early, UNFINISHED, "2", "model pay", "", []),
    (ended_at_once, UNFINISHED, "0", "sleep", "", []),
    (branches_on_its_input, INPUT, "1", "tool book", "tool book", [("/what", '"a"', '"z"')]),
]
ERRORS = {STEP: StepMismatchError, INPUT: InputMismatchError, UNFINISHED: UnfinishedError}


@pytest.fixture
async def stopped_run(desk):
    """A run that was stopped inside its last step."""
    GATES.append(asyncio.Event())
    ENTERED.append(asyncio.Event())
    CALLED.clear()
    async with desk.open() as journal:
        running = asyncio.create_task(journal.run(workflow(name="trip")(original), "x", id="r"))
        await ENTERED[-1].wait()
        await journal.close(grace=0)
        with pytest.raises(RunStoppedError):
            await running
    CALLED.clear()
    GATES[-1].set()
    return desk


def redeclared(changed):
    """The new code under the old name, as after a deploy."""
    from counterfoil.engine import definitions  # noqa: PLC0415 - only here

    definitions._workflows.pop("trip", None)
    return workflow(name="trip")(changed)


@pytest.mark.parametrize(
    ("changed", "verdict", "step", "recorded", "attempted", "places"), CHANGES, ids=[c[0].__name__ for c in CHANGES]
)
async def test_changed_code_is_paused_before_any_body_runs(
    stopped_run, *, changed, verdict, step, recorded, attempted, places
):
    async with stopped_run.open() as journal:
        with pytest.raises(RunPausedError) as caught:
            await journal.run(redeclared(changed), "x", id="r")
        run = await journal.get("r")
        paused = (await journal.events("r"))[-1].body
    assert (caught.value.facts["reason"], run.state, run.reason, CALLED) == (verdict, Status.PAUSED, verdict, [])
    assert type(caught.value.__cause__) is ERRORS[verdict]
    assert {key: paused.facts[key] for key in ("step", "recorded", "attempted")} == {
        "step": step, "recorded": recorded, "attempted": attempted,
    }  # fmt: skip
    assert [(d["pointer"], d["recorded"], d["attempted"]) for d in paused.facts["differences"]] == places


async def test_a_mismatch_names_the_line_of_the_call(stopped_run):
    async with stopped_run.open() as journal:
        with pytest.raises(RunPausedError):
            await journal.run(redeclared(other_argument), "x", id="r")
        source = (await journal.events("r"))[-1].body.facts["source"]
    line = other_argument.__code__.co_firstlineno + 2
    assert source == f"{__file__}:{line}"


async def test_the_right_code_goes_on_after_a_mismatch(stopped_run):
    async with stopped_run.open() as journal:
        with pytest.raises(RunPausedError):
            await journal.run(redeclared(swapped), "x", id="r")
        assert await journal.resume("r", redeclared(original)) == ["a 1", "b"]
    assert CALLED == []


async def test_resume_on_code_that_does_not_fit_is_refused_again_and_again(stopped_run):
    async with stopped_run.open() as journal:
        for _ in range(3):
            with pytest.raises(RunPausedError, match="recorded tool book, attempted model pay"):
                await journal.resume("r", redeclared(swapped))
        assert await journal.resume("r", redeclared(original)) == ["a 1", "b"]
    assert CALLED == []


async def test_the_same_code_goes_on_and_repeats_nothing(stopped_run):
    async with stopped_run.open() as journal:
        assert await journal.run(redeclared(original), "x", id="r") == ["a 1", "b"]
    assert CALLED == []


async def test_an_input_in_another_order_of_keys_is_the_same(desk, calls):
    keep = calls.function("keep", 1)
    order: list[list[str]] = [["a", "b", "$"], ["$", "b", "a"]]
    async with desk.open() as journal:

        @workflow
        async def ordered(ctx: Context) -> int:
            await ctx.step(keep, {key: dict.fromkeys(order[0], 1) for key in order[0]})
            return await ctx.step(fails)

        fails = calls.function("fails", ValueError("no"), 2)
        with pytest.raises(RunPausedError):
            await journal.run(ordered, id="r")
        order.reverse()
        assert await journal.resume("r") == 2
    assert calls["keep"] == 1


# --- what is no mismatch ---


async def read_environment(ctx: Context, _: str) -> object:
    await ctx.sleep(5)
    if "TRIP_KEY" not in os.environ:
        raise KeyError("TRIP_KEY")
    return await original_rest(ctx)


async def original_rest(ctx: Context) -> object:
    a, b, _ = await ctx.step(book, "a"), await ctx.model(pay, "b"), ctx.now()
    await ctx.step(gate)
    return [a, b]


async def test_a_missing_variable_in_replay_pauses_and_is_no_mismatch(stopped_run, monkeypatch):
    async with stopped_run.open() as journal:
        with pytest.raises(RunPausedError) as caught:
            await journal.run(redeclared(read_environment), "x", id="r")
        paused = caught.value
        assert (paused.facts["reason"], type(paused.__cause__)) == ("replay_failed", KeyError)
        assert "mismatch" not in f"{paused} {paused.hint} {(await journal.events('r'))[-1].body}"
        monkeypatch.setenv("TRIP_KEY", "1")
        assert await journal.resume("r") == ["a 1", "b"]
    assert CALLED == []


async def test_code_that_no_longer_catches_is_unfinished_and_reopens_nothing(desk, calls):
    bad = calls.function("bad", ValueError("no"), "mended")
    end = calls.function("end", ValueError("stop here"), "end")

    async def catches(ctx: Context) -> str:
        with contextlib.suppress(ValueError):
            await ctx.step(bad)
        return await ctx.step(end)

    async def does_not(ctx: Context) -> str:
        await ctx.step(bad)
        return await ctx.step(end)

    async with desk.open() as journal:
        with pytest.raises(RunPausedError):
            await journal.run(workflow(name="trip")(catches), id="r")
        with pytest.raises(RunPausedError) as caught:
            await journal.resume("r", redeclared(does_not))
        assert caught.value.facts["reason"] == "unfinished"
        assert await journal.resume("r", redeclared(catches)) == "end"
    assert calls == {"bad": 1, "end": 2}


async def test_a_bound_call_replays_as_the_call_it_was(stopped_run):
    async def rebound(ctx: Context, _: str) -> object:
        await ctx.sleep(5.0)
        a = await ctx.step(bind(book, what="a", seats=1))
        b, _ = await ctx.model(bind(pay, "b")), ctx.now()
        await ctx.step(gate)
        return [a, b]

    async with stopped_run.open() as journal:
        assert await journal.run(redeclared(rebound), "x", id="r") == ["a 1", "b"]
    assert CALLED == []
