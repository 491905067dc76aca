"""Instants in words, for the command line."""

import pytest

from counterfoil.cli.describe import moment, moment_exactly
from counterfoil.core.clock import SECOND


@pytest.mark.parametrize(
    ("instant", "told"),
    [
        (0, "1970-01-01T00:00:00.000000Z"),
        (10**12 * SECOND, "9999-12-31T23:59:59.999999Z"),  # a wait of 31,000 years
        (10**300, "9999-12-31T23:59:59.999999Z"),
    ],
)
def test_an_instant_beyond_the_calendar_is_told_as_its_last_one(instant, told):
    assert moment_exactly(instant) == told
    assert moment(instant) == told.replace("T", " ")[:19] + "Z"


def test_an_instant_before_the_calendar_is_told_as_its_first_one():
    assert moment_exactly(-(2**62)).endswith("01-01T00:00:00.000000Z")
