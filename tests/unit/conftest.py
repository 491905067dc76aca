"""A builder of events, so that a test states only what matters to it."""

from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from counterfoil.core import codec
from counterfoil.core.events import (
    AttemptStarted,
    Body,
    Envelope,
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
    StepFailed,
    StepIntended,
    StepSucceeded,
    TimerFired,
    TimerSet,
)
from counterfoil.core.parts import ErrorRecord
from counterfoil.core.replay import Cursor, Operation
from counterfoil.core.state import RunState

BOOM = ErrorRecord(type="builtins:ValueError", message="boom", args=msgspec.Raw(b'["boom"]'))


class Script:
    """A run's events, one call a line; `begun()` has a run and an attempt already."""

    def __init__(self) -> None:
        self.events: list[Event] = []
        self.attempt = 0

    def add(self, body: Body, *, step: str | None = None, try_number: int = 0) -> "Script":
        seq = len(self.events)
        envelope = Envelope(
            run="r", seq=seq, type=body.type, time=1000 + seq, step=step, attempt=self.attempt, try_number=try_number
        )
        self.events.append(Event(envelope, body, b""))
        return self

    def begun(self) -> "Script":
        return self.add(RunStarted(workflow="w", input=msgspec.Raw(b'{"q":1}'))).again()

    def again(self) -> "Script":
        self.attempt += 1
        return self.add(AttemptStarted())

    def intended(
        self, step: str, name: str = "f", value: Any = None, *, kind: str = "tool", tried: int = 1
    ) -> "Script":
        raw = codec.encode(value, where="it").raw
        body = StepIntended(
            kind=kind, name=name, input=msgspec.Raw(raw), digest=codec.input_digest(raw), worst_cost_usd=0.5
        )
        return self.add(body, step=step, try_number=tried)

    def succeeded(self, step: str, result: bytes = b"1", *, annotated: bool = False, tried: int = 1) -> "Script":
        return self.add(StepSucceeded(result=msgspec.Raw(result), annotated=annotated), step=step, try_number=tried)

    def done(self, step: str, name: str = "f", value: Any = None, *, result: bytes = b"1") -> "Script":
        return self.intended(step, name, value).succeeded(step, result)

    def failed(self, step: str, *, tried: int = 1) -> "Script":
        return self.add(StepFailed(error=BOOM), step=step, try_number=tried)

    def retry(self, step: str, due: int, *, tried: int = 1) -> "Script":
        return self.add(RetrySet(due=due, error=BOOM), step=step, try_number=tried)

    def unknown(self, step: str, *, tried: int = 1) -> "Script":
        return self.add(OutcomeUnknown(lost_attempt=self.attempt - 1), step=step, try_number=tried)

    def read(self, step: str, kind: str = "time", value: bytes = b"5") -> "Script":
        return self.add(ReadRecorded(kind=kind, value=msgspec.Raw(value)), step=step)

    def timer(self, step: str, due: int, seconds: float = 3) -> "Script":
        raw = codec.encode({"seconds": seconds}, where="it").raw
        return self.add(TimerSet(due=due, input=msgspec.Raw(raw), digest=codec.input_digest(raw)), step=step)

    def fired(self, step: str) -> "Script":
        return self.add(TimerFired(), step=step)

    def paused(self, reason: str = "step_failed", step: str | None = None) -> "Script":
        return self.add(RunPaused(reason=reason, step=step))

    def resumed(self, step: str | None = None) -> "Script":
        return self.add(RunResumed(reopened=step))

    def suspended(self) -> "Script":
        return self.add(RunSuspended(reason="stopped"))

    def completed(self, result: bytes = b"2") -> "Script":
        return self.add(RunCompleted(result=msgspec.Raw(result)))

    def ended_badly(self) -> "Script":
        return self.add(RunFailed(error=BOOM))

    @property
    def state(self) -> RunState:
        state = RunState(run="r")
        for event in self.events:
            state.apply(event)
        return state

    @property
    def cursor(self) -> Cursor:
        return Cursor(self.state)


@pytest.fixture
def script() -> Script:
    return Script()


@pytest.fixture
def begun(script: Script) -> Script:
    return script.begun()


@pytest.fixture
def ask() -> Callable[..., Operation]:
    def operation(step: str, name: str = "f", value: Any = None, *, kind: str = "tool") -> Operation:
        return Operation(key=step, kind=kind, name=name, input=codec.encode(value, where="it").raw)

    return operation


@pytest.fixture
def boom() -> ErrorRecord:
    return BOOM
