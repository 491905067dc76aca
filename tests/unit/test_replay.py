"""Given these events, when the code asks for this, the decision is that one and nothing else (J2, J5, J8)."""

import json

import msgspec
import pytest

from counterfoil.core import codec
from counterfoil.core.events import StepCancelled
from counterfoil.core.parts import Value
from counterfoil.core.replay import (
    DIFFERENCES_MAX,
    VALUE_TEXT_MAX,
    Consumed,
    Difference,
    Execute,
    Hold,
    Mismatch,
    Replay,
    ReplayFailure,
    Turn,
    Wait,
    describe,
    differences,
)


def mismatch(verdict: str, step: str, seq: int, recorded: str, attempted: str, *found: Difference) -> Mismatch:
    return Mismatch(verdict=verdict, step=step, seq=seq, recorded=recorded, attempted=attempted, differences=found)


# --- one branch ---


def test_nothing_recorded_is_executed(begun, ask):
    assert begun.cursor.ask(ask("0")) == Execute()


@pytest.mark.parametrize("result", [b"null", b'""', b"[]", b"0", b"false", b'{"$":"float","v":"nan"}'])
def test_a_recorded_result_is_handed_over_even_when_it_is_nothing(begun, ask, result):
    assert begun.done("0", result=result).cursor.ask(ask("0")) == Replay(Value(result))


def test_a_recorded_result_says_whether_it_needs_its_type(begun, ask):
    cursor = begun.intended("0").succeeded("0", b'{"x":1}', annotated=True).cursor
    assert cursor.ask(ask("0")) == Replay(Value(b'{"x":1}'), annotated=True)


def test_a_recorded_failure_is_raised_again(begun, ask, boom):
    assert begun.intended("0").failed("0").cursor.ask(ask("0")) == ReplayFailure(boom)


def test_a_recorded_read_is_handed_over(begun, ask):
    assert begun.read("0").cursor.ask(ask("0", "time", kind="time")) == Replay(Value(b"5"))


def test_a_timer_that_fired_is_not_waited_for(begun, ask):
    cursor = begun.timer("0", due=9).fired("0").cursor
    assert cursor.ask(ask("0", "sleep", {"seconds": 3}, kind="sleep")) == Replay(None)


def test_a_timer_that_was_set_keeps_its_due_time(begun, ask):
    assert begun.timer("0", due=9).cursor.ask(ask("0", "sleep", {"seconds": 3}, kind="sleep")) == Wait(9)


def test_an_intent_of_a_dead_attempt_is_made_again(begun, ask):
    cursor = begun.intended("0").again().unknown("0").cursor
    assert cursor.ask(ask("0")) == Execute(try_number=2, first_time=1002, unknown_tries=1)


def test_a_retry_is_made_when_it_is_due(begun, ask, boom):
    cursor = begun.intended("0").retry("0", due=50).cursor
    assert cursor.ask(ask("0")) == Execute(try_number=2, first_time=1002, due=50, last_error=boom)


def test_a_reopened_step_is_made_again_with_fresh_tries(begun, ask, boom):
    cursor = begun.intended("0").failed("0").paused(step="0").resumed("0").again().cursor
    assert cursor.ask(ask("0")) == Execute(try_number=2, first_time=1005, tries_before=1, last_error=boom)


def test_steps_are_decided_one_after_the_other(begun, ask):
    cursor = begun.done("0", result=b"1").done("1", result=b"2").cursor
    decisions = [cursor.ask(ask(key)) for key in ("0", "1", "2")]
    assert decisions == [Replay(Value(b"1")), Replay(Value(b"2")), Execute()]


def test_replay_ends_with_the_last_recorded_step(begun, ask):
    cursor = begun.done("0").intended("1").again().unknown("1").cursor
    seen = [cursor.is_replaying]
    for key in ("0", "1", "2"):
        cursor.ask(ask(key))
        seen.append(cursor.is_replaying)
    assert seen == [True, True, False, False]


# --- what does not fit ---


@pytest.mark.parametrize(
    ("asked", "attempted"),
    [
        ({"name": "g"}, "tool g"),
        ({"kind": "model"}, "model f"),
        ({"name": "sleep", "value": {"seconds": 3}, "kind": "sleep"}, "sleep"),
        ({"name": "time", "kind": "time"}, "time"),
        ({"name": "g", "value": "other input too"}, "tool g"),
    ],
)
def test_another_kind_or_name_is_a_step_mismatch(begun, ask, *, asked, attempted):
    cursor = begun.done("0").cursor
    assert cursor.ask(ask("0", **asked)) == mismatch("step_mismatch", "0", 2, "tool f", attempted)


