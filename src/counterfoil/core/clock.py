"""Instants and the clock port. An instant is an integer: microseconds since 1970-01-01 UTC.

The core never reads a clock: it is given instants. The engine's system module holds the only real clock.
"""

from datetime import UTC, datetime, timedelta
from typing import Protocol

Instant = int
"""Microseconds since 1970-01-01T00:00:00Z."""

SECOND = 1_000_000
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)


class Clock(Protocol):
    """Tells the time and waits for it."""

    def now(self) -> Instant:
        """The present instant."""

    async def sleep_until(self, due: Instant) -> None:
        """Return when `due` has come, never before; at once if it has passed."""


def as_datetime(instant: Instant) -> datetime:
    """The instant as an aware UTC datetime, exact to the microsecond."""
    return _EPOCH + timedelta(microseconds=instant)


def as_instant(moment: datetime) -> Instant:
    """The aware datetime as an instant. Raises ValueError for a naive one."""
    if moment.tzinfo is None:
        msg = "a moment without a time zone is ambiguous: add tzinfo, for example UTC"
        raise ValueError(msg)
    return (moment - _EPOCH) // _MICROSECOND


def after(instant: Instant, seconds: float) -> Instant:
    """The instant that lies `seconds` later."""
    return instant + round(seconds * SECOND)
