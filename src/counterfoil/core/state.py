"""A run's state: the fold of its events, with the legal transitions as data.

An event that the table does not allow raises IllegalTransitionError and changes nothing. Writers fold their own events
before they append them, readers fold what is stored; both go through `RunState.apply`.

Rule for changes: REDUCER names the version of the tables and of the fold. A changed meaning is a new event type, so
that an old journal always folds to the state it had; `tests/upgrade` holds that with a fixture of each release.
"""

from collections.abc import Callable, Iterable
from enum import StrEnum
from typing import Any, cast

import msgspec

from counterfoil.core.clock import Instant
from counterfoil.core.events import (
    ArtifactStored,
    AttemptStarted,
    Body,
    Event,
    OutcomeUnknown,
    ReadRecorded,
    RetrySet,
    RunCompleted,
    RunFailed,
    RunPaused,
    RunResumed,
    RunStarted,
    RunSuspended,
    StepCancelled,
    StepDispatched,
    StepFailed,
    StepIntended,
    StepSucceeded,
    StepTimedOut,
    TimerFired,
    TimerSet,
    encode,
)
from counterfoil.core.parts import NONE, ErrorRecord, Value
from counterfoil.core.sharing import Inputs, Piece
from counterfoil.errors import IllegalTransitionError

REDUCER = 1


class Status(StrEnum):
    """Where a run stands."""

    PENDING = "pending"  # recorded, and nobody drives it
    RUNNING = "running"  # an attempt began and has not ended; its owner may be dead
    SUSPENDED = "suspended"  # waits, and holds no process
    PAUSED = "paused"  # needs a person or new code
    COMPLETED = "completed"
    FAILED = "failed"

    @property
    def is_final(self) -> bool:
        """Whether nothing more can happen to the run."""
        return self in {Status.COMPLETED, Status.FAILED}


RUN_TRANSITIONS: dict[tuple[Status | None, str], Status] = {
    (None, RunStarted.type): Status.PENDING,
    (Status.PENDING, AttemptStarted.type): Status.RUNNING,
    (Status.SUSPENDED, AttemptStarted.type): Status.RUNNING,
    (Status.RUNNING, AttemptStarted.type): Status.RUNNING,  # the last owner died
    (Status.RUNNING, RunSuspended.type): Status.SUSPENDED,
    (Status.RUNNING, RunPaused.type): Status.PAUSED,
    (Status.PAUSED, RunResumed.type): Status.PENDING,
    (Status.RUNNING, RunCompleted.type): Status.COMPLETED,
    (Status.RUNNING, RunFailed.type): Status.FAILED,
}
"""(status, event) -> status. Events of no run or step leave a running run as it is, and are illegal otherwise."""
RUN_EVENTS = frozenset(event for _, event in RUN_TRANSITIONS)


class StepStatus(StrEnum):
    """Where a step stands."""

    OPEN = "open"  # intended, no outcome yet
    UNKNOWN = "unknown"  # intended in an attempt that died
    RETRYING = "retrying"  # failed, another try is due
    WAITING = "waiting"  # a timer
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    TIMED_OUT = "timed out, still running"  # its function can't be stopped
    CANCELLED = "cancelled"  # by the program's own code
    REOPENED = "reopened"  # failed, and a person asked for another try


