"""Any program with several branches: a crash anywhere gives no false verdict and repeats nothing recorded (J2, J5)."""

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from tests.property.branching import PROGRAMS, run

from counterfoil.engine import bridge

SEEDS = st.integers(0, 2**32)


@given(PROGRAMS, SEEDS)
def test_a_recorded_program_replays_without_a_call_in_any_order_of_answers(parts, seed):
    whole = run(parts, seed=seed)
    assume("branch_left" not in str(whole.result))
    again = run(parts, seed=seed + 1, records=whole.records[:-1])
    assert (again.result, again.calls) == (whole.result, {})


@pytest.mark.parametrize("drive", [lambda: None, bridge.want], ids=["plainly", "by a bridge"])
@given(PROGRAMS, SEEDS, st.data())
def test_a_crash_at_any_event_is_no_mismatch_and_repeats_nothing_recorded(drive, parts, seed, data):
    drive()
    whole = run(parts, seed=seed)
    assume("branch_left" not in str(whole.result))
    died_after = data.draw(st.integers(1, len(whole.records) - 1))
    after = run(parts, seed=seed + 1, records=whole.records[:died_after])
    assume("branch_left" not in str(after.result))
    assert isinstance(after.result, list)
    assert after.calls.keys() & whole.had(died_after) == set()
    third = run(parts, seed=seed + 2, records=after.records[:-1])
    assert (third.result, third.calls) == (after.result, {})
