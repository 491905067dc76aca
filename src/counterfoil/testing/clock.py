"""A system whose time is set by hand, so that waits cost nothing and every draw is known beforehand."""

import asyncio
import uuid
from collections import Counter

from counterfoil.core.clock import Instant, after
from counterfoil.engine.system import System

START: Instant = 1_767_225_600_000_000  # 2026-01-01T00:00:00Z


class ManualSystem(System):
    """A System for tests: `counterfoil.open(url, system=ManualSystem())`.

    A wait moves the time to its end at once; after `hold()` it waits until `advance` has brought the time there.
    Random draws and UUIDs count up from zero. `calls` counts what was asked for, by method name, and `waits` lists
    the instants that were waited for.
    """

    def __init__(self, *, start: Instant = START) -> None:
        super().__init__()
        self.calls: Counter[str] = Counter()
        self.waits: list[Instant] = []
        self._now = start
        self._is_held = False
        self._moved: set[asyncio.Event] = set()
        self._waited = asyncio.Event()

    def hold(self) -> None:
        """From now on, time moves by `advance` only."""
        self._is_held = True

    def advance(self, seconds: float) -> None:
        """Move the time on, and wake whoever waits for it."""
        self._now = after(self._now, seconds)
        for moved in self._moved:
            moved.set()

    async def waiting(self, count: int) -> None:
        """Return when `count` waits have begun."""
        while len(self.waits) < count:
            self._waited.clear()
            await self._waited.wait()

    def now(self) -> Instant:
        """The time that was set."""
        self.calls["now"] += 1
        return self._now

    async def sleep_until(self, due: Instant) -> None:
        """Move the time to `due`; when it is held, wait until it has come."""
        self.waits.append(due)
        self._waited.set()
        await asyncio.sleep(0)
        if not self._is_held:
            self._now = max(self._now, due)
        moved = asyncio.Event()
        self._moved.add(moved)
        try:
            while self._now < due:
                await moved.wait()
                moved.clear()
        finally:
            self._moved.discard(moved)

    def random(self) -> float:
        """0.0, 0.001, 0.002 and so on."""
        self.calls["random"] += 1
        return (self.calls["random"] - 1) % 1000 / 1000

    def uuid(self) -> uuid.UUID:
        """UUID number 0, 1, 2 and so on."""
        self.calls["uuid"] += 1
        return uuid.UUID(int=self.calls["uuid"] - 1, version=4)
