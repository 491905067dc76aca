"""An agent whose model asks for three tools at a time, in processes that are killed. Loaded by the fork server.

The tools end one after another, in an order that is not the one they were asked for in.
"""

import asyncio
import urllib.request
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, Literal

import msgspec
from agent import RUN, look, seen

import counterfoil
from counterfoil import Context, OutcomeUnknownError, workflow
from counterfoil.stores.sqlite import SqliteStore
from counterfoil.testing.crash import KillingStore, Tally, kill

__all__ = ["look", "run", "went_on"]

CUT = "hotel"
ENDS = ["train", "weather", "hotel"]
OnUnknown = Literal["repeat", "raise"]
Said = Callable[[str], Awaitable[str]]


class Outside:
    """The world beyond the process, and where the process dies in it."""

    def prepare(self, how: dict[str, Any], tally: str) -> None:
        """For one process."""
        self.url, self.death, self.tally = how["url"], how.get("death"), Tally(tally)
        self.held = {CUT} if how["together"] == "in_a_group_with_a_cut" else set()
        self.begun: set[str] = set()
        self.may_end = {name: asyncio.Event() for name in ENDS}
        if not how.get("in_turn"):
            self.let_end(*ENDS)

    def reach(self, place: str) -> None:
        """The process comes to this place."""
        if place == self.death:
            kill()

    async def use(self, tool: str) -> None:
        """A tool is called, and has its effect at once. When all have begun, the first may end."""
        self.tally.mark(f"tool {tool}")
        self.begun.add(tool)
        if self.begun == set(ENDS):
            self.reach("when all have begun")
            self.let_end(ENDS[0])
        await self.may_end[tool].wait()

    def has_ended(self, tool: str) -> None:
        """The workflow has a tool's result: the next may end."""
        self.reach(f"after {tool}")
        self.let_end(*ENDS[ENDS.index(tool) + 1 :][:1])

    def let_end(self, *tools: str) -> None:
        """These may end, but for one that lasts until it is cancelled."""
        for tool in set(tools) - self.held:
            self.may_end[tool].set()


outside = Outside()


def ask(messages: list[dict[str, Any]]) -> dict[str, Any]:
    outside.tally.mark("model ask")
    body = msgspec.json.encode({"model": "m", "messages": messages})
    with urllib.request.urlopen(f"{outside.url}/v1/chat/completions", body) as answer:
        return msgspec.json.decode(answer.read())["choices"][0]["message"]


async def use_tool(name: str) -> str:
    await outside.use(name)
    return f"result of {name}"


async def in_a_gather(names: list[str], said: Said) -> list[str]:
    return await asyncio.gather(*map(said, names))


async def in_a_group(names: list[str], said: Said) -> list[str]:
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(said(name)) for name in names]
    return [task.result() for task in tasks]


async def in_a_group_with_a_cut(names: list[str], said: Said) -> list[str]:
    async with asyncio.TaskGroup() as group:
        tasks = {name: group.create_task(said(name)) for name in names}
        await tasks[ENDS[1]]
        tasks[CUT].cancel()
    return [f"{name}: cancelled" if task.cancelled() else task.result() for name, task in tasks.items()]


@workflow
async def tool_rounds(ctx: Context, together: str, on_unknown: OnUnknown) -> str:
    async def said(name: str) -> str:
        try:
            return await ctx.with_options(name=name, on_unknown=on_unknown).step(use_tool, name)
        except OutcomeUnknownError as error:
            return f"{error.name}: outcome unknown"
        finally:
            outside.has_ended(name)

    messages: list[dict[str, Any]] = [{"role": "user", "content": "Plan my trip."}]
    while True:
        answer = await ctx.model(ask, messages)
        calls = answer.get("tool_calls")
        if not calls:
            return str(answer["content"])
        results = await globals()[together]([call["function"]["name"] for call in calls], said)
        outside.reach("after all")
        told = zip(calls, results, strict=True)
        messages += [answer, *({"role": "tool", "tool_call_id": call["id"], "content": said} for call, said in told)]


# --- what a process does ---


async def run(path: str, tally: str, how: dict[str, Any]) -> list[str]:
    """Run the agent, or take it up where it stands. Gives the store calls that it made."""
    outside.prepare(how, tally)
    store = KillingStore(SqliteStore(Path(path)), **how.get("kill_at", {}))
    async with counterfoil.open(store) as journal:
        await journal.run(tool_rounds, how["together"], how["on_unknown"], id=RUN)
    return store.calls


async def went_on(path: str, tally: str, _: str, how: dict[str, Any]) -> list[dict[str, Any]]:
    """Look, do it, look again."""
    async with counterfoil.open(SqliteStore(Path(path))) as journal:
        before = await seen(journal)
        await run(path, tally, how)
        return [before, await seen(journal)]
