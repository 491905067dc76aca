"""What the doctor looks at: every artifact of a store, the events that need it, and what no event names.

Nothing is changed, and no user code is run.
"""

from collections.abc import Iterable, Sequence
from enum import StrEnum

import msgspec

from counterfoil import artifacts
from counterfoil.artifacts import Need
from counterfoil.core.events import Record
from counterfoil.core.integrity import Flaw
from counterfoil.core.state import Status
from counterfoil.errors import ArtifactError, ArtifactMissingError, CounterfoilError
from counterfoil.store import Store, Stray


class Use(StrEnum):
    """What an artifact is needed for."""

    REPLAY = "replay"  # the run has not ended, and can't go on without it
    OUTCOME = "outcome"  # the run has ended, and how can't be told without it
    HISTORY = "history"  # the run has ended; its outcome can still be had


class Loss(msgspec.Struct, frozen=True, kw_only=True):
    """An artifact that is missing or altered, and one event that needs it."""

    digest: str
    size_bytes: int
    problem: str  # missing, altered
    run: str
    seq: int
    step: str | None
    state: Status
    needed_for: Use


class ArtifactReport(msgspec.Struct, frozen=True, kw_only=True):
    """What was found among the artifacts of a store."""

    artifacts: int  # that events name
    size_bytes: int  # of those
    losses: tuple[Loss, ...]
    unreadable: tuple[tuple[str, Flaw], ...]  # events that should name an artifact and don't, with their runs
    strays: tuple[Stray, ...]  # left by a crash, or by a write that was refused; harmless

    @property
    def is_whole(self) -> bool:
        """Whether every artifact that an event names is there, as it was stored."""
        return not self.losses and not self.unreadable


async def inspect_artifacts(store: Store) -> ArtifactReport:
    """Check every artifact of a store, each once, and look for what no event names."""
    needs, unreadable = _needs(await store.references())
    by_digest: dict[str, list[Need]] = {}
    for need in needs:
        by_digest.setdefault(need.digest, []).append(need)
    losses = [loss for each in by_digest.values() for loss in await _losses(each, store)]
    return ArtifactReport(
        artifacts=len(by_digest),
        size_bytes=sum(each[0].size_bytes for each in by_digest.values()),
        losses=tuple(losses),
        unreadable=tuple(unreadable),
        strays=tuple(await store.strays(by_digest.keys())),
    )


def _needs(references: Iterable[tuple[str, Record]]) -> tuple[list[Need], list[tuple[str, Flaw]]]:
    needs: list[Need] = []
    unreadable: list[tuple[str, Flaw]] = []
    for run, record in references:
        try:
            need = artifacts.need_of(record, run)
        except CounterfoilError as error:
            unreadable.append((run, Flaw(record.seq, str(error))))
        else:
            needs += [need] if need else []
    return needs, unreadable


async def _losses(needs: Sequence[Need], store: Store) -> list[Loss]:
    """What is lost if one artifact is: an entry for each event that needs it."""
    try:
        await artifacts.content(needs[0], store.artifact)
    except ArtifactError as error:
        return [await _loss(need, error, store) for need in needs]
    return []


async def _loss(need: Need, error: ArtifactError, store: Store) -> Loss:
    head = await store.head(need.run or "")
    state = head.status if head else Status.FAILED
    ended = Use.OUTCOME if head and head.seq == need.seq else Use.HISTORY
    return Loss(
        digest=need.digest,
        size_bytes=need.size_bytes,
        problem="missing" if isinstance(error, ArtifactMissingError) else "altered",
        run=need.run or "",
        seq=need.seq or 0,
        step=need.step,
        state=state,
        needed_for=ended if state.is_final else Use.REPLAY,
    )
