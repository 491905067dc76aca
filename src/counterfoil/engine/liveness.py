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

from counterfoil.core.clock import after
from counterfoil.engine.system import System
from counterfoil.errors import CounterfoilError, StoreUnavailableError
from counterfoil.store import Store, Worker

LEASE_SECONDS = 30.0
RENEWALS_PER_LEASE = 3

_held: set[Path] = set()
"""Locks of this process: it must never probe them, since closing any descriptor of a file drops the lock."""


class LockFile:
    """This process's lock for one worker id."""

    def __init__(self, folder: Path, worker: str) -> None:
        folder.mkdir(mode=0o700, exist_ok=True)
        self._path = folder / worker
        self._descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT, 0o600)
        _held.add(self._path)
        fcntl.lockf(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)

    def release(self) -> None:
        """Let go and leave nothing behind."""
        self._path.unlink(missing_ok=True)
        os.close(self._descriptor)
        _held.discard(self._path)
        with contextlib.suppress(OSError):  # others may be in it
            self._path.parent.rmdir()


def _locked(store: Store, worker: str) -> LockFile | None:
    try:
        return LockFile(store.locks, worker) if store.locks else None
    except OSError as error:
        problem = f"no lock file can be made beside it: {error.strerror}"
        raise StoreUnavailableError(store=store.name, problem=problem) from error


def is_dead(folder: Path | None, worker: Worker, host: str) -> bool:
    """Whether the worker's process is known to have ended: same host, and its lock file is there and free."""
    if folder is None or worker.host != host or (path := folder / worker.id) in _held:
        return False
    try:
        descriptor = os.open(path, os.O_RDWR)
    except OSError:
        return False
    try:
        fcntl.lockf(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        path.unlink(missing_ok=True)
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
        self._deadline = 0.0

    async def begin(self) -> None:
        """Enlist, and start to renew."""
        begun = self._system.monotonic()
        until = after(self._system.now(), LEASE_SECONDS)
        await self._store.enlist(Worker(id=self.worker, host=self._system.host, until=until))
        self._deadline = begun + LEASE_SECONDS
        threading.Thread(target=self._renew, name="counterfoil-lease", daemon=True).start()

    @property
    def is_sure(self) -> bool:
        """Whether nobody else can have taken our runs because of time. When it is not, no new effect may start."""
        return self._system.monotonic() < self._deadline

    async def end(self) -> None:
        """Stop renewing, and be forgotten: the runs still owned are free for anyone."""
        self._ended.set()
        await self._store.discharge(self.worker)
        if self._lock:
            self._lock.release()

    def _renew(self) -> None:
        while not self._ended.wait(LEASE_SECONDS / RENEWALS_PER_LEASE):
            begun = self._system.monotonic()
            with contextlib.suppress(CounterfoilError):  # tried again in time, or the deadline passes
                self._store.renew(self.worker, after(self._system.now(), LEASE_SECONDS))
                self._deadline = begun + LEASE_SECONDS
