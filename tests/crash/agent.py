"""What is run and killed. Loaded by the fork server: each of the last coroutines is what one process does.

An outside call is counted as soon as it begins, as "model plan" or "tool fetch": its kind and the name of its step.
"""

import asyncio
import os
from pathlib import Path

import msgspec

import counterfoil
from counterfoil import Context, workflow
from counterfoil.core.events import OutcomeUnknown
from counterfoil.core.state import fold
from counterfoil.stores.sqlite import SqliteStore
from counterfoil.testing.crash import KillingStore, Tally, kill

RUN = "trip"
QUESTION = "Is it raining?"
HARD_EXIT = 3
PAUSE_SECONDS = 0.002


class Outside:
    """The world beyond the process: it counts the calls that reach it, and some of them end the process."""

    tally: Tally
    deaths: frozenset[str]  # "before tool 5", "in tool 5", "in call 2", "exit in tool 5", "exit after tool 5"
    calls = 0

    def call(self, name: str) -> None:
        """A call arrives, and has its effect at once."""
        self.calls += 1
        if f"before {name}" in self.deaths:
            kill()
        self.tally.mark(name)
        if self.deaths & {f"in {name}", f"in call {self.calls}"}:
            kill()
        self.pass_by(f"in {name}")

    def pass_by(self, place: str) -> None:
        """The process comes to this place, and may end there by itself."""
        if f"exit {place}" in self.deaths:
            os._exit(HARD_EXIT)


outside = Outside()


# --- 3 model calls, 2 tools, 1 timer ---


async def plan(question: str) -> str:
    outside.call("model plan")
    return f"plan for {question}"


def look_up(plan: str) -> str:
    outside.call("tool look_up")
    return f"place in ({plan})"


async def draft(place: str) -> str:
    outside.call("model draft")
    return f"draft for {place}"


async def fetch(draft: str) -> str:
    outside.call("tool fetch")
    return f"weather by ({draft})"


def answer(weather: str) -> str:
    outside.call("model answer")
    return f"answer from {weather}"


@workflow(name="agent")
async def agent(ctx: Context, question: str) -> str:
    asked = await ctx.model(plan, question)
    place = await ctx.step(look_up, asked)
    drafted = await ctx.model(draft, place)
    await ctx.sleep(PAUSE_SECONDS)
    weather = await ctx.step(fetch, drafted)
    return await ctx.model(answer, weather)


# --- one whose input, arguments and results are too large for the journal ---


async def recite(text: str) -> str:
    outside.call("model recite")
    return text * 2


def shorten(text: str) -> str:
    outside.call("tool shorten")
    return text[:20_000]


@workflow(name="reciter")
async def reciter(ctx: Context, text: str) -> str:
    recited = await ctx.model(recite, text)
    kept = await ctx.artifact(recited.encode(), "text/plain")
    return await ctx.step(shorten, (await ctx.read(kept)).decode())


# --- a longer one, with every function async or none ---


async def async_call(name: str) -> str:
    outside.call(name)
    return f"{name} was called"


def plain_call(name: str) -> str:
    outside.call(name)
    return f"{name} was called"


@workflow(name="chain")
async def chain(ctx: Context, steps: list[str], *, is_async: bool) -> str:
    function, answer = async_call if is_async else plain_call, ""
    for step in steps:
        kind, name = step.split()
        named = ctx.with_options(name=name)
        answer = await (named.model if kind == "model" else named.step)(function, step)
        outside.pass_by(f"after {step}")
    return answer


# --- one that tells the world what it drew ---


async def tell_world(said: str) -> None:
    outside.call(said)


@workflow(name="teller")
async def teller(ctx: Context, kind: str) -> None:
    said = f"{ctx.random()} {ctx.uuid()} {ctx.now().isoformat()}"
    await (ctx.model if kind == "model" else ctx.step)(tell_world, said)


# --- what a process does ---


async def ask(path: str, tally: str, kill_at: dict[str, int] | None = None) -> list[str]:
    """Run the agent, or take it up where it stands. Gives the store calls that it made."""
    _count_in(tally)
    store = KillingStore(SqliteStore(Path(path)), **(kill_at or {}))
    async with counterfoil.open(store) as journal:
        await journal.run(agent, QUESTION, id=RUN)
    return store.calls


