"""The SQLite store: one file, one writer thread, group commit.

Writes are collected on the event loop and cross to the writer thread as one batch, which is one transaction and one
sync; the next batch starts when the last returns, without a timer. A lone small write, on a disk that has been quick,
is committed on the event loop itself: that takes less time than two changes of threads. A write checks its guard before
it changes anything, so a refused one fails alone and leaves no trace in the batch. Reads have a thread and a connection
of their own. WAL with synchronous=FULL: what was acknowledged survives a kill and a power cut.

Artifacts are files in a folder beside the database, on disk before the transaction whose events name them begins.
"""

import asyncio
import contextlib
import os
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from pathlib import Path
from typing import Any, NamedTuple, TypeVar, cast

import apsw
import msgspec

from counterfoil.core.clock import SECOND, Instant
from counterfoil.core.events import NAMES_AN_ARTIFACT, Record
from counterfoil.core.state import Status
from counterfoil.errors import (
    CounterfoilError,
    IllegalTransitionError,
    JournalDamagedError,
    NotAStoreError,
    RunNotFoundError,
    RunOwnedError,
    StaleEpochError,
    StoreClosedError,
    StoreUnavailableError,
)
from counterfoil.store import Append, Head, Message, NewRun, Query, Stray, Timer, Worker
from counterfoil.stores import migrate
from counterfoil.stores.files import ArtifactFiles
from counterfoil.stores.lane import Lane

T = TypeVar("T")
APPLICATION_ID = 0x43464C31  # "CFL1" in the file's header
BUSY_TIMEOUT_MS = 30_000
SWITCH_PAUSE_MS = 2
CHECKPOINT_PAGES = 4000
BATCH_WRITES_MAX = 1024
QUICK_SECONDS = 0.002
QUICK_COMMITS_MIN = 8
"""After so many commits in a row that each took less than that, a lone one may be made on the event loop."""

SMALL_BYTES = 65_536
WORKER_KEPT_SECONDS = 86_400
NONE: Mapping[str, bytes] = {}

_HEADS = "SELECT key, id, workflow, status, reason, tags, epoch, owner, last_seq, head, created, updated FROM runs"
_WALK = """
WITH RECURSIVE walk(id, prev) AS (
    SELECT e.id, e.prev FROM runs AS r CROSS JOIN events AS e ON e.id = r.head_id WHERE r.key = ?
    UNION ALL
    SELECT e.id, e.prev FROM walk AS w CROSS JOIN events AS e ON e.id = w.prev AND e.id < w.id)
SELECT e.seq, CAST(e.envelope AS BLOB), CAST(e.commitment AS BLOB), CAST(e.salt AS BLOB),
       CAST(e.body AS BLOB), CAST(e.hash AS BLOB)
  FROM walk CROSS JOIN events AS e ON e.id = walk.id
"""
_REFERENCES = """
SELECT r.key, e.seq, CAST(e.envelope AS BLOB), CAST(e.commitment AS BLOB), CAST(e.salt AS BLOB),
       CAST(e.body AS BLOB), CAST(e.hash AS BLOB)
  FROM events AS e JOIN runs AS r ON r.id = e.run
 WHERE instr(CAST(e.envelope AS BLOB), ?) OR instr(CAST(e.envelope AS BLOB), ?)
 ORDER BY e.run, e.seq
"""
_INSERT_EVENT = "INSERT INTO events VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)"
_MOVE_HEAD = "UPDATE runs SET last_seq = ?, head_id = ?, head = ? WHERE id = ? AND epoch = ? AND last_seq = ?"


class _Acknowledgement(asyncio.Future[Any]):
    """Done when a write is on disk. A cancelled waiter learns of it after that, and can't cancel the write."""

    def cancel(self, msg: Any | None = None) -> bool:
        return False


class _Write(NamedTuple):
    work: Callable[["_Transaction"], Any]
    done: _Acknowledgement
    is_small: bool
    artifacts: Mapping[str, bytes]


