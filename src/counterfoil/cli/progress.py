"""Tells what is recorded while a run goes on. It reads the journal, so it shows nothing that is not on disk.

On a terminal a line below says what is under way.
"""

import asyncio
import contextlib
import sys
import time
from typing import TYPE_CHECKING

from counterfoil import Journal, artifacts
from counterfoil.cli.console import say
from counterfoil.cli.describe import Teller
from counterfoil.errors import CounterfoilError

if TYPE_CHECKING:
    from counterfoil.cli.drawing import LiveLine

LOOK_SECONDS = 0.1
WAIT_PER_LOOK = 20
"""After a look that took long, wait so many times as long: watching must not slow the run down."""


class Progress:
    """One run's events, told as they come; those that were there before are only read."""

    def __init__(self, journal: Journal, run: str) -> None:
        self._journal, self._run = journal, run
        self._teller = Teller()
        self._seen = -1
        self._live = _live_line() if sys.stderr.isatty() else None

    async def skip(self) -> None:
        """Take in what is there already, untold."""
        await self._new_lines()

    async def watch(self) -> None:
        """Tell until cancelled."""
        with self._live or contextlib.nullcontext():
            while True:
                begun = time.monotonic()
                await self.tell()
                await asyncio.sleep(max(LOOK_SECONDS, WAIT_PER_LOOK * (time.monotonic() - begun)))

    async def tell(self) -> None:
        """Tell what is new."""
        for line in await self._new_lines():
            say(line)
        if self._live:
            self._live.say(self._teller.under_way)

    async def _new_lines(self) -> list[str]:
        store = self._journal.store
        try:
            head = await store.head(self._run)
            if head is None or head.seq == self._seen:
                return []
            records = (await store.read(self._run))[self._seen + 1 :]
            events = await artifacts.read_all(records, self._run, store.artifact)
        except CounterfoilError:  # the run meets the same, and says so
            return []
        lines = [self._teller.line(event) for event in events]
        self._seen += len(records)
        return [line for line in lines if line]


def _live_line() -> "LiveLine":
    from counterfoil.cli.drawing import LiveLine  # noqa: PLC0415 - slow to load, and needed on a terminal only

    return LiveLine()
