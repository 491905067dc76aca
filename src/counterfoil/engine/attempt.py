"""One pass of the code over a run: what a context call does, live and on replay.

Each call becomes an operation with a key; the cursor decides; the attempt carries the decision out, or hands it to the
live side. Whatever ends the run from inside a call is raised as `End` and met at the edge of the call.
"""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from contextvars import Context
from typing import Any, NoReturn

import msgspec

from counterfoil.core import codec
from counterfoil.core.clock import Instant
from counterfoil.core.events import ArtifactStored, ReadRecorded
from counterfoil.core.parts import NONE
from counterfoil.core.replay import (
    Cursor,
    Decision,
    Execute,
    Hold,
    Mismatch,
    Operation,
    Replay,
    ReplayFailure,
    Wait,
    describe,
)
from counterfoil.core.scrub import Scrubber
from counterfoil.core.state import artifact_input
from counterfoil.engine import unsafe
from counterfoil.engine.branches import Branch, Branches, OpenStream
from counterfoil.engine.calls import Bound, unshared
from counterfoil.engine.definitions import current_step
from counterfoil.engine.ending import End, Ending
from counterfoil.engine.live import Live, returns_of
from counterfoil.engine.provisional import Provisional
from counterfoil.engine.recorder import Recorder, as_value
from counterfoil.engine.resources import Resources
from counterfoil.engine.system import System
from counterfoil.engine.turns import Turns
from counterfoil.engine.verdicts import mismatch_verdict, needs_code
from counterfoil.errors import (
    CallCancelledError,
    CallError,
    ConcurrentCallError,
    Halted,
    NestedStepError,
    NotReadableError,
    StreamLeftError,
)

CLOSE_SECONDS = 5.0
"""So long the connections of streams that were left open are waited for."""

YIELD_EVERY = 1000
"""A replay hands the loop to others after so many steps."""


