"""Several processes on one SQLite file: one drives a run, the others look, attach, wait or take it over (J7)."""

import time
from pathlib import Path

import pytest

from counterfoil.testing.crash import Tally
from counterfoil.testing.forks import ForkServer

SECONDS_MAX = 60.0


class Place:
    """A store and a tally, and the processes that work on them."""

    def __init__(self, server: ForkServer, folder: Path) -> None:
        self.server, self.path, self.tally = server, str(folder / "runs.db"), Tally(folder / "tally")
        self._names = self.path, str(folder / "tally")

    def start(self, function: str, *args) -> int:
        return self.server.start(function, *self._names, *args)

    def results(self, *processes: int) -> list:
        return [self.server.wait(process).result() for process in processes]

    def run(self, function: str, *args):
        return self.server.run(function, *self._names, *args).result()

    @property
    def calls(self) -> dict[str, int]:
        return self.tally.counts()

    def wait_for(self, *calls: str) -> None:
        """Until these were begun."""
        deadline = time.monotonic() + SECONDS_MAX
        while not set(calls) <= self.calls.keys():
            assert time.monotonic() < deadline, f"{calls} did not come"
            time.sleep(0.002)


@pytest.fixture(scope="module")
def server():
    with ForkServer(Path(__file__).with_name("forked.py")) as server:
        yield server


@pytest.fixture
def place(server, tmp_path):
    return Place(server, tmp_path)


@pytest.fixture
def hanging(place):
    """A process that drives the runs a and b, both inside a model call."""
    process = place.start("begin", ["a", "b"])
    place.wait_for("a second", "b second")
    yield process
    place.server.kill(process)


@pytest.fixture
def dead(place, hanging):
    """The same process, killed; its lease still runs."""
    place.server.kill(hanging)
    assert place.server.wait(hanging).is_killed


def test_others_look_at_a_run_while_it_is_driven(place):
    driver, watcher = place.start("drive", {"a": 100}), place.start("watch", "a")
    [result], seen = place.results(driver, watcher)
    assert result == 100
    assert seen["seqs"] == sorted(seen["seqs"])
    assert (seen["flaws"], seen["lists"][-1]) == (0, ["completed"])
    assert place.calls == {f"a {number}": 1 for number in range(100)}


@pytest.mark.parametrize("again", range(10))
def test_two_processes_that_ask_for_one_run_get_one_result(place, again):
    assert place.results(*(place.start("drive", {"a": 5}) for _ in range(2))) == [[5], [5]]
    assert place.calls == {f"a {number}": 1 for number in range(5)}
    assert place.run("attempts", "a") == 1


def test_four_processes_with_runs_of_their_own_share_a_file(place):
    runs = [{f"{process}-{number}": 5 for number in range(10)} for process in range(4)]
    assert place.results(*(place.start("drive", own) for own in runs)) == [[5] * 10] * 4
    assert place.calls == {f"{run} {number}": 1 for own in runs for run in own for number in range(5)}


@pytest.mark.parametrize("again", range(10))
def test_processes_that_open_a_new_file_at_once_all_get_it(place, again):
    assert place.results(*(place.start("make") for _ in range(6))) == [None] * 6


@pytest.mark.usefixtures("hanging")
def test_a_run_of_a_living_owner_is_refused(place):
    before = place.run("head", "a")
    assert place.run("resume", "a") == "run_owned"
    assert place.run("head", "a") == before
    assert place.calls == {"a first": 1, "b first": 1, "a second": 1, "b second": 1}


@pytest.mark.usefixtures("dead")
def test_all_runs_of_a_dead_owner_are_taken_over_at_once(place):
    assert [place.run("resume", run) for run in ("a", "b")] == ["a second", "b second"]
    assert place.calls == {"a first": 1, "b first": 1, "a second": 2, "b second": 2}


@pytest.mark.usefixtures("dead")
def test_an_owner_is_known_dead_while_another_process_finds_it_out(place):
    prober = place.start("probe")
    place.wait_for("probed")
    assert place.run("resume", "a") == "a second"
    place.server.kill(prober)