class _Place(NamedTuple):
    """Where a run's journal ends, as the writer last wrote it."""

    row: int
    head_id: int


class SqliteStore:
    """Journals in one SQLite file. Several processes may use the file; one of them drives a given run."""

    def __init__(self, path: Path) -> None:
        self.path = path.absolute()
        self.name = f"sqlite:///{path}"
        self.locks: Path | None = self.path.with_name(self.path.name + "-workers")
        self._closed = True
        self._waiting: list[_Write] = []
        self._busy = False
        self._quick_commits = 0  # in a row
        self._is_checkpoint_due = False
        self._writer: Lane[apsw.Connection] = Lane(f"counterfoil-writer {self.path.name}")
        self._reader: Lane[apsw.Connection] = Lane(f"counterfoil-reader {self.path.name}")

    async def open(self) -> None:
        """See Store. Makes the file, readable by its owner only, when there is none."""
        self._loop = asyncio.get_running_loop()
        await self._writer.start(self._open_writer)
        try:
            await self._reader.start(self._open_reader)
        except BaseException:
            self._writer.stop()
            raise
        self._closed = False

    async def close(self) -> None:
        """See Store."""
        if self._closed:
            return
        self._closed = True
        while self._busy or self._waiting:
            last = self._submit(lambda _: None)
            await asyncio.wait([last])
            last.exception()  # those who wrote were told
        self._reader.stop()
        self._writer.stop()

    async def start(self, new: NewRun) -> tuple[Head, bool]:
        """See Store."""
        if new.artifacts and (head := await self.head(new.run)):
            return head, False
        return cast("tuple[Head, bool]", await self._write(lambda tx: tx.start(new), artifacts=new.artifacts))

    async def take(self, run: str, worker: str, *, now: Instant, dead: AbstractSet[str] = frozenset()) -> Head:
        """See Store."""
        return cast("Head", await self._write(lambda tx: tx.take(run, worker, now, dead=dead)))

    def append(self, append: Append) -> Awaitable[None]:
        """See Store."""
        size = sum(len(record.body or b"") for record in append.records)
        return self._write(lambda tx: tx.append(append), is_small=size <= SMALL_BYTES, artifacts=append.artifacts)

    async def head(self, run: str) -> Head | None:
        """See Store."""
        return await self._read(lambda db: _head(db, run))

    async def read(self, run: str) -> list[Record]:
        """See Store."""
        rows = await self._read(lambda db: db.execute(_WALK, (run,)).fetchall())
        return [Record(*row) for row in reversed(rows)]

    async def artifact(self, digest: str) -> bytes | None:
        """See Store. What is no plain file is none: a link may point to something else tomorrow."""
        return await self._read(lambda _: self._files.content(digest))

    async def references(self) -> list[tuple[str, Record]]:
        """See Store."""
        rows: list[Any] = await self._read(lambda db: db.execute(_REFERENCES, NAMES_AN_ARTIFACT).fetchall())
        return [(run, Record(*record)) for run, *record in rows]

    async def strays(self, digests: AbstractSet[str]) -> list[Stray]:
        """See Store."""
        found = await self._read(lambda _: list(self._files.strays(digests)))
        return [Stray(name, size) for name, size in found]

    async def heads(self, query: Query) -> list[Head]:
        """See Store."""
        return await self._read(lambda db: [_as_head(row) for row in db.execute(*_listing(query))])

    async def send(self, message: Message) -> bool:
        """See Store."""
        return cast("bool", await self._write(lambda tx: tx.send(message)))

    async def inbox(self, run: str) -> list[Message]:
        """See Store."""
        sql = """SELECT kind, key, body, who, time FROM inbox
                  WHERE taken = 0 AND run = (SELECT id FROM runs WHERE key = ?) ORDER BY id"""
        rows: list[Any] = await self._read(lambda db: db.execute(sql, (run,)).fetchall())
        return [
            Message(run=run, kind=kind, id=key, body=body, who=who, time=time) for kind, key, body, who, time in rows
        ]

    async def timers(self, *, due_until: Instant) -> list[tuple[str, Timer]]:
        """See Store."""
        sql = """SELECT r.key, t.step, t.due FROM timers AS t JOIN runs AS r ON r.id = t.run
                  WHERE t.due <= ? ORDER BY t.due, r.key, t.step"""
        rows: list[Any] = await self._read(lambda db: db.execute(sql, (due_until,)).fetchall())
        return [(run, Timer(step, due)) for run, step, due in rows]

    async def enlist(self, worker: Worker) -> None:
        """See Store."""
        await self._write(lambda tx: tx.enlist(worker))

    def renew(self, worker: str, until: Instant) -> None:
        """See Store. Waits for the writer thread, not for the event loop."""
        self._check_open()
        sql = "UPDATE workers SET until = ? WHERE id = ?"
        try:
            self._writer.submit(lambda db: db.execute(sql, (until, worker))).result()
        except apsw.Error as error:
            raise _translated(error, self.name) from error

    async def worker(self, worker: str) -> Worker | None:
        """See Store."""
        sql = "SELECT id, host, until FROM workers WHERE id = ?"
        row = await self._read(lambda db: db.execute(sql, (worker,)).fetchone())
        return Worker(id=row[0], host=row[1], until=row[2]) if row else None

    async def discharge(self, worker: str) -> None:
        """See Store."""
        await self._write(lambda tx: tx.discharge(worker))

    # --- the writer ---

    def _write(
        self, work: Callable[["_Transaction"], Any], *, is_small: bool = True, artifacts: Mapping[str, bytes] = NONE
    ) -> Awaitable[Any]:
        self._check_open()
        return self._submit(work, is_small=is_small and not artifacts, artifacts=artifacts)

    def _submit(
        self, work: Callable[["_Transaction"], Any], *, is_small: bool = True, artifacts: Mapping[str, bytes] = NONE
    ) -> _Acknowledgement:
        done = _Acknowledgement(loop=self._loop)
        self._waiting.append(_Write(work, done, is_small, artifacts))
        if not self._busy:
            self._busy = True
            self._loop.call_soon(self._flush)
        return done

    def _flush(self) -> None:
        batch, self._waiting = self._waiting[:BATCH_WRITES_MAX], self._waiting[BATCH_WRITES_MAX:]
        may_be_here = len(batch) == 1 and batch[0].is_small and self._quick_commits >= QUICK_COMMITS_MIN
        if not (may_be_here and self._writer.here(lambda db: self._commit_here(db, batch))):
            self._writer.put(lambda db: self._commit(db, batch))

    def _commit_here(self, db: apsw.Connection, batch: list[_Write]) -> bool:
        """On the event loop. False, with nothing done, when another process is writing: that wait is for the thread."""
        db.set_busy_timeout(0)
        try:
            db.execute("BEGIN IMMEDIATE")
        except apsw.Error:
            return False
        finally:
            db.set_busy_timeout(BUSY_TIMEOUT_MS)
        self._acknowledge(batch, self._committed(db, batch))
        return True

    def _commit(self, db: apsw.Connection, batch: list[_Write]) -> Callable[[], None]:
        """Runs in the writer thread."""
        results = self._committed(db, self._with_artifacts(batch))

        def tell() -> None:
            with contextlib.suppress(RuntimeError):  # the loop has ended without closing us; nobody waits
                self._loop.call_soon_threadsafe(self._acknowledge, batch, results)

        return tell

    def _with_artifacts(self, batch: list[_Write]) -> list[_Write]:
        """Put the artifacts on disk. A write whose own can't be put there is refused, alone."""
        artifacts = {digest: content for write in batch for digest, content in write.artifacts.items()}
        wrong = self._files.keep(artifacts) if artifacts else {}
        return [self._refused(write, wrong) for write in batch] if wrong else batch

    def _refused(self, write: _Write, wrong: Mapping[str, Exception]) -> _Write:
        errors = [wrong[digest] for digest in write.artifacts if digest in wrong]

        def refuse(_: "_Transaction") -> None:
            error = errors[0]
            raise self._unavailable(error) if isinstance(error, OSError) else error from error

        return write._replace(work=refuse) if errors else write

    def _committed(self, db: apsw.Connection, batch: list[_Write]) -> list[Any]:
        """A result or an error for each write. One that can't be bound, such as a number too large, fails alone."""
        begun = time.perf_counter()
        try:
            results = _Transaction(db, self._places, self.name).run(batch)
        except Exception as error:  # noqa: BLE001 - handed to the waiters, whole
            self._places.clear()
            is_shared = isinstance(error, apsw.Error) and not isinstance(error, apsw.TooBigError)
            if is_shared or len(batch) == 1:
                return [_translated(error, self.name) if isinstance(error, apsw.Error) else error] * len(batch)
            return [self._committed(db, [write])[0] for write in batch]
        is_quick = time.perf_counter() - begun < QUICK_SECONDS
        self._quick_commits = self._quick_commits + 1 if is_quick else 0
        return results

    def _note_pages(self, _db: apsw.Connection, _name: str, pages: int) -> int:
        """After each commit: let the thread move the log into the file when it is long, never the event loop."""
        if pages >= CHECKPOINT_PAGES and not self._is_checkpoint_due:
            self._is_checkpoint_due = True
            self._writer.put(self._checkpoint)
        return apsw.SQLITE_OK

    def _checkpoint(self, db: apsw.Connection) -> Callable[[], None]:
        self._is_checkpoint_due = False
        with contextlib.suppress(apsw.Error):  # a reader is in the way; the next commit asks again
            db.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_PASSIVE)
        return lambda: None

    def _acknowledge(self, batch: list[_Write], results: list[Any]) -> None:
        for write, result in zip(batch, results, strict=True):
            if isinstance(result, BaseException):
                write.done.set_exception(result)
            else:
                write.done.set_result(result)
        if self._waiting:
            self._loop.call_soon(self._flush)  # behind the waiters just woken, whose next writes come along
        else:
            self._busy = False

    # --- connections ---

    async def _read(self, work: Callable[[apsw.Connection], T]) -> T:
        self._check_open()
        try:
            return await asyncio.wrap_future(self._reader.submit(work), loop=self._loop)
        except apsw.Error as error:
            raise _translated(error, self.name) from error
        except OSError as error:
            raise self._unavailable(error) from error

    def _unavailable(self, error: OSError) -> StoreUnavailableError:
        return StoreUnavailableError(store=self.name, problem=error.strerror or str(error))

    def _check_open(self) -> None:
        if self._closed:
            raise StoreClosedError(store=self.name)

    def _open_writer(self) -> apsw.Connection:
        self._places: dict[str, _Place] = {}
        try:
            with contextlib.suppress(FileExistsError):
                os.close(os.open(self.path, os.O_CREAT | os.O_EXCL, 0o600))
            log_is_ours = not os.path.exists(f"{self.path}-wal")
            db = apsw.Connection(str(self.path))
            try:
                _prepare(db, self.name)
                self._files = self._open_files(db)
                db.set_wal_hook(self._note_pages)  # instead of SQLite's own, which would work within a commit
            except BaseException:  # leave the file as it was, and a log that was there to whoever wrote it
                db.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, not log_is_ours)
                db.close()
                raise
        except OSError as error:
            raise self._unavailable(error) from error
        except apsw.Error as error:
            raise _translated(error, self.name) from error
        return db

    def _open_files(self, db: apsw.Connection) -> ArtifactFiles:
        key = db.execute("SELECT key FROM artifact_key").get
        if not isinstance(key, bytes):
            raise StoreUnavailableError(store=self.name, problem="the key that names its artifacts is gone")
        path = self.path.resolve()  # SQLite follows links too: by whatever name it is opened, it has one folder
        files = ArtifactFiles(path.with_name(path.name + "-artifacts"), key, path.stat().st_mode)
        files.sweep()
        return files

    def _open_reader(self) -> apsw.Connection:
        """Only the writer checkpoints."""
        db = apsw.Connection(str(self.path))
        db.set_busy_timeout(BUSY_TIMEOUT_MS)
        db.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)
        db.execute("PRAGMA query_only = ON; PRAGMA wal_autocheckpoint = 0")
        return db


