"""A stream that is killed at any store call is recorded whole or made again from its first chunk on (J2, J4; FC-75).

What had come of a lost try stays readable, marked by its try; what an event holds is nowhere else.
"""

import pytest

STEPS = ["model tell_on", "tool fetch"]
PIECES = ["data: 0\n\n", "data: 1\n\n", "data: [DONE]\n\n"]
RESULT = "weather by (0 1 [DONE])"
STREAM = ["append", *["put_chunks"] * 3, "append"]
CALLS = ["open", "enlist", "start", "inbox", *STREAM, "append", "append", "discharge", "close"]
POINTS = [(when, number) for number in range(1, len(CALLS) + 1) for when in ("before", "after")]
FIRST_CHUNK, OUTCOME = CALLS.index("put_chunks") + 1, CALLS.index("put_chunks") + 4


def name(point) -> str:
    when, number = point
    return f"{when}_{number}_{CALLS[number - 1]}"


@pytest.fixture(params=POINTS, ids=name)
def killed(place, request):
    """The listener, killed at a store call."""
    when, number = request.param
    assert place.start("listen", {"kill_at": {when: number}}).is_killed
    return place


def provisional(place, server):
    return server.run("provisional", place.path).result()


def test_a_clean_run_makes_each_call_once(place, server):
    assert place.start("listen").result() == CALLS
    assert place.look() == place.look().completed(STEPS, RESULT)
    assert provisional(place, server) == {}


def test_a_killed_stream_goes_on_from_what_is_recorded(killed):
    at_the_kill, ended = killed.go_on("listen")
    assert at_the_kill.unrecorded("model") <= set(at_the_kill.open)
    assert ended == at_the_kill.completed(STEPS, RESULT)


@pytest.mark.parametrize("count", [1, 2])
def test_the_chunks_of_a_lost_try_stay_and_those_of_the_next_are_in_its_outcome(place, server, count):
    assert place.start("listen", {"kill_at": {"after": FIRST_CHUNK + count - 1}}).is_killed
    assert provisional(place, server) == {"1": PIECES[:count]}
    place.start("listen").result()
    assert provisional(place, server) == {"1": PIECES[:count]}
    assert place.look().unknown == ["model tell_on"]


def test_killed_after_the_hundredth_chunk_and_before_the_record_all_hundred_are_readable(place, server):
    died = {"words": 100, "kill_at": {"before": FIRST_CHUNK + 101}}
    assert place.start("listen", died).is_killed
    assert provisional(place, server) == {"1": [f"data: {n}\n\n" for n in range(100)]}
    place.start("listen", {"words": 100}).result()
    whole = " ".join(map(str, range(100)))
    assert place.look().result == f"weather by ({whole} [DONE])"
    assert place.calls["model tell_on"] == 2
