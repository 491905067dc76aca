"""Drives one attempt: loads the record, runs the code against it, records how it ended.

The states a run can be left in are data of the core; this module only gets there. Nothing of ours is ever open in the
store while user code runs.
"""

import asyncio
import contextvars
import logging
import platform
from collections.abc import Callable, Coroutine, Sequence
from typing import Any

import msgspec

from counterfoil import artifacts
from counterfoil.core import anatomy, codec, events, failure, integrity, parts
from counterfoil.core.events import (
    AttemptStarted,
    LateReport,
    OutcomeUnknown,
    Record,
    RunCompleted,
    RunFailed,
    RunPaused,
    RunResumed,
    RunSuspended,
)
from counterfoil.core.scrub import Scrubber
from counterfoil.core.state import StepState, fold
from counterfoil.core.tally import Tally
from counterfoil.engine import keyring, unsafe
from counterfoil.engine.attempt import Attempt
from counterfoil.engine.branches import current_branches
from counterfoil.engine.context import Context
from counterfoil.engine.definitions import Workflow, current_run, current_step
from counterfoil.engine.loaded import known_modules
from counterfoil.engine.loops import watched
from counterfoil.engine.outcomes import arguments_of, failed_error, paused_error
from counterfoil.engine.prices import Prices
from counterfoil.engine.recorder import Past, Recorder, as_value
from counterfoil.engine.resources import Resources
from counterfoil.engine.system import System
from counterfoil.engine.verdicts import (
    Verdict,
    crash_verdict,
    failed_verdict,
    mismatch_verdict,
    needs_code,
    replay_failed_verdict,
)
from counterfoil.errors import (
    ArtifactError,
    BranchLeftError,
    CallError,
    CounterfoilError,
    DeclarationError,
    IllegalTransitionError,
    JournalDamagedError,
    NotReadableError,
    ResultNotStorableError,
    RunFailedError,
    RunPausedError,
    RunStoppedError,
    SecretError,
    StaleEpochError,
    StoreError,
    ValueFormError,
)
from counterfoil.store import Head, Message, Store

CRASHES_MAX = 3
"""After so many crashes in a row that added no outcome, the run pauses."""

NAMED_MAX = 5
"""So many of the tasks that a body left behind are named."""

_log = logging.getLogger("counterfoil.run")


class Resume(msgspec.Struct, frozen=True):
    """A person's wish that a paused run goes on."""

    who: str
    why: str | None = None


class Surroundings(msgspec.Struct, frozen=True):
    """What a driver is given: the same for all runs of a journal."""

    store: Store
    system: System
    scrubber: Scrubber
    prices: Prices
    release: str  # version
    worker: str
    resources: Resources
    stretch: Callable[[], int]  # which unbroken stretch of our lease this is; 0 if it may have lapsed


