"""Constructs of asyncio whose outcome hangs on real time, recognised where a workflow's body uses them.

A body may use whatever only passes recorded outcomes on: gather, TaskGroup, Queue, Lock, Semaphore, Event. What looks
at the clock, or takes whichever comes first, may give another outcome on a replay; each such construct is refused at
its first use, by a message that names the safe one. They are known by the code that runs: the frames that create a
task, the coroutines that a task waits in, and the callback that a timer is set for.
"""

import asyncio
import os
import sys
from asyncio import futures, tasks
from collections.abc import Callable
from types import CodeType, FrameType, ModuleType
from typing import Any

from counterfoil.engine.bridge import Bridged
from counterfoil.errors import UnsafeConstructError

Callback = Callable[..., Any]

_TASKS_FILE = tasks.__file__
_LIBRARY_FOLDER = _TASKS_FILE.removesuffix("tasks.py")
_passed_over = [__file__.removesuffix("unsafe.py")]
"""Folders with code that is not the user's: our own, and the packages of clients that were wrapped."""

_LOOPS = {"_run", "run", "run_forever", "run_until_complete"}
_DEPTH_MAX = 50

_EACH_ITS_OWN = "Let each branch go on with its own result, and await them all with asyncio.gather or a TaskGroup."
_STEP_TIMEOUT = "Bound the step itself: ctx.with_options(timeout=seconds)."
_FIXES = {
    "asyncio.wait(FIRST_COMPLETED)": _EACH_ITS_OWN,
    "asyncio.wait(FIRST_EXCEPTION)": "Use asyncio.gather or a TaskGroup, which end at the first exception too.",
    "asyncio.wait(timeout=...)": _STEP_TIMEOUT,
    "asyncio.as_completed": _EACH_ITS_OWN,
    "asyncio.wait_for": _STEP_TIMEOUT,
    "asyncio.timeout": _STEP_TIMEOUT,
    "asyncio.shield": "Await the call itself; one that was begun is recorded also if its branch is cancelled.",
    "asyncio.to_thread": "Use ctx.step with the plain function itself: it runs in a thread, and is recorded.",
    "asyncio.sleep": "Use ctx.sleep, which is recorded and survives the process; asyncio.sleep(0) is fine.",
    "asyncio.sleep(0) in a loop": "Await the task, the future or an asyncio.Event; don't ask again and again.",
}
_CREATORS = {
    "wait_for": "asyncio.wait_for",
    "shield": "asyncio.shield",
    "as_completed": "asyncio.as_completed",
    "_AsCompletedIterator.__init__": "asyncio.as_completed",
}
"""Functions of asyncio that make a task of what they are given, by qualified name."""

_WAITERS = {
    "wait_for": "asyncio.wait_for",
    "as_completed.<locals>._wait_for_one": "asyncio.as_completed",
    "_AsCompletedIterator._wait_for_one": "asyncio.as_completed",
}
"""Coroutines of asyncio that a task may be found waiting in."""


def refusal(construct: str, source: str) -> UnsafeConstructError:
    """The error for a construct that was used here."""
    return UnsafeConstructError(construct=construct, source=source, fix=_FIXES[construct])


def creation(frame: FrameType | None) -> str | None:
    """The unsafe construct that is creating a task, seen from the task factory's caller; None if there is none."""
    while frame is not None and frame.f_code.co_filename.startswith(_LIBRARY_FOLDER):
        if frame.f_code.co_filename == _TASKS_FILE and frame.f_code.co_qualname in _CREATORS:
            return _CREATORS[frame.f_code.co_qualname]
        frame = frame.f_back
    return None


def waiting(task: "asyncio.Task[Any]") -> str | None:
    """The unsafe construct that this task waits in; None if there is none."""
    inner: Any = task.get_coro()
    for _ in range(_DEPTH_MAX):
        code: CodeType | None = getattr(inner, "cr_code", None)
        if code is None:
            return None
        if code.co_filename == _TASKS_FILE:
            return _waiting_in(code.co_qualname, inner)
        inner = inner.cr_await
    return None


def _waiting_in(name: str, coroutine: Any) -> str | None:
    if name not in {"_wait", "wait"}:
        return _WAITERS.get(name)
    given = coroutine.cr_frame.f_locals if coroutine.cr_frame else {}
    if given.get("return_when", asyncio.ALL_COMPLETED) != asyncio.ALL_COMPLETED:
        return f"asyncio.wait({given['return_when']})"
    return "asyncio.wait(timeout=...)" if given.get("timeout") is not None else None


def is_sleep(callback: Callback) -> bool:
    """Whether a timer is set by asyncio.sleep."""
    return callback is futures._set_result_unless_cancelled  # type: ignore[attr-defined] # noqa: SLF001 - how sleep is known


def is_limit(callback: Callback) -> bool:
    """Whether a timer is set to cancel the task that set it: asyncio.timeout, or anyio's scopes."""
    owner = type(getattr(callback, "__self__", None))
    return owner is asyncio.Timeout or owner.__qualname__ == "CancelScope"


def has_fired(callback: Callback) -> bool:
    """Whether such a limit has cancelled its task. Being due is not enough: its turn may be yet to come."""
    owner: Any = getattr(callback, "__self__", None)
    return bool(owner.expired() if isinstance(owner, asyncio.Timeout) else getattr(owner, "cancel_called", True))


def place_here() -> str | None:
    """File and line of the user's code that is running: the first frame outside this package and asyncio."""
    return _place_from(sys._getframe(1))  # noqa: SLF001 - the documented way to a frame


def _place_from(frame: FrameType | None) -> str | None:
    while frame is not None and not _is_loop(frame.f_code):
        if _is_users(frame.f_code):
            return f"{frame.f_code.co_filename}:{frame.f_lineno}"
        frame = frame.f_back
    return None


def place_of(task: "asyncio.Task[Any]") -> str | None:
    """File and line of the user's code at which a task waits."""
    inner: Any = task.get_coro()
    found = _place_from(inner.frame_of_wait) if isinstance(inner, Bridged) else None
    if found:
        return found
    for _ in range(_DEPTH_MAX):
        code: CodeType | None = getattr(inner, "cr_code", None)
        if code is None:
            break
        if _is_users(code) and inner.cr_frame is not None:
            found = f"{code.co_filename}:{inner.cr_frame.f_lineno}"
        inner = inner.cr_await
    return found


def pass_over(module: ModuleType) -> None:
    """Don't take the code of this package for the user's: it is one that calls us for them."""
    folders = [f"{folder}{os.sep}" for folder in getattr(module, "__path__", ())]
    _passed_over.extend(folder for folder in folders if folder not in _passed_over)


def _is_users(code: CodeType) -> bool:
    return not code.co_filename.startswith((_LIBRARY_FOLDER, *_passed_over))


def _is_loop(code: CodeType) -> bool:
    """Whether everything further out belongs to whoever runs the loop."""
    return code.co_filename.startswith(_LIBRARY_FOLDER) and code.co_name in _LOOPS
