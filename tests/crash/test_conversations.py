"""Inputs that share earlier ones survive as whole ones do: killed at every store call, nothing twice (J2, J4).

A run with three model calls over a growing conversation, and a tool. Beside what every crash test asserts, among it
that each whole input has its digest: no message of the conversation is stored again, in a repeated try neither.
"""

import pytest

STEPS = ["model converse", "model converse", "model converse", "tool weigh"]
RESULT = "answer 3 of 4200"
CALLS = ["open", "enlist", "start", "inbox", *["append"] * 8, "discharge", "close"]
POINTS = [(when, number) for number in range(1, len(CALLS) + 1) for when in ("before", "after")]
MESSAGE = 1000


def name(point) -> str:
    when, number = point
    return f"{when}_{number}_{CALLS[number - 1]}"


@pytest.fixture(params=POINTS, ids=name)
def killed(place, request):
    """The talker, killed at a store call."""
    when, number = request.param
    assert place.start("talk", {when: number}).is_killed
    return place


def shared(place) -> list[bool]:
    """Of each model call that was begun: whether no more than one message is stored with it."""
    return [stored < MESSAGE for whole, stored in place.start("stored_intents").result()]


def test_a_clean_run_makes_each_call_once(place):
    assert place.start("talk").result() == CALLS
    assert place.look() == place.look().completed(STEPS, RESULT)
    assert shared(place) == [False, True, True, False]


def test_a_killed_run_goes_on_from_what_is_recorded(killed):
    at_the_kill, ended = killed.go_on("talk")
    assert ended == at_the_kill.completed(STEPS, RESULT)
    assert shared(killed)[0] is False
    assert shared(killed)[1:-1] == [True] * (2 + len(at_the_kill.open))
