"""FC-67: a start that was acknowledged is there after a kill, and runs; one that was not may be asked for again.

500 processes record a run, hear that it is recorded, write that down, and die at once. Fifty more die before the
record or before its acknowledgement is heard.
"""

import pytest

ROUNDS, STARTS, UNHEARD = 5, 100, 25
START_CALL = 2  # a process that only starts a run calls: open, start


@pytest.mark.parametrize("batch", range(ROUNDS))
def test_an_acknowledged_start_is_there_and_runs(place, batch):
    runs = [f"{batch}-{number}" for number in range(STARTS)]
    assert all(place.start("begin", {"run": run}).is_killed for run in runs)
    assert place.calls == dict.fromkeys(runs, 1)  # acknowledged, and nothing else has happened
    assert sorted(place.start("finish_all", runs).result()["found"]) == sorted(runs)
    assert place.calls == dict.fromkeys(runs, 1) | {f"model {run}": 1 for run in runs}


@pytest.mark.parametrize(("when", "is_there"), [("before", False), ("after", True)])
def test_a_start_that_was_not_acknowledged_may_be_asked_for_again(place, when, is_there):
    runs = [f"{when}-{number}" for number in range(UNHEARD)]
    assert all(place.start("begin", {"run": run, "kill_at": {when: START_CALL}}).is_killed for run in runs)
    assert place.calls == {}
    assert sorted(place.start("finish_all", runs).result()["found"]) == (sorted(runs) if is_there else [])
    assert place.calls == {f"model {run}": 1 for run in runs}
