"""What a loop is given while runs have bodies on it: a task factory that numbers branches, and a look at timers.

Both stand before the loop's own and pass on to it all that does not come from a workflow's body. They are taken away
when the last body on the loop has ended.
"""

import asyncio
import contextlib
import sys
from collections.abc import Callable, Coroutine, Iterator
from typing import Any
from weakref import WeakKeyDictionary

from counterfoil.engine import unsafe
from counterfoil.engine.branches import current_branches, forever
from counterfoil.engine.definitions import current_step

EAGER, EAGERLY = getattr(asyncio, "eager_task_factory", NotImplemented), {"eager_start": True}
"""The one task factory of asyncio itself, since Python 3.12."""

FAR_SECONDS = 1e8
"""A refused sleep waits so long: until its run is wound up."""


class _Watch:
    """The factory and the timers of one loop."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.loop, self.bodies = loop, 0
        self._factory = loop.get_task_factory()
        self._call_at = loop.call_at
        self._call_later = loop.call_later
        self._run_in_executor = loop.run_in_executor
        self._is_passing = False  # inside a timer function of the loop's own, which may use the other one

    def begin(self) -> None:
        self.loop.set_task_factory(self.create)
        # A loop has no public place for a look at its timers and threads, so its methods are covered on the instance.
        self.loop.call_at = self.call_at  # type: ignore[method-assign, assignment]
        self.loop.run_in_executor = self.run_in_executor  # type: ignore[method-assign, assignment]
        if getattr(type(self.loop), "call_later", None) is not asyncio.BaseEventLoop.call_later:  # it comes by call_at
            self.loop.call_later = self.call_later  # type: ignore[method-assign, assignment]

    def end(self) -> None:
        if self.loop.get_task_factory() == self.create:  # else somebody else stands before it; let it be
            self.loop.set_task_factory(self._factory)
        for name in ("call_at", "call_later", "run_in_executor"):
            if self.loop.__dict__.get(name) == getattr(self, name):
                delattr(self.loop, name)

    def create(self, loop: asyncio.AbstractEventLoop, coroutine: Any, **options: Any) -> "asyncio.Task[Any]":
        """The task factory."""
        branches = current_branches.get()
        parent = branches.in_body() if branches and current_step.get() is None else None
        if branches is None or parent is None:
            return self._make(coroutine, options)
        construct = unsafe.creation(sys._getframe(1))  # noqa: SLF001 - the documented way to a frame
        if construct:
            coroutine.close()
            branches.refuse(unsafe.refusal(construct, parent.place()))
            coroutine = forever()
        if self._factory is None:
            return branches.grow_plainly(parent, coroutine, {"loop": loop, **options})
        if self._factory is EAGER:
            return branches.grow(parent, coroutine, lambda known: branches.task(known, loop=loop, **EAGERLY, **options))
        return branches.grow(parent, coroutine, lambda known: self._make(known, options))

    def call_at(self, when: float, callback: Callable[..., Any], *args: Any, **options: Any) -> asyncio.TimerHandle:
        """As the loop's own."""
        branches = current_branches.get()
        branch = branches.in_body() if branches and current_step.get() is None else None
        if branches is None or branch is None or self._is_passing:
            return self._passed(self._call_at, when, callback, *args, **options)
        if unsafe.is_sleep(callback):
            branches.refuse(unsafe.refusal("asyncio.sleep", branch.place()))
            when += FAR_SECONDS
        timer = self._passed(self._call_at, when, callback, *args, **options)
        if unsafe.is_limit(callback):
            branch.limits.append((timer, callback))
        return timer

    def call_later(self, delay: float, callback: Callable[..., Any], *args: Any, **options: Any) -> asyncio.TimerHandle:
        """As the loop's own."""
        if self._is_passing:
            return self._call_later(delay, callback, *args, **options)
        return self.call_at(self.loop.time() + delay, callback, *args, **options)

    def _passed(self, timer: Callable[..., asyncio.TimerHandle], *args: Any, **options: Any) -> asyncio.TimerHandle:
        was_passing, self._is_passing = self._is_passing, True
        try:
            return timer(*args, **options)
        finally:
            self._is_passing = was_passing

    def run_in_executor(self, executor: Any, function: Callable[..., Any], *args: Any) -> "asyncio.Future[Any]":
        """As the loop's own. When a thread comes back shows in nothing while there is one branch."""
        branches = current_branches.get()
        branch = branches.in_body() if branches and current_step.get() is None else None
        if branches is None or branch is None or branches.is_alone:
            return self._run_in_executor(executor, function, *args)
        branches.refuse(unsafe.refusal("asyncio.to_thread", branch.place()))
        return self.loop.create_future()

    def _make(self, coroutine: Coroutine[Any, Any, Any], options: dict[str, Any]) -> "asyncio.Task[Any]":
        if self._factory is None:
            return asyncio.Task(coroutine, loop=self.loop, **options)
        return self._factory(self.loop, coroutine, **options)  # type: ignore[return-value]


_watches: "WeakKeyDictionary[asyncio.AbstractEventLoop, _Watch]" = WeakKeyDictionary()


@contextlib.contextmanager
def watched() -> Iterator[None]:
    """While a workflow's body is on the running loop."""
    loop = asyncio.get_running_loop()
    watch = _watches.get(loop)
    if watch is None:
        watch = _watches[loop] = _Watch(loop)
        watch.begin()
    watch.bodies += 1
    try:
        yield
    finally:
        watch.bodies -= 1
        if not watch.bodies:
            watch.end()
            del _watches[loop]
