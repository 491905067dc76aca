"""A run's state is the fold of its events; an event that is not allowed changes nothing (J1)."""

import itertools

import msgspec
import pytest

from counterfoil.core.events import BODIES, Envelope, Event
from counterfoil.core.parts import NONE, ErrorRecord, Value
from counterfoil.core.state import (
    RUN_TRANSITIONS,
    STEP_TRANSITIONS,
    RunState,
    Status,
    StepState,
    StepStatus,
    fold,
)
from counterfoil.errors import IllegalTransitionError

ERROR = ErrorRecord(type="builtins:ValueError", message="x")
FIELDS = {
    "workflow": "w", "input": NONE, "reason": "step_failed", "result": NONE, "error": ERROR, "kind": "tool",
    "name": "f", "digest": "d", "due": 9, "value": NONE, "size_bytes": 5, "media_type": "text/plain",
}  # fmt: skip
STEP_EVENTS = sorted({event for _, event in STEP_TRANSITIONS})
RUN_EVENTS = sorted(set(BODIES) - set(STEP_EVENTS))
ANY_TIME = {"late_report"}  # evidence: leaves a running run as it is
STATUSES = [None, *Status]
STEP_STATUSES = [None, *StepStatus]


def event_of(type_: str, *, seq: int = 5, step: str | None = None) -> Event:
    kind = BODIES[type_]
    body = kind(**{f.name: FIELDS[f.name] for f in msgspec.structs.fields(kind) if f.required})
    return Event(Envelope(run="r", seq=seq, type=type_, time=77, step=step, attempt=2, try_number=1), body, b"")


def run_in(status: Status | None, step_status: StepStatus | None = None) -> RunState:
    state = RunState(run="r", status=status, seq=4, attempt=1)
    step = StepState(key="0", kind="tool", name="f", status=step_status, seq=1) if step_status else None
    return msgspec.structs.replace(state, steps={"0": step} if step else {})


def allowed(status: Status | None, type_: str) -> bool:
    return (status, type_) in RUN_TRANSITIONS or (status is Status.RUNNING and type_ in ANY_TIME)


RUN_CELLS = list(itertools.product(STATUSES, RUN_EVENTS))
LEGAL_RUN = [cell for cell in RUN_CELLS if allowed(*cell)]
ILLEGAL_RUN = [cell for cell in RUN_CELLS if not allowed(*cell)]
STEP_CELLS = list(itertools.product(STEP_STATUSES, STEP_EVENTS))
ILLEGAL_STEP = [cell for cell in STEP_CELLS if cell not in STEP_TRANSITIONS]
NOT_RUNNING = [status for status in STATUSES if status is not Status.RUNNING]


@pytest.mark.parametrize(("status", "type_"), LEGAL_RUN)
def test_a_legal_event_of_a_run_gives_the_status_of_the_table(status, type_):
    state = run_in(status)
    state.apply(event_of(type_))
    assert (state.status, state.seq, state.updated) == (RUN_TRANSITIONS.get((status, type_), status), 5, 77)


@pytest.mark.parametrize(("status", "type_"), ILLEGAL_RUN)
def test_any_other_event_of_a_run_is_refused_and_changes_nothing(status, type_):
    state = run_in(status)
    before = msgspec.json.encode(state)
    with pytest.raises(IllegalTransitionError) as caught:
        state.apply(event_of(type_))
    assert msgspec.json.encode(state) == before
    assert (caught.value.facts["run"], caught.value.facts["event"]) == ("r", type_)


@pytest.mark.parametrize(("status", "type_"), list(STEP_TRANSITIONS))
def test_a_legal_event_of_a_step_gives_the_status_of_the_table(status, type_):
    state = run_in(Status.RUNNING, status)
    state.apply(event_of(type_, step="0"))
    assert state.steps["0"].status == STEP_TRANSITIONS[status, type_]
    assert state.order == (
        ["0"] if STEP_TRANSITIONS[status, type_] in {StepStatus.SUCCEEDED, StepStatus.FAILED} else []
    )


@pytest.mark.parametrize(("status", "type_"), ILLEGAL_STEP)
def test_any_other_event_of_a_step_is_refused_and_changes_nothing(status, type_):
    state = run_in(Status.RUNNING, status)
    before = msgspec.json.encode(state)
    with pytest.raises(IllegalTransitionError) as caught:
        state.apply(event_of(type_, step="0"))
    assert msgspec.json.encode(state) == before
    assert caught.value.facts["event"] == type_


@pytest.mark.parametrize(("status", "type_"), list(itertools.product(NOT_RUNNING, STEP_EVENTS)))
def test_no_step_moves_unless_the_run_is_running(status, type_):
    state = run_in(status, StepStatus.OPEN)
    before = msgspec.json.encode(state)
    with pytest.raises(IllegalTransitionError):
        state.apply(event_of(type_, step="0"))
    assert msgspec.json.encode(state) == before


@pytest.mark.parametrize("type_", STEP_EVENTS)
def test_an_event_of_a_step_must_name_its_step(type_):
    state = run_in(Status.RUNNING, StepStatus.OPEN)
    before = msgspec.json.encode(state)
    with pytest.raises(IllegalTransitionError):
        state.apply(event_of(type_))
    assert msgspec.json.encode(state) == before


@pytest.mark.parametrize("type_", RUN_EVENTS)
def test_an_event_of_a_run_must_not_name_a_step(type_):
    state = run_in(Status.RUNNING, StepStatus.OPEN)
    before = msgspec.json.encode(state)
    with pytest.raises(IllegalTransitionError):
        state.apply(event_of(type_, step="0"))
    assert msgspec.json.encode(state) == before


