"""The live side of one attempt: intents, tries, retries, time limits and waits, each recorded.

A function's outcome is encoded, decoded and on disk before the body sees the decoded value. A try is never made before
the reads that came before it are on disk, and a model call never before its own intent is (laws J3, J4, J6).
"""

import asyncio
import functools
import time
from collections.abc import Awaitable, Callable
from types import TracebackType
from typing import Any, NoReturn

import msgspec

from counterfoil.core import anatomy, codec, failure, keys, retry
from counterfoil.core.clock import Instant
from counterfoil.core.events import (
    ArtifactStored,
    RetrySet,
    StepCancelled,
    StepDispatched,
    StepFailed,
    StepIntended,
    StepSucceeded,
    StepTimedOut,
    TimerFired,
    TimerSet,
)
from counterfoil.core.parts import NONE, ErrorRecord, Send, Value
from counterfoil.core.replay import Execute, Operation
from counterfoil.core.state import StepStatus
from counterfoil.engine.branches import Branch, Branches
from counterfoil.engine.calls import MODEL, UNSET, Bound
from counterfoil.engine.definitions import CurrentStep, current_step
from counterfoil.engine.ending import End, Ending
from counterfoil.engine.late import LateReports
from counterfoil.engine.loaded import known_modules
from counterfoil.engine.recorder import Recorder, as_value
from counterfoil.engine.resources import Resources
from counterfoil.engine.seam import cover
from counterfoil.engine.sends import Sends, Try, current_sends
from counterfoil.engine.system import System
from counterfoil.engine.threads import Threads
from counterfoil.engine.turns import Turns
from counterfoil.engine.variables import apart
from counterfoil.engine.verdicts import needs_code, unknown_verdict
from counterfoil.errors import (
    CounterfoilError,
    ExceptionUnknownError,
    NotStorableError,
    OutcomeUnknownError,
    ResultNotStorableError,
    ResultTypeUnknownError,
    RunStoppedError,
    SendRefusedError,
)
from counterfoil.store import Stream, Timer

INTENT_GRACE_SECONDS = 0.005
"""A plain step's intent rides with its outcome when that comes within this time; else it is written alone."""

CANCELLABLE = frozenset({StepStatus.OPEN, StepStatus.TIMED_OUT, StepStatus.RETRYING, StepStatus.WAITING})

threads = Threads()


class Failed(msgspec.Struct, frozen=True):
    """A try that raised."""

    error: BaseException
    duration: int
    running: "asyncio.Future[Any] | None" = None  # its function, if that goes on past its time
    trace: TracebackType | None = None  # of the exception as the function raised it
    chunks: Value = NONE  # of a stream: what had been handed over


class Begun(msgspec.Struct, frozen=True):
    """A try that has begun to stream: what comes of it is recorded at its end."""


