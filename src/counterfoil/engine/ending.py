"""How a pass of the code is ended from inside: by a verdict that the driver records, or left resumable.

With one branch the call that meets the end raises `Halted` in the body. With more, nothing is raised: a TaskGroup would
cut a sibling's paid call for it. The branch waits instead, no further call begins, calls under way land and are
recorded, and only then is every branch cancelled.
"""

import asyncio
from typing import NoReturn

from counterfoil.engine.branches import Branch, Branches, forever
from counterfoil.engine.verdicts import Verdict
from counterfoil.errors import Halted, RunStoppedError

STILL_SECONDS = 5.0
"""So long the end is held back by streams whose branches wait for something, and ask for no chunk."""


class End(BaseException):
    """Leads from wherever a call finds that the run must end to the edge of that call; never seen by user code."""

    def __init__(self, verdict: Verdict | None = None) -> None:
        super().__init__()
        self.verdict = verdict


class Ending:
    """The end of one attempt, from the first sign of it to the last branch.

    As a context manager it holds the end back until a call under way has landed.
    """

    def __init__(self, run: str) -> None:
        self.run = run
        self.verdict: Verdict | None = None
        self.stopped: RunStoppedError | None = None
        self.interrupted = False  # the body was told to end, so what it returns is no result
        self.abandoned: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._over = False  # the body has ended by itself
        self._flights = 0
        self._landed: asyncio.Future[None] | None = None
        self._watch_of_streams: asyncio.TimerHandle | None = None

    def watch(self, branches: Branches) -> None:
        """Take charge of these branches."""
        self._branches = branches

    @property
    def is_sealed(self) -> bool:
        """Whether no further call may begin."""
        return self._over or self.verdict is not None or self.stopped is not None

    @property
    def has_landed(self) -> bool:
        """Whether no call is under way, and none may begin."""
        return self.is_sealed and not self._flights

    # --- what brings it about ---

    def decide(self, verdict: Verdict | None) -> None:
        """End the run with this verdict, unless there is one; among others, once the calls under way have landed."""
        if verdict is not None:
            self.verdict = self.verdict or verdict
        if not self._branches.is_alone:
            self._wind_up()

    def stop(self, why: str, cause: Exception | None = None) -> None:
        """Let no further call begin, and end a wait at once. A step under way may finish."""
        if self.stopped is None:
            self.stopped = RunStoppedError(run=self.run, why=why)
            self.stopped.__cause__ = cause
        self._wind_up()

    def cut(self) -> None:
        """End every branch wherever it is. A step under way has no outcome then."""
        self.interrupted = True
        for task in self._branches.left():
            task.cancel()

    def abandon(self) -> None:
        """Wait no longer for a body that swallows its end."""
        if not self.abandoned.done():
            self.abandoned.set_result(None)

    # --- what calls do about it ---

    async def reach(self, end: End) -> NoReturn:
        """The edge of a call that met the end."""
        self.decide(end.verdict)
        if self._branches.is_alone:
            self.interrupted = True
            raise Halted
        await forever()
        raise AssertionError

    async def refuse(self, branch: Branch) -> NoReturn:
        """Refuse a call after the end. The first is told so; a second, by a body that swallowed it, never returns."""
        if not self.interrupted and not self._branches.is_alone:
            await forever()  # until the calls under way have landed
        branch.sealed_calls += 1
        if branch.sealed_calls == 1:
            self.interrupted = True
            raise Halted
        self.abandon()
        await forever()
        raise AssertionError

    def __enter__(self) -> None:
        """A step's function is under way, until its outcome is recorded."""
        self._flights += 1

    def __exit__(self, *_: object) -> None:
        """It has landed."""
        self._flights -= 1
        if not self._flights and self.is_sealed:
            self._all_landed()

    # --- after the body ---

    def body_ended(self) -> None:
        """The body has ended by itself, or because it was told to."""
        self._over = True

    async def clear(self) -> None:
        """The body has ended: let calls under way in branches it left behind land, then end those branches."""
        while tasks := self._branches.left():
            if self._flights and not self.interrupted:
                self._landed = self._landed or asyncio.get_running_loop().create_future()
                self._watch_streams()
                await asyncio.wait({self._landed, self.abandoned}, return_when=asyncio.FIRST_COMPLETED)
            if self.abandoned.done():
                return
            self.cut()
            await asyncio.wait({*tasks, self.abandoned}, return_when=asyncio.FIRST_COMPLETED)

    def _wind_up(self) -> None:
        if not self._flights:
            self.cut()
        else:
            self._watch_streams()

    def _watch_streams(self) -> None:
        """A step lands by itself; a stream only if its branch reads on, and that may wait for one that never will."""
        if self._watch_of_streams is None:
            self._look_at_streams(moves=-1)

    def _look_at_streams(self, moves: int) -> None:
        if not self._flights or self.interrupted or self.abandoned.done():
            return
        if moves == self._branches.moves and self._branches.between_chunks() == self._flights:
            self.cut()
            return
        loop = asyncio.get_running_loop()
        self._watch_of_streams = loop.call_later(STILL_SECONDS, self._look_at_streams, self._branches.moves)

    def _all_landed(self) -> None:
        if self._watch_of_streams is not None:
            self._watch_of_streams.cancel()
        if self._landed and not self._landed.done():
            self._landed.set_result(None)
        if not self._over and not self._branches.is_alone:
            self.cut()
