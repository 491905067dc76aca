"""Threads for plain functions: daemons, so that a stuck tool never keeps the process from ending.

A thread is made when none is idle and kept for the next call. The caller's context variables are set in the thread.
"""

import asyncio
import contextvars
import queue
import threading
from collections.abc import Callable
from typing import Any, TypeVar

T = TypeVar("T")
IDLE_SECONDS = 30.0

_Job = tuple[Callable[[], Any], asyncio.AbstractEventLoop, "asyncio.Future[Any]"]


class Threads:
    """Runs plain functions, each in a thread of its own while it lasts."""

    def __init__(self) -> None:
        self._idle: list[queue.SimpleQueue[_Job]] = []
        self._lock = threading.Lock()

    def run(self, work: Callable[[], T]) -> "asyncio.Future[T]":
        """Done when the function has ended, with its result or what it raised. Nothing stops the function."""
        loop = asyncio.get_running_loop()
        done: asyncio.Future[T] = loop.create_future()
        context = contextvars.copy_context()
        self._put((lambda: context.run(work), loop, done))
        return done

    def _put(self, job: _Job) -> None:
        with self._lock:
            if self._idle:
                self._idle.pop().put(job)
                return
        jobs: queue.SimpleQueue[_Job] = queue.SimpleQueue()
        jobs.put(job)
        threading.Thread(target=self._serve, args=(jobs,), name="counterfoil-step", daemon=True).start()

    def _serve(self, jobs: queue.SimpleQueue[_Job]) -> None:
        while True:
            try:
                work, loop, done = jobs.get(timeout=IDLE_SECONDS)
            except queue.Empty:
                with self._lock:
                    if jobs in self._idle:
                        self._idle.remove(jobs)
                        return
                continue  # a job is on its way
            _settle(work, loop, done)
            with self._lock:
                self._idle.append(jobs)


def _settle(work: Callable[[], T], loop: asyncio.AbstractEventLoop, done: "asyncio.Future[T]") -> None:
    try:
        result = work()
    except BaseException as error:  # noqa: BLE001 - handed to the caller, whole
        _tell(loop, done, lambda error=error: done.set_exception(_raisable(error)))  # type: ignore[misc]
    else:
        _tell(loop, done, lambda: done.set_result(result))


def _raisable(error: BaseException) -> BaseException:
    """StopIteration can't be put into a future. By its true class: asked for it, a foreign exception may raise."""
    is_stop = issubclass(type(error), StopIteration)
    return RuntimeError("the step raised StopIteration") if is_stop else error


def _tell(loop: asyncio.AbstractEventLoop, done: "asyncio.Future[Any]", settle: Callable[[], None]) -> None:
    try:
        loop.call_soon_threadsafe(lambda: None if done.done() else settle())
    except RuntimeError:  # the loop has ended; nobody waits
        return
