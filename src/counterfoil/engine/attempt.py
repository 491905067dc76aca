"""One pass of the code over a run: what a context call does, live and on replay.

Each call becomes an operation with a key; the cursor decides; the attempt carries the decision out. It owns the two
ways of ending a body from inside: `halt`, with a verdict that the driver records, and `stop`, which leaves the run
resumable.
"""

import asyncio
import sys
import time
from collections.abc import Awaitable, Callable
from types import FrameType
from typing import Any, NoReturn

import msgspec

from counterfoil.core import codec, failure, retry
from counterfoil.core.clock import Instant
from counterfoil.core.events import (
    ArtifactStored,
    ReadRecorded,
    RetrySet,
    StepFailed,
    StepIntended,
    StepSucceeded,
    TimerFired,
    TimerSet,
)
from counterfoil.core.keys import ROOT, step_key
from counterfoil.core.replay import (
    Cursor,
    Decision,
    Execute,
    Mismatch,
    Operation,
    Replay,
    ReplayFailure,
    Wait,
    describe,
)
from counterfoil.core.scrub import Scrubber
from counterfoil.core.state import artifact_input
from counterfoil.engine.calls import MODEL, UNSET, Bound
from counterfoil.engine.definitions import CurrentStep, current_step
from counterfoil.engine.recorder import Recorder, as_value
from counterfoil.engine.system import System
from counterfoil.engine.threads import Threads
from counterfoil.engine.verdicts import Verdict, mismatch_verdict, needs_code, unknown_verdict
from counterfoil.errors import (
    CallCancelledError,
    ConcurrentCallError,
    CounterfoilError,
    Halted,
    NestedStepError,
    NotReadableError,
    NotStorableError,
    RunStoppedError,
)
from counterfoil.store import Timer

INTENT_GRACE_SECONDS = 0.005
"""A plain step's intent rides with its outcome when that comes within this time; else it is written alone."""

YIELD_EVERY = 1000
"""A replay hands the loop to others after so many steps."""

threads = Threads()