@pytest.mark.parametrize(
    ("recorded", "attempted", "found"),
    [
        ({"a": 1}, {"a": 2}, [Difference("/a", "1", "2")]),
        ({"a": 1}, {"b": 1}, [Difference("/a", "1", None), Difference("/b", None, "1")]),
        ([1, 2], [1], [Difference("/1", "2", None)]),
        ({"a": [{"b": 1}]}, {"a": [{"b": "1"}]}, [Difference("/a/0/b", "1", '"1"')]),
        ({"a/b~c": 1}, {"a/b~c": None}, [Difference("/a~1b~0c", "1", "null")]),
        ({"a": None}, {}, [Difference("/a", "null", None)]),
        ({"": 1}, {"": 2}, [Difference("/", "1", "2")]),
        ("é", "e", [Difference("", '"é"', '"e"')]),
        (1, True, [Difference("", "1", "true")]),
        (0, False, [Difference("", "0", "false")]),
        ({"a": [0]}, {"a": [False]}, [Difference("/a/0", "0", "false")]),
        ({}, [], [Difference("", "{}", "[]")]),
    ],
    ids=repr,
)
def test_another_input_is_an_input_mismatch_with_every_place(begun, ask, *, recorded, attempted, found):
    decision = begun.done("0", value=recorded).cursor.ask(ask("0", value=attempted))
    assert decision == mismatch("input_mismatch", "0", 2, "tool f", "tool f", *found)


@pytest.mark.parametrize(
    ("recorded", "attempted"),
    [
        ({"a": 1, "b": 2}, {"b": 2, "a": 1}),
        ([{"x": {"a": 1, "b": 2}}], [{"x": {"b": 2, "a": 1}}]),
        ({"n": 3}, {"n": 3.0}),
        ({"$": 1, "b": 2}, {"b": 2, "$": 1}),
    ],
)
def test_another_order_of_keys_is_no_mismatch(begun, ask, *, recorded, attempted):
    assert begun.done("0", value=recorded).cursor.ask(ask("0", value=attempted)) == Replay(Value(b"1"))


def test_another_wait_is_an_input_mismatch(begun, ask):
    decision = begun.timer("0", due=9, seconds=3).cursor.ask(ask("0", "sleep", {"seconds": 4}, kind="sleep"))
    assert decision == mismatch("input_mismatch", "0", 2, "sleep", "sleep", Difference("/seconds", "3", "4"))


def test_a_step_without_an_outcome_is_compared_too(begun, ask):
    decision = begun.intended("0", value=1).again().unknown("0").cursor.ask(ask("0", value=2))
    assert decision.verdict == "input_mismatch"


def test_code_that_ends_too_early_is_unfinished(begun, ask):
    cursor = begun.done("0").done("1", "g").timer("2", due=9).cursor
    cursor.ask(ask("0"))
    assert cursor.finish() == mismatch("unfinished", "1", 4, "tool g", "")


def test_code_that_asks_for_all_is_finished(begun, ask):
    cursor = begun.done("0").cursor
    cursor.ask(ask("0"))
    assert cursor.finish() is None


def test_a_mismatch_takes_nothing_from_the_record(begun, ask):
    cursor = begun.done("0").cursor
    cursor.ask(ask("0", "other"))
    assert cursor.finish().verdict == "unfinished"


def test_the_differences_are_bounded_in_number_and_length():
    recorded, attempted = (json.dumps([text * 1000] * 99).encode() for text in "ab")
    found = differences(recorded, attempted)
    assert len(found) == DIFFERENCES_MAX
    assert len(found[0].recorded) == VALUE_TEXT_MAX + len("...")


@pytest.mark.parametrize(("kind", "name", "words"), [("tool", "f", "tool f"), ("sleep", "sleep", "sleep")])
def test_a_step_in_words(kind, name, words):
    assert describe(kind, name) == words


# --- more than one branch: the order of the journal rules ---


@pytest.fixture
def two(begun):
    """Two branches that each made one step; the second one's came first."""
    begun.intended("0/0", "a").intended("1/0", "b").succeeded("1/0", b'"b"').succeeded("0/0", b'"a"')
    return begun.cursor


def test_outcomes_are_held_and_handed_over_in_the_order_of_the_journal(two, ask):
    asked = [two.ask(ask("0/0", "a"), alone=False), two.ask(ask("1/0", "b"), alone=False)]
    turns = [two.hand_over(), two.hand_over(), two.hand_over()]
    assert asked == [Hold(), Hold()]
    assert turns == [Turn("1/0", Replay(Value(b'"b"'))), Turn("0/0", Replay(Value(b'"a"'))), Consumed(())]


