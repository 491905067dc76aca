"""The lab's rows, by processes that are really killed.

Laws J2 (a recorded call is never made again), J4 (a lost call never vanishes) and J5 (the first
difference stops the run before any call).

Each test says how many calls the outside saw, and why.
"""

import pytest

from counterfoil.lab.scenarios import SCENARIOS


def asked(row, kind="model"):
    """Which process made each call, whether it had the answer, and which call it repeats."""
    return [(c.process, c.delivered, c.repeat_of) for c in row.calls if c.kind == kind]


def events(row, *types):
    return [event for event in row.ending.events if event.type in types]


@pytest.mark.parametrize("title", [scenario.title for scenario in SCENARIOS])
def test_the_row_has_the_counts_its_scenario_demands(row_of, title):
    assert row_of(title).differences() == []


def test_killed_in_the_pause_the_naive_agent_pays_for_its_first_decision_again(row_of):
    row = row_of("kill-in-pause-naive")

    assert asked(row) == [("1", True, None), ("2", True, 1), ("2", True, None)]
    assert row.calls[0].answer == row.calls[2].answer


def test_killed_in_the_pause_the_journaled_agent_repeats_no_call(row_of):
    row = row_of("kill-in-pause-journaled")

    assert asked(row) == [("1", True, None), ("2", True, None)]
    assert asked(row, "tool") == [("1", True, None)]


def test_answers_that_always_differ_change_nothing_for_the_journaled_agent(row_of):
    first, last = (c for c in row_of("kill-in-pause-journaled-answers-differ").calls if c.n < 3
                   and c.kind == "model")  # fmt: skip

    assert "(wording 1)" in first.answer
    assert "(wording 2)" in last.answer


def test_temperature_0_and_a_fixed_seed_reach_the_model(row_of):
    calls = row_of("kill-in-pause-journaled-temperature-0").calls

    options = [call.options for call in calls if call.kind == "model"]
    assert options == [{"temperature": 0, "seed": 7}] * 2


def test_killed_in_a_model_call_the_lost_call_is_made_again_and_stays_on_record(row_of):
    row = row_of("kill-in-model-journaled")

    assert asked(row) == [("1", False, None), ("2", True, 1), ("2", True, None)]
    (unknown,) = events(row, "outcome_unknown")
    (first, *_) = events(row, "step_intended")
    assert (unknown.step, unknown.body.worst_cost_usd) == (first.step, 0.02)


def test_a_server_that_knows_keys_does_the_work_of_the_lost_call_once(row_of):
    row = row_of("kill-in-model-keyed-journaled")

    assert asked(row) == [("1", False, None), ("2", True, 1), ("2", True, None)]
    first, again, last = (call for call in row.calls if call.kind == "model")
    assert [first.billed, again.billed, last.billed] == [True, False, True]
    assert first.key == again.key != last.key


def test_killed_in_the_tool_the_tool_runs_twice_and_the_journal_says_so(row_of):
    row = row_of("kill-in-tool-journaled")

    assert asked(row, "tool") == [("1", False, None), ("2", True, 1)]
    (unknown,) = events(row, "outcome_unknown")
    lost, again = (e for e in events(row, "step_intended") if e.step == unknown.step)
    assert (lost.attempt, again.attempt) == (1, 2)


def test_under_another_prompt_the_second_process_calls_nothing_and_says_what_differs(row_of):
    row = row_of("prompt-changed-journaled")

    assert {call.process for call in row.calls} == {"1"}
    (paused,) = events(row, "run_paused")
    assert "You sell umbrellas." in str(paused.body.facts)
