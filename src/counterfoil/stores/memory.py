"""The store in memory: the simplest correct implementation, and the oracle that the others are compared with.

Nothing survives the process. Everything happens on the event loop, so each method is atomic by itself.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from collections.abc import Set as AbstractSet
from pathlib import Path

import msgspec

from counterfoil.core.clock import SECOND, Instant
from counterfoil.core.events import NAMES_AN_ARTIFACT, Record
from counterfoil.core.state import Status
from counterfoil.errors import (
    IllegalTransitionError,
    RunNotFoundError,
    RunOwnedError,
    StaleEpochError,
    StoreClosedError,
)
from counterfoil.store import Append, Chunk, Head, Message, NewRun, Query, Stray, Stream, Timer, Worker


class MemoryStore:
    """Journals in dictionaries."""

    locks: Path | None = None

    def __init__(self, name: str = "memory://") -> None:
        self.name = name
        self._closed = False
        self._heads: dict[str, Head] = {}
        self._records: dict[str, list[Record]] = {}
        self._artifacts: dict[str, bytes] = {}
        self._inbox: dict[str, Message] = {}
        self._taken: set[str] = set()
        self._chunks: dict[tuple[str, Stream, int], Chunk] = {}
        self._timers: set[tuple[str, Timer]] = set()
        self._workers: dict[str, Worker] = {}

    async def open(self) -> None:
        """Nothing to make ready; a closed one is opened again with all it held."""
        self._closed = False

    async def close(self) -> None:
        """Refuse further calls."""
        self._closed = True

    async def start(self, new: NewRun) -> tuple[Head, bool]:
        """See Store."""
        self._check_open()
        if new.run in self._heads:
            return self._heads[new.run], False
        self._heads[new.run] = Head(
            run=new.run,
            number=len(self._heads) + 1,
            workflow=new.workflow,
            status=Status.PENDING,
            reason=None,
            tags=new.tags,
            epoch=1 if new.owner else 0,
            owner=new.owner,
            seq=new.record.seq,
            hash=new.record.hash,
            created=new.now,
            updated=new.now,
        )
        self._records[new.run] = [new.record]
        self._artifacts |= new.artifacts
        return self._heads[new.run], True

    async def take(self, run: str, worker: str, *, now: Instant, dead: AbstractSet[str] = frozenset()) -> Head:
        """See Store."""
        head = self._known(run)
        if head.status.is_final:
            raise IllegalTransitionError(run=run, event="take", subject=f"run {run}", state=head.status)
        owner = self._workers.get(head.owner or "")
        if owner and owner.id != worker and owner.id not in dead and owner.until > now:
            raise RunOwnedError(run=run, owner=owner.id, seconds_left=(owner.until - now) / SECOND)
        self._heads[run] = msgspec.structs.replace(head, epoch=head.epoch + 1, owner=worker)
        return self._heads[run]

    def append(self, append: Append) -> Awaitable[None]:
        """See Store."""
        return _done(lambda: self._append(append))

    def put_chunks(self, run: str, chunks: Sequence[Chunk], *, epoch: int) -> Awaitable[None]:
        """See Store."""
        return _done(lambda: self._put_chunks(run, chunks, epoch))

    async def chunks(self, run: str, *, stream: Stream | None = None, after: int = -1) -> list[Chunk]:
        """See Store."""
        self._check_open()
        found = [chunk for (of, *_), chunk in self._chunks.items() if of == run and chunk.number > after]
        wanted = [chunk for chunk in found if stream in {None, chunk.stream}]
        return sorted(wanted, key=lambda chunk: (chunk.stream.step, chunk.stream.try_number, chunk.number))

    async def head(self, run: str) -> Head | None:
        """See Store."""
        self._check_open()
        return self._heads.get(run)

    async def read(self, run: str) -> list[Record]:
        """See Store."""
        self._check_open()
        return list(self._records.get(run, ()))

    async def artifact(self, digest: str) -> bytes | None:
        """See Store."""
        self._check_open()
        return self._artifacts.get(digest)

    async def references(self) -> list[tuple[str, Record]]:
        """See Store."""
        self._check_open()
        records = [(run, record) for run, records in self._records.items() for record in records]
        return [pair for pair in records if any(mark in pair[1].envelope for mark in NAMES_AN_ARTIFACT)]

    async def strays(self, digests: AbstractSet[str]) -> list[Stray]:
        """See Store."""
        self._check_open()
        return [Stray(each, len(content)) for each, content in self._artifacts.items() if each not in digests]

    async def heads(self, query: Query) -> list[Head]:
        """See Store."""
        self._check_open()
        newest_first = sorted(self._heads.values(), key=lambda head: -head.number)
        return [head for head in newest_first if _fits(head, query)][: query.limit]

    async def send(self, message: Message) -> bool:
        """See Store."""
        self._known(message.run)
        is_new = message.id not in self._inbox
        self._inbox.setdefault(message.id, message)
        return is_new

    async def inbox(self, run: str) -> list[Message]:
        """See Store."""
        self._check_open()
        return [message for id_, message in self._inbox.items() if message.run == run and id_ not in self._taken]

    async def timers(self, *, due_until: Instant) -> list[tuple[str, Timer]]:
        """See Store."""
        self._check_open()
        due = [(run, timer) for run, timer in self._timers if timer.due <= due_until]
        return sorted(due, key=lambda pair: (pair[1].due, pair[0], pair[1].step))

    async def enlist(self, worker: Worker) -> None:
        """See Store."""
        self._check_open()
        self._workers[worker.id] = worker

    def renew(self, worker: str, until: Instant) -> None:
        """See Store."""
        self._check_open()
        if worker in self._workers:
            self._workers[worker] = msgspec.structs.replace(self._workers[worker], until=until)

    async def worker(self, worker: str) -> Worker | None:
        """See Store."""
        self._check_open()
        return self._workers.get(worker)

    async def discharge(self, worker: str) -> None:
        """See Store."""
        self._check_open()
        self._workers.pop(worker, None)

    def _append(self, append: Append) -> None:
        head = self._known(append.run)
        if (head.epoch, head.seq) != (append.epoch, append.expected):
            raise StaleEpochError(run=append.run, epoch=append.epoch, revision=append.expected)
        self._records[append.run] += append.records
        self._artifacts |= append.artifacts
        last = append.records[-1]
        changes: dict[str, object] = {"seq": last.seq, "hash": last.hash}
        if append.status is not None:
            changes |= {"status": append.status, "reason": append.reason, "updated": append.now}
        if append.release:
            changes["owner"] = None
        if append.totals:
            changes["totals"] = append.totals
        self._heads[append.run] = msgspec.structs.replace(head, **changes)
        if append.timer_set:
            self._timers.add((append.run, append.timer_set))
        if append.timer_cleared:
            self._timers.discard((append.run, append.timer_cleared))
        own = {id_ for id_, message in self._inbox.items() if message.run == append.run}
        self._taken |= own.intersection(append.taken)

        for key in [key for key in self._chunks if key[0] == append.run and key[1] in append.streams_held]:
            del self._chunks[key]

    def _put_chunks(self, run: str, chunks: Sequence[Chunk], epoch: int) -> None:
        head = self._known(run)
        if head.epoch != epoch:
            raise StaleEpochError(run=run, epoch=epoch, revision=head.seq)
        for chunk in chunks:
            self._chunks.setdefault((run, chunk.stream, chunk.number), chunk)

    def _known(self, run: str) -> Head:
        self._check_open()
        if run not in self._heads:
            raise RunNotFoundError(run=run, store=self.name)
        return self._heads[run]

    def _check_open(self) -> None:
        if self._closed:
            raise StoreClosedError(store=self.name)


def _done(work: Callable[[], None]) -> "asyncio.Future[None]":
    """What has been done, for whoever waits."""
    done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    try:
        work()
    except Exception as error:  # noqa: BLE001 - handed to the waiter, whole
        done.set_exception(error)
    else:
        done.set_result(None)
    return done


def _fits(head: Head, query: Query) -> bool:
    return (
        (not query.statuses or head.status in query.statuses)
        and query.workflow in {None, head.workflow}
        and query.tags.items() <= head.tags.items()
        and (query.before is None or head.number < query.before)
    )