class Live:
    """Makes the calls and waits of one attempt."""

    def __init__(
        self, recorder: Recorder, ending: Ending, turns: Turns, *, system: System, stretch: Callable[[], int],
        resources: Resources,
    ) -> None:  # fmt: skip
        self.raised: list[tuple[BaseException, str]] = []  # exceptions handed to the body, with their steps
        self._recorder, self._ending, self._turns, self._system = recorder, ending, turns, system
        self._scrubber = recorder.scrubber
        self._stretch, self._held_since = stretch, stretch()
        self._resources = resources
        self._late = LateReports(recorder, ending)
        self._accounts: dict[str, Sends] = {}  # by step key: requests of a try that has no outcome yet
        self._careful = recorder.epoch > 1  # the owner before may have died in a step, and before its first record
        self._has_reads = False  # that are not on their way to the store
        self._reads: asyncio.Future[None] | None = None  # the last append that had reads in it
        self._intent: asyncio.Future[None] | None = None  # the last one that was written and not waited for
        self._rides_since: float | None = None  # when the oldest intent that waits for an outcome was noted
        self._ride_ends: asyncio.TimerHandle | None = None

    def watch(self, branches: Branches) -> None:
        """Make the calls of these branches."""
        self._branches = branches

    # --- steps ---

    async def step(self, branch: Branch, bound: Bound, operation: Operation, *, decision: Execute) -> Any:
        """Make a call until it has an outcome, which is recorded, and is on disk before it is returned or raised."""
        if decision.unknown_tries:
            await self._face_unknown(branch, bound, operation, decision=decision)
        policy = bound.options.retry_policy
        first, due, number = decision.first_time, decision.due, decision.try_number
        if first is not None and retry.is_over(policy, first=first, now=self._system.now()):
            await self._give_up(branch, operation, decision)
        is_cut = self.cut_seen(branch)
        while True:
            if due is not None:
                await self._wait_until(due)
            first = first or self._system.now()
            with self._ending:
                outcome = await self._try(bound, operation, number=number, is_cut=is_cut)
                if type(outcome) is Failed:
                    after = functools.partial(
                        retry.next_try, policy, outcome.error, tried=number - decision.tries_before, first=first
                    )
                    due = None if is_cut() else after(now=self._system.now())
                    if outcome.running is not None and await self._outlast(operation, outcome, due, number=number):
                        due = after(now=self._system.now())
                    outcome = await self._record_failure(operation, outcome, due=due, number=number)
            if is_cut():  # the function swallowed it; on a replay nothing would
                raise asyncio.CancelledError
            if type(outcome) is not Failed:
                await self.turn(branch, operation)
                return outcome
            if due is None:
                await self.turn(branch, operation)
                self.hand_failure(outcome.error, operation.key, outcome.trace)
            number += 1

    def cut_seen(self, branch: Branch) -> Callable[[], bool]:
        """Tells whether the branch was asked to end after this."""
        task = branch.task
        asked = task.cancelling() if task else 0
        return lambda: task is None or branch in self._branches.leaving or task.cancelling() > asked

    async def _try(self, bound: Bound, operation: Operation, *, number: int, is_cut: Callable[[], bool]) -> Any:
        await self._intend(bound, operation, number)
        begun = time.perf_counter_ns()
        try:
            value = await self._called(bound, operation, number)
        except asyncio.CancelledError as error:
            if is_cut():
                raise
            return Failed(error, microseconds(begun))  # the function's own affair: nobody cancelled us
        except _OverrunError as overrun:
            return Failed(overrun.error, microseconds(begun), overrun.running)
        except Exception as error:  # noqa: BLE001 - recorded, then raised in the body
            return Failed(self._refusal(operation) or error, microseconds(begun))
        return await self._record(bound, operation, value, begun=begun, number=number)

    async def _record(self, bound: Bound, operation: Operation, value: Any, *, begun: int, number: int) -> Any:
        if type(value) is Begun:
            return value
        where = f"the result of {operation.name}"
        unknown: ResultTypeUnknownError | None = None
        try:
            encoded, back = codec.record(value, returns_of(bound), where=where)
        except NotStorableError as error:
            return Failed(ResultNotStorableError(**error.facts), microseconds(begun))
        except ResultTypeUnknownError as error:  # kept all the same: code that declares the class will get it
            encoded, back, unknown = error.encoded, None, error
        body = StepSucceeded(
            result=as_value(encoded.raw),
            annotated=encoded.annotated,
            duration=microseconds(begun),
            sends=self._sent(operation),
        )
        noted = self._recorder.note(body, step=operation.key, try_number=number)
        await self._outcome_written(operation)
        if unknown:
            raise End(needs_code(unknown))
        if noted.result is body.result:
            return back
        return codec.decode(  # a secret was taken out
            bytes(noted.result), returns_of(bound), annotated=encoded.annotated, where=where
        )

    async def _intend(self, bound: Bound, operation: Operation, number: int) -> None:
        """Write the intent: before the call for a model call or if a lost one is not repeated, else soon (J4).

        Reads are on disk first (J3).
        """
        stretch = self._stretch()
        if not stretch:
            self._ending.stopped = RunStoppedError(run=self._ending.run, why="the lease could not be renewed in time")
            raise End
        if stretch != self._held_since:  # the run may have been taken meanwhile: the store is asked first
            self._careful, self._held_since = True, stretch
        body = StepIntended(
            kind=operation.kind,
            name=operation.name,
            input=as_value(operation.input),
            digest=operation.digest(),
            opaque=bound.opaque,
            worst_cost_usd=bound.options.worst_cost_usd,
        )
        self._recorder.note(body, step=operation.key, try_number=number, contract=bound.definition.contract)
        self._intent = None
        must_not_vanish = operation.kind == MODEL or bound.options.on_unknown in {"pause", "raise"}
        if must_not_vanish or self._careful or not self._reads_are_written():
            await self.flush()
        elif self._rides_since is None:
            self._let_ride()

    async def _called(self, bound: Bound, operation: Operation, number: int) -> Any:
        """Call the function, inside the step: in this task if it is async, else in a thread."""
        key_of = functools.partial(
            keys.provider_key,
            self._recorder.root,
            self._ending.run,
            self._recorder.state.incarnation,
            step=operation.key,
        )
        token = current_step.set(
            CurrentStep(
                run_id=self._ending.run,
                key=operation.key,
                name=operation.name,
                attempt=self._recorder.attempt,
                try_number=number,
                provider_key=key_of(),
            )
        )
        account = self._account(operation, number, key_of)
        entry = current_sends.set(account)
        try:
            if bound.needed:  # entering has the step's time limit for itself
                given = await _in_time(self._resources.values(bound.needed), bound, operation)
                bound = msgspec.structs.replace(bound, kwargs={**bound.kwargs, **given})
            if not bound.definition.is_async:
                return await self._called_in_thread(bound, operation, number)
            if bound.options.timeout is None:
                return await apart(bound.function(*bound.args, **bound.kwargs))
            return await _in_time(apart(bound.function(*bound.args, **bound.kwargs)), bound, operation)
        finally:
            if account:
                account.close()
            current_sends.reset(entry)
            current_step.reset(token)

    def _account(self, operation: Operation, number: int, key_of: Callable[..., str]) -> Sends | None:
        """The account of what this try sends, if it is one of a model step."""
        if operation.kind != MODEL:
            return None
        cover()
        write = functools.partial(self._dispatch, operation, number)
        of = Try(
            name=operation.name, input=operation.input, key_of=lambda request: key_of(request=request), write=write
        )
        account = self._accounts[operation.key] = Sends(of, self._scrubber)
        return account

    async def _dispatch(self, operation: Operation, number: int, body: StepDispatched) -> None:
        """Put a further request of a try on disk. Raises CounterfoilError where it can't be: the run is not ours."""
        if not self._stretch():
            raise RunStoppedError(run=self._ending.run, why="the lease could not be renewed in time")
        self._recorder.note(body, step=operation.key, try_number=number)
        try:
            await self.flush()
        except End:
            raise RunStoppedError(run=self._ending.run, why=str(self._ending.stopped)) from self._ending.stopped

    def _refusal(self, operation: Operation) -> SendRefusedError | None:
        """Why a model step failed whose request was refused: some clients make a lost connection of it."""
        account = self._accounts.get(operation.key)
        return account.refusal if account else None

    def _sent(self, operation: Operation) -> tuple[Send, ...]:
        """What the try that has ended had sent."""
        account = self._accounts.pop(operation.key, None)
        return account.listed() if account else ()

    async def _called_in_thread(self, bound: Bound, operation: Operation, number: int) -> Any:
        """Wait for a thread no longer than the time limit. The thread itself can't be stopped."""
        running = threads.run(lambda: bound.function(*bound.args, **bound.kwargs))
        try:
            await asyncio.wait({running}, timeout=bound.options.timeout)
        finally:
            if not running.done():
                self._late.expect(running, operation, number=number)
        if not running.done():
            raise _OverrunError(too_long(bound, operation), running)
        value = running.result()
        if not isinstance(value, Awaitable):
            return value
        return await _in_time(apart(value), bound, operation)  # a plain function may make a coroutine

    def _let_ride(self) -> None:
        """Let an intent wait for its outcome, for a while. One timer at a time serves all steps: most are quicker."""
        loop = asyncio.get_running_loop()
        self._rides_since = loop.time()
        if self._ride_ends is None:
            self._ride_ends = loop.call_later(INTENT_GRACE_SECONDS, self._end_ride)

    def _end_ride(self) -> None:
        loop, self._ride_ends = asyncio.get_running_loop(), None
        if self._rides_since is None or self._ending.has_landed or self._ending.abandoned.done():
            return
        ends = self._rides_since + INTENT_GRACE_SECONDS
        if ends > loop.time():
            self._ride_ends = loop.call_at(ends, self._end_ride)
        else:
            written = asyncio.ensure_future(self._append())
            written.add_done_callback(lambda done: done.exception())  # asked for when the outcome fails too
            self._intent = written

    # --- failures ---

    async def _outlast(self, operation: Operation, failed: Failed, due: Instant | None, *, number: int) -> bool:
        """A function runs past its time. If another try is to be made, wait until it has ended: two could do it twice.

        Returns whether it was waited for.
        """
        self._recorder.note(StepTimedOut(duration=failed.duration), step=operation.key, try_number=number)
        if due is None or failed.running is None:
            return False
        await self.flush()
        await asyncio.wait({failed.running})
        return True

    async def _record_failure(self, operation: Operation, failed: Failed, *, due: Instant | None, number: int) -> Any:
        """Record a failed try. Returns it as it was recorded: what will be raised if no other try is due."""
        if due is None:
            return await self._record_final(operation, failed, number=number)
        error, sends = failure.to_record(failed.error, known_modules()), self._sent(operation)
        body = RetrySet(due=due, error=error, duration=failed.duration, sends=sends)
        self._recorder.note(body, step=operation.key, try_number=number)
        self._careful = False
        await self.flush()
        return failed

    async def _record_final(self, operation: Operation, failed: Failed, *, number: int) -> Failed:
        error, sends = failure.to_record(failed.error, known_modules()), self._sent(operation)
        body = StepFailed(error=error, duration=failed.duration, sends=sends, chunks=failed.chunks)
        noted = self._recorder.note(body, step=operation.key, try_number=number)
        await self._outcome_written(operation)
        return Failed(self.rebuilt(noted.error), failed.duration, trace=anatomy.trace(failed.error))

    async def _give_up(self, branch: Branch, operation: Operation, decision: Execute) -> None:
        """The time that retry= allows was over before this try: the process may have been gone meanwhile."""
        text = f"{operation.name} had no outcome within the time that its retry= allows"
        error = failure.readable(decision.last_error) if decision.last_error else TimeoutError(text)
        await self._fail(branch, operation, error, number=decision.try_number - 1)

    async def _face_unknown(self, branch: Branch, bound: Bound, operation: Operation, *, decision: Execute) -> None:
        """The process died in the try before. Returns if another one is to be made."""
        run, tries = self._ending.run, decision.try_number - 1
        if bound.options.on_unknown == "pause":
            raise End(unknown_verdict(run, operation))
        if bound.options.on_unknown == "raise":
            error = OutcomeUnknownError(run=run, step=operation.key, name=operation.name, tries=tries)
            await self._fail(branch, operation, error, number=tries)

    async def _fail(self, branch: Branch, operation: Operation, error: Exception, *, number: int) -> NoReturn:
        """Record that the step has failed without another try, and raise why in the body."""
        with self._ending:
            failed = await self._record_final(operation, Failed(error, 0), number=number)
        await self.turn(branch, operation)
        self.hand_failure(failed.error, operation.key)

    @staticmethod
    def rebuilt(record: ErrorRecord) -> Exception:
        """A recorded exception as it was raised live; the run must pause where it can't be."""
        try:
            return failure.rebuild(record)
        except ExceptionUnknownError as error:
            raise End(needs_code(error)) from error

    def hand_failure(self, error: BaseException, key: str, trace: TracebackType | None = None) -> NoReturn:
        """Raise a recorded failure in the body, and remember whose it was."""
        self.raised.append((error, key))
        failure.raise_again(error, trace)

    def cancelled(self, operation: Operation, chunks: Value = NONE) -> None:
        """The program's own code cancelled this operation. What is recorded of it already stays as it is.

        Of a stream, `chunks` are what had been handed over.
        """
        self._turns.withdraw(operation.key)
        step = self._recorder.state.steps.get(operation.key)
        if step is None or step.status not in CANCELLABLE:
            return
        timer = Timer(step.key, step.due) if step.status is StepStatus.WAITING and step.due else None
        body = StepCancelled(
            still_running=self._late.expects(step.key),
            worst_cost_usd=step.worst_cost_usd,
            sends=self._sent(operation),
            chunks=chunks,
        )
        self._recorder.note(body, step=step.key, try_number=step.try_number)
        if timer:
            self._append(timer_cleared=timer).add_done_callback(lambda done: done.exception())

    # --- streams ---

    async def end_stream(self, bound: Bound, operation: Operation, outcome: Any, *, begun: int, number: int) -> Any:
        """Record what came of a stream: its event holds all its chunks from now on. Returns it as it was recorded."""
        self._recorder.hold(Stream(operation.key, number))
        if type(outcome) is Failed:
            return await self._record_final(operation, outcome, number=number)
        return await self._record(bound, operation, outcome, begun=begun, number=number)

    # --- waits and reads ---

    async def sleep(self, branch: Branch, operation: Operation, due: Instant, *, is_set: bool) -> None:
        """Wait until the due time, which is recorded first."""
        if not is_set:
            body = TimerSet(due=due, input=as_value(operation.input), digest=operation.digest())
            self._recorder.note(body, step=operation.key)
            await self.flush(timer_set=Timer(operation.key, due))
        await self._wait_until(due)
        self._recorder.note(TimerFired(), step=operation.key)
        await self._outcome_written(operation, timer_cleared=Timer(operation.key, due))
        await self.turn(branch, operation)

    async def store_artifact(
        self, branch: Branch, operation: Operation, body: ArtifactStored, *, content: bytes
    ) -> None:
        """Record that the run keeps this content, which is on disk before the event that names it."""
        with self._ending:
            self._recorder.note(body, step=operation.key, content=content)
            await self._outcome_written(operation)
        await self.turn(branch, operation)

    def note_read(self) -> None:
        """A read was noted: no function starts before it is on disk."""
        self._has_reads = True

    async def _wait_until(self, due: Instant) -> None:
        if due > self._system.now():
            await self._system.sleep_until(due)
        if self._ending.is_sealed:
            raise End

    # --- writing ---

    async def _outcome_written(self, operation: Operation, *, timer_cleared: Timer | None = None) -> None:
        """An outcome was noted: wait until it is on disk."""
        self._careful = False
        if not self._branches.is_alone:
            self._turns.note(operation.key)
        await self.flush(timer_cleared=timer_cleared)

    async def turn(self, branch: Branch, operation: Operation) -> None:
        """The outcome is on disk. Among several branches it is handed over when it is its turn."""
        if not self._turns.is_noted(operation.key):
            return
        if self._ending.is_sealed:
            raise End
        await self._turns.outcome(branch, operation.key)

    async def flush(self, *, timer_set: Timer | None = None, timer_cleared: Timer | None = None) -> None:
        """Append what is noted, and wait until it is on disk. If it can't be, we no longer drive the run."""
        try:
            await self._append(timer_set=timer_set, timer_cleared=timer_cleared)
        except CounterfoilError as error:
            cause = self._intent_error() or error
            if self._ending.stopped is None:
                self._ending.stopped = RunStoppedError(run=self._ending.run, why=str(cause))
                self._ending.stopped.__cause__ = cause
            raise End from None

    def _append(self, *, timer_set: Timer | None = None, timer_cleared: Timer | None = None) -> "asyncio.Future[None]":
        written = asyncio.ensure_future(self._recorder.flush(timer_set=timer_set, timer_cleared=timer_cleared))
        self._rides_since = None
        if self._has_reads:
            self._reads, self._has_reads = written, False
        return written

    def _reads_are_written(self) -> bool:
        return not self._has_reads and (self._reads is None or self._reads.done())

    def _intent_error(self) -> BaseException | None:
        """Why the intent was not written, if it was on its way before the append that failed: the true cause."""
        return self._intent.exception() if self._intent and self._intent.done() else None


class _OverrunError(Exception):
    """A plain function that goes on past its time."""

    def __init__(self, error: TimeoutError, running: "asyncio.Future[Any]") -> None:
        super().__init__()
        self.error, self.running = error, running


def returns_of(bound: Bound) -> Any:
    """The declared type of a step's result."""
    return bound.definition.returns if bound.options.returns is UNSET else bound.options.returns


async def _in_time(made: Awaitable[Any], bound: Bound, operation: Operation) -> Any:
    try:
        async with asyncio.timeout(bound.options.timeout) as limit:
            return await made
    except TimeoutError as error:
        if limit.expired():
            raise too_long(bound, operation) from error
        raise


def too_long(bound: Bound, operation: Operation) -> TimeoutError:
    """What is raised when a try's time is over."""
    return TimeoutError(f"{operation.name} took longer than {bound.options.timeout:g} seconds")


def microseconds(begun: int) -> int:
    """Since then, by the counter that measures tries."""
    return (time.perf_counter_ns() - begun) // 1000
