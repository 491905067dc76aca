"""Calls whose begin and end a test has in its hand.

They are functions of a module, since what a step closes over is its input.
"""

import asyncio
from collections import Counter


class RefusalError(ValueError):
    """What a call fails with."""


class Outside:
    """What is called, what has begun, what may end, what has ended."""

    def __init__(self) -> None:
        self.calls: Counter[str] = Counter()
        self.ended: list[str] = []
        self._events: dict[tuple[str, str], asyncio.Event] = {}
        self._is_open = False

    def begun(self, name: str) -> asyncio.Event:
        """Set when this call has begun."""
        return self._events.setdefault(("begun", name), asyncio.Event())

    def free(self, name: str) -> asyncio.Event:
        """To be set when this call may end."""
        event = self._events.setdefault(("free", name), asyncio.Event())
        if self._is_open:
            event.set()
        return event

    def open(self) -> None:
        """From now on any call ends as soon as it can."""
        self._is_open = True

    async def all_begun(self, *names: str) -> None:
        """Wait until these have begun; not once all is open."""
        for name in () if self._is_open else names:
            await self.begun(name).wait()

    def forget(self) -> None:
        """As if nothing had been called: another process."""
        self.__init__()  # type: ignore[misc]


OUTSIDE = Outside()


async def answer(given: object = None) -> object:
    OUTSIDE.calls["answer"] += 1
    return given


async def lasts(name: str) -> str:
    """Ends when it may, or when it is cut off."""
    OUTSIDE.calls[name] += 1
    OUTSIDE.begun(name).set()
    try:
        await OUTSIDE.free(name).wait()
    finally:
        OUTSIDE.ended.append(name)
    return name


async def lingers(name: str) -> str:
    """Cut off, it cleans up until it may end."""
    OUTSIDE.calls[name] += 1
    OUTSIDE.begun(name).set()
    try:
        await asyncio.Event().wait()
    finally:
        await OUTSIDE.free(name).wait()
        OUTSIDE.ended.append(name)
    return name


async def refuses(*beside: str) -> None:
    """Fails once these others have begun."""
    OUTSIDE.calls["refuses"] += 1
    await OUTSIDE.all_begun(*beside)
    raise RefusalError("no")