class _Transaction:
    """One transaction of the writer. Every write checks first and changes after, so that it can fail alone."""

    def __init__(self, db: apsw.Connection, places: dict[str, _Place], store: str) -> None:
        self._db, self._places, self._store = db, places, store
        self._events: list[tuple[Any, ...]] = []

    def run(self, batch: list[_Write]) -> list[Any]:
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

    def _attempt(self, write: _Write) -> Any:
        try:
            return write.work(self)
        except CounterfoilError as error:
            return error

    def start(self, new: NewRun) -> tuple[Head, bool]:
        existing = _head(self._db, new.run)
        if existing:
            return existing, False
        sql = "INSERT INTO runs VALUES (NULL, ?, ?, ?, NULL, ?, ?, ?, ?, ?, ?, ?, ?)"
        epoch = 1 if new.owner else 0
        tags = msgspec.json.encode(new.tags).decode()
        identity = (new.run, new.workflow, Status.PENDING.value, tags, epoch, new.owner)
        self._db.execute(sql, (*identity, 0, self._next_id, new.record.hash, new.now, new.now))
        self._places[new.run] = _Place(self._db.last_insert_rowid(), 0)
        self._link(new.run, [new.record])
        return cast("Head", _head(self._db, new.run)), True

    def take(self, run: str, worker: str, now: Instant, *, dead: AbstractSet[str]) -> Head:
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
        place = self._place(append.run)
        last = append.records[-1]
        head = (last.seq, self._next_id + len(append.records) - 1, last.hash)
        self._db.execute(_MOVE_HEAD, (*head, place.row, append.epoch, append.expected))
        if self._db.changes() != 1:
            raise StaleEpochError(run=append.run, epoch=append.epoch, revision=append.expected)
        self._link(append.run, append.records)
        if append.status is not None or append.release:
            self._move(place.row, append)
        if append.timer_set or append.timer_cleared or append.taken:
            self._settle_parts(place.row, append)

    def send(self, message: Message) -> bool:
        self._known(message.run)
        sql = """INSERT INTO inbox (run, kind, key, body, who, time)
                 SELECT id, ?, ?, ?, ?, ? FROM runs WHERE key = ? ON CONFLICT (key) DO NOTHING"""
        self._db.execute(sql, (message.kind, message.id, message.body, message.who, message.time, message.run))
        return self._db.changes() == 1

    def enlist(self, worker: Worker) -> None:
        self._db.execute("DELETE FROM workers WHERE until < ?", (worker.until - WORKER_KEPT_SECONDS * SECOND,))
        self._db.execute("INSERT OR REPLACE INTO workers VALUES (?, ?, ?)", (worker.id, worker.host, worker.until))

    def discharge(self, worker: str) -> None:
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
        self._places[run] = _Place(row, previous)

    def _move(self, row: int, append: Append) -> None:
        if append.status is not None:
            sql = "UPDATE runs SET status = ?, reason = ?, updated = ? WHERE id = ?"
            self._db.execute(sql, (append.status.value, append.reason, append.now, row))
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
        for key in append.taken:
            self._db.execute("UPDATE inbox SET taken = 1 WHERE key = ? AND run = ?", (key, row))

    def _place(self, run: str) -> _Place:
        if run not in self._places:
            found = self._db.execute("SELECT id, head_id FROM runs WHERE key = ?", (run,)).fetchone()
            if not found:
                raise RunNotFoundError(run=run, store=self._store)
            self._places[run] = _Place(*found)
        return self._places[run]

    def _known(self, run: str) -> Head:
        head = _head(self._db, run)
        if head is None:
            raise RunNotFoundError(run=run, store=self._store)
        return head


