"""Benchmark: one JSON object a line, in less than a minute and a half. `make bench` runs it.

    name, value, unit    the figure
    peer, peer_value     what it is held against, measured in the same rounds; null without one, and `note` says why
    ratio                how many times the peer's (for a cost: how small a part of it)
    target, met          the line it must reach

Steps are no-ops that return 200 bytes. Every one is durable, by a sync, before it is acknowledged. "Floor" is one write
and one sync of as many bytes into a file of fixed size.
"""

import asyncio
import runpy
import statistics
import sys
import tempfile
from collections.abc import AsyncIterator
from pathlib import Path

import apsw
import msgspec
from calls import Calls, Clients, bytes_in, conversation, journal_in, stub
from measure import Line, floor, in_rounds, median_of, noise_of, written_bytes
from ours import Replayed, branches, checkpoint, many, models, steps, warm_journal
from peer_dbos import NAME as DBOS
from peer_dbos import Dbos

import counterfoil

ROOT = Path(__file__).parents[1]
FLOOR = "floor: one write and sync"
OURS = "ours"
ALONE = "one branch"
BARE, REPLAY = "the client alone", "replayed"

Figures = AsyncIterator[Line]


async def sequential_steps(folder: Path, dbos: Dbos) -> Figures:
    """One run of 1,000 steps, one after the other."""
    async with warm_journal(folder, "sequential") as journal:
        size = await _bytes_of_a_step(journal)

        async def ours() -> int:
            await journal.run(steps, 1000)
            return 1000

        async def disk() -> int:
            return floor(folder / "floor", size, 1000)

        contestants = {FLOOR: disk, OURS: ours}
        if not dbos.problem:
            contestants[DBOS] = lambda: dbos.run(1, 100, 1)
        rounds = await in_rounds(contestants, 6)
    rate = round(median_of(rounds, lambda each: each.paces[OURS].per_second))
    line = Line(name="sequential_steps", value=rate, unit="steps/s", note=noise_of(rounds))
    yield _against(line, rounds, peer=FLOOR, target=0.3)
    yield _against(msgspec.structs.replace(line, name="sequential_steps_goal"), rounds, peer=FLOOR, target=0.45)
    line = msgspec.structs.replace(line, name="sequential_steps_peer")
    yield _against(line, rounds, peer=DBOS, target=10, problem=dbos.problem)
    yield _cpu("cpu_us_per_step", rounds, target=400, peer=None if dbos.problem else DBOS)


async def concurrent_steps(folder: Path, dbos: Dbos) -> Figures:
    """200 runs of 10 steps, 50 at once."""
    async with warm_journal(folder, "concurrent") as journal:
        rounds = await in_rounds({OURS: lambda: many(journal, 200, 10, concurrency=50)}, 5)
        if not dbos.problem:  # takes so long that once must do
            theirs = await dbos.run(200, 10, 50)
            for each in rounds:
                each.paces[DBOS] = theirs
    rate = round(median_of(rounds, lambda each: each.paces[OURS].per_second))
    line = Line(name="concurrent_steps", value=rate, unit="steps/s", note=noise_of(rounds))
    yield _against(line, rounds, peer=DBOS, target=50, problem=dbos.problem)


async def cpu_at_64(folder: Path, _: Dbos) -> Figures:
    """CPU of a step while 64 runs are live."""
    async with warm_journal(folder, "cpu") as journal:
        rounds = await in_rounds({OURS: lambda: many(journal, 64, 40, concurrency=64)}, 5)
    yield _cpu("cpu_us_per_step_at_64", rounds, target=80)


async def syncs_per_step(folder: Path, _: Dbos) -> Figures:
    """Counted where SQLite asks for them, as tests/integration/test_syncs.py does."""
    counted_syncs = runpy.run_path(str(ROOT / "tests/integration/sync_counter.py"))["counted_syncs"]
    with counted_syncs() as counter:
        async with warm_journal(folder, "syncs") as journal:
            for name, workflow, target in ("step", steps, 1.0), ("model_step", models, 2.0):
                counts = []
                for count in (100, 200):
                    before = counter.count
                    await journal.run(workflow, count)
                    counts.append(counter.count - before)
                each = (counts[1] - counts[0]) / 100
                yield Line(name=f"syncs_per_{name}", value=each, unit="syncs", target=f"= {target}", met=each == target)


async def replay_steps(folder: Path, _: Dbos) -> Figures:
    """10,000 recorded steps: read, checked, decoded, handed over; nothing is called."""
    async with warm_journal(folder, "replay") as journal:
        replayed = Replayed(10_000)
        await replayed.reach_the_end(journal)
        rounds = await in_rounds({OURS: lambda: replayed.again(journal)}, 3)
        await replayed.stop(journal)
    rate = round(median_of(rounds, lambda each: each.paces[OURS].per_second))
    met = rate >= 40_000
    yield Line(name="replay_steps", value=rate, unit="steps/s", target=">= 40000", met=met, note=noise_of(rounds))


