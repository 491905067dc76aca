"""Streamed calls: an answer that is handed on as it comes, live as on replay, chunk by chunk with the same borders.

One stream is one step. What it hands on before its end is provisional: only the branch that opened it may act on it,
and other branches must not depend on it, because on a replay it comes as soon as it is asked for. The end (the last
chunk, or the failure) comes when it is its turn among all outcomes, as that of any call.
"""

import asyncio
from typing import Any, NoReturn

from counterfoil.core import codec
from counterfoil.core.parts import NONE, ErrorRecord, Value
from counterfoil.core.replay import Begun, Execute, Mismatch, Operation, Replay, ReplayFailure, describe
from counterfoil.engine.attempt import Attempt
from counterfoil.engine.branches import Branch
from counterfoil.engine.calls import Bound, unshared
from counterfoil.engine.definitions import current_step
from counterfoil.engine.ending import End
from counterfoil.engine.flowing import CHUNKS, COMPLETE, Flow
from counterfoil.engine.verdicts import mismatch_verdict, needs_code
from counterfoil.errors import StreamLeftError


class ChunkStream:
    """One stream of one branch: opened once, then asked for its next chunk until its end, or closed before.

    The function that makes it is an async generator of ours: it gives what is known of the answer as a whole first, as
    plain JSON, and then its chunks as text, each one whole event of the protocol.
    """

    def __init__(self, attempt: Attempt, bound: Bound, kind: str) -> None:
        self.what = describe(kind, bound.options.name or bound.definition.name)
        self._attempt, self._bound, self._kind = attempt, bound, kind
        self._flow: Flow | _Record
        self._is_over = False
        self.failure: BaseException | None = None  # what broke it, as it was raised in the body

    # --- what the branch does with it ---

    async def open(self) -> None:
        """Begin it: from the record, or live until its first chunk is there. Raises what any call raises."""
        await self._attempt.stream(self.what, self._open)

    async def next(self) -> str:
        """Its next chunk. Raises StopAsyncIteration after the last, and the failure that broke it, as recorded.

        Live, an outcome is on disk before the last chunk, or the failure, is handed on. A crash before that loses what
        was not written yet; the step is made again, and its chunks begin anew.
        """
        if self._is_over:
            raise StopAsyncIteration
        chunk: str = await self._attempt.stream(self.what, self._next, self)
        return chunk

    async def close(self) -> None:
        """Leave it before its end, recorded so: a replay gives as many chunks, and the code must not ask for more.

        After its end nothing happens. Nor does it when no task of the workflow asks, such as the one that collects what
        was dropped: when that happens hangs on memory.
        """
        is_asked = current_step.get() is None and self._attempt.branches.of_current_task() is not None
        ending = self._attempt.ending
        if is_asked and not self._is_over and ending.verdict is None and not ending.interrupted:
            await self._attempt.stream(f"the close of {self.what}", self._close, self)

    @property
    def head(self) -> dict[str, Any]:
        """What is known of the answer as a whole."""
        return self._flow.head

    # --- what the branch is asked about it ---

    @property
    def is_live(self) -> bool:
        """Whether it is under way, so that it may come to its end although the run is to end."""
        return self._flow.is_live and not self._is_over

    @property
    def is_of_current_task(self) -> bool:
        """Whether the branch that has it open is the one whose code is running."""
        branch = self._attempt.branches.of_current_task()
        return branch is not None and branch.stream is self

    def cut(self) -> Value:
        """The branch was cancelled in it. What had been handed over."""
        self._is_over = True
        return self._flow.cut()

    def branch_ended(self, branch: Branch, task: "asyncio.Task[Any]") -> None:
        """The branch has come to its end and left it open. What that means for the workflow itself, its driver says."""
        self._is_over, branch.stream = True, None
        if not self._attempt.ending.is_sealed:
            error = StreamLeftError(what=self.what)
            if task.cancelled():
                self._attempt.live.cancelled(self._operation, self._flow.cut())
            elif branch.parent is not None:
                self._attempt.ending.decide(needs_code(error))
            else:
                self._attempt.left_open = error
        self._flow.drop()

    # --- inside a call ---

    async def _open(self, branch: Branch) -> None:
        attempt = self._attempt
        self._operation = attempt.operation(branch, self._bound, self._kind)
        recorded = attempt.cursor.begin(self._operation)
        if recorded is None:
            await self._begin(branch)
        elif isinstance(recorded, Mismatch):
            attempt.refuse(branch, recorded, self._operation)
        else:
            self._flow = _Record(attempt, self._operation, recorded)
        branch.stream = self

    async def _begin(self, branch: Branch) -> None:
        """Nothing is recorded that could be handed on in pieces."""
        attempt = self._attempt
        bound = self._bound if attempt.branches.is_alone else unshared(self._bound)
        decision = await attempt.decision(branch, self._operation)
        if type(decision) is not Execute:
            attempt.refuse(branch, decision, self._operation)
        self._flow = flow = Flow(attempt, bound, self._operation)
        await flow.open(branch, decision)

    async def _next(self, branch: Branch) -> str:
        branch.operation = self._operation
        try:
            chunk, is_last = await self._flow.next(branch)
        except asyncio.CancelledError:
            self._is_over = True
            raise
        except Exception as error:
            self._leave(branch)
            self.failure = error
            raise
        except End:
            self._leave(branch)
            raise
        if is_last:
            self._leave(branch)
        return chunk

    async def _close(self, branch: Branch) -> None:
        branch.operation, self._is_over = self._operation, True
        try:
            await self._flow.leave(branch)
        except asyncio.CancelledError:  # the branch still has it: what had been handed over is recorded with that
            raise
        except BaseException:
            self._leave(branch)
            raise
        self._leave(branch)

    def _leave(self, branch: Branch) -> None:
        self._is_over, branch.stream = True, None


