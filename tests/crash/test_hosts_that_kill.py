"""FC-01 and FC-06: hosts that kill again and again.

A limit shorter than the run costs at most one call a kill, and the run still ends. A step that takes the process down
each time is found by counting crashes in the store, and costs nothing that was paid before.
"""

import pytest

AGENT = ["model 1", "tool 1", "model 2", "tool 2", "model 3", "model 4"]
POISONED = ["model 1", "model 2", "model 3", "model 4", "tool 5"]
HARD_EXIT = 3


@pytest.fixture
def poisoned(place):
    """A run whose fifth step ended its process four times: once after progress, then three times without."""
    how = {"steps": POISONED, "is_async": False, "deaths": ["exit in tool 5"]}
    assert [place.start("follow", how).code for _ in range(4)] == [HARD_EXIT] * 4
    return place


def moments(place, limit):
    """Starts the agent under a host that kills it in the call that reaches the limit, until it ends."""
    how = {"steps": AGENT, "is_async": True, "deaths": [f"in call {limit}"]}
    while place.start("follow", how).is_killed:
        yield place.look()


@pytest.mark.parametrize(
    ("limit", "calls"),
    [
        (2, {"model 1": 1, "tool 1": 2, "model 2": 2, "tool 2": 2, "model 3": 2, "model 4": 2}),
        (3, {"model 1": 1, "tool 1": 1, "model 2": 2, "tool 2": 1, "model 3": 2, "model 4": 1}),
        (4, {"model 1": 1, "tool 1": 1, "model 2": 1, "tool 2": 2, "model 3": 1, "model 4": 1}),
    ],
)
def test_a_limit_shorter_than_the_run_costs_one_call_a_kill(place, limit, calls):
    recorded = [len(moment.recorded) for moment in moments(place, limit)]
    kills = len(recorded)
    assert recorded == [(limit - 1) * (kill + 1) for kill in range(kills)]  # each attempt gets as much further
    assert place.calls == calls
    assert sum(calls.values()) == len(AGENT) + kills
    assert place.look().state == "completed"


def test_a_step_that_ends_the_process_each_time_pauses_the_run(poisoned):
    ended = poisoned.start("follow", {"steps": POISONED, "is_async": False})
    assert "RunPausedError" in ended.raised
    assert "the process died 3 times in a row without getting further, last in step 4 (tool 5)" in ended.raised
    assert (poisoned.look().state, poisoned.look().reason) == ("paused", "crash_limit")
    assert poisoned.calls == {"model 1": 1, "model 2": 1, "model 3": 1, "model 4": 1, "tool 5": 4}


def test_another_run_of_the_store_goes_on(poisoned):
    other = {"steps": ["model other"], "is_async": True, "run": "other"}
    assert poisoned.start("follow", other).result() == "model other was called"


def test_a_paused_run_completes_once_the_cause_is_mended(poisoned):
    assert "crash_limit" in poisoned.start("follow", {"steps": POISONED, "is_async": False}).raised
    paused, ended = poisoned.go_on("resume")
    assert ended == paused.completed(POISONED, "tool 5 was called")
    assert ended.calls == {"model 1": 1, "model 2": 1, "model 3": 1, "model 4": 1, "tool 5": 5}


@pytest.mark.parametrize(
    ("poison", "calls", "unknown"),
    [
        ("in model 1", 3, 3),
        ("in tool 1", 4, 3),  # the first try leaves no trace: a tool's intent is not awaited in a first attempt
        ("after model 1", 1, 0),  # the code between the steps ends the process: after progress, then three times
        ("after tool 1", 1, 0),
    ],
)
def test_a_run_is_paused_wherever_it_ends_the_process(place, poison, calls, unknown):
    step = poison.split(" ", 1)[1]
    how = {"steps": [step], "is_async": False, "deaths": [f"exit {poison}"]}
    while place.start("follow", how).code == HARD_EXIT:
        pass
    paused = place.look()
    assert (paused.state, paused.reason) == ("paused", "crash_limit")
    assert (paused.calls, paused.unknown) == ({step: calls}, [step] * unknown)
