"""One transaction of the SQLite writer: a batch of writes, each of which may fail alone and leave no trace.

Every write checks its guard before it changes anything.
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Any, NamedTuple, cast

import apsw
import msgspec

from counterfoil.core.clock import SECOND, Instant
from counterfoil.core.events import Record
from counterfoil.core.state import Status
from counterfoil.errors import (
    CounterfoilError,
    IllegalTransitionError,
    RunNotFoundError,
    RunOwnedError,
    StaleEpochError,
)
from counterfoil.store import Append, Chunk, Head, Message, NewRun, Worker
from counterfoil.stores import queries

WORKER_KEPT_SECONDS = 86_400
_INSERT_EVENT = "INSERT INTO events VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)"
_MOVE_HEAD = "UPDATE runs SET last_seq = ?, head_id = ?, head = ? WHERE id = ? AND epoch = ? AND last_seq = ?"


class Acknowledgement(asyncio.Future[Any]):
    """Done when a write is on disk. A cancelled waiter learns of it after that, and can't cancel the write."""

    def cancel(self, msg: Any | None = None) -> bool:
        """Nothing is cancelled."""
        return False


class Write(NamedTuple):
    """What is to be done in a transaction, and who is told of it."""

    work: Callable[["Transaction"], Any]
    done: Acknowledgement
    is_small: bool
    artifacts: Mapping[str, bytes]


class Place(NamedTuple):
    """Where a run's journal ends, as the writer last wrote it."""

    row: int
    head_id: int


