"""Tells what is recorded while a run goes on. It reads the journal, so it shows nothing that is not on disk."""

import asyncio
import time

from counterfoil import Journal
from counterfoil.cli.console import Settings
from counterfoil.cli.describe import progress_line
from counterfoil.core import events
from counterfoil.errors import CounterfoilError

LOOK_SECONDS = 0.1
SHARE_OF_TIME = 20
"""A look that takes long is followed by a wait of so many times its length."""


class Progress:
    """The events of one run, told as they come."""

    def __init__(self, journal: Journal, run: str, settings: Settings) -> None:
        self._journal, self._run, self._settings = journal, run, settings
        self._told = -1
        self._names: dict[str, str] = {}

    async def watch(self) -> None:
        """Tell until cancelled."""
        while True:
            begun = time.monotonic()
            await self._look()
            await asyncio.sleep(max(LOOK_SECONDS, SHARE_OF_TIME * (time.monotonic() - begun)))

    async def end(self, watching: "asyncio.Task[None]") -> None:
        """Tell the rest."""
        watching.cancel()
        await asyncio.wait({watching})
        await self._look()

    async def _look(self) -> None:
        try:
            head = await self._journal.store.head(self._run)
            if head is None or head.seq == self._told:
                return
            records = await self._journal.store.read(self._run)
            for record in records[self._told + 1 :]:
                line = progress_line(events.read(record, self._run), self._names)
                if line:
                    self._settings.say(line)
            self._told = len(records) - 1
        except CounterfoilError:  # the run itself meets the same, and says so
            return
