"""Events in words: one line each, for whoever watches a run."""

from datetime import UTC, datetime

from counterfoil.core.clock import SECOND, Instant, as_datetime
from counterfoil.core.events import (
    ArtifactStored,
    AttemptStarted,
    Event,
    OutcomeUnknown,
    ReadRecorded,
    RetrySet,
    RunPaused,
    RunResumed,
    RunSuspended,
    StepCancelled,
    StepDispatched,
    StepFailed,
    StepIntended,
    StepSucceeded,
    StepTimedOut,
    TimerFired,
    TimerSet,
)
from counterfoil.core.failure import short_type
from counterfoil.core.parts import ErrorRecord
from counterfoil.engine.queries import OUTCOMES


def moment(instant: Instant) -> str:
    """An instant for a person, in UTC."""
    return _as_told(instant).strftime("%Y-%m-%d %H:%M:%SZ")


def moment_exactly(instant: Instant) -> str:
    """An instant for a program: ISO 8601, UTC, with microseconds."""
    return _as_told(instant).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def _as_told(instant: Instant) -> datetime:
    """The instant, or the nearest one that has a date: a wait may end beyond the year 9999."""
    try:
        return as_datetime(instant)
    except OverflowError:
        return datetime.max.replace(tzinfo=UTC) if instant > 0 else datetime.min.replace(tzinfo=UTC)


def span(microseconds: int | None) -> str:
    """A duration for a person."""
    return "" if microseconds is None else f"{microseconds / SECOND:.3f} s"


def count(number: int, noun: str) -> str:
    """So many of these."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


class Teller:
    """Puts the events of one run into words, in order. It remembers the steps' names and what is under way."""

    def __init__(self) -> None:
        self.under_way = ""
        self._names: dict[str, str] = {}
        self._outcomes = 0

    def line(self, event: Event) -> str | None:
        """The line for this event, if it is worth one."""
        body = event.body
        if isinstance(body, StepIntended):
            self._names[event.step or ""] = f"{body.kind} {body.name}"
            self.under_way = f"step {event.step}  {body.kind} {body.name}"
            return None
        if isinstance(body, OUTCOMES):
            self._outcomes += 1
        if event.step is None:
            return self._about_the_run(event)
        line = f"step {event.step}  {self._names.get(event.step, '')}".rstrip() + f"  {_about_a_step(event)}"
        self.under_way = line if isinstance(body, TimerSet | RetrySet | StepDispatched) else ""
        return line

    def _about_the_run(self, event: Event) -> str | None:
        body = event.body
        if isinstance(body, AttemptStarted):
            known = f"attempt {event.attempt}: {count(self._outcomes, 'recorded outcome')} to replay"
            return known if event.attempt > 1 else None
        if isinstance(body, RunPaused | RunSuspended):
            return f"{event.type.removeprefix('run_')}: {body.reason}"
        return f"resumed by {body.who}" if isinstance(body, RunResumed) else None


def _about_a_wait(event: Event) -> str:
    match event.body:
        case TimerSet(due=due):
            return f"sleep until {moment(due)}"
        case TimerFired():
            return "sleep is over"
        case StepCancelled(still_running=runs_on):
            return "cancelled, still running" if runs_on else "cancelled"
    return event.type


def _about_a_step(event: Event) -> str:
    number = event.envelope.try_number
    match event.body:
        case StepSucceeded(duration=duration):
            said = span(duration)
        case ReadRecorded(kind=kind):
            said = f"read {kind}"
        case ArtifactStored(size_bytes=size, media_type=kind):
            said = f"stored {count(size, 'byte')}, {kind}"
        case StepFailed(error=error):
            said = f"failed: {_error(error)}"
        case RetrySet(error=error, due=due):
            said = f"try {number} failed: {_error(error)}; next at {moment(due)}"
        case OutcomeUnknown(lost_attempt=lost):
            said = f"try {number} of attempt {lost}: sent, outcome unknown"
        case StepDispatched(number=request, before=before):
            said = f"request {request} of try {number}, after: {before or 'no answer yet'}"
        case StepTimedOut():
            said = f"try {number} timed out, still running"
        case _:
            said = _about_a_wait(event)
    return said


def _error(error: ErrorRecord | None) -> str:
    return f"{short_type(error)}: {error.message}" if error else "?"
