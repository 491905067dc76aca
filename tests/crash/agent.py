"""What is run and killed. Loaded by the fork server: each of the last coroutines is what one process does.

An outside call is counted as soon as it begins, as "model plan" or "tool fetch": its kind and the name of its step.
"""

import asyncio
import contextlib
import os
import random
from collections.abc import AsyncIterator, Awaitable
from pathlib import Path
from typing import Any

import msgspec

import counterfoil
from counterfoil import Context, workflow
from counterfoil.core.events import OutcomeUnknown
from counterfoil.core.state import StepStatus, fold
from counterfoil.engine.calls import Call
from counterfoil.engine.provisional import Provisional
from counterfoil.stores.sqlite import SqliteStore
from counterfoil.testing.crash import KillingStore, Tally, kill

RUN = "trip"
QUESTION = "Is it raining?"
LONG_QUESTION = "Is it raining? " * 100
HARD_EXIT = 3
PAUSE_SECONDS = 0.002
LONGEST_ANSWER_SECONDS = 0.003


class Outside:
    """The world beyond the process: it counts the calls that reach it, and some of them end the process."""

    tally: Tally
    deaths: frozenset[str]  # "before tool 5", "in tool 5", "in call 2", "exit in tool 5", "exit after tool 5"
    calls = 0

    def __init__(self) -> None:
        self.holding = asyncio.Semaphore(0)  # calls that last
        self.random = random.Random()  # how long others last
        self.last_chunk: Awaitable[None] | None = None  # of a stream, on its way to the store

    def call(self, name: str) -> None:
        """A call arrives, and has its effect at once."""
        self.calls += 1
        if f"before {name}" in self.deaths:
            kill()
        self.tally.mark(name)
        if self.deaths & {f"in {name}", f"in call {self.calls}"}:
            kill()
        self.pass_by(f"in {name}")

    async def written(self) -> None:
        """The last chunk that was given out is on disk."""
        if self.last_chunk is not None:
            await asyncio.wait([asyncio.ensure_future(self.last_chunk)])

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


# --- one that talks: each call has all that was said before ---


async def converse(messages: list[str]) -> str:
    outside.call("model converse")
    return f"answer {len(messages)} " * 100


def weigh(messages: list[str]) -> int:
    outside.call("tool weigh")
    return sum(map(len, messages))


@workflow(name="talker")
async def talker(ctx: Context, question: str) -> str:
    messages = [question]
    for _ in range(3):
        messages.append(await ctx.model(converse, messages))
    weight = await ctx.step(weigh, messages)
    return f"{messages[-1][:8]} of {weight}"


# --- one with branches: three calls at a time, then a group in which one fails and two are cut ---


async def left(question: str) -> str:
    outside.call("model left")
    return f"left of {question}"


def right(question: str) -> str:
    outside.call("model right")
    return f"right of {question}"


async def middle(question: str) -> str:
    outside.call("tool middle")
    return f"middle of {question}"


async def hold(number: int) -> None:
    """A call that lasts until it is cancelled."""
    outside.call(f"tool hold {number}")
    outside.holding.release()
    await asyncio.Event().wait()


async def refuse() -> None:
    """A call that fails while two others last."""
    for _ in range(2):
        await outside.holding.acquire()
    outside.call("tool refuse")
    raise RefusalError


async def conclude(found: list[str], seen: list[str]) -> str:
    outside.call("model conclude")
    return f"{', '.join(found)}; {len(seen)} in order"


class RefusalError(ValueError):
    """No."""


@workflow(name="forks")
async def forks(ctx: Context, question: str) -> str:
    seen: list[str] = []

    async def noted(call: Awaitable[str]) -> str:
        seen.append(await call)
        return seen[-1]

    calls = ctx.model(left, question), ctx.model(right, question), ctx.step(middle, question)
    found = await asyncio.gather(*map(noted, calls))
    with contextlib.suppress(ExceptionGroup):
        async with asyncio.TaskGroup() as group:
            for number in (1, 2):
                group.create_task(ctx.with_options(name=f"hold {number}").step(hold, number))
            group.create_task(ctx.step(refuse))
    return await ctx.model(conclude, found, seen)


# --- one that spreads out in every way there is, with answers after a random time ---


async def first() -> str:
    return await answered("tool first")


async def second() -> str:
    return await answered("model second")


async def third() -> str:
    return await answered("tool third")


async def answered(name: str) -> str:
    """Where the call was made from: equal calls have different answers."""
    outside.call(name)
    await asyncio.sleep(outside.random.uniform(0, LONGEST_ANSWER_SECONDS))
    return f"{name} at {counterfoil.this_step().key}"