class _Record:
    """The replaying side of a stream."""

    is_live = False

    def __init__(self, attempt: Attempt, operation: Operation, recorded: Begun) -> None:
        self._attempt, self._operation = attempt, operation
        self._error: ErrorRecord | None = None
        held, annotated = NONE, False
        if isinstance(recorded, Replay):
            held, annotated = recorded.value or NONE, recorded.annotated
        elif isinstance(recorded, ReplayFailure):
            held, self._error = recorded.chunks or NONE, recorded.error
        elif not isinstance(recorded, Mismatch):
            held = recorded.chunks
        value = codec.decode(bytes(held), Any, annotated=annotated, where=f"the result of {operation.name}")
        self._chunks: list[str] = value.pop(CHUNKS)
        self._is_complete: bool | None = value.pop(COMPLETE, None)  # None: it has no end
        self.head: dict[str, Any] = value
        self._position = 0

    async def next(self, branch: Branch) -> tuple[str, bool]:
        """The next chunk, and whether it is the last."""
        left = len(self._chunks) - self._position
        if left == 0:
            await self._ended(branch)
        if left == 1 and self._is_complete is not None:
            await self._turn(branch)
        self._position += 1
        return self._chunks[self._position - 1], left == 1 and self._is_complete is True

    async def leave(self, branch: Branch) -> None:
        """The code leaves it here. It must have done so when it was recorded."""
        is_cut = self._is_complete is None and self._error is None
        if not self._chunks and self._is_complete is False:  # left at once: no chunk had the turn of its outcome
            await self._turn(branch)
        if self._position < len(self._chunks) or not (self._is_complete is False or is_cut):
            self._differ(branch, f"left after {self._position} chunks")
        if is_cut:  # between two chunks, and so without a call that would ask
            self._attempt.cursor.ask(self._operation, alone=self._attempt.branches.is_alone)
            self._attempt.live.cancelled(self._operation)

    def cut(self) -> Value:
        """The branch was cancelled: all that is to be recorded is."""
        return NONE

    def drop(self) -> None:
        """Nobody will ask any more."""

    async def _ended(self, branch: Branch) -> NoReturn:
        """All chunks have been handed on, and none of them was the last."""
        if self._is_complete is False:
            self._differ(branch, "its next chunk")
        decision = await self._attempt.decision(branch, self._operation)
        if self._error is None:  # it was cancelled in this place, and is not now
            self._differ(branch, "its next chunk")
        self._attempt.refuse(branch, decision, self._operation)

    async def _turn(self, branch: Branch) -> None:
        decision = await self._attempt.decision(branch, self._operation)
        if type(decision) is not Replay:
            self._attempt.refuse(branch, decision, self._operation)

    def _differ(self, branch: Branch, attempted: str) -> NoReturn:
        step = self._attempt.recorder.state.steps[self._operation.key]
        what = describe(self._operation.kind, self._operation.name)
        ends = {True: "read to its end", False: "left", None: "cut off"}
        recorded = f"{what}, {ends[self._is_complete]} after {len(self._chunks)} chunks"
        found = Mismatch(
            verdict="step_mismatch", step=step.key, seq=step.seq, recorded=recorded, attempted=f"{what}, {attempted}",
            source=branch.place(),
        )  # fmt: skip
        raise End(mismatch_verdict(self._attempt.run, found))
