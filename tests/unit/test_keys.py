"""Step keys are places in program order, and run ids are readable."""

import pytest

from counterfoil.core.keys import ID_LENGTH_MAX, ROOT, check_run_id, parse_key, step_key
from counterfoil.errors import IdInvalidError

KEYS = [((), 0, "0"), ((), 3, "3"), ((1,), 0, "1/0"), ((0, 2), 11, "0/2/11")]


@pytest.mark.parametrize(("branch", "ordinal", "key"), KEYS)
def test_a_key_is_the_branch_path_and_the_ordinal(branch, ordinal, key):
    assert step_key(branch, ordinal) == key


@pytest.mark.parametrize(("branch", "ordinal", "key"), KEYS)
def test_a_key_gives_back_what_it_was_made_of(branch, ordinal, key):
    assert parse_key(key) == (branch, ordinal)


def test_the_body_itself_is_the_empty_branch():
    assert ROOT == ()


@pytest.mark.parametrize("run", ["a", "trip-42", "Jürgen 7", "日本", "x" * ID_LENGTH_MAX, "a/b:c", "'; --"])
def test_a_readable_id_is_kept_as_it_is(run):
    assert check_run_id(run) == run


@pytest.mark.parametrize(
    "run", ["", " a", "a ", "a\n", "a\x00b", "\ud800", "a\u2028b", "x" * (ID_LENGTH_MAX + 1), "\t"]
)
def test_an_id_that_nobody_can_type_is_refused(run):
    with pytest.raises(IdInvalidError) as caught:
        check_run_id(run)
    assert caught.value.code == "id_invalid"
    assert caught.value.hint
