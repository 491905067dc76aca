"""FC-16: gather, nested gather, TaskGroup and tasks awaited later, killed at 200 random points (J2, J5).

Equal calls have different answers, each after a random time, so the order in which they come is another one in every
process. Whoever goes on has another hash seed.
"""

import re
import time

import pytest

STEPS = [*["tool first"] * 3, *["model second"] * 3, *["tool third"] * 28]
IN_CALLS = [pytest.param({"deaths": [f"in call {n + 1}"]}, id=f"in_call_{n + 1}") for n in range(len(STEPS))]
FROM_OUTSIDE = 200 - len(IN_CALLS)
GOLDEN = 0.6180339887  # the fractions of its multiples lie evenly


@pytest.fixture(scope="session")
def window(server, folder) -> tuple[float, float]:
    """When a run begins and when it ends here, in seconds from the fork."""

    def seconds(name, *args) -> float:
        begun = time.monotonic()
        server.run(name, *args).result()
        return time.monotonic() - begun

    begins = min(seconds("look", str(folder / "spread-empty.db")) for _ in range(5))
    runs = [(str(folder / f"spread-{n}.db"), str(folder / f"spread-{n}"), {"seed": n}) for n in range(5)]
    return begins, min(seconds("spread_out", *args) for args in runs)


@pytest.fixture
def moment(request, window) -> float:
    """Seconds from the fork: this share of the way from the run's begin to its end."""
    begins, ends = window
    return begins + request.param * (ends - begins)


@pytest.fixture(scope="session")
def result(server, folder) -> dict:
    """What every run must end with: each caller's own answer."""
    return server.run("spread_out", str(folder / "spread.db"), str(folder / "spread"), {"seed": 0}).result()


def test_each_caller_has_its_own_answer(place, result):
    assert place.start("spread_out", {"seed": 1}).result() == result
    assert place.look().in_no_order() == place.look().completed(STEPS, result).in_no_order()
    assert len(set(re.findall(r" at [\d/]+", str(result)))) == len(STEPS)


@pytest.mark.parametrize("how", IN_CALLS)
def test_a_run_killed_in_any_of_its_calls_gives_each_caller_its_own(place, other_server, how, *, result):
    assert place.start("spread_out", {"seed": 2} | how).is_killed
    assert_the_rule(*place.go_on("spread_out", {"seed": 3}, server=other_server), result)


@pytest.mark.parametrize(
    "moment", [n * GOLDEN % 1 for n in range(FROM_OUTSIDE)], indirect=True, ids=range(FROM_OUTSIDE)
)
def test_a_run_killed_at_any_time_gives_each_caller_its_own(place, other_server, moment, *, result):
    assert place.start("spread_out", {"seed": moment, "waits": True}, kill_after=moment).is_killed
    assert_the_rule(*place.go_on("spread_out", {"seed": 3}, server=other_server), result)


@pytest.mark.parametrize("moment", [n / 5 for n in range(1, 5)], indirect=True, ids=range(1, 5))
def test_a_new_python_goes_on_as_a_fork_does(place, new_python, moment, *, result):
    assert place.start("spread_out", {"seed": moment, "waits": True}, kill_after=moment).is_killed
    assert_the_rule(*place.go_on("spread_out", {"seed": 3}, server=new_python), result)


def assert_the_rule(at_the_kill, ended, result):
    assert ended.recorded[: len(at_the_kill.recorded)] == at_the_kill.recorded
    assert ended.in_no_order() == at_the_kill.completed(STEPS, result).in_no_order()
