"""ARCHITECTURE.md names, for each law, test files that are there and that say which law they hold."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
ROWS = re.findall(r"^\| (J\d+) \|(.*)\|$", (ROOT / "ARCHITECTURE.md").read_text(), re.MULTILINE)
HELD = [(law, file) for law, row in ROWS for file in re.findall(r"`(tests/[^`]+)`", row)]


def test_all_ten_laws_are_there_and_each_is_held_by_a_test_but_the_one_that_says_why():
    assert [law for law, _ in ROWS] == [f"J{number}" for number in range(1, 11)]
    assert {law for law, _ in ROWS} - {law for law, _ in HELD} == {"J9"}


@pytest.mark.parametrize(("law", "file"), HELD)
def test_the_file_says_which_law_it_holds(law, file):
    assert re.search(rf"\b{law}\b", (ROOT / file).read_text())
