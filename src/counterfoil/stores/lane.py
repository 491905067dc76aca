"""A thread that owns a database connection: jobs run on it in order, one at a time."""

import asyncio
import queue
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Generic, Protocol, TypeAlias, TypeVar

T = TypeVar("T")


class Closable(Protocol):
    """What a lane needs of a connection."""

    def close(self) -> None:
        """Let go of it."""


C = TypeVar("C", bound=Closable)
Job: TypeAlias = Callable[[C], Callable[[], None]]
"""Uses the connection; what it returns is called when the connection is free again, and tells the outcome."""


class Lane(Generic[C]):
    """A thread with a connection, that runs what it is given, in order."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._jobs: queue.SimpleQueue[Job[C] | None] = queue.SimpleQueue()
        self._in_use = threading.Lock()

    async def start(self, connect: Callable[[], C]) -> None:
        """Open the connection in the new thread; raises what that raises."""
        ready: Future[None] = Future()
        self._thread = threading.Thread(target=self._run, args=(connect, ready), name=self._name, daemon=True)
        self._thread.start()
        await asyncio.wrap_future(ready)

    def stop(self) -> None:
        """End the thread after what was put before."""
        self._jobs.put(None)
        self._thread.join()

    def put(self, job: Job[C]) -> None:
        """Run a job that tells its own outcome."""
        self._jobs.put(job)

    def submit(self, job: Callable[[C], T]) -> "Future[T]":
        """Run a job, and hold its result or its error."""
        outcome: Future[T] = Future()
        self._jobs.put(lambda db: _tell(outcome, lambda: job(db)))
        return outcome

    def here(self, job: Callable[[C], bool]) -> bool:
        """Run a job in the caller's thread: what it returns, or False if the connection is in use just now."""
        if not self._in_use.acquire(blocking=False):
            return False
        try:
            return job(self._db)
        finally:
            self._in_use.release()

    def _run(self, connect: Callable[[], C], ready: "Future[None]") -> None:
        try:
            self._db = connect()
        except BaseException as error:  # noqa: BLE001 - handed to the opener, whole
            ready.set_exception(error)
            return
        ready.set_result(None)
        while (job := self._jobs.get()) is not None:
            with self._in_use:
                tell = job(self._db)
            tell()
        self._db.close()


def _tell(outcome: "Future[T]", work: Callable[[], T]) -> Callable[[], None]:
    if not outcome.set_running_or_notify_cancel():  # whoever asked has gone
        return lambda: None
    try:
        result = work()
    except BaseException as raised:  # noqa: BLE001 - handed to the caller, whole
        error = raised
        return lambda: outcome.set_exception(error)
    return lambda: outcome.set_result(result)