def _head(db: apsw.Connection, run: str) -> Head | None:
    row = db.execute(_HEADS + " WHERE key = ?", (run,)).fetchone()
    return _as_head(row) if row else None


def _as_head(row: Any) -> Head:
    """The head in a row of _HEADS, each part of the type that we write: SQLite keeps anything in any column."""
    found = dict(zip(Head.__struct_fields__, row, strict=True))
    try:
        return msgspec.convert(found | {"tags": msgspec.json.decode(found["tags"])}, Head, builtin_types=(bytes,))
    except (ValueError, TypeError, msgspec.MsgspecError) as error:
        run, seq = str(found["run"]), found["seq"] if isinstance(found["seq"], int) else 0
        raise JournalDamagedError(run=run, seq=seq, problem=f"its run's row can't be read: {error}") from error


_LISTING = """
 WHERE (:before IS NULL OR id < :before)
   AND (:workflow IS NULL OR workflow = :workflow)
   AND (:statuses = '[]' OR status IN (SELECT value FROM json_each(:statuses)))
   AND NOT EXISTS (SELECT 1 FROM json_each(:tags) AS wanted WHERE NOT EXISTS (
       SELECT 1 FROM json_each(runs.tags) AS found
        WHERE found.key = wanted.key AND found.value = wanted.value))
 ORDER BY id DESC LIMIT :limit
"""


