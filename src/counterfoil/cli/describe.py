"""Events in words: one line each."""

from counterfoil.core.clock import SECOND, Instant, as_datetime
from counterfoil.core.events import (
    AttemptStarted,
    Event,
    OutcomeUnknown,
    ReadRecorded,
    RetrySet,
    RunPaused,
    RunResumed,
    RunSuspended,
    StepFailed,
    StepIntended,
    StepSucceeded,
    TimerFired,
    TimerSet,
)
from counterfoil.core.failure import short_type


def moment(instant: Instant) -> str:
    """An instant for a person, in UTC."""
    return as_datetime(instant).strftime("%Y-%m-%d %H:%M:%SZ")


def moment_exactly(instant: Instant) -> str:
    """An instant for a program: ISO 8601, UTC, with microseconds."""
    return as_datetime(instant).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def span(microseconds: int | None) -> str:
    """A duration for a person."""
    return "" if microseconds is None else f"{microseconds / SECOND:.3f} s"


def progress_line(event: Event, names: dict[str, str]) -> str | None:
    """What a watcher of a live run is told of this event; `names` keeps the steps' names from their intents."""
    body = event.body
    if isinstance(body, StepIntended):
        names[event.step or ""] = f"{body.kind} {body.name}"
    if isinstance(body, ReadRecorded):
        return f"step {event.step}  read {body.kind}"
    what = f"step {event.step}  {names.get(event.step or '', 'sleep')}"
    if isinstance(body, StepSucceeded):
        return f"{what}  {span(body.duration)}"
    if isinstance(body, StepFailed):
        return f"{what}  failed: {short_type(body.error)}: {body.error.message}"
    if isinstance(body, RetrySet):
        why = f": {short_type(body.error)}: {body.error.message}" if body.error else ""
        return f"{what}  try {event.envelope.try_number} failed{why}; next at {moment(body.due)}"
    if isinstance(body, OutcomeUnknown):
        return f"{what}  try {event.envelope.try_number} of attempt {body.lost_attempt}: sent, outcome unknown"
    if isinstance(body, TimerSet):
        return f"{what} until {moment(body.due)}"
    if isinstance(body, TimerFired):
        return f"{what} is over"
    return _about_the_run(event)


def _about_the_run(event: Event) -> str | None:
    body = event.body
    if isinstance(body, AttemptStarted):
        return f"attempt {event.attempt}" if event.attempt > 1 else None
    if isinstance(body, RunPaused | RunSuspended):
        return f"{event.type.removeprefix('run_')}: {body.reason}"
    if isinstance(body, RunResumed):
        return f"resumed by {body.who}"
    return None