STEP_TRANSITIONS: dict[tuple[StepStatus | None, str], StepStatus] = {
    (None, StepIntended.type): StepStatus.OPEN,
    (None, ReadRecorded.type): StepStatus.SUCCEEDED,
    (None, ArtifactStored.type): StepStatus.SUCCEEDED,
    (None, TimerSet.type): StepStatus.WAITING,
    (StepStatus.OPEN, StepDispatched.type): StepStatus.OPEN,
    (StepStatus.OPEN, StepSucceeded.type): StepStatus.SUCCEEDED,
    (StepStatus.OPEN, StepFailed.type): StepStatus.FAILED,
    (StepStatus.OPEN, RetrySet.type): StepStatus.RETRYING,
    (StepStatus.OPEN, OutcomeUnknown.type): StepStatus.UNKNOWN,
    (StepStatus.OPEN, StepTimedOut.type): StepStatus.TIMED_OUT,
    (StepStatus.OPEN, StepCancelled.type): StepStatus.CANCELLED,
    (StepStatus.TIMED_OUT, StepFailed.type): StepStatus.FAILED,
    (StepStatus.TIMED_OUT, RetrySet.type): StepStatus.RETRYING,
    (StepStatus.TIMED_OUT, OutcomeUnknown.type): StepStatus.UNKNOWN,
    (StepStatus.TIMED_OUT, StepCancelled.type): StepStatus.CANCELLED,
    (StepStatus.RETRYING, StepFailed.type): StepStatus.FAILED,  # its time was over before the next try
    (StepStatus.RETRYING, StepCancelled.type): StepStatus.CANCELLED,
    (StepStatus.UNKNOWN, StepFailed.type): StepStatus.FAILED,
    (StepStatus.UNKNOWN, StepIntended.type): StepStatus.OPEN,
    (StepStatus.RETRYING, StepIntended.type): StepStatus.OPEN,
    (StepStatus.REOPENED, StepIntended.type): StepStatus.OPEN,
    (StepStatus.WAITING, TimerFired.type): StepStatus.SUCCEEDED,
    (StepStatus.WAITING, StepCancelled.type): StepStatus.CANCELLED,
    (StepStatus.CANCELLED, StepIntended.type): StepStatus.OPEN,  # it was not cancelled this time
    (StepStatus.CANCELLED, TimerSet.type): StepStatus.WAITING,
}
STEP_EVENTS = frozenset(event for _, event in STEP_TRANSITIONS)
REOPENABLE = frozenset({StepStatus.FAILED, StepStatus.UNKNOWN})
UNDER_WAY = frozenset({StepStatus.OPEN, StepStatus.TIMED_OUT})
PROGRESS = frozenset(
    {StepSucceeded.type, StepFailed.type, RetrySet.type, StepCancelled.type, TimerFired.type, ArtifactStored.type}
)
"""Events that show that an attempt got further, so that a crash after it is not counted as barren."""


class StepState(msgspec.Struct, kw_only=True):
    """What is known of one step."""

    key: str
    kind: str
    name: str
    status: StepStatus
    seq: int  # of its first event
    input: Value | Piece | None = None  # a piece, if most of it stands in an earlier one: see `RunState.inputs`
    digest: str | None = None
    contract: str | None = None
    try_number: int = 0
    first_time: Instant = 0  # of its first try
    attempt: int = 0  # that made the present try
    result: Value | None = None
    annotated: bool = False
    error: ErrorRecord | None = None
    due: Instant | None = None
    tries_before: int = 0  # tries set aside when a person reopened the step
    unknown_tries: int = 0  # since then
    worst_cost_usd: float | None = None
    calls: int | msgspec.UnsetType = msgspec.UNSET  # requests of the present try that may count; unset: one
    chunks: Value | msgspec.UnsetType = msgspec.UNSET  # of a stream that broke or was cancelled: what was handed over


