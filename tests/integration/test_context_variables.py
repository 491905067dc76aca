"""FC-82: a tool sees the context variables of its caller, in its thread too, and never those of another run."""

import asyncio
import contextlib
import threading
from pathlib import Path

import pytest
from tests.integration.variables import SPAN, TENANT, traced

from counterfoil import Context, this_step, workflow
from counterfoil.testing.forks import ForkServer

pytestmark = pytest.mark.anyio

HERE = Path(__file__).parent


@pytest.fixture(autouse=True)
def unset():
    """What a test sets is gone after it."""
    tokens = [(variable, variable.set(None)) for variable in (TENANT, SPAN)]
    yield
    for variable, token in tokens:
        variable.reset(token)


def branch(run: str, tenant: str | None, number: int) -> list[object]:
    """What one branch of a traced run sees: in an async tool, in a plain one, and after both."""
    tools = [[tenant, f"span {number}", f"{run} {number}/{ordinal}"] for ordinal in (0, 1)]
    return [*tools, f"span {number}", run]


def whole(run: str, tenant: str | None, span: str | None, *, tag: str) -> dict[str, object]:
    """What a traced run sees."""
    return {
        "inside": [branch(run, tenant, number) for number in range(2)],
        "after": [tenant, span],
        "last": [[tenant, span, f"{run} {ordinal}"] for ordinal in (0, 1)],
        "tags": {"tenant": tag},
    }


async def started(journal, run: str, tenant: str):
    TENANT.set(tenant)
    SPAN.set(f"request of {tenant}")
    return await journal.run(traced, 2, id=run, tags={"tenant": tenant})


async def test_each_tool_sees_what_its_caller_set_before_a_gather_and_in_a_branch(journal):
    seen = await asyncio.create_task(started(journal, "r", "acme"))
    assert seen == whole("r", "acme", "request of acme", tag="acme")


async def test_runs_side_by_side_do_not_see_each_others(journal):
    names = ["acme", "globex", "initech"]
    seen = await asyncio.gather(*(started(journal, f"of {name}", name) for name in names))
    assert seen == [whole(f"of {name}", name, f"request of {name}", tag=name) for name in names]


async def test_a_run_sets_nothing_in_its_caller(journal):
    await journal.run(traced, 2, tags={"tenant": "acme"})
    assert (TENANT.get(), SPAN.get()) == (None, None)


def test_after_a_recovery_what_was_set_outside_is_absent_and_what_is_tagged_is_there(tmp_path):
    path = str(tmp_path / "runs.db")
    with ForkServer(HERE / "variables.py") as server:
        assert server.run("begin", path).is_killed
        recovered, beside = server.run("go_on", path, "globex").result()
    recorded = [branch("r", "acme", number) for number in range(2)]
    assert recovered == whole("r", None, None, tag="acme") | {"inside": recorded}
    assert beside == whole("beside", "globex", None, tag="globex")


async def changes(what: str) -> str | None:
    TENANT.set(what)
    await asyncio.sleep(0)
    await asyncio.create_task(sees(what))
    return TENANT.get()


async def sees(what: str) -> None:
    assert TENANT.get() == what


async def fails(what: str) -> None:
    TENANT.set(what)
    await asyncio.sleep(0)
    raise ValueError(what)


@workflow(name="test_context_variables.changing")
async def changing(ctx: Context) -> list[str | None]:
    inside = [await ctx.step(changes, "1"), await ctx.with_options(timeout=5).step(changes, "2")]
    with contextlib.suppress(ValueError):
        await ctx.step(fails, "3")
    return [*inside, await ctx.step(told, TENANT.get())]


async def told(what: str | None) -> str | None:
    return what


async def test_what_a_step_sets_is_gone_after_it_live_as_on_a_replay(memory_desk, crashes):
    TENANT.set("outside")
    async with memory_desk.open() as journal:
        assert await journal.run(changing, id="r") == ["1", "2", "outside"]
        assert await crashes(changing, journal.store) == [["1", "2", "outside"]] * 10


BARRIERS: list[threading.Barrier] = []


def met(number: int) -> list[object]:
    """What a step is, told while all the others are in their threads."""
    BARRIERS[-1].wait(20)
    before = this_step().key
    BARRIERS[-1].wait(20)
    return [number, before, this_step().key]


@workflow(name="test_context_variables.crowd")
async def crowd(ctx: Context, count: int) -> list[list[object]]:
    return await asyncio.gather(*(ctx.step(met, number) for number in range(count)))


async def test_a_step_knows_itself_in_every_thread(journal):
    BARRIERS.append(threading.Barrier(20))
    assert await journal.run(crowd, 20) == [[number, f"{number}/0", f"{number}/0"] for number in range(20)]


@workflow(name="test_context_variables.tagged")
async def tagged(ctx: Context) -> dict[str, str]:
    with pytest.raises(TypeError):
        ctx.tags["tenant"] = "another"
    return dict(ctx.with_options(name="any").tags)


@pytest.mark.parametrize("tags", [{}, {"tenant": "acme", "trace": "1"}])
async def test_a_workflow_has_its_tags_and_cannot_change_them(journal, tags):
    assert await journal.run(tagged, id="r", tags=tags) == tags
