"""Instants are whole microseconds, exact in both directions."""

from datetime import UTC, datetime, timedelta, timezone

import pytest

from counterfoil.core.clock import after, as_datetime, as_instant

MOMENTS = [
    (0, datetime(1970, 1, 1, tzinfo=UTC)),
    (1, datetime(1970, 1, 1, 0, 0, 0, 1, tzinfo=UTC)),
    (-1, datetime(1969, 12, 31, 23, 59, 59, 999999, tzinfo=UTC)),
    (1_767_225_600_123_457, datetime(2026, 1, 1, 0, 0, 0, 123457, tzinfo=UTC)),
    (253_402_300_799_999_999, datetime(9999, 12, 31, 23, 59, 59, 999999, tzinfo=UTC)),
]


@pytest.mark.parametrize(("instant", "moment"), MOMENTS)
def test_an_instant_is_a_moment_to_the_microsecond(instant, moment):
    assert as_datetime(instant) == moment
    assert as_instant(moment) == instant


def test_a_moment_in_another_zone_is_the_same_instant():
    there = datetime(2026, 1, 1, 2, tzinfo=timezone(timedelta(hours=2)))
    assert as_instant(there) == as_instant(datetime(2026, 1, 1, tzinfo=UTC))


def test_a_moment_without_a_zone_is_refused():
    with pytest.raises(ValueError, match="ambiguous"):
        as_instant(datetime(2026, 1, 1))  # noqa: DTZ001 - the case under test


@pytest.mark.parametrize(("seconds", "added"), [(0, 0), (1, 1_000_000), (0.1, 100_000), (1e-6, 1), (-2, -2_000_000)])
def test_seconds_are_added_as_microseconds(seconds, added):
    assert after(5, seconds) == 5 + added
