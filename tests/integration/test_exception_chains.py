"""What stands behind a step's exception is raised with it, live and on replay; a class that a step imported is not.

J6; FC-49.
"""

import importlib
import sys
from pathlib import Path

import pytest

from counterfoil import Context, RecordedError, RunPausedError, workflow

pytestmark = pytest.mark.anyio


class OuterError(Exception):
    """Raised from another."""


def behind(error: BaseException | None) -> list[object]:
    """The chain, from the exception on."""
    if error is None:
        return []
    return [type(error), str(error), error.__suppress_context__, *behind(error.__cause__ or error.__context__)]


async def caused() -> None:
    try:
        raise KeyError("inner")
    except KeyError as inner:
        raise OuterError("outer") from inner


async def handling() -> None:
    try:
        raise KeyError("inner")
    except KeyError:
        raise OuterError("outer")  # noqa: B904 - the context is under test


async def alone() -> None:
    raise OuterError("outer")


CHAINS = [
    (caused, [OuterError, "outer", True, KeyError, "'inner'", False]),
    (handling, [OuterError, "outer", False, KeyError, "'inner'", False]),
    (alone, [OuterError, "outer", False]),
]


@pytest.mark.parametrize(("fails", "chain"), CHAINS)
async def test_the_chain_is_the_same_live_and_on_replay_whatever_the_workflow_is_handling(desk, calls, fails, chain):
    end = calls.function("end", ValueError("stop"), "end")
    seen: list[list[object]] = []

    @workflow
    async def catching(ctx: Context) -> object:
        try:
            raise LookupError("of the workflow")
        except LookupError:
            try:
                await ctx.step(fails)
            except OuterError as error:
                seen.append(behind(error))
        return await ctx.step(end)

    async with desk.open() as journal:
        with pytest.raises(RunPausedError, match="stop"):
            await journal.run(catching, id="r")
    async with desk.open() as journal:
        assert await journal.resume("r") == "end"
    assert seen == [[*chain, LookupError, "of the workflow", False]] * 2  # as Python chains them


@pytest.fixture
def late_module(monkeypatch):
    monkeypatch.syspath_prepend(str(Path(__file__).with_name("shelf")))
    yield "bought"
    sys.modules.pop("bought", None)


async def test_a_class_that_a_step_imported_has_a_stand_in_though_it_is_loaded_by_then(memory_desk, calls, late_module):
    end = calls.function("end", ValueError("stop"), "end")
    seen: list[object] = []

    async def fails() -> None:
        raise importlib.import_module(late_module).make("keywords")

    @workflow
    async def catching(ctx: Context) -> object:
        try:
            await ctx.step(fails)
        except RecordedError as error:
            seen.append((error.type, error.message, error.attributes))
        return await ctx.step(end)

    async with memory_desk.open() as journal:
        with pytest.raises(RunPausedError, match="stop"):
            await journal.run(catching, id="r")
        assert await journal.resume("r") == "end"
    assert seen == [("bought.KeywordsOnlyError", "51: no funds", {"code": 51, "reason": "no funds"})] * 2


STOPS: list[str] = []


async def stops() -> None:
    if STOPS:
        raise ValueError(STOPS.pop())


async def test_a_class_that_is_gone_pauses_the_run_though_the_workflow_catches_everything(memory_desk, monkeypatch):
    @workflow
    async def catching(ctx: Context) -> str:
        try:
            await ctx.step(alone)
        except Exception as error:  # noqa: BLE001 - as careless code does
            name = type(error).__name__
        await ctx.step(stops)
        return name

    STOPS[:] = ["stop"]
    async with memory_desk.open() as journal:
        with pytest.raises(RunPausedError, match="stop"):
            await journal.run(catching, id="r")
    with monkeypatch.context() as gone:
        gone.delattr(sys.modules[__name__], "OuterError")
        async with memory_desk.open() as journal:
            with pytest.raises(RunPausedError, match=r"exception_unknown.*OuterError \(outer\)"):
                await journal.resume("r")
    async with memory_desk.open() as journal:
        assert await journal.resume("r") == "OuterError"
