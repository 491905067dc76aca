"""Drives a run in the foreground: tells its id and its progress, lets it stop on Ctrl-C, prints its result.

The first SIGINT or SIGTERM lets the run stop and leaves it resumable; a second one cuts the step under way; a third
kills this process, which a journal is made to survive.
"""

import asyncio
import logging
import shlex
import signal
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from types import FrameType
from typing import Any, Self

import msgspec

from counterfoil import Journal
from counterfoil.cli.console import put, say, say_object
from counterfoil.cli.outcomes import Exit
from counterfoil.cli.progress import Progress
from counterfoil.core.events import Event, RunCompleted
from counterfoil.core.plainly import plainly
from counterfoil.errors import RunError, RunFailedError, RunPausedError, RunStoppedError

SIGNALS = {signal.SIGINT: Exit.INTERRUPTED, signal.SIGTERM: Exit.TERMINATED}
END_SECONDS = 1.0
"""How long a run that was told to stop may take to write so, before this process no longer waits for it."""


class Ground(msgspec.Struct, frozen=True, kw_only=True):
    """A run to drive in the foreground, and how to show it."""

    run: str
    again: tuple[str, ...]  # the command that takes the run up again
    grace: float  # seconds
    as_json: bool
    quiet: bool
    with_traceback: bool


async def drive(journal: Journal, ground: Ground, work: Callable[[], Awaitable[Any]]) -> Exit:
    """Do the work, which drives the run, and print the recorded result. Raises what the work raises."""
    _say_id(ground)
    asyncio.get_running_loop().set_exception_handler(lambda _, found: _say_stray(ground, found))
    async with _told(journal, ground):
        task = asyncio.ensure_future(work())
        with Interrupts(lambda grace: _stop(journal, task, grace), ground.grace) as interrupts:
            await asyncio.wait({task})
    if interrupts.first is not None and _was_stopped(task):
        _say_stopped(ground, interrupts.first)
        return SIGNALS[interrupts.first]
    try:
        task.result()
    except RunError as error:
        for note in await _notes(journal, ground, error):
            error.add_note(note)
        raise
    put(await _result(journal, ground))
    return Exit.DONE


class Interrupts:
    """Turns signals into a stop. Plain handlers: they are heard even while a workflow's code blocks the loop."""

    def __init__(self, stop: Callable[[float], Awaitable[None]], grace: float) -> None:
        self._stop, self._grace = stop, grace
        self._stops: list[asyncio.Future[None]] = []
        self.first: signal.Signals | None = None

    def __enter__(self) -> Self:
        self._loop = asyncio.get_running_loop()
        self._before = {number: signal.signal(number, self._handle) for number in SIGNALS}
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _handle(self, number: int, _: FrameType | None) -> None:
        grace = self._grace
        if self.first is not None:
            grace = 0.0
            for each in SIGNALS:
                signal.signal(each, signal.SIG_DFL)
        self.first = self.first or signal.Signals(number)
        self._loop.call_soon_threadsafe(self._begin, grace)

    def _begin(self, grace: float) -> None:
        self._stops.append(asyncio.ensure_future(self._stop(grace)))


async def _stop(journal: Journal, task: "asyncio.Future[Any]", grace: float) -> None:
    """Leave what is driven here resumable. A run that another process drives is only waited for, so it is let be."""
    await journal.stop("interrupted", grace=grace)
    await asyncio.wait({task}, timeout=END_SECONDS)
    task.cancel()


def _was_stopped(task: "asyncio.Future[Any]") -> bool:
    """Whether the signal took effect before the run came to an end of its own."""
    return task.cancelled() or isinstance(task.exception(), RunStoppedError)


@asynccontextmanager
async def _told(journal: Journal, ground: Ground) -> AsyncIterator[None]:
    """Tell the run's progress and its log lines meanwhile."""
    if ground.quiet or ground.as_json:
        yield
        return
    progress, lines = Progress(journal, ground.run), _LogLines()
    await progress.skip()
    watching = asyncio.create_task(progress.watch())
    log = logging.getLogger("counterfoil.run")
    log.addHandler(lines)
    log.setLevel(log.level or logging.INFO)
    try:
        yield
    finally:
        log.removeHandler(lines)
        watching.cancel()
        await asyncio.wait({watching})
        await progress.tell()


class _LogLines(logging.Handler):
    """What the workflow says with ctx.log."""

    def emit(self, record: logging.LogRecord) -> None:
        say(f"{record.levelname.lower()}  {record.getMessage()}")


def _say_stray(ground: Ground, found: dict[str, Any]) -> None:
    """An exception that nobody waited for, in one line."""
    error = found.get("exception")
    if isinstance(error, SystemExit):  # told as the end of the command
        return
    what = f"{found['message']}: {type(error).__name__}: {error}" if error else found["message"]
    if ground.as_json:
        say_object({"warning": what})
    else:
        say(f"warning: {what}")


def _say_id(ground: Ground) -> None:
    if ground.as_json:
        say_object({"run": ground.run})
    else:
        say(f"run {ground.run}")


def _say_stopped(ground: Ground, number: signal.Signals) -> None:
    again = shlex.join(ground.again)
    if ground.as_json:
        say_object({"stopped": {"run": ground.run, "signal": number.name, "again": again}})
    else:
        say(f"stopped by {number.name}; all that is recorded is kept. To go on:\n  {again}")


async def _notes(journal: Journal, ground: Ground, error: RunError) -> list[str]:
    """What belongs to the error and is not in it: the recorded traceback of the user's code, and how to go on."""
    notes = []
    if ground.with_traceback and isinstance(error, RunFailedError | RunPausedError):
        notes += tracebacks((await journal.events(ground.run)).stored)[-1:]
    if isinstance(error, RunPausedError | RunStoppedError):
        notes.append(f"To go on:\n  {shlex.join(ground.again)}")
    return notes


def tracebacks(events: Sequence[Event]) -> list[str]:
    """The recorded tracebacks of a run, in order."""
    errors = [getattr(event.body, "error", None) for event in events]
    return [error.traceback.rstrip() for error in errors if error is not None and error.traceback]


async def _result(journal: Journal, ground: Ground) -> str:
    """The recorded result as plain JSON, whatever its type is in the code."""
    bodies = [event.body for event in (await journal.events(ground.run)).stored]
    raw = next(bytes(body.result) for body in reversed(bodies) if isinstance(body, RunCompleted))
    shown = plainly(raw)
    return (shown if ground.as_json else msgspec.json.format(shown, indent=2)).decode()