class Attempt:
    """The live state of one pass. Lives and dies with its driver."""

    def __init__(
        self, run: str, recorder: Recorder, *, system: System, scrubber: Scrubber, stretch: Callable[[], int]
    ) -> None:
        self.run = run
        self.recorder = recorder
        self.cursor = Cursor(recorder.state)
        self.verdict: Verdict | None = None
        self.stopped: RunStoppedError | None = None
        self.abandoned: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.task: asyncio.Task[Any] | None = None
        self.in_step = False
        self.interrupted = False  # the body was told to end, so what it returns is no result
        self.raised: list[tuple[BaseException, str]] = []  # exceptions handed to the body, with their steps
        self._system, self.scrubber = system, scrubber
        self._stretch, self._held_since = stretch, stretch()
        self._ordinal = 0
        self._under_way: str | None = None
        self._replayed = 0
        self._sealed_calls = 0
        self._has_reads = False
        self._intent: asyncio.Future[None] | None = None  # of the step under way, written but not waited for
        self._careful = recorder.epoch > 1  # the owner before may have died in a step, and before its first record

    # --- calls ---

    async def perform(self, bound: Bound, kind: str) -> Any:
        """A step or model call: the recorded outcome, or a live one that is recorded before it is returned."""
        what = describe(kind, bound.definition.name)
        await self._enter(what)
        try:
            operation = self._operation(bound, kind)
            decision = self.cursor.ask(operation)
            if type(decision) is Replay:
                await self._breathe()
                return self._decoded(bound, bytes(decision.value or b"null"), annotated=decision.annotated)
            if type(decision) is Execute:
                return await self._live(bound, operation, decision)
            self._refuse(decision, operation)
        except asyncio.CancelledError:
            self._check_cancelled(what)
            raise
        finally:
            self._under_way = None

    def read(self, kind: str, draw: Callable[[], Any]) -> Any:
        """A recorded read: what is recorded, or what `draw` gives now. Rides with the next commit (J3)."""
        self._check(kind)
        if self.verdict or self.stopped:
            self._end()
        operation = Operation(key=self._next_key(), kind=kind, name=kind)
        decision = self.cursor.ask(operation)
        if type(decision) is Replay:
            return codec.decode(bytes(decision.value or b"null"), None, annotated=False, where=kind)
        if type(decision) is not Execute:
            self._refuse(decision, operation)
        value = draw()
        encoded = codec.encode(value, where=kind)
        self.recorder.note(ReadRecorded(kind=kind, value=as_value(encoded.raw)), step=operation.key)
        self._has_reads = True
        return value

    async def sleep(self, asked: dict[str, Any], due_at: Callable[[Instant], Instant]) -> None:
        """A durable wait. The recorded due time rules."""
        await self._enter("sleep")
        try:
            raw = codec.encode(asked, where="sleep").raw
            operation = Operation(key=self._next_key(), kind="sleep", name="sleep", input=raw)
            decision = self.cursor.ask(operation)
            if type(decision) is Replay:
                await self._breathe()
                return
            if type(decision) is Execute:
                due = await self._set_timer(operation, due_at(self._system.now()))
            elif type(decision) is Wait:
                due = decision.due
            else:
                self._refuse(decision, operation)
            await self._wait_until(due)
            self.recorder.note(TimerFired(), step=operation.key)
            await self._flushed(timer_cleared=Timer(operation.key, due))
        except asyncio.CancelledError:
            self._check_cancelled("sleep")
            raise
        finally:
            self._under_way = None

    # --- ending from inside ---

    def halt(self, verdict: Verdict) -> NoReturn:
        """End the body here: the run will be paused with this verdict."""
        self.verdict = self.verdict or verdict
        self._end()

    def stop(self, why: str) -> None:
        """Let no further call begin, and end a wait at once. A step under way may finish."""
        self.stopped = self.stopped or RunStoppedError(run=self.run, why=why)
        if self.task and not self.in_step:
            self.cut()

    def cut(self) -> None:
        """End the body wherever it is. A step under way has no outcome then."""
        self.interrupted = True
        if self.task:
            self.task.cancel()

    def abandon(self) -> None:
        """Wait no longer for a body that swallows its end."""
        if not self.abandoned.done():
            self.abandoned.set_result(None)

    def _end(self) -> NoReturn:
        self.interrupted = True
        raise Halted

    # --- the live side ---

    async def _live(self, bound: Bound, operation: Operation, decision: Execute) -> Any:
        if decision.unknown_tries and bound.options.on_unknown == "pause":
            self._pause_on_unknown(operation)
        first, due = decision.first_time, decision.due
        try_number = decision.try_number
        while True:
            if due is not None:
                await self._wait_until(due)
            first = first or self._system.now()
            outcome = await self._try(bound, operation, try_number)
            if type(outcome) is not _Failed:
                return outcome
            tried = try_number - decision.tries_before
            due = retry.next_try(
                bound.options.retry_policy, outcome.error, tried=tried, first=first, now=self._system.now()
            )
            await self._record_failure(operation, outcome, due, try_number=try_number)
            try_number += 1

    async def _try(self, bound: Bound, operation: Operation, try_number: int) -> Any:
        await self._intend(bound, operation, try_number)
        begun = time.perf_counter_ns()
        self.in_step = True
        try:
            value = await self._called(bound, operation, try_number)
        except Exception as error:  # noqa: BLE001 - recorded, then raised in the body
            value = _Failed(error, _microseconds(begun))
        finally:
            self.in_step = False
        if type(value) is _Failed:
            return value
        where = f"the result of {operation.name}"
        try:
            encoded, back = codec.record(value, self._returns(bound), where=where)
        except NotStorableError as error:
            return _Failed(error, _microseconds(begun))
        body = StepSucceeded(result=as_value(encoded.raw), annotated=encoded.annotated, duration=_microseconds(begun))
        noted = self.recorder.note(body, step=operation.key, try_number=try_number)
        await self._flushed()
        self._careful = False
        if noted is body:
            return back
        return self._decoded(bound, bytes(noted.result), annotated=encoded.annotated)  # a secret was taken out

    async def _intend(self, bound: Bound, operation: Operation, try_number: int) -> None:
        """Write the intent: before the call for a model call or if a lost try pauses, soon for other steps (J4).

        Reads are on disk first (J3).
        """
        stretch = self._stretch()
        if not stretch:
            self.stopped = RunStoppedError(run=self.run, why="the lease could not be renewed in time")
            self._end()
        if stretch != self._held_since:  # the run may have been taken meanwhile: the store is asked first
            self._careful, self._held_since = True, stretch
        body = StepIntended(
            kind=operation.kind,
            name=operation.name,
            input=as_value(operation.input),
            digest=codec.input_digest(operation.input),
            opaque=bound.opaque,
            worst_cost_usd=bound.options.worst_cost_usd,
        )
        self.recorder.note(body, step=operation.key, try_number=try_number, contract=bound.definition.contract)
        self._intent = None
        must_not_vanish = operation.kind == MODEL or bound.options.on_unknown == "pause"
        if must_not_vanish or self._careful or self._has_reads:
            await self._flushed()

    async def _called(self, bound: Bound, operation: Operation, try_number: int) -> Any:
        """Call the function, inside the step: in this task if it is async, else in a thread."""
        timer = asyncio.get_running_loop().call_later(INTENT_GRACE_SECONDS, self._write_intent)
        token = current_step.set(
            CurrentStep(
                run_id=self.run,
                key=operation.key,
                name=operation.name,
                attempt=self.recorder.attempt,
                try_number=try_number,
            )
        )
        try:
            if bound.options.timeout is None:
                return await _made(bound)
            async with asyncio.timeout(bound.options.timeout):
                return await _made(bound)
        finally:
            current_step.reset(token)
            timer.cancel()

    def _write_intent(self) -> None:
        if self.recorder.has_queued:
            written = asyncio.ensure_future(self.recorder.flush())
            written.add_done_callback(lambda done: done.exception())  # asked for when the outcome fails too
            self._intent = written

    async def _record_failure(
        self, operation: Operation, failed: "_Failed", due: Instant | None, *, try_number: int
    ) -> None:
        """Record a failed try. Returns when another try is due to be made, else raises in the body."""
        record = failure.to_record(failed.error)
        self._careful = False
        if due is not None:
            body = RetrySet(due=due, error=record, duration=failed.duration)
            self.recorder.note(body, step=operation.key, try_number=try_number)
            await self._flushed()
            return
        final = self.recorder.note(
            StepFailed(error=record, duration=failed.duration), step=operation.key, try_number=try_number
        )
        await self._flushed()
        self._raise(failure.rebuild(final.error), operation.key, failed.error)

    async def _set_timer(self, operation: Operation, due: Instant) -> Instant:
        body = TimerSet(due=due, input=as_value(operation.input), digest=codec.input_digest(operation.input))
        self.recorder.note(body, step=operation.key)
        await self._flushed(timer_set=Timer(operation.key, due))
        return due

    async def _wait_until(self, due: Instant) -> None:
        if due > self._system.now():
            await self._system.sleep_until(due)
        if self.stopped:
            self._end()

    async def _flushed(self, *, timer_set: Timer | None = None, timer_cleared: Timer | None = None) -> None:
        """Append what is noted, and wait until it is on disk."""
        self._has_reads = False
        await self._written(self.recorder.flush(timer_set=timer_set, timer_cleared=timer_cleared))

    async def _written(self, written: Awaitable[None]) -> None:
        """Wait until it is on disk. If it can't be, this process no longer drives the run."""
        try:
            await written
        except CounterfoilError as error:
            cause = self._intent_error() or error
            self.stopped = self.stopped or RunStoppedError(run=self.run, why=str(cause))
            self.stopped.__cause__ = cause
            self._end()

    def _intent_error(self) -> BaseException | None:
        """Why the intent was not written, if it was on its way before the append that failed: the true cause."""
        return self._intent.exception() if self._intent and self._intent.done() else None

    # --- the replaying side ---

    def _refuse(self, decision: Decision, operation: Operation) -> NoReturn:
        """Raise what the record says: the recorded failure, or the verdict that the code no longer fits."""
        if isinstance(decision, ReplayFailure):
            self._raise(failure.rebuild(decision.error), operation.key, None)
        if isinstance(decision, Mismatch):
            self.halt(mismatch_verdict(self.run, msgspec.structs.replace(decision, source=_source())))
        msg = f"one branch can't be given {decision}"
        raise AssertionError(msg)

    def _raise(self, error: Exception, key: str, original: BaseException | None) -> NoReturn:
        self.raised.append((error, key))
        raise error.with_traceback(original.__traceback__ if original else None) from None

    def _decoded(self, bound: Bound, raw: bytes, *, annotated: bool) -> Any:
        where = f"the result of {bound.definition.name}"
        try:
            return codec.decode(raw, self._returns(bound), annotated=annotated, where=where)
        except NotReadableError as error:
            return self.halt(needs_code(error))

    @staticmethod
    def _returns(bound: Bound) -> Any:
        declared = bound.options.returns
        return bound.definition.returns if declared is UNSET else declared

    async def _breathe(self) -> None:
        self._replayed += 1
        if self._replayed % YIELD_EVERY == 0:
            await asyncio.sleep(0)

    # --- keys and checks ---

    def _operation(self, bound: Bound, kind: str) -> Operation:
        name = bound.options.name or bound.definition.name
        raw = codec.encode(bound.input, where=f"the input of {name}").raw
        return Operation(key=self._next_key(), kind=kind, name=self.scrubber.text(name), input=self.scrubber.raw(raw))

    def _next_key(self) -> str:
        key = step_key(ROOT, self._ordinal)
        self._ordinal += 1
        return key

    async def _enter(self, what: str) -> None:
        self._check(what)
        if self.verdict or self.stopped:
            await self._sealed()
        self._under_way = what

    def _check(self, what: str) -> None:
        outer = current_step.get()
        if outer is not None:
            raise NestedStepError(inner=what, outer=outer.name)
        if _current_task() is not self.task:
            raise ConcurrentCallError(what=what, how="from another task than the workflow's own")
        if self._under_way is not None:
            raise ConcurrentCallError(what=what, how=f"while {self._under_way} was under way")

    async def _sealed(self) -> None:
        """Refuse a call after the end. The first is told so; a second, by a body that swallowed it, never returns."""
        self._sealed_calls += 1
        if self._sealed_calls == 1:
            self._end()
        self.abandon()
        await asyncio.get_running_loop().create_future()

    def _check_cancelled(self, what: str) -> None:
        """A call cancelled by the body's own code (asyncio.timeout, wait_for) has no outcome to replay: refuse that."""
        if self.stopped is None:
            error = CallCancelledError(what=what)
            self.halt(needs_code(error))

    def _pause_on_unknown(self, operation: Operation) -> None:
        self.halt(unknown_verdict(self.run, operation))

    async def store_artifact(self, body: ArtifactStored, content: bytes) -> None:
        """Record that the run keeps this content; it is on disk, whole, before the event. A replay writes nothing."""
        await self._enter("artifact")
        try:
            asked = bytes(artifact_input(body))
            operation = Operation(key=self._next_key(), kind="artifact", name="artifact", input=asked)
            decision = self.cursor.ask(operation)
            if type(decision) is Replay:
                await self._breathe()
                return
            if type(decision) is not Execute:
                self._refuse(decision, operation)
            self.recorder.note(body, step=operation.key, content=content)
            await self._flushed()
            self._careful = False
        except asyncio.CancelledError:
            self._check_cancelled("artifact")
            raise
        finally:
            self._under_way = None


async def _made(bound: Bound) -> Any:
    if bound.definition.is_async:
        return await bound.function(*bound.args, **bound.kwargs)
    value = await threads.run(lambda: bound.function(*bound.args, **bound.kwargs))
    return await value if isinstance(value, Awaitable) else value


def _current_task() -> asyncio.Task[Any] | None:
    try:
        return asyncio.current_task()
    except RuntimeError:  # a thread without a loop
        return None


class _Failed(msgspec.Struct, frozen=True):
    """A try that raised."""

    error: Exception
    duration: int


def _microseconds(begun: int) -> int:
    return (time.perf_counter_ns() - begun) // 1000


def _source() -> str:
    """File and line of the user's call: the first frame outside this package."""
    frame: FrameType | None = sys._getframe(1)  # noqa: SLF001 - the documented way to a frame
    while frame is not None and frame.f_globals.get("__name__", "").startswith("counterfoil.engine"):
        frame = frame.f_back
    return f"{frame.f_code.co_filename}:{frame.f_lineno}" if frame else "?"
