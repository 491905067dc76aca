"""What the commands read from a store. None of them makes one, takes a lease, or writes."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

import counterfoil
from counterfoil import Journal
from counterfoil.cli.describe import count
from counterfoil.cli.options import Options
from counterfoil.cli.outcomes import Exit, StoreMissingError
from counterfoil.core.integrity import Anchor
from counterfoil.engine.inspection import ArtifactReport, Use
from counterfoil.engine.queries import Verification
from counterfoil.stores.sqlite import SqliteStore

PAGE = 200
WHAT_A_CHAIN_LEAVES_OPEN = (
    "Not proved: that nobody cut off the end of a journal, or replaced it as a whole, with a chain that is good in "
    "itself. Keep what `counterfoil head ID` prints outside the store, and give it to --expect."
)
WHAT_AN_ANCHOR_LEAVES_OPEN = (
    "Not proved: that events after the last one given to --expect are those that were first written, or that what was "
    "recorded is what happened."
)

CONSEQUENCES = {
    Use.REPLAY: "it can't go on until the artifact is restored",
    Use.OUTCOME: "how it ended can't be told until the artifact is restored",
    Use.HISTORY: "its outcome is there, its history has a gap",
}


@asynccontextmanager
async def existing(options: Options, secrets: Sequence[str] = ()) -> AsyncIterator[Journal]:
    """The journal over a store that is there. Raises StoreMissingError."""
    journal = counterfoil.open(options.store, secrets=secrets)
    store = journal.store
    if isinstance(store, SqliteStore) and not (store.path.exists() and store.path.stat().st_size):
        raise StoreMissingError(store=store.name)
    async with journal:
        yield journal


async def all_runs(journal: Journal) -> AsyncIterator[str]:
    """The ids of all runs, newest first."""
    before: int | None = None
    while runs := await journal.list(before=before, limit=PAGE):
        for run in runs:
            yield run.id
        before = runs[-1].head.number


async def verified(journal: Journal, run: str | None, anchors: Sequence[Anchor]) -> AsyncIterator[Verification]:
    """What was found in the run, or in each run of the store."""
    if run is not None:
        yield await journal.verify(run, anchors=anchors)
        return
    async for each in all_runs(journal):
        yield await journal.verify(each)


def verdict_of(found: Sequence[Verification]) -> Exit:
    """The exit code of a verification: the worst of what was found."""
    if any(not each.is_intact for each in found):
        return Exit.DAMAGED
    return Exit.DONE if found and all(each.anchored for each in found) else Exit.NOT_ANCHORED


def lines_of(found: Verification) -> list[str]:
    """What a person is told of one run."""
    anchored = ", anchored" if found.anchored else ""
    if found.is_intact:
        return [f"{found.run}: intact{anchored}; {found.events} events, head {found.events - 1}:{found.head}"]
    flaws = [f"  event {flaw.seq}: {flaw.problem}" for flaw in found.flaws]
    return [f"{found.run}: damaged; {found.events} events", *flaws]


def lines_of_report(report: ArtifactReport) -> list[str]:
    """What a person is told of a store's artifacts."""
    lost = len({loss.digest for loss in report.losses})
    lines = [f"{count(report.artifacts, 'artifact')}, {count(report.size_bytes, 'byte')}: {lost} missing or altered"]
    for loss in report.losses:
        step = "" if loss.step is None else f", step {loss.step}"
        lines.append(f"  {loss.problem}: {loss.digest}, {count(loss.size_bytes, 'byte')}")
        lines.append(f"    {loss.run}, event {loss.seq}{step}: {loss.state}; {CONSEQUENCES[loss.needed_for]}")
    lines += [f"  {run}, event {flaw.seq}: {flaw.problem}" for run, flaw in report.unreadable]
    if report.strays:
        size = sum(stray.size_bytes for stray in report.strays)
        lines.append(f"{count(len(report.strays), 'file')} that no event names, {count(size, 'byte')}: harmless")
    return lines


def left_open(found: Sequence[Verification]) -> str:
    """What the verification does not prove."""
    anchored = bool(found) and all(each.anchored for each in found)
    return WHAT_AN_ANCHOR_LEAVES_OPEN if anchored else WHAT_A_CHAIN_LEAVES_OPEN
