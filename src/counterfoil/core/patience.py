"""How long the other side asked us to wait, as an exception tells it.

Servers say so by `retry-after` (seconds, or the date of an HTTP header) and some by `retry-after-ms`. Clients keep the
headers on the exception or on its `response`, or the time itself as `retry_after`. What makes no sense is as if nothing
had been said: words, negative numbers, dates that have passed, and times beyond a year.
"""

import math
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from typing import Any

from counterfoil.core.clock import SECOND, Instant, as_instant

STATED_SECONDS_MAX = 366 * 24 * 3600.0
TEXT_CHARACTERS_MAX = 100


def stated_seconds(error: BaseException, now: Instant) -> float | None:
    """The seconds from now that the other side asked for; None if it did not, or in no way that makes sense."""
    stated = (_stated(source, error, now=now) for source in _SOURCES)
    return next((seconds for seconds in stated if seconds is not None), None)


_SOURCES: tuple[Callable[[Any], Mapping[Any, Any]], ...] = (
    lambda error: error.response.headers,
    lambda error: error.headers,
    lambda error: {"retry-after": error.retry_after},
)


def _stated(source: Callable[[Any], Mapping[Any, Any]], error: BaseException, *, now: Instant) -> float | None:
    try:
        return _of_headers(source(error), now)
    except Exception:  # noqa: BLE001 - foreign attributes may raise anything, and hold anything
        return None


def _of_headers(headers: Mapping[Any, Any], now: Instant) -> float | None:
    named = {str(name).lower(): value for name, value in headers.items()}
    milliseconds = _sensible(_seconds(named.get("retry-after-ms"), now))
    return milliseconds / 1000 if milliseconds is not None else _sensible(_seconds(named.get("retry-after"), now))


def _seconds(value: Any, now: Instant) -> float | None:
    if isinstance(value, timedelta):
        return value.total_seconds()
    if isinstance(value, int | float) and not isinstance(value, bool):
        return float(value)
    if not isinstance(value, str) or len(value) > TEXT_CHARACTERS_MAX:
        return None
    try:
        return float(value)
    except ValueError:
        return _until(value, now)


def _until(text: str, now: Instant) -> float | None:
    """The seconds until an HTTP date."""
    try:
        moment: datetime = parsedate_to_datetime(text)
    except Exception:  # noqa: BLE001 - the parser raises different things for different nonsense
        return None
    return (as_instant(moment if moment.tzinfo else moment.replace(tzinfo=UTC)) - now) / SECOND


def _sensible(seconds: float | None) -> float | None:
    is_sensible = seconds is not None and math.isfinite(seconds) and 0 <= seconds <= STATED_SECONDS_MAX
    return seconds if is_sensible else None