@pytest.mark.parametrize("seq", [0, 3, 4, 6, -1])
def test_an_event_at_another_position_is_refused(seq):
    state = run_in(Status.RUNNING)
    with pytest.raises(IllegalTransitionError):
        state.apply(event_of("late_report", seq=seq))
    assert state.seq == 4


@pytest.mark.parametrize("reopened", ["9", "0"])
def test_only_a_step_that_failed_or_is_unknown_is_reopened(begun, reopened):
    state = begun.done("0").paused().state
    before = msgspec.json.encode(state)
    event = begun.resumed(reopened).events[-1]
    with pytest.raises(IllegalTransitionError):
        state.apply(event)
    assert msgspec.json.encode(state) == before


def test_every_event_type_is_in_a_table_or_is_evidence():
    in_tables = {event for _, event in (*RUN_TRANSITIONS, *STEP_TRANSITIONS)}
    assert set(BODIES) - in_tables == ANY_TIME


@pytest.mark.parametrize("status", [Status.COMPLETED, Status.FAILED])
def test_nothing_follows_an_end(status):
    assert [event for before, event in RUN_TRANSITIONS if before is status] == []
    assert status.is_final


def test_two_states_share_nothing():
    one, other = RunState(run="a"), RunState(run="b")
    one.steps["0"] = StepState(key="0", kind="tool", name="f", status=StepStatus.OPEN, seq=1)
    one.order.append("0")
    assert (other.steps, other.order, other.tags) == ({}, [], {})


# --- what is folded ---


def test_a_completed_run_folds_to_its_whole_state(begun):
    state = (
        begun.done("0", "ask", [1], result=b'"yes"').read("1").timer("2", due=9).fired("2").completed(b'"end"').state
    )
    steps = {
        "0": StepState(
            key="0", kind="tool", name="ask", status=StepStatus.SUCCEEDED, seq=2, input=Value(b"[1]"),
            digest=state.steps["0"].digest, try_number=1, first_time=1002, attempt=1, result=Value(b'"yes"'),
            worst_cost_usd=0.5,
        ),
        "1": StepState(
            key="1", kind="time", name="time", status=StepStatus.SUCCEEDED, seq=4, first_time=1004, result=Value(b"5")
        ),
        "2": StepState(
            key="2", kind="sleep", name="sleep", status=StepStatus.SUCCEEDED, seq=5, first_time=1005,
            input=Value(b'{"seconds":3}'), digest=state.steps["2"].digest,
        ),
    }  # fmt: skip
    assert state == RunState(
        run="r", status=Status.COMPLETED, seq=7, workflow="w", input=Value(b'{"q":1}'), attempt=1,
        attempt_progress=True, steps=steps, order=["0", "1", "2"], result=Value(b'"end"'), started=1000, updated=1007,
    )  # fmt: skip


def test_a_lost_try_is_counted_and_the_next_one_opens_the_step_again(begun):
    state = begun.intended("0").again().unknown("0").intended("0", tried=2).state
    step = state.steps["0"]
    assert (step.status, step.try_number, step.unknown_tries, step.attempt, step.first_time) == (
        StepStatus.OPEN, 2, 1, 2, 1002,
    )  # fmt: skip


def test_a_retry_keeps_when_it_is_due_and_why(begun, boom):
    step = begun.intended("0").retry("0", due=50).state.steps["0"]
    assert (step.status, step.due, step.error) == (StepStatus.RETRYING, 50, boom)


def test_a_reopened_step_forgets_its_tries_and_leaves_the_order(begun):
    failed = begun.done("0").intended("1").retry("1", 5).intended("1", tried=2).failed("1", tried=2)
    state = failed.paused(step="1").resumed("1").state
    step = state.steps["1"]
    assert (state.status, state.order, state.pause) == (Status.PENDING, ["0"], None)
    assert (step.status, step.try_number, step.tries_before, step.first_time) == (StepStatus.REOPENED, 2, 2, 1009)


def test_a_reopened_step_that_succeeds_has_no_error_left(begun):
    state = (
        begun.intended("0")
        .failed("0")
        .paused(step="0")
        .resumed("0")
        .again()
        .intended("0", tried=2)
        .succeeded("0")
        .state
    )
    assert (state.steps["0"].status, state.steps["0"].error, state.order) == (StepStatus.SUCCEEDED, None, ["0"])


@pytest.mark.parametrize(("lives", "crashes"), [(1, 0), (2, 1), (4, 3)])
def test_attempts_that_die_without_an_outcome_are_counted(script, lives, crashes):
    script.begun()
    for _ in range(lives - 1):
        script.again()
    assert script.state.crashes == crashes


def test_an_outcome_ends_the_row_of_crashes(begun):
    assert begun.again().again().done("0").again().state.crashes == 0


def test_a_read_alone_is_no_progress(begun):
    assert begun.read("0").again().state.crashes == 1


def test_a_stop_on_purpose_is_no_crash(begun):
    assert begun.suspended().again().suspended().again().state.crashes == 0


def test_a_person_who_resumes_begins_a_new_count(begun):
    assert begun.again().again().paused("crash_limit").resumed().state.crashes == 0


def test_open_steps_are_those_without_an_outcome(begun):
    state = begun.done("0").intended("1").intended("2").state
    assert [step.key for step in state.open_steps()] == ["1", "2"]


def test_fold_is_apply_one_by_one(begun):
    begun.done("0").suspended()
    assert fold("r", begun.events) == begun.state