def _listing(query: Query) -> tuple[str, dict[str, Any]]:
    wanted = {
        "statuses": msgspec.json.encode(list(query.statuses)).decode(),
        "tags": msgspec.json.encode(query.tags).decode(),
    }
    return _HEADS + _LISTING, {"before": query.before, "workflow": query.workflow, "limit": query.limit, **wanted}


def _prepare(db: apsw.Connection, store: str) -> None:
    """Make a connection the writer's. Raises before anything is written when the file is not ours, or newer."""
    db.set_busy_timeout(BUSY_TIMEOUT_MS)
    _migrate(db, store)
    db.execute("PRAGMA synchronous = FULL; PRAGMA fullfsync = ON")


def _migrate(db: apsw.Connection, store: str) -> None:
    """Bring the schema up to date; refuse a foreign or a newer file before anything is written."""
    is_new = not db.pragma("schema_version")  # read first: the file may become a store while we look
    version, application = db.pragma("user_version"), db.pragma("application_id")
    if application != APPLICATION_ID and not is_new:
        raise NotAStoreError(store=store, problem="it is a SQLite database of another program")
    scripts = migrate.pending("sqlite", found=version, store=store)
    if not scripts:
        return
    _log_ahead(db)
    db.execute("BEGIN IMMEDIATE")
    if db.pragma("user_version") == version:  # else another process was quicker
        for script in scripts:
            db.execute(script)
        db.execute(f"PRAGMA application_id = {APPLICATION_ID}; PRAGMA user_version = {version + len(scripts)}")
    db.execute("COMMIT")


def _log_ahead(db: apsw.Connection) -> None:
    """Switch to a write-ahead log. SQLite does not wait for others who open the file now, so this does."""
    for _ in range(BUSY_TIMEOUT_MS // SWITCH_PAUSE_MS):
        with contextlib.suppress(apsw.BusyError):
            db.execute("PRAGMA journal_mode = WAL")
            return
        time.sleep(SWITCH_PAUSE_MS / 1000)
    db.execute("PRAGMA journal_mode = WAL")


def _translated(error: apsw.Error, store: str) -> CounterfoilError:
    """Our error for one of the driver's."""
    if isinstance(error, apsw.NotADBError):
        return NotAStoreError(store=store, problem="it is not a SQLite database")
    return StoreUnavailableError(store=store, problem=str(error) or type(error).__name__)