class RunState(msgspec.Struct, kw_only=True, dict=True):
    """What is known of one run. Changed by `apply` only."""

    run: str
    status: Status | None = None
    seq: int = -1  # of the last event
    workflow: str = ""
    version: str | None = None
    input: Value = Value(b"{}")
    tags: dict[str, str] = {}
    attempt: int = 0
    attempt_progress: bool = False
    crashes: int = 0  # in a row, that added no outcome
    incarnation: int = 1
    steps: dict[str, StepState] = {}
    order: list[str] = []  # keys of steps with an outcome, in the order of the journal
    pause: RunPaused | None = None
    result: Value | None = None
    annotated: bool = False
    error: ErrorRecord | None = None
    started: Instant = 0
    updated: Instant = 0

    def __post_init__(self) -> None:
        self.inputs = Inputs(self.run)  # of all tries; no field, as it is only how the steps' inputs are held

    def apply(self, event: Event) -> None:
        """Take one event in.

        Raises IllegalTransitionError, and JournalUnreadableError for an input most of which should stand in another
        one that is not there; then nothing has changed.
        """
        envelope, body = event.envelope, event.body
        self.check(event)
        self.seq, self.updated = envelope.seq, envelope.time
        if body.type in PROGRESS:
            self.attempt_progress = True
        _TAKE.get(type(body), _nothing)(self, event, body)
        if getattr(body, "sends", ()):
            self.inputs.take(event)
        self.status = RUN_TRANSITIONS.get((self.status, body.type), self.status)

    def check(self, event: Event) -> None:
        """Raise IllegalTransitionError unless this event may come next."""
        body = event.body
        is_moved = (self.status, body.type) in RUN_TRANSITIONS
        if not is_moved and (body.type in RUN_EVENTS or self.status is not Status.RUNNING):
            self._illegal(body, f"run {self.run}", self.status)
        if event.seq != self.seq + 1:
            self._illegal(body, f"the journal (asked for position {event.seq})", f"at {self.seq}")
        if event.step is not None or body.type in STEP_EVENTS:
            status = self._status_of(event.step)
            if event.step is None or (status, body.type) not in STEP_TRANSITIONS:
                self._illegal(body, f"step {event.step}", status)
        if isinstance(body, RunResumed) and body.reopened is not None:
            status = self._status_of(body.reopened)
            if status not in REOPENABLE:
                self._illegal(body, f"step {body.reopened}", status)
        self.inputs.check(event)

    def open_steps(self) -> list[StepState]:
        """Steps whose last try has no outcome, in program order of their first event."""
        return [step for step in self.steps.values() if step.status in UNDER_WAY]

    def _status_of(self, key: str | None) -> StepStatus | None:
        step = self.steps.get(key or "")
        return step.status if step else None

    def _illegal(self, body: Body, subject: str, state: object) -> None:
        raise IllegalTransitionError(run=self.run, event=body.type, subject=subject, state=str(state or "new"))


def fold(run: str, events: Iterable[Event]) -> RunState:
    """The state after these events."""
    state = RunState(run=run)
    for event in events:
        state.apply(event)
    return state


def _started(state: RunState, event: Event, body: RunStarted) -> None:
    state.workflow, state.version, state.input, state.tags = body.workflow, body.version, body.input, body.tags
    state.started = event.time


def _attempt(state: RunState, event: Event, _: AttemptStarted) -> None:
    if state.status is Status.RUNNING:  # nothing closed the attempt before: its process died
        state.crashes = 0 if state.attempt_progress else state.crashes + 1
    state.attempt, state.attempt_progress = event.attempt, False


def _paused(state: RunState, _: Event, body: RunPaused) -> None:
    state.pause = body


def _resumed(state: RunState, event: Event, body: RunResumed) -> None:
    state.pause, state.crashes = None, 0
    if body.reopened is not None:
        step = state.steps[body.reopened]
        step.status, step.tries_before, step.unknown_tries = StepStatus.REOPENED, step.try_number, 0
        step.first_time = event.time
        state.order = [key for key in state.order if key != step.key]


def _completed(state: RunState, _: Event, body: RunCompleted) -> None:
    state.result, state.annotated = body.result, body.annotated


def _failed(state: RunState, _: Event, body: RunFailed) -> None:
    state.error = body.error


def _intended(state: RunState, event: Event, body: StepIntended) -> None:
    step = state.steps.get(cast("str", event.step)) or _new_step(state, event, body.kind, name=body.name)
    step.status, step.try_number, step.attempt = StepStatus.OPEN, event.envelope.try_number, event.attempt
    (piece,) = state.inputs.take(event)
    step.input, step.digest = piece if body.shared else body.input, body.digest
    step.contract = event.envelope.contract
    step.worst_cost_usd, step.due, step.calls = body.worst_cost_usd, None, msgspec.UNSET
    step.chunks = msgspec.UNSET