class Driver:
    """One attempt at one run. Made when the run has been taken, used once."""

    def __init__(self, around: Surroundings, workflow: Workflow, head: Head) -> None:
        self._around, self._workflow, self._head = around, workflow, head
        self._attempt: Attempt | None = None
        self._stop_asked: str | None = None

    async def drive(self, records: Sequence[Record], *, resume: Resume | None = None) -> Any:
        """The workflow's result.

        Raises RunPausedError, RunFailedError, or RunStoppedError when this process left the run resumable. Whatever
        is returned or raised is on disk first. Raises JournalDamagedError, ArtifactMissingError and the like when the
        record can't be read; then the run is left as it is.
        """
        known_modules()  # before any step of this process can import more
        around = self._around
        keyring.take_out_of(around.scrubber)
        past = await load(self._head, records, around.store.artifact)
        state = past.state
        recorder = Recorder(
            around.store, around.system, around.scrubber, head=self._head, past=past, prices=around.prices
        )
        recorder.attempt, recorder.root = state.attempt + 1, records[0].hash
        try:
            await self._begin(recorder, resume)
            if state.crashes >= CRASHES_MAX:
                return await self._pause(recorder, crash_verdict(state))
            return await self._run(recorder)
        except CounterfoilError as error:
            if isinstance(error, RunPausedError | RunFailedError | RunStoppedError):
                raise
            raise RunStoppedError(run=self._head.run, why=str(error)) from error

    def stop(self, why: str) -> None:
        """Leave the run resumable: no further call begins; a step under way may finish."""
        self._stop_asked = why
        if self._attempt:
            self._attempt.ending.stop(why)

    def cut(self) -> None:
        """End a step that is still under way; its outcome will be unknown."""
        if self._attempt:
            self._attempt.ending.cut()

    def abandon(self) -> None:
        """Leave a body that does not end when it is cut."""
        if self._attempt:
            self._attempt.ending.abandon()

    # --- the beginning ---

    async def _begin(self, recorder: Recorder, resume: Resume | None) -> None:
        """Note the attempt, and every try that an earlier one left open; before any live call."""
        state = recorder.state
        if state.pause:
            if resume is None:  # another process paused it while this one was about to attach
                raise paused_error(self._head.run, state.pause)
            recorder.note(RunResumed(reopened=state.pause.step, who=resume.who, why=resume.why))
        around = self._around
        recorder.note(
            AttemptStarted(
                worker=around.worker,
                host=around.system.host,
                process=around.system.process,
                release=f"counterfoil {around.release}, Python {platform.python_version()}",
                version=self._workflow.version,
            )
        )
        for step in state.open_steps():
            calls, worst = step.calls or 1, step.worst_cost_usd
            body = OutcomeUnknown(lost_attempt=step.attempt, calls=calls, worst_cost_usd=worst)
            recorder.note(body, step=step.key, try_number=step.try_number)
        inbox = await around.store.inbox(self._head.run)
        taken = [self._take_in(recorder, message) for message in inbox if message.kind == LateReport.type]
        if self._head.epoch > 1 or taken:  # somebody was here before: a crash from here on must count
            await recorder.flush(taken=taken)

    @staticmethod
    def _take_in(recorder: Recorder, message: Message) -> str:
        recorder.note(msgspec.json.decode(message.body, type=LateReport))
        return message.id

    # --- the body ---

    async def _run(self, recorder: Recorder) -> Any:
        around = self._around
        attempt = Attempt(
            self._head.run, recorder, system=around.system, scrubber=around.scrubber, stretch=around.stretch,
            resources=around.resources,
        )  # fmt: skip
        self._attempt = attempt
        try:
            arguments = arguments_of(self._workflow, recorder.state.input)
        except NotReadableError as error:
            return await self._pause(recorder, needs_code(error))
        ended = await self._body(attempt, arguments)
        ending = attempt.ending
        if ending.verdict:
            return await self._pause(recorder, ending.verdict)
        if ending.stopped and (ending.interrupted or ended.error):
            return await self._leave(recorder, ending.stopped)
        if ended.error is not None:
            return await self._fail(recorder, attempt, ended.error)
        left = attempt.cursor.finish()
        if left:
            return await self._pause(recorder, mismatch_verdict(self._head.run, left))
        return await self._complete(recorder, ended.value)

    async def _body(self, attempt: Attempt, arguments: dict[str, Any]) -> "_Ended":
        """Run the workflow's body as the run's first branch, until every branch has ended or swallows its end."""
        context = Context(attempt, self._around.system, log=self._write_log)
        variables = contextvars.copy_context()
        variables.run(current_run.set, context)
        variables.run(current_step.set, None)
        variables.run(current_branches.set, attempt.branches)
        with watched():
            task = attempt.begin(_contained(lambda: self._workflow.function(context, **arguments)), variables)
            if self._stop_asked:
                attempt.ending.stop(self._stop_asked)
            await asyncio.wait({task, attempt.ending.abandoned}, return_when=asyncio.FIRST_COMPLETED)
            left = attempt.branches.left()
            await attempt.ending.clear()
            await attempt.settle()
        for endless in attempt.branches.left():
            place = unsafe.place_of(endless) or "?"
            _log.error("run %s: the code at %s swallowed the signal that ended it: abandoned", attempt.run, place)
            _abandon(endless)
        if task.cancelled() or not task.done():
            return _Ended(None, asyncio.CancelledError())
        ended: _Ended = task.result()
        misuse = attempt.left_open or (_left_behind(left) if left else None)
        return ended if ended.error or not misuse else _Ended(None, misuse)

    def _write_log(self, level: str, message: str) -> None:
        text = self._around.scrubber.outcomes.text(message)
        getattr(_log, level)("%s", text, extra={"run": self._head.run})

    # --- the ends ---

    async def _complete(self, recorder: Recorder, value: Any) -> Any:
        where = f"the result of {self._workflow.name}"
        annotation = self._workflow.hints.get("return", Any)
        try:
            encoded, _ = codec.record(value, annotation, where=where)
        except CounterfoilError as error:
            return await self._pause(recorder, needs_code(error))
        body = recorder.note(RunCompleted(result=as_value(encoded.raw), annotated=encoded.annotated))
        await recorder.flush(release=True)
        return codec.decode(bytes(body.result), annotation, annotated=encoded.annotated, where=where)

    async def _fail(self, recorder: Recorder, attempt: Attempt, error: BaseException) -> Any:
        step = self._failed_step(recorder, attempt, error)
        if step is not None:
            left = attempt.cursor.finish()  # the recorded code caught this failure and went on
            failed = self._step_verdict(step, error)
            return await self._pause(recorder, mismatch_verdict(self._head.run, left) if left else failed)
        if not isinstance(error, Exception):  # not an end of the work: the interpreter or a caller wants out
            return await self._leave(recorder, RunStoppedError(run=self._head.run, why=_way_out(error)), error)
        for leaf in _leaves(error):
            if isinstance(leaf, ArtifactError | CallError | DeclarationError | SecretError | ValueFormError):
                return await self._pause(recorder, needs_code(leaf))
        if isinstance(error, StoreError):  # of an artifact that could not be read just now
            return await self._leave(recorder, RunStoppedError(run=self._head.run, why=str(error)), error)
        if attempt.cursor.is_replaying:  # the record goes on: what failed is this place, not the work
            return await self._pause(recorder, replay_failed_verdict(self._head.run, error))
        return await self._record_end(recorder, error)

    def _step_verdict(self, step: StepState, error: BaseException) -> Verdict:
        """A failed step can be tried again, unless it ran well and only its result could not be kept."""
        for leaf in _leaves(error):
            if isinstance(leaf, ResultNotStorableError):
                return needs_code(leaf)
        return failed_verdict(self._head.run, step, error)

    @staticmethod
    def _failed_step(recorder: Recorder, attempt: Attempt, error: BaseException) -> StepState | None:
        """The step whose failure this is; for a group of nothing but failures of steps, the first one recorded."""
        keys = {id(leaf): key for raised, key in attempt.live.raised for leaf in _leaves(raised)}
        found = [keys.get(id(leaf)) for leaf in _leaves(error)]
        if None in found:
            return None
        return min((recorder.state.steps[key] for key in found if key is not None), key=lambda step: step.seq)

    async def _record_end(self, recorder: Recorder, error: Exception) -> Any:
        body = recorder.note(RunFailed(error=failure.to_record(error, known_modules())))
        await recorder.flush(release=True)
        raise failed_error(self._head.run, body) from failure.readable(body.error).with_traceback(anatomy.trace(error))

    async def _pause(self, recorder: Recorder, verdict: Verdict) -> Any:
        body = recorder.note(
            RunPaused(
                reason=verdict.reason,
                step=verdict.step,
                detail=failure.printable(verdict.detail),
                next=verdict.next,
                facts=verdict.facts,
            )
        )
        await recorder.flush(reason=verdict.reason, release=True)
        raise paused_error(self._head.run, body) from verdict.cause

    async def _leave(self, recorder: Recorder, stopped: RunStoppedError, cause: BaseException | None = None) -> Any:
        cause = stopped.__cause__ or cause
        if isinstance(cause, StaleEpochError):
            await self._report_late(recorder)
        elif not isinstance(cause, StoreError):
            recorder.note(RunSuspended(reason="stopped"))
            await recorder.flush(reason="stopped", release=True)
        raise stopped from cause

    async def _report_late(self, recorder: Recorder) -> None:
        """What a replaced owner still knows goes to the inbox, as evidence (J7)."""
        around, last = self._around, recorder.last
        report = LateReport(
            event=last.type if last else None,
            of_step=recorder.last_step,
            from_epoch=self._head.epoch,
            report=as_value(events.encode(last)) if last else parts.NONE,
            who=around.worker,
        )
        await recorder.report_late(report, "owner")


