"""Whether a worker lives: its lease in the store, and a lock file on this host.

A process that holds runs keeps a POSIX lock on a file of its own. The kernel drops the lock when the process dies,
however it dies, so on the same host a dead owner is known at once. Any other owner is waited for until its lease has
lapsed. `lockf`, not `flock`: a forked child keeps an flock.
"""

import contextlib
import fcntl
import os
import threading
from pathlib import Path

from counterfoil.core.clock import SECOND, after
from counterfoil.engine.system import System
from counterfoil.errors import CounterfoilError, StoreUnavailableError
from counterfoil.store import Store, Worker

LEASE_SECONDS = 30.0
RENEWALS_PER_LEASE = 3
LOCK_FILE_KEPT_SECONDS = 86_400

_held: set[str] = set()
"""Workers of this process, by whatever path their locks are found: it must never probe those, since closing any
descriptor of a file drops the lock."""


class LockFile:
    """This process's lock for one worker id."""

    def __init__(self, folder: Path, worker: str) -> None:
        self._path = folder / worker
        self._descriptor = _created(self._path)
        _held.add(worker)
        fcntl.lockf(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)

    def release(self) -> None:
        """Let go and leave nothing behind."""
        self._path.unlink(missing_ok=True)
        os.close(self._descriptor)
        _held.discard(self._path.name)
        with contextlib.suppress(OSError):  # others may be in it
            self._path.parent.rmdir()


def _created(path: Path) -> int:
    """A descriptor of the new file. Its folder may be removed by another process that ends just now."""
    while True:
        path.parent.mkdir(mode=0o700, exist_ok=True)
        with contextlib.suppress(FileNotFoundError):
            return os.open(path, os.O_RDWR | os.O_CREAT, 0o600)


def _locked(store: Store, worker: str) -> LockFile | None:
    try:
        return LockFile(store.locks, worker) if store.locks else None
    except OSError as error:
        problem = f"no lock file can be made beside it: {error.strerror}"
        raise StoreUnavailableError(store=store.name, problem=problem) from error


def is_dead(folder: Path | None, worker: Worker, host: str) -> bool:
    """Whether the worker's process is known to have ended: same host, and its lock file is there and free.

    The file stays, for the other runs that the worker may have had; `sweep` removes it when it is old.
    """
    return folder is not None and worker.host == host and _is_free(folder / worker.id)


def sweep(folder: Path, *, older_than: float) -> None:
    """Remove lock files of dead workers that were made before this time (seconds since 1970)."""
    for path in folder.iterdir():
        with contextlib.suppress(OSError):  # another process sweeps too
            if path.stat().st_mtime < older_than and _is_free(path):
                path.unlink()


def _is_free(path: Path) -> bool:
    """Whether nobody holds the lock. Probed by a shared one, so that two probes don't take each other for the owner."""
    if path.name in _held:
        return False
    try:
        descriptor = os.open(path, os.O_RDONLY)
    except OSError:
        return False
    try:
        fcntl.lockf(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError:
        return False
    finally:
        os.close(descriptor)
    return True


class Lease:
    """This process as a worker: enlisted, locked, and renewed by a thread of its own."""

    def __init__(self, store: Store, system: System) -> None:
        self.worker = system.new_id()
        self._store, self._system = store, system
        self._lock = _locked(store, self.worker)
        self._ended = threading.Event()
        self._deadline, self._stretch = 0.0, 1

    async def begin(self) -> None:
        """Enlist, and start to renew."""
        begun = self._system.monotonic()
        now = self._system.now()
        until = after(now, LEASE_SECONDS)
        if self._store.locks:
            sweep(self._store.locks, older_than=now / SECOND - LOCK_FILE_KEPT_SECONDS)
        await self._store.enlist(Worker(id=self.worker, host=self._system.host, until=until))
        self._deadline = begun + LEASE_SECONDS
        threading.Thread(target=self._keep, name="counterfoil-lease", daemon=True).start()

    @property
    def stretch(self) -> int:
        """Which unbroken stretch of the lease this is, from 1. Between two of them others may have taken our runs.

        0 when the lease may have lapsed: then no new effect may start.
        """
        return self._stretch if self._system.monotonic() < self._deadline else 0

    async def end(self) -> None:
        """Stop renewing, and be forgotten: the runs still owned are free for anyone."""
        self._ended.set()
        await self._store.discharge(self.worker)
        if self._lock:
            self._lock.release()

    def renew(self) -> None:
        """Move the end of the lease; a new stretch begins if it had lapsed. Raises what the store raises."""
        begun = self._system.monotonic()
        self._store.renew(self.worker, after(self._system.now(), LEASE_SECONDS))
        if self._system.monotonic() >= self._deadline:
            self._stretch += 1
        self._deadline = begun + LEASE_SECONDS

    def _keep(self) -> None:
        while not self._ended.wait(LEASE_SECONDS / RENEWALS_PER_LEASE):
            with contextlib.suppress(CounterfoilError):  # tried again in time, or the deadline passes
                self.renew()
