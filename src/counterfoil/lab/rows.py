"""What came out of one scenario, and whether it is what had to come out.

Outside calls are counted from the stub's log, everything else from the journal; what the agent
says of itself decides nothing.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from counterfoil.core.events import Event
from counterfoil.lab.scenarios import Scenario
from counterfoil.testing.stubs import Call, billed


@dataclass(frozen=True, slots=True)
class Ending:
    """A run as its journal tells it."""

    state: str
    reason: str | None
    events: Sequence[Event]


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One scenario's calls and ending."""

    scenario: Scenario
    run_id: str
    store: str
    calls: tuple[Call, ...]
    ending: Ending
    said: str  # what the last process printed

    def counts(self) -> dict[str, Any]:
        """Return what was counted, by the names of `Expected`."""
        kinds = [call.kind for call in self.calls]
        types = [event.type for event in self.ending.events]
        return {
            "model_calls": kinds.count("model"),
            "billed_calls": billed(call for call in self.calls if call.kind == "model"),
            "tool_calls": kinds.count("tool"),
            "attempts": types.count("attempt_started"),
            "state": self.ending.state,
            "reason": self.ending.reason,
            "unknown_calls": types.count("outcome_unknown"),
        }

    def expected(self) -> dict[str, Any]:
        """Return what had to be counted, by the same names."""
        return asdict(self.scenario.expected)

    def differences(self) -> list[str]:
        """Return what is not as the scenario demands, one line each."""
        counts = self.counts()
        return [
            f"{self.scenario.title}: {name} is {counts[name]!r}, expected {wanted!r}"
            for name, wanted in self.expected().items()
            if counts[name] != wanted
        ]

    def as_json(self) -> dict[str, Any]:
        """Render the row as one JSON object."""
        return {
            "scenario": self.scenario.name,
            "mode": self.scenario.mode,
            "variant": self.scenario.variant,
            "run_id": self.run_id,
            "store": self.store,
            **self.counts(),
            "calls": [asdict(call) for call in self.calls],
        }
