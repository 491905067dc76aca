"""What is too large for the journal survives as what is in it does: killed at every store call, nothing twice (J2, J4).

A run with a large input, a large argument, large results and an artifact of its own. Beside what every crash test
asserts: no event is there without its artifact, at the kill or after it.
"""

import asyncio
from pathlib import Path

import pytest

import counterfoil

STEPS = ["model recite", "artifact artifact", "tool shorten"]
RESULT = "x" * 20_000
CALLS = ["open", "enlist", "start", "artifact", "inbox", "append", "append", "append", "artifact", "append",
         "append", "discharge", "close"]  # fmt: skip
POINTS = [(when, number) for number in range(1, len(CALLS) + 1) for when in ("before", "after")]


def name(point) -> str:
    when, number = point
    return f"{when}_{number}_{CALLS[number - 1]}"


def losses(place):
    """Artifacts that an event names and that are not there, or not as they were."""

    async def inspect():
        async with counterfoil.open(f"sqlite:///{place.path}") as journal:
            return (await journal.inspect_artifacts()).losses

    return asyncio.run(inspect()) if Path(place.path).exists() else ()


@pytest.fixture(params=POINTS, ids=name)
def killed(place, request):
    """The reciter, killed at a store call."""
    when, number = request.param
    assert place.start("recite_all", {when: number}).is_killed
    return place


def test_a_clean_run_makes_each_call_once(place):
    assert place.start("recite_all").result() == CALLS
    assert place.look() == place.look().completed(STEPS, RESULT)
    assert losses(place) == ()


def test_a_killed_run_goes_on_from_what_is_recorded(killed):
    assert losses(killed) == ()
    at_the_kill, ended = killed.go_on("recite_all")
    assert at_the_kill.unrecorded("model") <= set(at_the_kill.open)
    assert ended == at_the_kill.completed(STEPS, RESULT)
    assert losses(killed) == ()
