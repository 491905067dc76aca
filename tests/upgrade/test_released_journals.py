"""Journals of every release are read by today's code: the same fold, an intact chain, a replay to the same end (J1)."""

import json
from base64 import b64decode
from pathlib import Path
from typing import Any

import msgspec
import pytest

from counterfoil.core.events import BODIES, Event, Record, read
from counterfoil.core.integrity import flaws
from counterfoil.core.replay import Cursor, Execute, Mismatch, Operation, Replay, ReplayFailure, Wait
from counterfoil.core.state import RunState, fold

HERE = Path(__file__).parent
RUNS = {
    (folder.name, run): records
    for folder in sorted(HERE.glob("release_*"))
    for run, records in json.loads((folder / "runs.json").read_text()).items()
}
STATES = {
    (folder.name, run): state
    for folder in sorted(HERE.glob("release_*"))
    for run, state in json.loads((folder / "states.json").read_text()).items()
}
BYTES = {"envelope", "commitment", "salt", "body", "hash"}
NEVER_IN_A_FIXTURE = {"late_report"}
NEW = {"artifact_stored", "step_dispatched", "step_timed_out", "step_cancelled"}  # since the last release


def records_of(stored: list[dict[str, Any]]) -> list[Record]:
    return [Record(**{k: b64decode(v) if k in BYTES else v for k, v in fields.items()}) for fields in stored]


def events_of(stored: list[dict[str, Any]]) -> list[Event]:
    return [read(record, "?") for record in records_of(stored)]


def state_of(stored: list[dict[str, Any]]) -> RunState:
    events = events_of(stored)
    return fold(events[0].envelope.run, events)


@pytest.mark.parametrize("key", RUNS, ids="/".join)
def test_a_released_journal_folds_to_the_state_it_had(key):
    assert json.loads(msgspec.json.encode(state_of(RUNS[key]))) == STATES[key]


@pytest.mark.parametrize("key", RUNS, ids="/".join)
def test_a_released_journal_is_intact(key):
    assert flaws(records_of(RUNS[key])) == []


@pytest.mark.parametrize("key", RUNS, ids="/".join)
def test_a_released_journal_replays_what_it_holds(key):
    state = state_of(RUNS[key])
    cursor = Cursor(state)
    asked = [
        Operation(key=step.key, kind=step.kind, name=step.name, input=bytes(step.input or b"null"))
        for step in state.steps.values()
    ]
    decisions = {step.key: cursor.ask(step) for step in asked}
    assert [each for each in decisions.values() if isinstance(each, Mismatch)] == []
    assert {key for key, each in decisions.items() if isinstance(each, Replay | ReplayFailure)} == set(state.order)
    assert [each for each in decisions.values() if not isinstance(each, Replay | ReplayFailure | Execute | Wait)] == []


def test_the_fixtures_hold_every_event_type_and_state():
    types = {event.type for stored in RUNS.values() for event in events_of(stored)}
    statuses = {state["status"] for state in STATES.values()}
    assert set(BODIES) - types == NEVER_IN_A_FIXTURE | NEW
    assert statuses == {"pending", "running", "suspended", "paused", "completed", "failed"}
