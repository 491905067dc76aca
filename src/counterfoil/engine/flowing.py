"""The live side of a streamed call: its function gives piece after piece, and the event at its end holds them all.

Until the first piece is there, a failure is one of any call, and is tried again. After that the body has seen pieces: a
failure is final then, and recorded with them. Only the protocol's own end mark makes an answer whole; it is handed on
when the outcome is on disk and it is the branch's turn.
"""

import asyncio
import contextlib
import contextvars
import time
from collections.abc import AsyncGenerator
from typing import Any, NoReturn

import msgspec

from counterfoil.core import codec, marks
from counterfoil.core.parts import Value
from counterfoil.core.replay import Execute, Operation
from counterfoil.engine.attempt import Attempt
from counterfoil.engine.branches import Branch
from counterfoil.engine.calls import Bound
from counterfoil.engine.definitions import current_step
from counterfoil.engine.ending import End
from counterfoil.engine.live import Begun, Failed, microseconds, too_long
from counterfoil.engine.recorder import as_value
from counterfoil.engine.variables import apart
from counterfoil.errors import StreamCutError
from counterfoil.store import Stream

CHUNKS, COMPLETE = "chunks", "complete"
LEFT = (b'"],"complete":false}', b'"chunks":[],"complete":false}')
"""With one of these ends the record of a stream that was left early."""


class Flow:
    """One stream that is made now."""

    is_live = True

    def __init__(self, attempt: Attempt, bound: Bound, operation: Operation) -> None:
        self.head: dict[str, Any] = {}
        self.handed: list[str] = []
        self._attempt, self._bound, self._operation = attempt, bound, operation
        self._pieces: AsyncGenerator[Any, None] | None = None
        self._first: str | None = None  # the piece that came with the opening
        self._begun = self._number = 0
        self._deadline: float | None = None
        self._is_flying = False  # it holds the run's end back

    async def open(self, branch: Branch, decision: Execute) -> None:
        """Make tries until the first piece is there."""
        self._is_cut = self._attempt.live.cut_seen(branch)
        options = msgspec.structs.replace(self._bound.options, returns=Any)
        self._bound = msgspec.structs.replace(self._bound, options=options)
        opening = msgspec.structs.replace(self._bound, function=self._begin)
        try:
            await self._attempt.live.step(branch, opening, self._operation, decision=decision)
        except BaseException:
            await self.close()
            self.land(is_held=False)
            raise

    async def next(self, branch: Branch) -> tuple[str, bool]:
        """The next piece, and whether it is the last; the failure of the stream, once it is recorded."""
        try:
            piece = await apart(self._come(), self._variables)
        except asyncio.CancelledError as error:
            await self.close()
            if self._is_cut():
                raise
            await self._fail(branch, error)  # the function's own affair: nobody cancelled us
        except Exception as error:  # noqa: BLE001 - recorded, then raised in the body
            await self.close()
            await self._fail(branch, error)
        if self._attempt.provisional.is_refused:
            await self.close()
            self.land(is_held=False)
            raise End
        is_last = marks.is_end(piece)
        if is_last:
            await self.close()  # cancelled in here, the branch has not seen this piece
        self.handed.append(piece)
        if is_last:
            await self._end(branch, self._value(complete=True))
        return piece, is_last

    async def leave(self, branch: Branch) -> None:
        """The body leaves before the end: what it has seen is the outcome, unless it was cancelled."""
        await self.close()
        if self._is_cut():
            self._attempt.live.cancelled(self._operation, self.cut())
            return
        await self._end(branch, self._value(complete=False))

    def cut(self) -> Value:
        """The branch was cancelled: what it has seen is recorded with that."""
        self._attempt.recorder.hold(self._stream)
        self.land(is_held=True)
        return self._handed_value()

    def drop(self) -> None:
        """Nobody will ask any more, and nothing is recorded of it."""
        self.land(is_held=False)
        if self._pieces is not None:
            self._attempt.close_later(self.close())

    async def close(self) -> None:
        """Let the function end."""
        pieces, self._pieces = self._pieces, None
        if pieces is not None:
            with contextlib.suppress(Exception):  # all that it could give is here
                await apart(pieces.aclose(), self._variables)

    def land(self, *, is_held: bool) -> None:
        """It no longer holds the run's end back."""
        if self._is_flying:
            self._is_flying = False
            self._attempt.provisional.end(self._stream, is_held=is_held)
            self._attempt.ending.__exit__()

    # --- inside the step ---

    async def _begin(self, *args: Any, **kwargs: Any) -> Begun:
        """In a try: get what is known of the answer as a whole, and its first piece."""
        step = current_step.get()
        assert step is not None, "a step is begun in itself"  # noqa: S101 - by the caller
        self._number, self._begun = step.try_number, time.perf_counter_ns()
        if self._bound.options.timeout is not None:
            self._deadline = asyncio.get_running_loop().time() + self._bound.options.timeout
        self._variables = contextvars.copy_context()
        self._pieces = self._bound.function(*args, **kwargs)
        try:
            self.head = self._attempt.recorder.cleaned(await self._given())
            self._first = await self._given()
        except BaseException:
            await self.close()
            raise
        self._stream = Stream(step.key, step.try_number)
        self._attempt.provisional.begin(self._stream)
        self._attempt.ending.__enter__()
        self._is_flying = True
        return Begun()

    async def _come(self) -> str:
        piece, self._first = self._first, None
        if piece is None:
            piece = await self._given_in_time()
        piece = str(self._attempt.recorder.cleaned(piece))
        self._attempt.provisional.add(self._stream, piece)
        return piece

    async def _given_in_time(self) -> Any:
        try:
            async with asyncio.timeout_at(self._deadline) as limit:
                return await self._given()
        except TimeoutError as error:
            if limit.expired():
                raise too_long(self._bound, self._operation) from error
            raise

    async def _given(self) -> Any:
        """What the function gives next. Its end without a mark is none."""
        assert self._pieces is not None, "an open stream has a function"  # noqa: S101 - by the order of calls
        try:
            return await anext(self._pieces)
        except StopAsyncIteration:
            raise StreamCutError(url=self._operation.name, events=len(self.handed)) from None

    # --- its end ---

    async def _end(self, branch: Branch, outcome: Any) -> Any:
        """Record what came of it, and wait for the turn of that."""
        live = self._attempt.live
        self._attempt.provisional.end(self._stream, is_held=True)
        try:
            outcome = await live.end_stream(
                self._bound, self._operation, outcome, begun=self._begun, number=self._number
            )
        finally:
            self.land(is_held=True)
        await live.turn(branch, self._operation)
        return outcome

    async def _fail(self, branch: Branch, error: BaseException) -> NoReturn:
        failed = Failed(error, microseconds(self._begun), chunks=self._handed_value())
        failed = await self._end(branch, failed)
        self._attempt.live.hand_failure(failed.error, self._operation.key, failed.trace)

    def _value(self, *, complete: bool) -> dict[str, Any]:
        return {**self.head, CHUNKS: self.handed, COMPLETE: complete}

    def _handed_value(self) -> Value:
        value: Value = as_value(codec.encode({**self.head, CHUNKS: self.handed}, where="a stream").raw)
        return value
