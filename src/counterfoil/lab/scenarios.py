"""The lab's scenarios as data: what is done to the agent, and the counts that must come out.

The column for Restate is what server 1.7.10 with Python SDK 1.3.0 did under the same kills,
with the same agent; its counts were taken by the same kind of stub.
"""

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Literal, TypeAlias

from counterfoil.testing.stubs import Plan

Mode: TypeAlias = Literal["naive", "journaled"]

HELD = 60.0
"""Seconds an answer is held back whose caller is to be killed: longer than any kill waits."""


class Moment(StrEnum):
    """The fact that the kill waits for."""

    IN_MODEL = "the stub has the first model call and holds its answer back"
    IN_TOOL = "the stub has the first tool call and holds its result back"
    IN_PAUSE = "the journal holds the timer"


@dataclass(frozen=True, slots=True, kw_only=True)
class Expected:
    """What must be counted at the end, outside the run and in its journal."""

    model_calls: int
    billed_calls: int  # of the model: those for which it did the work
    tool_calls: int = 1
    attempts: int
    state: str = "completed"
    reason: str | None = None  # of a paused run
    unknown_calls: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """One row of the lab: an agent, what befalls it, and how that must end."""

    name: str
    mode: Mode
    variant: str | None = None
    kill: Moment | None = None
    plan: Plan = field(default_factory=Plan)
    environment: dict[str, str] = field(default_factory=dict)  # of every process
    second_environment: dict[str, str] = field(default_factory=dict)  # of the second one only
    expected: Expected
    restate: str

    @property
    def title(self) -> str:
        """Name of the row, unique in the table; also the run id it asks for."""
        return "-".join(filter(None, (self.name, self.mode, self.variant)))


SCENARIOS: tuple[Scenario, ...] = (
    Scenario(
        name="clean",
        mode="naive",
        expected=Expected(model_calls=2, billed_calls=2, attempts=1),
        restate="2 calls",
    ),
    Scenario(
        name="clean",
        mode="journaled",
        expected=Expected(model_calls=2, billed_calls=2, attempts=1),
        restate="2 calls",
    ),
    Scenario(
        name="kill-in-pause",
        mode="naive",
        kill=Moment.IN_PAUSE,
        expected=Expected(model_calls=3, billed_calls=3, attempts=2),
        restate="3 calls",
    ),
    Scenario(
        name="kill-in-pause",
        mode="journaled",
        kill=Moment.IN_PAUSE,
        expected=Expected(model_calls=2, billed_calls=2, attempts=2),
        restate="2 calls",
    ),
    Scenario(
        name="kill-in-pause",
        mode="journaled",
        variant="answers-differ",
        kill=Moment.IN_PAUSE,
        plan={"vary": True},
        expected=Expected(model_calls=2, billed_calls=2, attempts=2),
        restate="2 calls",
    ),
    Scenario(
        name="kill-in-pause",
        mode="journaled",
        variant="temperature-0",
        kill=Moment.IN_PAUSE,
        environment={"LAB_OPTIONS": '{"temperature": 0, "seed": 7}'},
        expected=Expected(model_calls=2, billed_calls=2, attempts=2),
        restate="not tried",
    ),
    Scenario(
        name="kill-in-model",
        mode="journaled",
        kill=Moment.IN_MODEL,
        plan={"delays": [HELD]},
        expected=Expected(model_calls=3, billed_calls=3, attempts=2, unknown_calls=1),
        restate="3 calls, journal as clean",
    ),
    Scenario(
        name="kill-in-model-keyed",
        mode="journaled",
        kill=Moment.IN_MODEL,
        plan={"delays": [HELD], "honours_keys": True},
        expected=Expected(model_calls=3, billed_calls=2, attempts=2, unknown_calls=1),
        restate="not tried",
    ),
    Scenario(
        name="kill-in-tool",
        mode="journaled",
        kill=Moment.IN_TOOL,
        plan={"tool_delays": [HELD]},
        expected=Expected(model_calls=2, billed_calls=2, tool_calls=2, attempts=2, unknown_calls=1),
        restate="tool twice, no trace",
    ),
    Scenario(
        name="prompt-changed",
        mode="journaled",
        kill=Moment.IN_PAUSE,
        second_environment={"LAB_PROMPT": "You sell umbrellas."},
        expected=Expected(model_calls=1, billed_calls=1, attempts=2, state="paused", reason="input_mismatch"),
        restate="2 calls, simply goes on",
    ),
)


@dataclass(frozen=True, slots=True)
class Fate:
    """What becomes of one kind of thing if the process dies now."""

    what: str
    fate: str
    shown_by: str


FATES: tuple[Fate, ...] = (
    Fate(
        "input",
        "survives: recorded before the first line runs, every attempt starts from it",
        "every kill",
    ),
    Fate(
        "completed",
        "survives: what the journal holds comes from it, no call is made again",
        "kill-in-pause journaled: 2 model calls, 1 tool call",
    ),
    Fate(
        "read outside",
        "gone: read again and paid for again, or changed meanwhile, which stops the run",
        "kill-in-pause naive: 3 model calls; prompt-changed: paused, no call",
    ),
    Fate(
        "in flight",
        "gone: made again, under the same key, by which the outside may know it and do no second work",
        "kill-in-model: 3 model calls; kill-in-model-keyed: 2 of 3 billed; kill-in-tool: tool twice",
    ),
    Fate(
        "unknown",
        "recorded: the try that may have happened stays in the journal, with its worst cost",
        "kill-in-model, kill-in-tool: 1 unknown call each",
    ),
)