class Transaction:
    """One transaction of the writer. Every write checks first and changes after, so that it can fail alone."""

    def __init__(self, db: apsw.Connection, places: dict[str, Place], store: str) -> None:
        self._db, self._places, self._store = db, places, store
        self._events: list[tuple[Any, ...]] = []

    def run(self, batch: list[Write]) -> list[Any]:
        """Commit the batch; a result or an error for each write."""
        if not self._db.in_transaction:
            self._db.execute("BEGIN IMMEDIATE")
        try:
            self._next_id: int = self._db.execute("SELECT coalesce(max(id), 0) + 1 FROM events").get
            results = [self._attempt(write) for write in batch]
            if self._events:
                self._db.executemany(_INSERT_EVENT, self._events)
            self._db.execute("COMMIT")
        except BaseException:
            if self._db.in_transaction:
                self._db.execute("ROLLBACK")
            raise
        return results

    def _attempt(self, write: Write) -> Any:
        try:
            return write.work(self)
        except CounterfoilError as error:
            return error

    def start(self, new: NewRun) -> tuple[Head, bool]:
        """See Store."""
        existing = queries.head(self._db, new.run)
        if existing:
            return existing, False
        sql = "INSERT INTO runs VALUES (NULL, ?, ?, ?, NULL, ?, ?, ?, ?, ?, ?, ?, ?, x'')"
        epoch = 1 if new.owner else 0
        tags = msgspec.json.encode(new.tags).decode()
        identity = (new.run, new.workflow, Status.PENDING.value, tags, epoch, new.owner)
        self._db.execute(sql, (*identity, 0, self._next_id, new.record.hash, new.now, new.now))
        self._places[new.run] = Place(self._db.last_insert_rowid(), 0)
        self._link(new.run, [new.record])
        return cast("Head", queries.head(self._db, new.run)), True

    def take(self, run: str, worker: str, now: Instant, *, dead: AbstractSet[str]) -> Head:
        """See Store."""
        head = self._known(run)
        if head.status.is_final:
            raise IllegalTransitionError(run=run, event="take", subject=f"run {run}", state=head.status)
        if head.owner not in {None, worker, *dead}:
            until = self._db.execute("SELECT until FROM workers WHERE id = ?", (head.owner,)).fetchone()
            if until and until[0] > now:
                raise RunOwnedError(run=run, owner=head.owner, seconds_left=(until[0] - now) / SECOND)
        self._db.execute("UPDATE runs SET epoch = epoch + 1, owner = ? WHERE key = ?", (worker, run))
        self._places.pop(run, None)
        return msgspec.structs.replace(head, epoch=head.epoch + 1, owner=worker)

    def append(self, append: Append) -> None:
        """See Store."""
        place = self._place(append.run)
        last = append.records[-1]
        head = (last.seq, self._next_id + len(append.records) - 1, last.hash)
        self._db.execute(_MOVE_HEAD, (*head, place.row, append.epoch, append.expected))
        if self._db.changes() != 1:
            raise StaleEpochError(run=append.run, epoch=append.epoch, revision=append.expected)
        self._link(append.run, append.records)
        if append.status is not None or append.release or append.totals:
            self._move(place.row, append)
        if append.timer_set or append.timer_cleared or append.taken or append.streams_held:
            self._settle_parts(place.row, append)

    def put_chunks(self, run: str, chunks: Sequence[Chunk], epoch: int) -> None:
        """See Store."""
        head = self._known(run)
        if head.epoch != epoch:
            raise StaleEpochError(run=run, epoch=epoch, revision=head.seq)
        rows = [(head.number, each.stream.step, each.stream.try_number, each.number, each.text) for each in chunks]
        self._db.executemany("INSERT OR IGNORE INTO stream_chunks VALUES (?, ?, ?, ?, ?)", rows)

    def send(self, message: Message) -> bool:
        """See Store."""
        self._known(message.run)
        sql = """INSERT INTO inbox (run, kind, key, body, who, time)
                 SELECT id, ?, ?, ?, ?, ? FROM runs WHERE key = ? ON CONFLICT (key) DO NOTHING"""
        self._db.execute(sql, (message.kind, message.id, message.body, message.who, message.time, message.run))
        return self._db.changes() == 1

    def enlist(self, worker: Worker) -> None:
        """See Store."""
        self._db.execute("DELETE FROM workers WHERE until < ?", (worker.until - WORKER_KEPT_SECONDS * SECOND,))
        self._db.execute("INSERT OR REPLACE INTO workers VALUES (?, ?, ?)", (worker.id, worker.host, worker.until))

    def discharge(self, worker: str) -> None:
        """See Store."""
        self._db.execute("DELETE FROM workers WHERE id = ?", (worker,))

    def _link(self, run: str, records: Sequence[Record]) -> None:
        """Queue the rows of a run's next events, each pointing at the one before."""
        row, previous = self._places[run]
        for record in records:
            self._events.append((
                self._next_id, row, record.seq, previous,
                record.envelope, record.commitment, record.salt, record.body, record.hash,
            ))  # fmt: skip
            previous = self._next_id
            self._next_id += 1
        self._places[run] = Place(row, previous)

    def _move(self, row: int, append: Append) -> None:
        if append.status is not None:
            sql = "UPDATE runs SET status = ?, reason = ?, updated = ? WHERE id = ?"
            self._db.execute(sql, (append.status.value, append.reason, append.now, row))
        if append.totals:
            self._db.execute("UPDATE runs SET totals = ? WHERE id = ?", (append.totals, row))
        if append.release:
            self._db.execute("UPDATE runs SET owner = NULL WHERE id = ?", (row,))
            self._places.pop(append.run, None)

    def _settle_parts(self, row: int, append: Append) -> None:
        if append.timer_set:
            self._db.execute(
                "INSERT OR IGNORE INTO timers VALUES (?, ?, ?)", (append.timer_set.due, row, append.timer_set.step)
            )
        if append.timer_cleared:
            sql = "DELETE FROM timers WHERE due = ? AND run = ? AND step = ?"
            self._db.execute(sql, (append.timer_cleared.due, row, append.timer_cleared.step))
        for stream in append.streams_held:
            sql = "DELETE FROM stream_chunks WHERE run = ? AND step = ? AND try = ?"
            self._db.execute(sql, (row, stream.step, stream.try_number))
        for key in append.taken:
            self._db.execute("UPDATE inbox SET taken = 1 WHERE key = ? AND run = ?", (key, row))

    def _place(self, run: str) -> Place:
        if run not in self._places:
            found = self._db.execute("SELECT id, head_id FROM runs WHERE key = ?", (run,)).fetchone()
            if not found:
                raise RunNotFoundError(run=run, store=self._store)
            self._places[run] = Place(*found)
        return self._places[run]

    def _known(self, run: str) -> Head:
        head = queries.head(self._db, run)
        if head is None:
            raise RunNotFoundError(run=run, store=self._store)
        return head