async def follow(path: str, tally: str, how: dict) -> str:
    """Run the chain, or take it up where it stands; then wait for the kill if that is still to come."""
    _count_in(tally, *how.get("deaths", ()))
    store = KillingStore(SqliteStore(Path(path)), **how.get("kill_at", {}))
    async with counterfoil.open(store) as journal:
        call = counterfoil.bind(chain, how["steps"], is_async=how["is_async"])
        result = await journal.run(call, id=how.get("run", RUN))
        if how.get("waits"):
            await asyncio.Event().wait()
    return result


async def tell(path: str, tally: str, how: dict) -> list[str]:
    """Run the teller, or take it up where it stands. Gives the store calls that it made."""
    _count_in(tally, *how.get("deaths", ()))
    store = KillingStore(SqliteStore(Path(path)), **how.get("kill_at", {}))
    async with counterfoil.open(store) as journal:
        await journal.run(teller, how["kind"], id=RUN)
    return store.calls


async def recite_all(path: str, tally: str, kill_at: dict | None = None) -> list[str]:
    """Run the reciter, or take it up where it stands. Gives the store calls that it made."""
    _count_in(tally)
    store = KillingStore(SqliteStore(Path(path)), **kill_at or {})
    async with counterfoil.open(store) as journal:
        await journal.run(reciter, "x" * 20_000, id=RUN)
    return store.calls


async def resume(path: str, tally: str) -> str:
    """Let the chain go on after somebody has mended what was wrong."""
    _count_in(tally)
    async with counterfoil.open(SqliteStore(Path(path))) as journal:
        return await journal.resume(RUN, chain, why="mended")


async def begin(path: str, tally: str, how: dict) -> None:
    """Record a run for somebody else to drive, write down that it was acknowledged, and die."""
    store, run = KillingStore(SqliteStore(Path(path)), **how.get("kill_at", {})), how["run"]
    async with counterfoil.open(store) as journal:
        await journal.start(counterfoil.bind(chain, [f"model {run}"], is_async=True), id=run)
        Tally(tally).mark(run)
        kill()


async def finish_all(path: str, tally: str, runs: list[str]) -> dict[str, list[str]]:
    """Ask for every run again, as a caller does who heard no answer. What was there before, and what came out."""
    _count_in(tally)
    async with counterfoil.open(SqliteStore(Path(path))) as journal:
        found = [run.id for run in await journal.list(limit=len(runs) + 1)]
        calls = [counterfoil.bind(chain, [f"model {run}"], is_async=True) for run in runs]
        results = [await journal.run(call, id=run) for call, run in zip(calls, runs, strict=True)]
    return {"found": found, "results": results}


async def went_on(path: str, tally: str, function: str, *args) -> list[dict]:
    """Look, do it, look again."""
    async with counterfoil.open(SqliteStore(Path(path))) as journal:
        before = await seen(journal)
        await globals()[function](path, tally, *args)
        return [before, await seen(journal)]


async def look(path: str) -> dict:
    """What the journal says."""
    async with counterfoil.open(SqliteStore(Path(path))) as journal:
        return await seen(journal)


async def seen(journal: counterfoil.Journal) -> dict:
    head = await journal.store.head(RUN)
    if head is None:
        return {}
    events = await journal.events(RUN)
    state = fold(RUN, events)
    names = {step.key: f"{step.kind} {step.name}" for step in state.steps.values()}
    return {
        "state": head.status,
        "reason": head.reason,
        "result": msgspec.json.decode(state.result) if state.result else None,
        "recorded": [names[key] for key in state.order],
        "open": [names[step.key] for step in state.open_steps()],
        "unknown": [names[event.step] for event in events if isinstance(event.body, OutcomeUnknown)],
        "flaws": [str(flaw) for flaw in (await journal.verify(RUN)).flaws],
    }


def _count_in(tally: str, *deaths: str) -> None:
    outside.tally, outside.deaths = Tally(tally), frozenset(deaths)
