"""What a crash test works with: a process that forks, a place for one run, and the law that says what must be there.

A kill takes nothing that the kernel already has, so the stores lie in memory where the system has a place for files in
memory: syncs would cost most of the time and prove nothing here.
"""

import collections
import tempfile
from pathlib import Path

import msgspec
import pytest

from counterfoil.testing.crash import Tally
from counterfoil.testing.forks import ForkServer

HERE = Path(__file__).parent
IN_MEMORY = Path("/dev/shm")


class Moment(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that is known of a run at one moment, outside the journal and in it."""

    calls: dict[str, int] = {}  # begun outside, by kind and name
    state: str | None = None
    reason: str | None = None
    result: str | None = None
    recorded: list[str] = []  # steps with an outcome, in the order of the journal
    cancelled: list[str] = []  # steps that the run's own code cancelled
    open: list[str] = []  # steps with an intent and no outcome
    unknown: list[str] = []  # outcome_unknown events
    flaws: list[str] = []  # in the chain, the sequence, the transitions

    def completed(self, steps: list[str], result: str) -> "Moment":
        """How a run that goes on from here, undisturbed, must end.

        What is recorded is not called again; everything else is called once more, even if it was begun; a try that was
        begun and has no outcome is on record as unknown (J2, J4).
        """
        outside = {step: steps.count(step) for step in steps if not step.startswith(("sleep", "artifact"))}
        return Moment(
            calls={step: self.calls.get(step, 0) + n - self.recorded.count(step) for step, n in outside.items()},
            state="completed",
            result=result,
            recorded=steps,
            unknown=[*self.unknown, *self.open],
        )

    def completed_branches(self, steps: list[str], result: str, *, cut: list[str], by: str) -> "Moment":
        """As `completed`, for a run whose steps may end in any order, and in which one that fails cuts others off.

        What is cut off has no outcome. It is called once more unless the failure that cuts it off is recorded; then it
        stays as it was at this moment, cancelled or unknown.
        """
        whole = self.completed(steps, result)
        is_decided = by in self.recorded
        calls = {step: self.calls.get(step, 0) + (not is_decided) for step in cut}
        cancelled = self.cancelled if is_decided else cut
        return msgspec.structs.replace(whole, calls=whole.calls | calls, cancelled=cancelled).in_no_order()

    def in_no_order(self) -> "Moment":
        """The same, whichever branch was first."""
        names = {name: sorted(getattr(self, name)) for name in ("recorded", "cancelled", "open", "unknown")}
        return msgspec.structs.replace(self, **names)

    def unrecorded(self, kind: str = "") -> set[str]:
        """Calls that were begun and whose outcome is not on disk."""
        return {step for step in self.calls if step.startswith(kind) and step not in self.recorded}

    def kept_since(self, earlier: "Moment") -> bool:
        """Whether nothing of an earlier moment is lost or was done again: outcomes, intents, unknown tries."""
        again = {step for step in earlier.recorded if self.calls.get(step) != earlier.calls.get(step)}
        tries, earlier_tries = map(_tries_without_outcome, (self, earlier))
        return not again and self.recorded[: len(earlier.recorded)] == earlier.recorded and earlier_tries <= tries


class Place:
    """A store and a tally for one run, and the processes that work on it."""

    def __init__(self, server: ForkServer, folder: Path) -> None:
        self.server = server
        self.path, self.tally = str(folder / "runs.db"), str(folder / "tally")

    def start(self, function: str, *args, **options):
        """A process that runs `function`, as it ended."""
        return self.server.run(function, self.path, self.tally, *args, **options)

    def go_on(self, function: str, *args, server: ForkServer | None = None) -> tuple[Moment, Moment]:
        """The moment before a process goes on with the run, and the one after it has ended."""
        calls = self.calls
        ended = (server or self.server).run("went_on", self.path, self.tally, function, *args)
        before, after = ended.result()
        return Moment(calls=calls, **before), Moment(calls=self.calls, **after)

    def look(self) -> Moment:
        """What is known now."""
        return Moment(calls=self.calls, **self.server.run("look", self.path).result())

    @property
    def calls(self) -> dict[str, int]:
        """What was begun outside."""
        return Tally(self.tally).counts()


@pytest.fixture(scope="session")
def server():
    with ForkServer(HERE / "agent.py") as server:
        yield server


@pytest.fixture(scope="session")
def other_server():
    """Forks of another Python, with another hash seed."""
    with ForkServer(HERE / "agent.py") as server:
        yield server


@pytest.fixture(scope="session")
def folder():
    with tempfile.TemporaryDirectory(dir=IN_MEMORY if IN_MEMORY.is_dir() else None) as folder:
        yield Path(folder)


@pytest.fixture
def place(server, folder):
    with tempfile.TemporaryDirectory(dir=folder) as own:
        yield Place(server, Path(own))


@pytest.fixture
def new_python():
    """A fork server that has just been started: a Python of its own, with another hash seed."""
    with ForkServer(HERE / "agent.py") as server:
        yield server


def _tries_without_outcome(moment: Moment) -> collections.Counter[str]:
    return collections.Counter([*moment.unknown, *moment.open])
