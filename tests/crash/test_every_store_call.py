"""Killed before and after every store call, an agent goes on and obtains nothing twice that was recorded (J2, J3, J4).

3 model calls, 2 tools and a timer. What is asserted at each point is the count of outside calls, predicted from the
journal and the counter as they stood at the kill, and all else that a reader of the journal can see.
"""

import pytest

STEPS = ["model plan", "tool look_up", "model draft", "sleep sleep", "tool fetch", "model answer"]
RESULT = "answer from weather by (draft for place in (plan for Is it raining?))"
MODEL, TOOL, TIMER, END = ["append", "append"], ["append"], ["append", "append"], ["append"]
WORK = [*MODEL, *TOOL, *MODEL, *TIMER, *TOOL, *MODEL, *END]
CALLS = ["open", "enlist", "start", "inbox", *WORK, "discharge", "close"]
POINTS = [(when, number) for number in range(1, len(CALLS) + 1) for when in ("before", "after")]
AGAIN = [(when, number) for number in (4, 8) for when in ("before", "after")]


def name(point) -> str:
    when, number = point
    return f"{when}_{number}_{CALLS[number - 1]}"


@pytest.fixture(params=POINTS, ids=name)
def killed(place, request):
    """The agent, killed at a store call."""
    when, number = request.param
    assert place.start("ask", {when: number}).is_killed
    return place


def test_a_clean_run_makes_each_call_once(place):
    assert place.start("ask").result() == CALLS
    assert place.look() == place.look().completed(STEPS, RESULT)
    assert set(place.calls.values()) == {1}


def test_a_killed_run_goes_on_from_what_is_recorded(killed):
    at_the_kill, ended = killed.go_on("ask")
    assert at_the_kill.unrecorded("model") <= set(at_the_kill.open)  # no model call without an intent on disk
    assert ended == at_the_kill.completed(STEPS, RESULT)


@pytest.mark.parametrize("killed", POINTS[::8], ids=name, indirect=True)
def test_a_new_python_goes_on_as_a_fork_does(killed, new_python):
    at_the_kill, ended = killed.go_on("ask", server=new_python)
    assert ended == at_the_kill.completed(STEPS, RESULT)


@pytest.mark.parametrize("killed", POINTS[4:-4:5], ids=name, indirect=True)
@pytest.mark.parametrize(("when", "number"), AGAIN)
def test_a_kill_while_going_on_changes_no_rule(killed, when, number):
    first = killed.look()
    assert killed.start("ask", {when: number}).is_killed
    second, ended = killed.go_on("ask")
    assert second.kept_since(first)
    assert ended == second.completed(STEPS, RESULT)
