"""A streamed answer whose pieces a test has in its hand: a script of pieces, of failures, and of waits for a sign.

The functions are those of a module, since what a step closes over is its input.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from tests.integration.outside import OUTSIDE

from counterfoil import Context
from counterfoil.engine.calls import MODEL, Call

END = "data: [DONE]\n\n"
HEAD = {"status": 200, "headers": {"x-request-id": "r1"}}
HELD = object()
"""In a script: wait for OUTSIDE.free("piece"), having said OUTSIDE.begun("piece")."""


class CutOffError(ConnectionError):
    """The connection is gone."""


def pieces_of(*words: object) -> list[object]:
    """Words as events, all else as it is."""
    return [f"data: {word}\n\n" if isinstance(word, str) and word != END else word for word in words]


class Source:
    """What is streamed, try by try; the last script for ever."""

    def __init__(self) -> None:
        self.scripts: list[list[object]] = []
        self.closed = 0

    def plan(self, *scripts: list[object]) -> None:
        self.scripts, self.closed = [pieces_of(*script) for script in scripts], 0

    @property
    def opened(self) -> int:
        return OUTSIDE.calls["stream"]


SOURCE = Source()


async def stream(question: str) -> AsyncIterator[Any]:
    """A streamed call, as an integration makes it."""
    OUTSIDE.calls["stream"] += 1
    script = SOURCE.scripts[min(OUTSIDE.calls["stream"], len(SOURCE.scripts)) - 1]
    try:
        yield HEAD
        for piece in script:
            if piece is HELD:
                OUTSIDE.begun("piece").set()
                await OUTSIDE.free("piece").wait()
            elif isinstance(piece, BaseException):
                raise piece
            else:
                yield piece
    finally:
        SOURCE.closed += 1


@asynccontextmanager
async def streamed(ctx: Context, question: str = "q", **options: Any) -> AsyncIterator[Any]:
    """An open stream, closed at the end."""
    opened = await ctx.with_options(**options).open_stream(MODEL, Call(stream, (question,), {}))
    try:
        yield opened
    finally:
        await opened.close()


async def words_of(opened: Any, most: int = 1_000_000) -> AsyncIterator[str]:
    """What the stream says, word by word."""
    for _ in range(most):
        try:
            piece = await opened.next()
        except StopAsyncIteration:
            return
        yield piece.removeprefix("data: ").strip()