@workflow(name="spread")
async def spread(ctx: Context) -> dict[str, object]:
    distinct = await asyncio.gather(ctx.step(first), ctx.model(second), ctx.step(third))
    equal = await asyncio.gather(*(ctx.step(third) for _ in range(20)))
    inner = asyncio.gather(ctx.step(third), asyncio.gather(ctx.model(second), ctx.step(third)))
    nested = await asyncio.gather(inner, ctx.step(first), asyncio.gather(ctx.step(third)))
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(ctx.step(each)) for each in (third, first, third)]
    begun = asyncio.create_task(ctx.step(third))
    meanwhile = [await ctx.step(third), await ctx.model(second)]
    later = [*meanwhile, await begun]
    grouped = [task.result() for task in tasks]
    return {"distinct": distinct, "equal": equal, "nested": nested, "grouped": grouped, "later": later}


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


# --- one that streams ---


async def tell_on(words: int) -> AsyncIterator[Any]:
    outside.call("model tell_on")
    yield {"status": 200, "headers": {}}
    for number in range(words):
        yield f"data: {number}\n\n"
        await outside.written()
    yield "data: [DONE]\n\n"


class ChunkStore(KillingStore):
    """Lets a stream wait until its last chunk is on disk."""

    def put_chunks(self, *args: Any, **options: Any) -> Awaitable[None]:
        outside.last_chunk = super().put_chunks(*args, **options)
        return outside.last_chunk


@workflow(name="listener")
async def listener(ctx: Context, words: int) -> str:
    stream, heard = await ctx.open_stream("model", Call(tell_on, (words,), {})), []
    while True:
        try:
            heard.append((await stream.next()).removeprefix("data: ").strip())
        except StopAsyncIteration:
            return await ctx.step(fetch, " ".join(heard))


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


async def talk(path: str, tally: str, kill_at: dict[str, int] | None = None) -> list[str]:
    """Run the talker, or take it up where it stands. Gives the store calls that it made."""
    _count_in(tally)
    store = KillingStore(SqliteStore(Path(path)), **(kill_at or {}))
    async with counterfoil.open(store) as journal:
        await journal.run(talker, LONG_QUESTION, id=RUN)
    return store.calls


async def stored_intents(path: str, _: str) -> list[tuple[int, int]]:
    """Of each intent: how many bytes its input has, and how many of them are stored with it."""
    async with counterfoil.open(SqliteStore(Path(path))) as journal:
        events = await journal.events(RUN)
    pairs = zip(events, events.stored, strict=True)
    return [(len(one.body.input), len(other.body.input)) for one, other in pairs if one.type == "step_intended"]


async def listen(path: str, tally: str, how: dict | None = None) -> list[str]:
    """Run the listener, or take it up where it stands. Gives the store calls that it made."""
    how = how or {}
    _count_in(tally)
    Provisional._wait = Provisional._write  # each chunk is written at once
    store = ChunkStore(SqliteStore(Path(path)), **how.get("kill_at", {}))
    async with counterfoil.open(store) as journal:
        await journal.run(listener, how.get("words", 2), id=RUN)
    return store.calls


async def provisional(path: str) -> dict[str, list[str]]:
    """The chunks that no event holds, by try."""
    async with counterfoil.open(SqliteStore(Path(path))) as journal:
        found = await journal.store.chunks(RUN)
    return {str(n): [c.text for c in found if c.stream.try_number == n] for n in {c.stream.try_number for c in found}}


async def fork(path: str, tally: str, how: dict | None = None) -> list[str]:
    """Run the one with branches, or take it up where it stands. Gives the store calls that it made."""
    how = how or {}
    _count_in(tally, *how.get("deaths", ()))
    store = KillingStore(SqliteStore(Path(path)), **how.get("kill_at", {}))
    async with counterfoil.open(store) as journal:
        await journal.run(forks, QUESTION, id=RUN)
    return store.calls


async def spread_out(path: str, tally: str, how: dict) -> dict:
    """Run the one that spreads out, or take it up; then wait for the kill if that is still to come."""
    outside.random.seed(how["seed"])
    _count_in(tally, *how.get("deaths", ()))
    async with counterfoil.open(SqliteStore(Path(path))) as journal:
        result = await journal.run(spread, id=RUN)
        if how.get("waits"):
            await asyncio.Event().wait()
    return result


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
        "cancelled": [names[step.key] for step in state.steps.values() if step.status is StepStatus.CANCELLED],
        "open": [names[step.key] for step in state.open_steps()],
        "unknown": [names[event.step] for event in events if isinstance(event.body, OutcomeUnknown)],
        "flaws": [str(flaw) for flaw in (await journal.verify(RUN)).flaws],
    }


def _count_in(tally: str, *deaths: str) -> None:
    outside.tally, outside.deaths = Tally(tally), frozenset(deaths)
