"""Drives a run in the foreground: tells its id and its progress, lets it stop on Ctrl-C, prints its result.

The first SIGINT or SIGTERM lets the run stop and leaves it resumable, a second one cuts the step under way, a third
ends the process, which is what the journal is for.
"""

import asyncio
import shlex
import signal
from collections.abc import Awaitable, Callable
from types import FrameType
from typing import Any, Self, cast

import msgspec

from counterfoil import Journal
from counterfoil.cli.console import Settings
from counterfoil.cli.outcomes import Exit
from counterfoil.cli.progress import Progress
from counterfoil.core.events import RunCompleted
from counterfoil.errors import RunStoppedError
from counterfoil.journal import DEFAULT_URL

SIGNALS = {signal.SIGINT: Exit.INTERRUPTED, signal.SIGTERM: Exit.TERMINATED}


class Foreground(msgspec.Struct, frozen=True, kw_only=True):
    """A run to drive, and how to show it."""

    run: str
    settings: Settings
    target: str | None  # FILE.py:workflow, for the command that takes it up again
    grace: float
    quiet: bool


async def drive(journal: Journal, ground: Foreground, work: Callable[[], Awaitable[Any]]) -> Exit:
    """Do the work, which drives the run, and print the recorded result. Raises what the work raises."""
    ground.settings.say_object({"run": ground.run}) if ground.settings.as_json else ground.settings.say(
        f"run {ground.run}"
    )
    task = asyncio.ensure_future(work())
    progress = Progress(journal, ground.run, ground.settings)
    watching = None if ground.quiet else asyncio.create_task(progress.watch())
    try:
        with Interrupts(lambda grace: _stop(journal, task, grace), ground.grace) as interrupts:
            await asyncio.wait({task})
    finally:
        if watching:
            await progress.end(watching)
    if interrupts.first is not None and not _is_done(task):
        return _stopped(ground, interrupts.first)
    task.result()
    return await _print_result(journal, ground)


class Interrupts:
    """Turns signals into a stop. Plain handlers, so that code which blocks the loop is no reason not to hear them."""

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
        grace = 0.0 if self.first else self._grace
        if self.first:
            for each in SIGNALS:
                signal.signal(each, signal.SIG_DFL)
        self.first = self.first or signal.Signals(number)
        self._loop.call_soon_threadsafe(self._begin, grace)

    def _begin(self, grace: float) -> None:
        self._stops.append(asyncio.ensure_future(self._stop(grace)))


async def _stop(journal: Journal, task: "asyncio.Future[Any]", grace: float) -> None:
    """Leave what is driven here resumable; a run that is only waited for is let be."""
    await journal.stop("interrupted", grace=grace)
    task.cancel()


def _is_done(task: "asyncio.Future[Any]") -> bool:
    """Whether the run got to an end of its own in spite of the signal."""
    return not task.cancelled() and not isinstance(task.exception(), RunStoppedError)


def _stopped(ground: Foreground, number: signal.Signals) -> Exit:
    again = again_command(ground)
    if ground.settings.as_json:
        ground.settings.say_object({"stopped": {"run": ground.run, "signal": number.name, "again": again}})
    else:
        ground.settings.say(f"stopped by {number.name}; everything recorded is kept\nto go on: {again}")
    return SIGNALS[number]


def again_command(ground: Foreground) -> str:
    """The command that takes the run up again."""
    store = [] if ground.settings.store == DEFAULT_URL else ["--store", ground.settings.store]
    target = [ground.target] if ground.target else ["FILE.py"]
    return shlex.join(["counterfoil", "resume", ground.run, *target, *store])


async def _print_result(journal: Journal, ground: Foreground) -> Exit:
    """The recorded JSON of the result, whatever type it has in the code."""
    body = cast("RunCompleted", (await journal.events(ground.run))[-1].body)
    raw = bytes(body.result)
    ground.settings.print((raw if ground.settings.as_json else msgspec.json.format(raw, indent=2)).decode())
    return Exit.DONE
