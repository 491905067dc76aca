"""Errors form one tree, carry their facts, and say what to do next (J10)."""

import copy
import pickle
import re

import pytest

from counterfoil import errors
from counterfoil.errors import CounterfoilError, Halted

KINDS = [each for each in vars(errors).values() if isinstance(each, type) and issubclass(each, CounterfoilError)]
CONCRETE = [kind for kind in KINDS if kind.sentence is not CounterfoilError.sentence]


def made(kind: type[CounterfoilError]) -> CounterfoilError:
    """One of its kind, with every fact that its texts name."""
    names = set(re.findall(r"{(\w+)", kind.sentence + kind.advice))
    return kind(**{name: 1.5 if name == "seconds_left" else f"<{name}>" for name in names})


def test_every_code_is_one_kind():
    codes = [kind.code for kind in KINDS]
    assert len(codes) == len(set(codes))


@pytest.mark.parametrize("kind", CONCRETE, ids=lambda kind: kind.code)
def test_an_error_says_what_happened_and_what_to_do(kind):
    error = made(kind)
    assert str(error)
    assert error.hint


@pytest.mark.parametrize("kind", CONCRETE, ids=lambda kind: kind.code)
def test_the_facts_of_an_error_are_its_fields(kind):
    error = made(kind)
    assert {name: getattr(error, name) for name in error.facts} == error.facts


@pytest.mark.parametrize("kind", CONCRETE, ids=lambda kind: kind.code)
def test_a_fact_that_the_texts_name_is_a_declared_field(kind):
    declared = {name for each in kind.__mro__ for name in vars(each).get("__annotations__", {})}
    assert set(made(kind).facts) <= declared


@pytest.mark.parametrize("again", [copy.copy, copy.deepcopy, lambda e: pickle.loads(pickle.dumps(e))], ids=range(3))
@pytest.mark.parametrize("kind", CONCRETE, ids=lambda kind: kind.code)
def test_an_error_survives_a_copy(again, kind):
    error = made(kind)
    back = again(error)
    assert (type(back), str(back), back.hint, back.facts) == (kind, str(error), error.hint, error.facts)


def test_a_text_with_braces_is_only_text():
    error = errors.StoreUrlError(url="{url}", problem="{0} {x}")
    assert str(error) == "'{url}' is not a store: {0} {x}"


def test_a_control_signal_is_caught_by_no_ordinary_net():
    assert not issubclass(Halted, Exception)
