"""The journals of the clean runs by index, as a reader sees them: bookkeeping folded in.

The naive journal is the journaled one without the two decisions.
"""

from counterfoil.engine.queries import timeline

NAIVE = [
    (0, "started", "weather_agent"),
    (1, "intended", "get_weather"),
    (2, "succeeded", "get_weather"),
    (3, "timer set", "sleep"),
    (4, "timer fired", "sleep"),
    (5, "completed", None),
]
JOURNALED = [
    (0, "started", "weather_agent"),
    (1, "intended", "ask"),
    (2, "succeeded", "ask"),
    (3, "intended", "get_weather"),
    (4, "succeeded", "get_weather"),
    (5, "timer set", "sleep"),
    (6, "timer fired", "sleep"),
    (7, "intended", "ask"),
    (8, "succeeded", "ask"),
    (9, "completed", None),
]


def entries(row):
    return [(entry.index, entry.what, entry.name) for entry in timeline(row.ending.events)]


def test_the_naive_journal_has_the_tool_at_index_1_and_no_decision(row_of):
    assert entries(row_of("clean-naive")) == NAIVE


def test_the_journaled_journal_has_the_model_at_index_1_and_7(row_of):
    assert entries(row_of("clean-journaled")) == JOURNALED


def test_the_naive_journal_is_the_same_after_a_kill_that_made_it_pay_again(row_of):
    assert entries(row_of("kill-in-pause-naive")) == NAIVE


def test_the_journaled_journal_is_the_same_after_a_kill_in_the_pause(row_of):
    assert entries(row_of("kill-in-pause-journaled")) == JOURNALED