def test_no_live_call_starts_before_the_record_is_used_up(two, ask):
    two.ask(ask("1/0", "b"), alone=False)
    first = two.hand_over()
    held = two.ask(ask("1/1", "live"), alone=False)
    two.ask(ask("0/0", "a"), alone=False)
    assert (first.key, held, two.hand_over().key) == ("1/0", Hold(), "0/0")
    assert two.hand_over() == Consumed((Turn("1/1", Execute()),))


def test_after_the_record_live_calls_are_not_held(two, ask):
    for key, name in (("0/0", "a"), ("1/0", "b")):
        two.ask(ask(key, name), alone=False)
    while not isinstance(two.hand_over(), Consumed):
        pass
    assert two.ask(ask("0/1"), alone=False) == Execute()


def test_open_steps_go_live_in_the_order_they_were_asked(begun, ask):
    cursor = begun.done("0").intended("0/0").intended("1/0").again().unknown("0/0").unknown("1/0").cursor
    cursor.ask(ask("0"), alone=True)
    assert [cursor.ask(ask(key), alone=False) for key in ("1/0", "0/0")] == [Hold(), Hold()]
    assert [turn.key for turn in cursor.hand_over().turns] == ["1/0", "0/0"]


def test_no_step_goes_live_while_a_recorded_one_was_not_asked_for(begun, ask):
    cursor = begun.intended("0/0").intended("1/0").again().unknown("0/0").unknown("1/0").cursor
    cursor.ask(ask("0/0"), alone=False)
    assert cursor.hand_over() == mismatch("unfinished", "1/0", 3, "tool f", "")


def test_a_lone_branch_makes_no_call_past_a_record_that_it_never_asked_for(begun, ask):
    cursor = begun.done("0/0", "f").cursor
    assert cursor.ask(ask("0")) == mismatch("unfinished", "0/0", 2, "tool f", "")


def test_a_cancelled_call_takes_no_turn(two, ask):
    two.ask(ask("0/0", "a"), alone=False)
    two.ask(ask("1/0", "b"), alone=False)
    two.withdraw(two.hand_over().key)
    two.withdraw("0/0")
    assert two.hand_over() == Consumed(())


def test_a_cancelled_step_that_is_not_cancelled_this_time_is_made_again(begun, ask):
    cursor = begun.intended("0").add(StepCancelled(), step="0").again().cursor
    assert cursor.ask(ask("0")) == Execute(try_number=2)


def test_a_read_is_never_held(begun, ask):
    cursor = begun.done("1/0", "b").read("0/0", "time", b"5").cursor
    assert cursor.read(ask("0/0", "time", kind="time")) == Replay(Value(b"5"))
    assert cursor.read(ask("0/1", "time", kind="time")) == Execute()


def test_quiet_with_records_left_is_unfinished(two, ask):
    two.ask(ask("0/0", "a"), alone=False)
    assert two.hand_over() == mismatch("unfinished", "1/0", 3, "tool b", "")


def test_a_mismatch_in_a_branch_is_told_at_once(two, ask):
    assert two.ask(ask("0/0", "z"), alone=False) == mismatch("step_mismatch", "0/0", 2, "tool a", "tool z")


def test_what_one_branch_took_alone_is_not_handed_over_again(begun, ask):
    cursor = begun.done("0").done("0/0", "a").done("1/0", "b").cursor
    cursor.ask(ask("0"))
    cursor.ask(ask("0/0", "a"), alone=False)
    assert cursor.hand_over().key == "0/0"


def test_a_timer_is_held_like_a_live_call(begun, ask):
    cursor = begun.timer("0/0", due=9).intended("1/0", "b").succeeded("1/0", b"2").cursor
    held = cursor.ask(ask("0/0", "sleep", {"seconds": 3}, kind="sleep"), alone=False)
    cursor.ask(ask("1/0", "b"), alone=False)
    assert (held, cursor.hand_over().key, cursor.hand_over()) == (Hold(), "1/0", Consumed((Turn("0/0", Wait(9)),)))


def test_the_values_of_a_decision_are_the_recorded_bytes(begun, ask):
    raw = codec.encode({"é": [1.5, "\ud800"]}, where="it").raw
    decision = begun.done("0", result=raw).cursor.ask(ask("0"))
    assert bytes(decision.value) == raw
    assert msgspec.json.decode(decision.value) == msgspec.json.decode(raw)