async def order_of_branches(_: Path, __: Dbos) -> Figures:
    """What it costs to hand outcomes over in the order of the journal: CPU of a step beyond what one branch pays.

    In memory, where each outcome is there at once and so is handed over by itself.
    """
    async with counterfoil.open("memory://") as journal:

        def branched(count: int):
            async def work() -> int:
                await journal.run(branches, count, 2000 // count)
                return 2000

            return work

        async def alone() -> int:
            await journal.run(steps, 2000)
            return 2000

        rounds = await in_rounds({ALONE: alone, "2": branched(2), "20": branched(20), "200": branched(200)}, 6)
    for count in ("2", "20", "200"):
        value = round(median_of(rounds, lambda each: each.paces[count].cpu_us - each.paces[ALONE].cpu_us), 1)  # noqa: B023
        peer = round(median_of(rounds, lambda each: each.paces[ALONE].cpu_us))
        yield Line(
            name=f"order_us_per_outcome_{count}_branches",
            value=value,
            unit="us",
            peer="a step of a run with one branch",
            peer_value=peer,
            target="<= 40",
            met=value <= 40,
            note=noise_of(rounds),
        )


async def disk_bytes_per_event(folder: Path, _: Dbos) -> Figures:
    """With 64 live runs, the log and what a checkpoint writes again."""
    async with warm_journal(folder, "disk") as journal:
        db = apsw.Connection(str(folder / "disk.db"))
        sizes = []
        for _round in range(3):
            checkpoint(db)
            before = written_bytes()
            await many(journal, 64, 40, concurrency=64)
            checkpoint(db)
            sizes.append(written_bytes() - before)
        db.close()
    events = 64 * (40 * 2 + 3)  # started, attempt, completed
    line = Line(name="disk_bytes_per_event", value=None, unit="bytes", target="<= 1500")
    if written_bytes() < 0:
        yield msgspec.structs.replace(line, note="the kernel tells only on Linux")
    else:
        each = round(statistics.median(sizes) / events)
        yield msgspec.structs.replace(line, value=each, met=each <= 1500)


async def model_calls(folder: Path, _: Dbos) -> Figures:
    """CPU of a call of the real client in a run, beyond what the client alone takes; then the same from the record."""
    count = 100
    with stub() as url:
        clients = Clients(url)
        for name, call in ("wrapped", clients.by_wrap), ("own_function", clients.by_function):
            calls = Calls(name, call)
            async with journal_in(folder / name) as journal:
                contestants = {
                    BARE: lambda: clients.bare_calls(count),
                    OURS: lambda calls=calls, journal=journal: calls.live(journal, count),
                    REPLAY: lambda calls=calls, journal=journal: calls.replayed(journal, count),
                    "between": lambda calls=calls, journal=journal: _stopped(calls, journal),
                }
                rounds = await in_rounds(contestants, 5)
            added = median_of(rounds, lambda each: each.paces[OURS].cpu_us - each.paces[BARE].cpu_us)
            yield _line_at_most(f"cpu_us_added_to_a_{name}_call", added, rounds, target=1000)
            again = median_of(rounds, lambda each: each.paces[REPLAY].cpu_us)
            yield _line_at_most(f"cpu_us_of_a_replayed_{name}_call", again, rounds, target=300)


async def conversation_bytes(folder: Path, _: Dbos) -> Figures:
    """100 calls over a growing conversation: what the store holds, against the conversation as it is in the end."""
    with stub() as url:
        talk = conversation(Clients(url).wrapped, 100)
        async with journal_in(folder / "conversation") as journal:
            final = await journal.run(talk)
    stored = bytes_in(folder / "conversation")
    line = Line(name="bytes_of_a_conversation", value=stored, unit="bytes", peer="the conversation in the end")
    ratio = round(stored / final, 2)
    yield msgspec.structs.replace(line, peer_value=final, ratio=ratio, target="ratio <= 3", met=ratio <= 3)


FIGURES = (
    sequential_steps,
    concurrent_steps,
    cpu_at_64,
    syncs_per_step,
    replay_steps,
    order_of_branches,
    disk_bytes_per_event,
    model_calls,
    conversation_bytes,
)


async def _bytes_of_a_step(journal) -> int:
    """How much the two events of a step come to, as they are stored."""
    (newest,) = await journal.list(limit=1)
    records = await journal.store.read(newest.id)
    parts = [(r.envelope, r.commitment, r.salt, r.body, r.hash) for r in records[-3:-1]]
    return sum(len(part) for record in parts for part in record)


def _against(line: Line, rounds, *, peer: str, target: float, problem: str | None = None) -> Line:
    """The line with its peer's pace beside it, or with the reason why there is none."""
    goal = f"ratio >= {target}"
    if problem:
        return msgspec.structs.replace(line, target=goal, note=problem)
    ratio = round(median_of(rounds, lambda each: each.ratio(OURS, peer)), 3)
    value = round(median_of(rounds, lambda each: each.paces[peer].per_second))
    return msgspec.structs.replace(line, peer=peer, peer_value=value, ratio=ratio, target=goal, met=ratio >= target)


def _cpu(name: str, rounds, *, target: int, peer: str | None = None) -> Line:
    value = round(median_of(rounds, lambda each: each.paces[OURS].cpu_us))
    line = Line(name=name, value=value, unit="us", target=f"<= {target}", met=value <= target, note=noise_of(rounds))
    if peer is None:
        return line
    theirs = round(median_of(rounds, lambda each: each.paces[peer].cpu_us))
    return msgspec.structs.replace(line, peer=peer, peer_value=theirs, ratio=round(theirs / value, 1))


async def _stopped(calls: Calls, journal) -> int:
    await calls.stop(journal)
    return 1


def _line_at_most(name: str, value: float, rounds, *, target: int) -> Line:
    return Line(
        name=name, value=round(value), unit="us", target=f"<= {target}", met=value <= target, note=noise_of(rounds)
    )


async def main() -> None:
    build = ROOT / "build"  # not the system's folder for such things, which may be in memory
    build.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(dir=build, prefix="bench-") as name:
        dbos = Dbos(Path(name))
        try:
            for figures in FIGURES:
                async for line in figures(Path(name), dbos):
                    print(msgspec.json.encode(line).decode(), flush=True)
        finally:
            dbos.stop()


if __name__ == "__main__":
    if sys.platform == "win32":
        sys.exit("the benchmark needs POSIX, like the library")
    asyncio.run(main())
