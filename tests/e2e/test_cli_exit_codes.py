"""The exit codes are one table, in three places."""

import re
from pathlib import Path

from counterfoil.cli import main, outcomes

ROW = re.compile(r"^\| (\d+) \| (.*) \|$", re.MULTILINE)
PAGE = Path(__file__).parents[2] / "docs" / "cli.md"


def test_the_page_and_the_module_have_the_same_table():
    assert ROW.findall(PAGE.read_text(encoding="utf-8")) == ROW.findall(main.__doc__)


def test_the_table_has_every_code():
    assert [int(code) for code, _ in ROW.findall(main.__doc__)] == sorted(outcomes.Exit)


def test_every_error_of_ours_has_a_code_of_its_kind():
    """Those that stay inside a run, as the cause of its pause, never end a command."""
    mapped = {kind for kind, _ in outcomes._EXITS}
    ends = [k for k in outcomes.CounterfoilError.__subclasses__() if not mapped & set(_tree(k))]
    assert sorted(kind.__name__ for kind in ends) == ["CallError", "MismatchError", "RecordedError", "StreamCutError"]


def _tree(kind):
    return [kind, *(each for child in kind.__subclasses__() for each in _tree(child))]