def _dispatched(state: RunState, event: Event, body: StepDispatched) -> None:
    """One more request; the one before it does not count if it is known to have been refused."""
    step = _step(state, event)
    was_refused = (body.before or "").startswith(("HTTP 4", "HTTP 5"))
    step.calls = (step.calls or 1) + (not was_refused)


def _read(state: RunState, event: Event, body: ReadRecorded) -> None:
    step = _new_step(state, event, body.kind, name=body.kind)
    step.result = body.value
    _close(state, step, StepStatus.SUCCEEDED)


def _artifact_stored(state: RunState, event: Event, body: ArtifactStored) -> None:
    step = _new_step(state, event, "artifact", name="artifact")
    step.input = artifact_input(body)
    _close(state, step, StepStatus.SUCCEEDED)


def artifact_input(body: ArtifactStored) -> Value:
    """What the code must ask for again on replay: the same content, as the same type of media."""
    return Value(encode({"digest": body.digest, "media_type": body.media_type, "size_bytes": body.size_bytes}))


def _timer_set(state: RunState, event: Event, body: TimerSet) -> None:
    step = _new_step(state, event, "sleep", name="sleep")
    step.status, step.due = StepStatus.WAITING, body.due
    step.input, step.digest = body.input, body.digest


def _timed_out(state: RunState, event: Event, _: StepTimedOut) -> None:
    _step(state, event).status = StepStatus.TIMED_OUT


def _cancelled(state: RunState, event: Event, body: StepCancelled) -> None:
    step = _step(state, event)
    step.status, step.due = StepStatus.CANCELLED, None
    _handed_over(step, body.chunks)


def _timer_fired(state: RunState, event: Event, _: TimerFired) -> None:
    _close(state, _step(state, event), StepStatus.SUCCEEDED)


def _succeeded(state: RunState, event: Event, body: StepSucceeded) -> None:
    step = _step(state, event)
    step.result, step.annotated, step.error = body.result, body.annotated, None
    _close(state, step, StepStatus.SUCCEEDED)


def _step_failed(state: RunState, event: Event, body: StepFailed) -> None:
    step = _step(state, event)
    step.error = body.error
    _handed_over(step, body.chunks)
    _close(state, step, StepStatus.FAILED)


def _handed_over(step: StepState, chunks: Value) -> None:
    if chunks != NONE:
        step.chunks = chunks


def _retry(state: RunState, event: Event, body: RetrySet) -> None:
    step = _step(state, event)
    step.status, step.due, step.error = StepStatus.RETRYING, body.due, body.error


def _unknown(state: RunState, event: Event, _: OutcomeUnknown) -> None:
    step = _step(state, event)
    step.status = StepStatus.UNKNOWN
    step.unknown_tries += 1


def _nothing(_state: RunState, _event: Event, _body: Body) -> None:
    """For events that are kept as evidence, or move only the status."""


def _step(state: RunState, event: Event) -> StepState:
    return state.steps[cast("str", event.step)]


def _new_step(state: RunState, event: Event, kind: str, *, name: str) -> StepState:
    key = cast("str", event.step)
    step = StepState(key=key, kind=kind, name=name, status=StepStatus.OPEN, seq=event.seq, first_time=event.time)
    state.steps[key] = step
    return step


def _close(state: RunState, step: StepState, status: StepStatus) -> None:
    step.status, step.due = status, None
    state.order.append(step.key)


_TAKE: dict[type[Body], Callable[[RunState, Event, Any], None]] = {
    RunStarted: _started,
    AttemptStarted: _attempt,
    RunPaused: _paused,
    RunResumed: _resumed,
    RunCompleted: _completed,
    RunFailed: _failed,
    StepIntended: _intended,
    StepDispatched: _dispatched,
    ReadRecorded: _read,
    ArtifactStored: _artifact_stored,
    TimerSet: _timer_set,
    TimerFired: _timer_fired,
    StepSucceeded: _succeeded,
    StepFailed: _step_failed,
    RetrySet: _retry,
    StepTimedOut: _timed_out,
    StepCancelled: _cancelled,
    OutcomeUnknown: _unknown,
}
