"""Kill a process at a chosen moment, and count what it had done outside by then.

- `KillingStore` wraps a store and kills its own process before or after the n-th call. The engine touches the world
  only through its store and the step functions, so this reaches every window between two records, and production code
  holds no hooks for it.
- `Tally` counts outside calls in a file, so that the count survives the kill.

What is killed should be a process of its own that can be had in milliseconds: see `counterfoil.testing.forks`, which
also says why a test must not fork by itself.
"""

import asyncio
import collections
import os
import signal
from collections.abc import Awaitable, Callable, Sequence
from collections.abc import Set as AbstractSet
from pathlib import Path
from typing import NoReturn, TypeVar

from counterfoil.core.clock import Instant
from counterfoil.core.events import Record
from counterfoil.store import Append, Chunk, Head, Message, NewRun, Query, Store, Stray, Stream, Timer, Worker

T = TypeVar("T")


def kill() -> NoReturn:
    """End this process here, as `kill -9` does: no handler runs and no buffer is written."""
    os.kill(os.getpid(), signal.SIGKILL)
    raise AssertionError


class Tally:
    """Counts by name, in a file that any number of processes may add to."""

    def __init__(self, path: str | Path) -> None:
        self._path = Path(path)

    def mark(self, name: str) -> None:
        """Count one. It is counted when this returns, whatever becomes of the process."""
        descriptor = os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        os.write(descriptor, f"{name}\n".encode())
        os.close(descriptor)

    def marks(self) -> list[str]:
        """All that was counted, in order."""
        return self._path.read_text(encoding="utf-8").splitlines() if self._path.exists() else []

    def counts(self) -> dict[str, int]:
        """How often each name was counted."""
        return dict(collections.Counter(self.marks()))


class KillingStore:
    """A store that kills its process: before the n-th call, or after the n-th was acknowledged (from 1).

    `calls` names the calls so far. `renew` is not among them: it comes when time has passed, not when work is done.
    """

    def __init__(self, store: Store, *, before: int | None = None, after: int | None = None) -> None:
        self.name, self.locks = store.name, store.locks
        self.calls: list[str] = []
        self._store, self._before, self._after = store, before, after

    async def open(self) -> None:
        """See Store."""
        await self._around("open", self._store.open())

    async def close(self) -> None:
        """See Store."""
        await self._around("close", self._store.close())

    async def start(self, new: NewRun) -> tuple[Head, bool]:
        """See Store."""
        return await self._around("start", self._store.start(new))

    async def take(self, run: str, worker: str, *, now: Instant, dead: AbstractSet[str] = frozenset()) -> Head:
        """See Store."""
        return await self._around("take", self._store.take(run, worker, now=now, dead=dead))

    def append(self, append: Append) -> Awaitable[None]:
        """See Store. Accepted in the order of the calls, as the store itself does."""
        return self._accepted("append", lambda: self._store.append(append))

    def put_chunks(self, run: str, chunks: Sequence[Chunk], *, epoch: int) -> Awaitable[None]:
        """See Store."""
        return self._accepted("put_chunks", lambda: self._store.put_chunks(run, chunks, epoch=epoch))

    async def chunks(self, run: str, *, stream: Stream | None = None, after: int = -1) -> list[Chunk]:
        """See Store."""
        return await self._around("chunks", self._store.chunks(run, stream=stream, after=after))

    async def head(self, run: str) -> Head | None:
        """See Store."""
        return await self._around("head", self._store.head(run))

    async def read(self, run: str) -> list[Record]:
        """See Store."""
        return await self._around("read", self._store.read(run))

    async def artifact(self, digest: str) -> bytes | None:
        """See Store."""
        return await self._around("artifact", self._store.artifact(digest))

    async def references(self) -> list[tuple[str, Record]]:
        """See Store."""
        return await self._around("references", self._store.references())

    async def strays(self, digests: AbstractSet[str]) -> list[Stray]:
        """See Store."""
        return await self._around("strays", self._store.strays(digests))

    async def heads(self, query: Query) -> list[Head]:
        """See Store."""
        return await self._around("heads", self._store.heads(query))

    async def send(self, message: Message) -> bool:
        """See Store."""
        return await self._around("send", self._store.send(message))

    async def inbox(self, run: str) -> list[Message]:
        """See Store."""
        return await self._around("inbox", self._store.inbox(run))

    async def timers(self, *, due_until: Instant) -> list[tuple[str, Timer]]:
        """See Store."""
        return await self._around("timers", self._store.timers(due_until=due_until))

    async def enlist(self, worker: Worker) -> None:
        """See Store."""
        await self._around("enlist", self._store.enlist(worker))

    def renew(self, worker: str, until: Instant) -> None:
        """See Store."""
        self._store.renew(worker, until)

    async def worker(self, worker: str) -> Worker | None:
        """See Store."""
        return await self._around("worker", self._store.worker(worker))

    async def discharge(self, worker: str) -> None:
        """See Store."""
        await self._around("discharge", self._store.discharge(worker))

    def _accepted(self, name: str, write: Callable[[], Awaitable[None]]) -> Awaitable[None]:
        number = self._arrive(name)
        written = asyncio.ensure_future(write())
        written.add_done_callback(lambda _: self._leave(number))
        return written

    async def _around(self, name: str, call: Awaitable[T]) -> T:
        number = self._arrive(name)
        try:
            return await call
        finally:
            self._leave(number)

    def _arrive(self, name: str) -> int:
        self.calls.append(name)
        if len(self.calls) == self._before:
            kill()
        return len(self.calls)

    def _leave(self, number: int) -> None:
        if number == self._after:
            kill()
