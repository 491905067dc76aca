"""Killed before and after every store call, a run with branches goes on and repeats nothing recorded (J2, J3, J4).

Three calls at a time, two of a model and one of a tool, one of them a plain function; then a group in which one call
fails and cuts two others off; then a model call that is given all of it, the order of the answers included. The calls
after each kill are predicted from the journal and the counter as they stood at it.
"""

import pytest

STEPS = ["model left", "model right", "tool middle", "tool refuse", "model conclude"]
CUT = ["tool hold 1", "tool hold 2"]
FIRST, SECOND, THIRD = (f"{each} of Is it raining?" for each in ("left", "right", "middle"))
RESULT = f"{FIRST}, {SECOND}, {THIRD}; 3 in order"
USUAL_CALLS, MOST_CALLS = 15, 18  # of the store; on a slow computer an intent may be written by itself
POINTS = [(when, number) for number in range(1, MOST_CALLS + 1) for when in ("before", "after")]
AGAIN = [(when, number) for number in (6, 9) for when in ("before", "after")]


def name(point) -> str:
    return "_".join(map(str, point))


@pytest.fixture
def killed(place, request):
    """The run, killed at a store call; or at its end, if it made fewer."""
    when, number = request.param
    ended = place.start("fork", {"kill_at": {when: number}})
    assert ended.is_killed or len(ended.result()) < number
    return place


def completed(moment):
    return moment.completed_branches(STEPS, RESULT, cut=CUT, by="tool refuse")


def test_a_clean_run_makes_each_call_once(place):
    assert USUAL_CALLS <= len(place.start("fork").result()) <= MOST_CALLS
    ended = place.look()
    assert ended.calls == dict.fromkeys([*STEPS, *CUT], 1)
    assert (ended.result, set(ended.recorded), ended.cancelled, ended.flaws) == (RESULT, set(STEPS), CUT, [])


@pytest.mark.parametrize("killed", POINTS, ids=name, indirect=True)
def test_a_killed_run_goes_on_from_what_is_recorded(killed):
    at_the_kill, ended = killed.go_on("fork")
    assert at_the_kill.unrecorded("model") <= set(at_the_kill.open)  # no model call without an intent on disk
    assert ended.kept_since(at_the_kill)
    assert ended.in_no_order() == completed(at_the_kill)


@pytest.mark.parametrize("step", [*STEPS, *CUT])
def test_a_run_killed_inside_a_call_goes_on_from_what_is_recorded(place, step):
    assert place.start("fork", {"deaths": [f"in {step}"]}).is_killed
    at_the_kill, ended = place.go_on("fork")
    assert at_the_kill.calls[step] == 1
    assert ended.in_no_order() == completed(at_the_kill)


@pytest.mark.parametrize("killed", POINTS[9:-4:5], ids=name, indirect=True)
def test_a_new_python_goes_on_as_a_fork_does(killed, new_python):
    at_the_kill, ended = killed.go_on("fork", server=new_python)
    assert ended.in_no_order() == completed(at_the_kill)


@pytest.mark.parametrize("killed", POINTS[9:-9:3], ids=name, indirect=True)
@pytest.mark.parametrize(("when", "number"), AGAIN, ids=str)
def test_a_kill_while_going_on_changes_no_rule(killed, when, number):
    first = killed.look()
    killed.start("fork", {"kill_at": {when: number}})
    second, ended = killed.go_on("fork")
    assert second.kept_since(first)
    assert ended.kept_since(second)
    assert ended.in_no_order() == completed(second)
