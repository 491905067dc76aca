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
from typing import Any, TypeVar, cast

import apsw

from counterfoil.core.clock import Instant
from counterfoil.core.events import Record
from counterfoil.errors import (
    CounterfoilError,
    NotAStoreError,
    StoreClosedError,
    StoreUnavailableError,
)
from counterfoil.store import Append, Chunk, Head, Message, NewRun, Query, Stray, Stream, Timer, Worker
from counterfoil.stores import migrate, queries
from counterfoil.stores.files import ArtifactFiles
from counterfoil.stores.lane import Lane
from counterfoil.stores.transaction import Acknowledgement, Place, Transaction, Write

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
NONE: Mapping[str, bytes] = {}


class SqliteStore:
    """Journals in one SQLite file. Several processes may use the file; one of them drives a given run."""

    def __init__(self, path: Path) -> None:
        self.path = path.absolute()
        self.name = f"sqlite:///{path}"
        self.locks: Path | None = self.path.with_name(self.path.name + "-workers")
        self._closed = True
        self._waiting: list[Write] = []
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

    def put_chunks(self, run: str, chunks: Sequence[Chunk], *, epoch: int) -> Awaitable[None]:
        """See Store. Never on the event loop: nobody waits for it."""
        return self._write(lambda tx: tx.put_chunks(run, chunks, epoch), is_small=False)

    async def chunks(self, run: str, *, stream: Stream | None = None, after: int = -1) -> list[Chunk]:
        """See Store."""
        return await self._read(lambda db: queries.chunks(db, run, stream=stream, after=after))

    async def head(self, run: str) -> Head | None:
        """See Store."""
        return await self._read(lambda db: queries.head(db, run))

    async def read(self, run: str) -> list[Record]:
        """See Store."""
        return await self._read(lambda db: queries.records(db, run))

    async def artifact(self, digest: str) -> bytes | None:
        """See Store. What is no plain file is none: a link may point to something else tomorrow."""
        return await self._read(lambda _: self._files.content(digest))

    async def references(self) -> list[tuple[str, Record]]:
        """See Store."""
        return await self._read(queries.references)

    async def strays(self, digests: AbstractSet[str]) -> list[Stray]:
        """See Store."""
        found = await self._read(lambda _: list(self._files.strays(digests)))
        return [Stray(name, size) for name, size in found]

    async def heads(self, query: Query) -> list[Head]:
        """See Store."""
        return await self._read(lambda db: queries.heads(db, query))

    async def send(self, message: Message) -> bool:
        """See Store."""
        return cast("bool", await self._write(lambda tx: tx.send(message)))

    async def inbox(self, run: str) -> list[Message]:
        """See Store."""
        return await self._read(lambda db: queries.inbox(db, run))

    async def timers(self, *, due_until: Instant) -> list[tuple[str, Timer]]:
        """See Store."""
        return await self._read(lambda db: queries.timers(db, due_until))

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
        return await self._read(lambda db: queries.worker(db, worker))

    async def discharge(self, worker: str) -> None:
        """See Store."""
        await self._write(lambda tx: tx.discharge(worker))

    # --- the writer ---

    def _write(
        self, work: Callable[[Transaction], Any], *, is_small: bool = True, artifacts: Mapping[str, bytes] = NONE
    ) -> Awaitable[Any]:
        self._check_open()
        return self._submit(work, is_small=is_small and not artifacts, artifacts=artifacts)

    def _submit(
        self, work: Callable[[Transaction], Any], *, is_small: bool = True, artifacts: Mapping[str, bytes] = NONE
    ) -> Acknowledgement:
        done = Acknowledgement(loop=self._loop)
        self._waiting.append(Write(work, done, is_small, artifacts))
        if not self._busy:
            self._busy = True
            self._loop.call_soon(self._flush)
        return done

    def _flush(self) -> None:
        batch, self._waiting = self._waiting[:BATCH_WRITES_MAX], self._waiting[BATCH_WRITES_MAX:]
        may_be_here = len(batch) == 1 and batch[0].is_small and self._quick_commits >= QUICK_COMMITS_MIN
        if not (may_be_here and self._writer.here(lambda db: self._commit_here(db, batch))):
            self._writer.put(lambda db: self._commit(db, batch))

    def _commit_here(self, db: apsw.Connection, batch: list[Write]) -> bool:
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

    def _commit(self, db: apsw.Connection, batch: list[Write]) -> Callable[[], None]:
        """Runs in the writer thread."""
        results = self._committed(db, self._with_artifacts(batch))

        def tell() -> None:
            with contextlib.suppress(RuntimeError):  # the loop has ended without closing us; nobody waits
                self._loop.call_soon_threadsafe(self._acknowledge, batch, results)

        return tell

    def _with_artifacts(self, batch: list[Write]) -> list[Write]:
        """Put the artifacts on disk. A write whose own can't be put there is refused, alone."""
        artifacts = {digest: content for write in batch for digest, content in write.artifacts.items()}
        wrong = self._files.keep(artifacts) if artifacts else {}
        return [self._refused(write, wrong) for write in batch] if wrong else batch

    def _refused(self, write: Write, wrong: Mapping[str, Exception]) -> Write:
        errors = [wrong[digest] for digest in write.artifacts if digest in wrong]

        def refuse(_: Transaction) -> None:
            error = errors[0]
            raise self._unavailable(error) if isinstance(error, OSError) else error from error

        return write._replace(work=refuse) if errors else write

    def _committed(self, db: apsw.Connection, batch: list[Write]) -> list[Any]:
        """A result or an error for each write. One that can't be bound, such as a number too large, fails alone."""
        begun = time.perf_counter()
        try:
            results = Transaction(db, self._places, self.name).run(batch)
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

    def _acknowledge(self, batch: list[Write], results: list[Any]) -> None:
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
        self._places: dict[str, Place] = {}
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
