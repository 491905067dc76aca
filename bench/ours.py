"""What is measured of ours: workflows of no-op steps, on a journal whose write-ahead log has its steady size."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path

import apsw

import counterfoil
from counterfoil import Context, Journal
from counterfoil.stores.sqlite import CHECKPOINT_PAGES

TEXT = "x" * 198  # 200 bytes of JSON
PAGE_BYTES = 4096
SPARE_PAGES = 200


async def noop(number: int) -> str:
    return TEXT


@counterfoil.workflow(name="bench_steps")
async def steps(ctx: Context, count: int) -> None:
    for number in range(count):
        await ctx.step(noop, number)


@counterfoil.workflow(name="bench_models")
async def models(ctx: Context, count: int) -> None:
    for number in range(count):
        await ctx.model(noop, number)


@counterfoil.workflow(name="bench_branches")
async def branches(ctx: Context, count: int, each: int) -> None:
    async def branch() -> None:
        for number in range(each):
            await ctx.step(noop, number)

    await asyncio.gather(*(branch() for _ in range(count)))


class Replayed:
    """A run that records its steps and then waits, so that it can be stopped and replayed again and again."""

    def __init__(self, count: int) -> None:
        self.count = count
        self._is_there = asyncio.Event()

        @counterfoil.workflow(name="bench_replay")
        async def body(ctx: Context) -> None:
            for number in range(count):
                await ctx.step(noop, number)
            self._is_there.set()
            await asyncio.Event().wait()

        self._body = body

    async def reach_the_end(self, journal: Journal) -> None:
        """Drive the run until its last step has been handed over: live at first, by replay ever after."""
        self._is_there.clear()
        self._run = asyncio.create_task(journal.run(self._body, id="replayed"))
        await self._is_there.wait()

    async def again(self, journal: Journal) -> int:
        await self.stop(journal)
        await self.reach_the_end(journal)
        return self.count

    async def stop(self, journal: Journal) -> None:
        await journal.stop("the benchmark goes on")
        await asyncio.gather(self._run, return_exceptions=True)


@contextlib.asynccontextmanager
async def warm_journal(folder: Path, name: str) -> AsyncIterator[Journal]:
    """A new journal that has driven a run, with a write-ahead log that will only be overwritten."""
    path = folder / f"{name}.db"
    async with counterfoil.open(f"sqlite:///{path}") as journal:
        await journal.run(steps, 20)
        grow_log(path)
        await journal.run(steps, 20)  # the first commit after that has one sync more
        yield journal


def grow_log(path: Path) -> None:
    """Push as many pages through the log as it holds between two checkpoints, then start it over."""
    db = apsw.Connection(str(path))
    db.pragma("wal_autocheckpoint", 0)
    db.execute("CREATE TABLE warm (filler)")
    db.execute("INSERT INTO warm VALUES (zeroblob(?))", ((CHECKPOINT_PAGES + SPARE_PAGES) * PAGE_BYTES,))
    db.execute("DROP TABLE warm")
    checkpoint(db)
    db.close()


def checkpoint(db: apsw.Connection) -> None:
    """Put all that is in the log where it belongs."""
    is_busy = db.execute("PRAGMA wal_checkpoint(RESTART)").fetchone()[0]
    if is_busy:
        msg = "the log could not be started over"
        raise RuntimeError(msg)


async def many(journal: Journal, runs: int, each: int, *, concurrency: int) -> int:
    """Runs of so many steps, so many at once."""
    gate = asyncio.Semaphore(concurrency)

    async def one() -> None:
        async with gate:
            await journal.run(steps, each)

    await asyncio.gather(*(one() for _ in range(runs)))
    return runs * each
