"""FC-79: a function past its time in a process that dies: never doubled while it runs, tried again once it is gone."""

from pathlib import Path

import pytest

from counterfoil.testing.crash import Tally
from counterfoil.testing.forks import ForkServer

INTENT, OVERDUE = 5, 6
"""Which of the store's calls: open, enlist, start, inbox, then the appends."""

BEGUN = ["run_started", "attempt_started", "step_intended"]
AGAIN = ["attempt_started", "outcome_unknown", "step_intended", "step_succeeded", "run_completed"]


@pytest.fixture(scope="module")
def overdue_server():
    with ForkServer(Path(__file__).parent / "overdue.py") as server:
        yield server


@pytest.mark.parametrize(
    ("after", "recorded"),
    [(INTENT, BEGUN), (OVERDUE, [*BEGUN, "step_timed_out"])],
    ids=["in its time", "past its time"],
)
def test_a_function_that_died_with_its_process_is_tried_once_more(overdue_server, tmp_path, after, recorded):
    path, tally = str(tmp_path / "runs.db"), str(tmp_path / "tally")
    assert overdue_server.run("ask", path, tally, {"stuck": True, "after": after}).is_killed
    assert overdue_server.run("types", path).result() == recorded
    assert overdue_server.run("ask", path, tally, {"stuck": False}).result() == "came back"
    assert overdue_server.run("types", path).result() == [*recorded, *AGAIN]
    assert Tally(tally).counts() == {"begun": 2}


def test_no_second_try_begins_while_the_process_lives_and_the_function_runs(overdue_server, tmp_path):
    path, tally = str(tmp_path / "runs.db"), str(tmp_path / "tally")
    assert overdue_server.run("ask", path, tally, {"stuck": True}, kill_after=1.0).is_killed
    assert overdue_server.run("types", path).result() == [*BEGUN, "step_timed_out"]
    assert Tally(tally).counts() == {"begun": 1}
