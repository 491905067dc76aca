"""Each promise names tests that are there."""

import re
from pathlib import Path

import pytest

from counterfoil import Retry
from counterfoil.artifacts import BODY_BYTES_MAX
from counterfoil.core.codec import DEPTH_MAX
from counterfoil.engine.driver import CRASHES_MAX

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "guarantees.md").read_text(encoding="utf-8")
ROWS = [
    line for line in PAGE.partition("## Not promised")[0].splitlines() if line.startswith("| ") and "`tests/" in line
]


def test_the_page_has_promises():
    assert len(ROWS) > 10


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row[2:40])
def test_a_promise_names_tests_that_are_there(row):
    named = re.findall(r"`(tests/[^`]+)`", row)
    assert named
    assert [path for path in named if not (ROOT / path).is_file()] == []


LIMITS = {
    f"| tries of a step | {Retry().tries}, ": "tries",
    f"| {Retry().first_seconds} s, doubled up to {Retry().cap_seconds:g} s,": "waits",
    f"| {CRASHES_MAX}, then the run pauses |": "crashes",
    f"| {BODY_BYTES_MAX // 1024} KiB; what is larger": "bodies",
    f"| depth of a value | {DEPTH_MAX} |": "depth",
}


@pytest.mark.parametrize("text", LIMITS, ids=LIMITS.values())
def test_a_limit_on_the_page_is_the_one_in_the_code(text):
    assert text in PAGE