_abandoned: list[asyncio.Task[Any]] = []
"""Bodies that never end: kept, since one that is collected would go on in its `except`."""


def _abandon(task: asyncio.Task[Any]) -> None:
    """Let the loop forget the task: `asyncio.run` would cancel it and wait for it, without end."""
    asyncio.tasks._unregister_task(task)  # noqa: SLF001 - documented for those who extend asyncio
    task._log_destroy_pending = False  # type: ignore[attr-defined] # noqa: SLF001 - as asyncio.gather does
    _abandoned.append(task)


def _leaves(error: BaseException) -> list[BaseException]:
    if not isinstance(error, BaseExceptionGroup):
        return [error]
    return [leaf for inner in error.exceptions for leaf in _leaves(inner)]


class _Ended(msgspec.Struct, frozen=True):
    """How a body ended."""

    value: Any
    error: BaseException | None


def _left_behind(tasks: Sequence[asyncio.Task[Any]]) -> BranchLeftError:
    names = ", ".join(sorted(getattr(task.get_coro(), "__qualname__", "?") for task in tasks)[:NAMED_MAX])
    return BranchLeftError(count=len(tasks), names=names)


def _way_out(error: BaseException) -> str:
    """What a body did that is no end of the work."""
    if isinstance(error, SystemExit):
        return f"the workflow's code called sys.exit({error.code!r})"
    return f"the workflow's code was left by {type(error).__name__}"


async def _contained(make: Callable[[], Coroutine[Any, Any, Any]]) -> _Ended:
    """How the body ends. A `sys.exit()` in it ends the body, not the event loop with all other runs."""
    try:
        return _Ended(await make(), None)
    except asyncio.CancelledError:
        raise
    except BaseException as error:  # noqa: BLE001 - the driver decides what each kind means
        return _Ended(None, error)


async def load(head: Head, records: Sequence[Record], fetch: artifacts.Fetch) -> Past:
    """The state of a run, and what its model calls came to, from records and artifacts that were checked.

    Raises JournalDamagedError, JournalUnreadableError, ArtifactMissingError, ArtifactAlteredError.
    """
    for flaw in integrity.flaws(records, anchors=[integrity.Anchor(head.seq, head.hash)]):
        raise JournalDamagedError(run=head.run, seq=flaw.seq, problem=flaw.problem)
    recorded = await artifacts.read_all(records, head.run, fetch)
    try:
        return Past(fold(head.run, recorded), Tally(recorded))
    except IllegalTransitionError as error:  # no owner wrote that: it was refused before it was written
        raise JournalDamagedError(run=head.run, seq=recorded[-1].seq, problem=str(error)) from error
