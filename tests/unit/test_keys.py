"""Step keys are places in program order, and run ids are readable."""

import pytest

from counterfoil.core.keys import ID_LENGTH_MAX, ROOT, check_run_id, parse_key, provider_key, step_key
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


def test_a_provider_key_is_derived_as_it_always_was():
    assert provider_key(b"\0" * 32, "r", 1, step="0") == "cf-4cc31c3d939c3fedd2a329790523e609"
    assert (
        provider_key(b"\0" * 32, "r", 1, step="0", request=("POST", "/v1", "ab", "1"))
        == "cf-7b54af66d9dff5ed36986073405e2a0f"
    )


@pytest.mark.parametrize(
    "other",
    [
        provider_key(b"\1" * 32, "r", 1, step="0"),
        provider_key(b"\0" * 32, "s", 1, step="0"),
        provider_key(b"\0" * 32, "r", 2, step="0"),
        provider_key(b"\0" * 32, "r", 1, step="1"),
        provider_key(b"\0" * 32, "r", 1, step="0", request=("POST",)),
    ],
    ids=["another store", "a fork", "a restart", "another step", "a request"],
)
def test_a_provider_key_is_another_one_elsewhere(other):
    assert provider_key(b"\0" * 32, "r", 1, step="0") != other
