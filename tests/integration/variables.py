"""What the processes of `test_context_variables.py` do: one sets a variable and dies in a run, one goes on with it."""

import asyncio
import threading
from contextvars import ContextVar
from pathlib import Path

import counterfoil
from counterfoil import Context, current, this_step, workflow
from counterfoil.stores.sqlite import SqliteStore
from counterfoil.testing.crash import kill

TENANT: ContextVar[str | None] = ContextVar("tenant", default=None)
SPAN: ContextVar[str | None] = ContextVar("span", default=None)
LIVES = {"left": 0}


async def tool(name: str) -> list[str | None]:
    """What an async tool sees."""
    return seen(name)


def plain_tool(name: str) -> list[str | None]:
    """What a plain one sees, in its thread."""
    assert threading.current_thread() is not threading.main_thread()
    return seen(name)


def seen(name: str) -> list[str | None]:
    if name == "last" and LIVES["left"]:
        kill()
    step = this_step()
    return [TENANT.get(), SPAN.get(), f"{step.run_id} {step.key}"]


@workflow(name="traced")
async def traced(ctx: Context, branches: int) -> dict[str, object]:
    async def branch(number: int) -> list[object]:
        SPAN.set(f"span {number}")
        tools = [await ctx.step(tool, f"{number}"), await ctx.step(plain_tool, f"{number}")]
        return [*tools, SPAN.get(), current().run_id]

    inside = await asyncio.gather(*map(branch, range(branches)))
    last = [await ctx.step(tool, "last"), await ctx.step(plain_tool, "last")]
    return {"inside": inside, "after": [TENANT.get(), SPAN.get()], "last": last, "tags": dict(ctx.tags)}


async def begin(path: str) -> None:
    """Set both variables, run, and die in the last step."""
    TENANT.set("acme")
    SPAN.set("request 1")
    LIVES["left"] = 1
    async with counterfoil.open(SqliteStore(Path(path))) as journal:
        await journal.run(counterfoil.bind(traced, 2), id="r", tags={"tenant": "acme"})


async def go_on(path: str, other: str) -> object:
    """Go on with the run, and begin another one beside it, for a tenant of its own."""
    async with counterfoil.open(SqliteStore(Path(path))) as journal:

        async def beside() -> object:
            TENANT.set(other)
            return await journal.run(counterfoil.bind(traced, 2), id="beside", tags={"tenant": other})

        return await asyncio.gather(journal.resume("r"), asyncio.create_task(beside()))