class Attempt:
    """The state of one pass. Lives and dies with its driver."""

    def __init__(
        self, run: str, recorder: Recorder, *, system: System, scrubber: Scrubber, stretch: Callable[[], int],
        resources: Resources,
    ) -> None:  # fmt: skip
        self.run, self.scrubber = run, scrubber
        self.cursor = Cursor(recorder.state)
        self.ending = Ending(run)
        self._turns = Turns(self.cursor, self.ending, self._differs)
        self.branches = Branches(run, self._refuse_construct, self._turns.stir)
        self.live = Live(recorder, self.ending, self._turns, system=system, stretch=stretch, resources=resources)
        for part in (self.ending, self._turns, self.live):
            part.watch(self.branches)
        self.recorder, self._system = recorder, system
        self._replayed = 0
        self.provisional = Provisional(recorder, self.ending)
        self.left_open: StreamLeftError | None = None  # by the workflow's body, when it had ended
        self._closing: set[asyncio.Future[Any]] = set()

    def begin(self, body: Coroutine[Any, Any, Any], variables: Context) -> "asyncio.Task[Any]":
        """Start the workflow's body."""
        task = self.branches.begin(body, variables)
        task.add_done_callback(lambda _: self.ending.body_ended())
        return task

    def close_later(self, closing: Coroutine[Any, Any, Any]) -> None:
        """Let this end, which nobody waits for, before the attempt does."""
        self._closing.add(asyncio.ensure_future(closing))

    async def settle(self) -> None:
        """All branches have ended: wait for what is still being closed."""
        if self._closing:
            await asyncio.wait(self._closing, timeout=CLOSE_SECONDS)

    # --- calls ---

    async def perform(self, bound: Bound, kind: str) -> Any:
        """A step or model call: the recorded outcome, or a live one that is recorded before it is returned."""
        return await self._call(describe(kind, bound.definition.name), self._perform, bound, kind)

    async def stream(self, what: str, act: Callable[[Branch], Awaitable[Any]], opened: OpenStream | None = None) -> Any:
        """A call of a stream: opening it, or, once it is `opened`, its next chunk or its close."""
        return await self._call(what, act, stream=opened)

    async def sleep(self, asked: dict[str, Any], due_at: Callable[[Instant], Instant]) -> None:
        """A durable wait. The recorded due time rules."""
        await self._call("sleep", self._sleep, asked, due_at)

    async def store_artifact(self, body: ArtifactStored, content: bytes) -> None:
        """Record that the run keeps this content; it is on disk, whole, before the event. A replay writes nothing."""
        await self._call("artifact", self._store_artifact, body, content)

    def read(self, kind: str, draw: Callable[[], Any]) -> Any:
        """A recorded read: what is recorded, or what `draw` gives now. Rides with the next commit (J3)."""
        branch = self._checked(kind)
        if self.ending.is_sealed:
            self.ending.interrupted = True
            raise Halted
        operation = Operation(key=branch.next_key(), kind=kind, name=kind)
        decision = self.cursor.read(operation)
        if type(decision) is Replay:
            return codec.decode(bytes(decision.value or b"null"), None, annotated=False, where=kind)
        if type(decision) is not Execute:
            self._halt_here(branch, decision, operation)
        value = draw()
        encoded = codec.encode(value, where=kind)
        self.recorder.note(ReadRecorded(kind=kind, value=as_value(encoded.raw)), step=operation.key)
        self.live.note_read()
        return value

    async def load(self, read: Callable[[], Awaitable[bytes]]) -> bytes:
        """Read what is kept beside the record. That takes real time, so among several branches it has its turn."""
        if current_step.get() is not None or self.branches.of_current_task() is None:
            return await read()
        content: bytes = await self._call("read", self._load, read)
        return content

    # --- inside a call ---

    async def _call(
        self, what: str, act: Callable[..., Awaitable[Any]], *args: Any, stream: OpenStream | None = None
    ) -> Any:
        """Enter a call, act, and meet whatever ends the run or cancels the call at its edge."""
        branch = await self._enter(what, stream)
        try:
            return await self._acted(branch, act, *args)
        finally:
            self.branches.leave_call(branch)

    async def _acted(self, branch: Branch, act: Callable[..., Awaitable[Any]], *args: Any) -> Any:
        try:
            return await act(branch, *args)
        except End as end:
            await self.ending.reach(end)
        except asyncio.CancelledError:
            await self._cancelled(branch)
            raise
        finally:
            if branch in self.branches.leaving:
                await self._turns.leave(branch)

    async def _perform(self, branch: Branch, bound: Bound, kind: str) -> Any:
        operation = self.operation(branch, bound, kind)
        if not self.branches.is_alone:
            bound = unshared(bound)
        decision = await self.decision(branch, operation)
        if type(decision) is Replay:
            return self._decoded(bound, bytes(decision.value or b"null"), annotated=decision.annotated)
        if type(decision) is Execute:
            return await self.live.step(branch, bound, operation, decision=decision)
        return self.refuse(branch, decision, operation)

    async def _sleep(self, branch: Branch, asked: dict[str, Any], due_at: Callable[[Instant], Instant]) -> None:
        raw = codec.encode(asked, where="sleep").raw
        operation = Operation(key=branch.next_key(), kind="sleep", name="sleep", input=raw)
        decision = await self.decision(branch, operation)
        if type(decision) is Execute:
            await self.live.sleep(branch, operation, due_at(self._system.now()), is_set=False)
        elif type(decision) is Wait:
            await self.live.sleep(branch, operation, decision.due, is_set=True)
        elif type(decision) is not Replay:
            self.refuse(branch, decision, operation)

    async def _store_artifact(self, branch: Branch, body: ArtifactStored, content: bytes) -> None:
        asked = bytes(artifact_input(body))
        operation = Operation(key=branch.next_key(), kind="artifact", name="artifact", input=asked)
        decision = await self.decision(branch, operation)
        if type(decision) is Execute:
            await self.live.store_artifact(branch, operation, body, content=content)
        elif type(decision) is not Replay:
            self.refuse(branch, decision, operation)

    async def _load(self, branch: Branch, read: Callable[[], Awaitable[bytes]]) -> bytes:
        self.branches.leaving[branch] = None
        return await read()

    # --- the replaying side ---

    async def decision(self, branch: Branch, operation: Operation) -> Decision:
        """What to do about an operation; among several branches, when it is its turn."""
        decision = self.cursor.ask(operation, alone=self.branches.is_alone)
        branch.operation = operation
        if type(decision) is Hold:
            return await self._turns.decision(branch, operation.key)
        if type(decision) is Replay:
            await self._breathe()
        return decision

    def refuse(self, branch: Branch, decision: Decision, operation: Operation) -> NoReturn:
        """Raise what the record says: the recorded failure, or the verdict that the code no longer fits."""
        if isinstance(decision, ReplayFailure):
            self.live.hand_failure(self.live.rebuilt(decision.error), operation.key)
        if isinstance(decision, Mismatch):
            raise End(mismatch_verdict(self.run, msgspec.structs.replace(decision, source=branch.place())))
        msg = f"a call can't be given {decision}"
        raise AssertionError(msg)

    def _halt_here(self, branch: Branch, decision: Decision, operation: Operation) -> NoReturn:
        """As `_refuse`, where nothing can be awaited."""
        try:
            self.refuse(branch, decision, operation)
        except End as end:
            self.ending.decide(end.verdict)
        self.ending.interrupted = True
        raise Halted

    def _decoded(self, bound: Bound, raw: bytes, *, annotated: bool) -> Any:
        where = f"the result of {bound.definition.name}"
        try:
            return codec.decode(raw, returns_of(bound), annotated=annotated, where=where)
        except NotReadableError as error:
            raise End(needs_code(error)) from error

    async def _breathe(self) -> None:
        self._replayed += 1
        if self._replayed % YIELD_EVERY == 0:
            await asyncio.sleep(0)

    def _differs(self, found: Mismatch) -> None:
        self.ending.decide(mismatch_verdict(self.run, found))

    # --- entering and leaving ---

    def operation(self, branch: Branch, bound: Bound, kind: str) -> Operation:
        """What this call asks for, at the branch's next place."""
        name = bound.options.name or bound.definition.name
        encoded = codec.encode(bound.input, where=f"the input of {name}")
        raw = self.scrubber.raw(encoded.raw)
        plain = encoded.plain if raw is encoded.raw else None
        return Operation(key=branch.next_key(), kind=kind, name=self.scrubber.text(name), input=raw, plain=plain)

    async def _enter(self, what: str, stream: OpenStream | None) -> Branch:
        branch = self._checked(what, stream)
        if branch.task and branch.task.cancelling():  # it may have cancelled itself: a replay might not wait in here
            await asyncio.sleep(0)
        self.branches.enter_call(branch, what)
        if branch.has_limit():
            self._refuse_construct(unsafe.refusal("asyncio.timeout", branch.place()))
        if self.ending.is_sealed and not (stream and stream.is_live):  # a stream under way may come to its end
            try:
                await self.ending.refuse(branch)
            finally:
                self.branches.leave_call(branch)
        return branch

    def _checked(self, what: str, stream: OpenStream | None = None) -> Branch:
        """The branch that calls. Raises a CallError where a call can't be recorded."""
        outer = current_step.get()
        if outer is not None:
            raise NestedStepError(inner=what, outer=outer.name)
        branch = self.branches.of_current_task()
        if branch is None:
            raise ConcurrentCallError(what=what, how="from a thread or a task that no task of the workflow has made")
        if branch.under_way is not None:
            raise ConcurrentCallError(what=what, how=f"while {branch.under_way} was under way in the same task")
        if branch.stream is not stream:
            raise self._misplaced(what, branch.stream)
        return branch

    def _misplaced(self, what: str, opened: OpenStream | None) -> ConcurrentCallError:
        """A call while a stream of its branch is open, or of a stream that another branch has opened."""
        if opened is None:
            return ConcurrentCallError(what=what, how="in another task than the one that opened the stream")
        how = f"while {opened.what} was under way in the same task: iterate to its end, or close it"
        error = ConcurrentCallError(what=what, how=how)
        self._refuse_construct(error)  # at once: what has come of the stream must not be taken for its outcome
        return error

    def _refuse_construct(self, error: CallError) -> None:
        self.ending.decide(needs_code(error))

    async def _cancelled(self, branch: Branch) -> None:
        """A call was cancelled. By the run's own code: then it is again on a replay. By anything else: refuse that."""
        operation = branch.operation
        if self.ending.is_sealed or operation is None:
            return
        if not branch.cancel_is_own:
            error = CallCancelledError(what=describe(operation.kind, operation.name))
            await self.ending.reach(End(needs_code(error)))
        self.branches.leaving.setdefault(branch, None)  # its task may be of a kind that does not tell
        stream, branch.stream = branch.stream, None
        self.live.cancelled(operation, stream.cut() if stream else NONE)
