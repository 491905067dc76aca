"""FC-66: 500 moments at which a process dies, and one rule: what is recorded is not repeated (J2, J3).

Around "step finished, recorded, next step begun" a run is killed at every store call, in every function before and
after its effect, and from outside at moments spread over the whole run, thread pool and commit included. Once with
`async def` functions, once with plain ones. COUNTERFOIL_SOAK=N takes N times as many moments from outside.
"""

import os
import time

import pytest

STEPS = [f"{'tool' if number % 2 else 'model'} {number}" for number in range(8)]
RESULT = "tool 7 was called"
STORE_CALLS = 19
OUTSIDE_MOMENTS = 196 * int(os.environ.get("COUNTERFOIL_SOAK", "1"))
GOLDEN = 0.6180339887  # the fractions of its multiples lie evenly, however many are taken

INSIDE = [
    pytest.param({"kill_at": {when: number}}, id=f"{when}_store_call_{number}")
    for number in range(1, STORE_CALLS + 1)
    for when in ("before", "after")
] + [
    pytest.param({"deaths": [f"{where} {step}"]}, id=f"{where}_effect_of_{step.replace(' ', '_')}")
    for step in STEPS
    for where in ("before", "in")
]
FROM_OUTSIDE = [pytest.param(number * GOLDEN % 1, id=f"{number}") for number in range(OUTSIDE_MOMENTS)]


@pytest.fixture(params=[True, False], ids=["async", "plain"])
def chain(request):
    """What run is made: its steps, and whether they are async."""
    return {"steps": STEPS, "is_async": request.param}


@pytest.fixture(scope="session")
def window(server, folder) -> tuple[float, float]:
    """When a run begins and when it ends here, in seconds from the fork."""
    how = {"steps": STEPS, "is_async": True}

    def seconds(name, *args) -> float:
        begun = time.monotonic()
        server.run(name, *args).result()
        return time.monotonic() - begun

    begins = min(seconds("look", str(folder / "empty.db")) for _ in range(5))
    ends = min(seconds("follow", str(folder / f"{n}.db"), str(folder / f"{n}"), how) for n in range(5))
    return begins, ends


@pytest.fixture
def moment(request, window) -> float:
    """Seconds from the fork: this share of the way from the run's begin to its end."""
    begins, ends = window
    return begins + request.param * (ends - begins)


@pytest.mark.parametrize("place_of_death", INSIDE)
def test_recorded_means_not_repeated(place, chain, place_of_death):
    assert place.start("follow", chain | place_of_death).is_killed
    assert_the_rule(*place.go_on("follow", chain))


@pytest.mark.parametrize("moment", FROM_OUTSIDE, indirect=True)
def test_recorded_means_not_repeated_whenever_the_kill_comes(place, chain, moment):
    assert place.start("follow", chain | {"waits": True}, kill_after=moment).is_killed
    assert_the_rule(*place.go_on("follow", chain))


def assert_the_rule(at_the_kill, ended):
    recorded = len(at_the_kill.recorded)
    assert at_the_kill.recorded == STEPS[:recorded]
    assert at_the_kill.unrecorded() <= set(STEPS[recorded : recorded + 1])  # step k is on disk before k+1 begins
    assert ended == at_the_kill.completed(STEPS, RESULT)
