"""Waiting in plain code without stopping the loop: a body's coroutine is driven inside a greenlet of its own.

A plain function in a body can't await. So each step of a branch's coroutine is made in a greenlet; when plain code in
it waits, the greenlet is left where it stands, the branch's task awaits in its place, and the greenlet goes on with
what came of it. The loop is as free as with any other await. Only where a plain client was wrapped in this process is
any of this done, and greenlet is imported no sooner.
"""

import functools
import importlib
from collections.abc import Awaitable, Callable, Coroutine, Generator
from types import CodeType, FrameType
from typing import Any, NoReturn

from counterfoil.core import anatomy

Resume = Callable[[], Any]


class _Bridges:
    """Whether branches are driven so, and by what."""

    def __init__(self) -> None:
        self.greenlet: Any = None
        self.is_wanted = False

    def want(self) -> None:
        """From now on; if the package is there."""
        self.is_wanted = True
        if self.greenlet is None:
            try:
                self.greenlet = importlib.import_module("greenlet")
            except ImportError:
                return


_bridges = _Bridges()
want = _bridges.want


def is_installed() -> bool:
    """Whether the package that this needs is there."""
    return _bridges.greenlet is not None


class _Wait:
    """What plain code waits for."""

    __slots__ = ("awaitable",)

    def __init__(self, awaitable: Awaitable[Any]) -> None:
        self.awaitable = awaitable


class Bridged(Coroutine[Any, Any, Any]):
    """A coroutine whose steps are made in a greenlet. To whoever looks into it, it is the coroutine."""

    def __init__(self, inner: Coroutine[Any, Any, Any]) -> None:
        self._inner: Any = inner
        self._steps = self._drive()
        self._has_begun = False
        self._lane: Any = None
        self._caller: Any = None
        self.parked: _Wait | None = None
        self.__name__, self.__qualname__ = (getattr(inner, name, "?") for name in ("__name__", "__qualname__"))

    # --- as a coroutine ---

    def send(self, value: Any) -> Any:
        """See Coroutine."""
        self._has_begun = True
        return self._steps.send(value)

    def throw(self, error: Any, *more: Any) -> Any:
        """See Coroutine."""
        if not self._has_begun:  # the generator would raise it before the coroutine was asked
            return self._inner.throw(error, *more)
        return self._steps.throw(error, *more)

    def close(self) -> None:
        """See Coroutine."""
        if self._has_begun:
            self._steps.close()
        self._inner.close()

    def __await__(self) -> Generator[Any, Any, Any]:
        self._has_begun = True
        return self._steps

    # --- as those who look into one see it ---

    @property
    def cr_code(self) -> CodeType | None:
        """Of the coroutine."""
        code: CodeType | None = getattr(self._inner, "cr_code", None)
        return code

    @property
    def cr_frame(self) -> FrameType | None:
        """Of the coroutine."""
        frame: FrameType | None = getattr(self._inner, "cr_frame", None)
        return frame

    @property
    def cr_running(self) -> bool:
        """Of the coroutine."""
        return bool(getattr(self._inner, "cr_running", False))

    @property
    def cr_suspended(self) -> bool:
        """Of the coroutine."""
        return bool(getattr(self._inner, "cr_suspended", False))

    @property
    def cr_await(self) -> Any:
        """What the coroutine awaits; None while plain code in it waits."""
        return getattr(self._inner, "cr_await", None)

    @property
    def frame_of_wait(self) -> FrameType | None:
        """The innermost frame of the plain code that waits; None while none does."""
        frame: FrameType | None = self._lane.gr_frame if self.parked else None
        return frame

    # --- how it is driven ---

    def _drive(self) -> Generator[Any, Any, Any]:
        self._lane = _bridges.greenlet.greenlet(self._run)
        self._lane.gr_context = _bridges.greenlet.getcurrent().gr_context  # the branch's own variables
        self._lane.bridged = self
        resume: Resume = functools.partial(self._inner.send, None)
        while True:
            try:
                got = self._switched(resume)
            except StopIteration as ended:
                return ended.value
            try:
                resume = yield from (self._waited(got) if type(got) is _Wait else self._passed(got))
            except GeneratorExit as closed:
                resume = self._raising(got, closed)

    def _switched(self, resume: Resume) -> Any:
        """Go on in the greenlet until it yields, waits or ends. Where we are now may be another greenlet each time."""
        self._caller = self._lane.parent = _bridges.greenlet.getcurrent()
        return self._lane.switch(resume)

    def _run(self, resume: Resume) -> NoReturn:
        """In the greenlet: the steps of the coroutine. What ends it is raised by `_switched`."""
        while True:
            resume = self._caller.switch(resume())

    def _passed(self, got: Any) -> Generator[Any, Any, Resume]:
        """The coroutine yielded something: it is for the task."""
        try:
            sent = yield got
        except BaseException as error:  # noqa: BLE001 - for the coroutine, as it came
            return self._raising(got, error)
        return functools.partial(self._inner.send, sent)

    def _waited(self, wait: _Wait) -> Generator[Any, Any, Resume]:
        """Plain code waits: the task awaits in its place."""
        self.parked = wait
        try:
            value = yield from wait.awaitable.__await__()
        except BaseException as error:  # noqa: BLE001 - for the plain code, as it came
            return self._raising(wait, error)
        finally:
            self.parked = None
        return lambda: value

    def _raising(self, got: Any, error: BaseException) -> Resume:
        """Raise this where the greenlet stands: in the plain code that waits, or in the coroutine."""
        return functools.partial(_raise, error) if type(got) is _Wait else functools.partial(self._inner.throw, error)

    def wait(self, awaitable: Awaitable[Any]) -> Any:
        """In the greenlet: leave it here until this has come to something."""
        go_on: Resume = self._caller.switch(_Wait(awaitable))
        return go_on()


def driven(coroutine: Coroutine[Any, Any, Any]) -> Coroutine[Any, Any, Any]:
    """The coroutine, such that plain code in it can wait, if that is wanted in this process."""
    return Bridged(coroutine) if _bridges.is_wanted and is_installed() else coroutine


def waiter() -> Callable[[Awaitable[Any]], Any] | None:
    """What plain code waits by, here; None where it can't."""
    here = getattr(_bridges.greenlet.getcurrent(), "bridged", None) if is_installed() else None
    return here.wait if isinstance(here, Bridged) else None


def _raise(error: BaseException) -> NoReturn:
    """Raise what was raised in the task, with the chain that it has, whatever is being handled here."""
    context = anatomy.context(error)
    try:
        raise error
    finally:
        anatomy.set_context(error, context)
