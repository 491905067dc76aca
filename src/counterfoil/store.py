"""The store port: what an engine may ask of a store, and the records that cross it.

A store keeps bytes and decides nothing about them. It promises, for every method that writes: all of it or none of it,
durable before the call's result is there, and refused without a trace when the guard fails. What shares one
transaction is stated on each method (architecture section 5). `counterfoil.testing.conformance` is the definition.
"""

from collections.abc import Awaitable, Sequence
from collections.abc import Set as AbstractSet
from pathlib import Path
from typing import Protocol

import msgspec

from counterfoil.core.clock import Instant
from counterfoil.core.events import Record
from counterfoil.core.state import Status


class Head(msgspec.Struct, frozen=True, kw_only=True):
    """A run's row: where its journal ends, and who drives it."""

    run: str
    number: int  # order of creation in this store
    workflow: str
    status: Status
    reason: str | None  # why it is paused or suspended
    tags: dict[str, str]
    epoch: int  # fencing number; one more at each take
    owner: str | None  # worker id
    seq: int  # of the last event
    hash: bytes  # of the last event
    created: Instant
    updated: Instant  # of the last change of status
    totals: bytes = b""  # what its model calls came to, as JSON; empty: nothing yet


class Worker(msgspec.Struct, frozen=True, kw_only=True):
    """A process that drives runs. Its lease covers all the runs it owns."""

    id: str  # new at each start
    host: str  # names the kernel whose file locks tell whether the process lives
    until: Instant  # end of the lease


class NewRun(msgspec.Struct, frozen=True, kw_only=True):
    """A run to record."""

    run: str
    workflow: str
    tags: dict[str, str]
    record: Record  # its run_started event
    now: Instant
    owner: str | None = None  # when given, the run starts out owned, at epoch 1
    artifacts: dict[str, bytes] = {}  # contents that the record names, by digest


class Timer(msgspec.Struct, frozen=True):
    """A due time, so that a sleeping run can be found."""

    step: str
    due: Instant


class Stream(msgspec.Struct, frozen=True):
    """One try of a streamed call."""

    step: str
    try_number: int


class Chunk(msgspec.Struct, frozen=True):
    """One event of a streamed answer, as it came. Provisional: it is no event, and counts for nothing in a replay."""

    stream: Stream
    number: int  # from 0
    text: str


class Append(msgspec.Struct, frozen=True, kw_only=True):
    """Events for the end of one run's journal, and the row changes that belong to them."""

    run: str
    epoch: int
    expected: int  # seq of the event these follow
    records: Sequence[Record]
    now: Instant
    status: Status | None = None  # when it changes
    reason: str | None = None  # belongs to status
    release: bool = False  # the owner lets the run go
    timer_set: Timer | None = None
    timer_cleared: Timer | None = None  # exactly this one
    taken: Sequence[str] = ()  # ids of the run's inbox messages that these events take in; others are ignored
    artifacts: dict[str, bytes] = {}  # contents that these records name, by digest
    streams_held: Sequence[Stream] = ()  # their chunks stand in these events now, and nowhere else
    totals: bytes = b""  # for the run's row; empty: they have not changed


class Message(msgspec.Struct, frozen=True, kw_only=True):
    """Something for a run from anyone who does not own it."""

    run: str
    kind: str
    id: str  # unique; the same id twice is one message
    body: bytes
    who: str
    time: Instant


class Query(msgspec.Struct, frozen=True, kw_only=True):
    """Which runs to list, newest first."""

    statuses: Sequence[Status] = ()  # none: all
    workflow: str | None = None
    tags: dict[str, str] = {}
    before: int | None = None  # keyset: only runs with a smaller number
    limit: int = 50


class Stray(msgspec.Struct, frozen=True):
    """Something among the artifacts that no event names, such as a crash leaves behind."""

    name: str  # as the store calls it
    size_bytes: int


class Store(Protocol):
    """A place for journals."""

    name: str
    """How errors and listings name it."""

    locks: Path | None
    """Folder for the lock files of workers on this host; None where a process can't outlive the store."""

    async def open(self) -> None:
        """Make the store ready, creating what is missing.

        Raises StoreNewerError or NotAStoreError before anything is written.
        """

    async def close(self) -> None:
        """Finish what was accepted and let go. Calls after it raise StoreClosedError."""

    async def start(self, new: NewRun) -> tuple[Head, bool]:
        """One transaction: the run's row and its first event. An id in use changes nothing.

        The artifacts are on disk before it. Returns the head, and whether this call made it.
        """

    async def take(self, run: str, worker: str, *, now: Instant, dead: AbstractSet[str] = frozenset()) -> Head:
        """One transaction: make `worker` the owner, with the next epoch.

        Raises RunOwnedError while another owner's lease runs, unless that owner is in `dead`; RunNotFoundError;
        IllegalTransitionError when the run has ended.
        """

    def append(self, append: Append) -> Awaitable[None]:
        """One transaction: events, head, status, totals, the timer, the taken messages, the chunks the events hold.

        The awaitable is done when all is on disk; appends are accepted in the order of the calls. Raises
        StaleEpochError, with nothing kept, when epoch or revision is not the run's own. A cancelled waiter does not
        cancel the append.

        The artifacts are on disk, whole, before the transaction: no event names one that isn't there. One that can't
        be written is StoreUnavailableError for this append alone; one that no event came to name may stay as a stray.
        """

    def put_chunks(self, run: str, chunks: Sequence[Chunk], *, epoch: int) -> Awaitable[None]:
        """One transaction: these provisional chunks; one that is there already stays as it is.

        Accepted in one order with the appends. Raises StaleEpochError, with nothing kept, when epoch is not the run's
        own; its revision is the one that was found.
        """

    async def chunks(self, run: str, *, stream: Stream | None = None, after: int = -1) -> list[Chunk]:
        """The provisional chunks of a run that no event holds, by step, try and number: of all streams or of one.

        Those with a number up to `after` are left out.
        """

    async def head(self, run: str) -> Head | None:
        """The run's row, or None."""

    async def read(self, run: str) -> list[Record]:
        """All events of a run, in order."""

    async def artifact(self, digest: str) -> bytes | None:
        """What lies in the place of this artifact, unchecked; None when nothing does that could be one."""

    async def references(self) -> list[tuple[str, Record]]:
        """Every event that names an artifact, with its run: runs in order of creation, events in order.

        Those are the ones whose envelope has a `reference` or the type `artifact_stored`.
        """

    async def strays(self, digests: AbstractSet[str]) -> list[Stray]:
        """What lies among the artifacts and is none of these."""

    async def heads(self, query: Query) -> list[Head]:
        """Runs, newest first."""

    async def send(self, message: Message) -> bool:
        """Put a message into a run's inbox. Returns False if one with this id is there.

        Raises RunNotFoundError.
        """

    async def inbox(self, run: str) -> list[Message]:
        """Messages that no event has taken in yet, oldest first."""

    async def timers(self, *, due_until: Instant) -> list[tuple[str, Timer]]:
        """Runs with a timer due by then, in due order."""

    async def enlist(self, worker: Worker) -> None:
        """Make a worker known, with its lease."""

    def renew(self, worker: str, until: Instant) -> None:
        """Move the end of a lease. May be called from any thread; returns when it is written."""

    async def worker(self, worker: str) -> Worker | None:
        """A worker's row, or None."""

    async def discharge(self, worker: str) -> None:
        """Forget a worker; runs it still owns are free."""
