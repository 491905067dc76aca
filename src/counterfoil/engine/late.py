"""Functions that run on after nobody waits for them any more: a plain one past its time, or in a cancelled step.

What such a function comes back with is refused, and recorded as evidence.
"""

import asyncio
from typing import Any

from counterfoil.core import codec, events, failure, parts
from counterfoil.core.events import LateReport, StepFailed, StepSucceeded
from counterfoil.core.replay import Operation
from counterfoil.core.state import Status
from counterfoil.engine.ending import Ending
from counterfoil.engine.recorder import Recorder, as_value
from counterfoil.errors import CounterfoilError


class LateReports:
    """Waits for such functions, for one attempt; what comes after it goes to the run's inbox."""

    def __init__(self, recorder: Recorder, ending: Ending) -> None:
        self._recorder, self._ending = recorder, ending
        self._running: dict[str, asyncio.Future[Any]] = {}
        self._sending: set[asyncio.Future[Any]] = set()

    def expects(self, key: str) -> bool:
        """Whether a function of this step still runs."""
        return key in self._running

    def expect(self, running: "asyncio.Future[Any]", operation: Operation, *, number: int) -> None:
        """Report what this function comes back with."""
        self._running[operation.key] = running
        running.add_done_callback(lambda done: self._report(done, operation.key, number))

    def _report(self, done: "asyncio.Future[Any]", key: str, number: int) -> None:
        self._running.pop(key, None)
        kind, value = _outcome(done)
        report = LateReport(event=kind, of_step=key, of_try=number, from_epoch=self._recorder.epoch, report=value)
        if self._recorder.state.status is Status.RUNNING and not self._ending.is_sealed:
            self._recorder.note(report)
            sent = asyncio.ensure_future(self._recorder.flush())
        else:
            sent = asyncio.ensure_future(self._recorder.report_late(report, f"{key}:{number}"))
        self._sending.add(sent)
        sent.add_done_callback(self._sent)

    def _sent(self, sent: "asyncio.Future[Any]") -> None:
        self._sending.discard(sent)
        if not sent.cancelled():
            sent.exception()  # the store is closed, or another owner has the run: evidence is all that is lost


def _outcome(done: "asyncio.Future[Any]") -> tuple[str, Any]:
    """The type of the event that this would have been, and what it would have said."""
    error = done.exception()
    if error is not None:
        record = events.encode(failure.to_record(error))
        return StepFailed.type, as_value(record)
    try:
        return StepSucceeded.type, as_value(codec.encode(done.result(), where="a late result").raw)
    except CounterfoilError:
        return StepSucceeded.type, parts.NONE
