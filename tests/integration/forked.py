"""What the processes of `test_two_processes.py` do: each of the last coroutines is one of them."""

import asyncio
import fcntl
import os
from pathlib import Path

import counterfoil
from counterfoil import Context, RunOwnedError, Status, workflow
from counterfoil.core.events import AttemptStarted
from counterfoil.stores.sqlite import SqliteStore
from counterfoil.testing.crash import Tally

outside: dict[str, Tally] = {}


async def call(name: str) -> str:
    outside["tally"].mark(name)
    return name


async def hang(name: str) -> str:
    """A call that lasts until its process dies, if it is the first of its name."""
    outside["tally"].mark(name)
    if outside["tally"].counts()[name] == 1:
        await asyncio.Event().wait()
    return name


@workflow(name="steps")
async def steps(ctx: Context, run: str, count: int) -> int:
    for number in range(count):
        await ctx.step(call, f"{run} {number}")
    return count


@workflow(name="hangs")
async def hangs(ctx: Context, run: str) -> str:
    await ctx.step(call, f"{run} first")
    return await ctx.model(hang, f"{run} second")


def opened(path: str, tally: str) -> counterfoil.Journal:
    outside["tally"] = Tally(tally)
    return counterfoil.open(SqliteStore(Path(path)))


async def make(path: str, tally: str) -> None:
    """Only open the store, and close it."""
    async with opened(path, tally):
        pass


async def drive(path: str, tally: str, counts: dict[str, int]) -> list[int]:
    """Run all these at once, each with so many steps, and give their results."""
    async with opened(path, tally) as journal:
        return await asyncio.gather(*(journal.run(steps, run, count, id=run) for run, count in counts.items()))


async def begin(path: str, tally: str, runs: list[str]) -> None:
    """Run all these at once; they hang."""
    async with opened(path, tally) as journal:
        await asyncio.gather(*(journal.run(hangs, run, id=run) for run in runs))


async def resume(path: str, tally: str, run: str) -> str:
    """Go on with a run, unless somebody else drives it."""
    async with opened(path, tally) as journal:
        try:
            return await journal.resume(run, hangs)
        except RunOwnedError as error:
            return error.code


async def probe(path: str, tally: str) -> None:
    """Ask whether the owners live, as slowly as can be: never let go of their lock files."""
    for worker in os.listdir(f"{path}-workers"):
        fcntl.lockf(os.open(f"{path}-workers/{worker}", os.O_RDONLY), fcntl.LOCK_SH)
    Tally(tally).mark("probed")
    await asyncio.Event().wait()


async def watch(path: str, tally: str, run: str) -> dict:
    """Look at a run until it has completed: by list, by head, by events. What was seen, in the order of seeing."""
    seqs, lists, flaws = [], [], 0
    async with opened(path, tally) as journal:
        while not (lists and lists[-1] == [Status.COMPLETED]):
            lists.append([each.state for each in await journal.list()])
            if lists[-1]:
                seqs += [(await journal.head(run)).seq, (await journal.events(run))[-1].seq]
                flaws += len((await journal.verify(run)).flaws)
    return {"seqs": seqs, "lists": lists, "flaws": flaws}


async def attempts(path: str, tally: str, run: str) -> int:
    async with opened(path, tally) as journal:
        return sum(isinstance(event.body, AttemptStarted) for event in await journal.events(run))


async def head(path: str, tally: str, run: str) -> str:
    async with opened(path, tally) as journal:
        return repr(await journal.head(run))
