"""A default that no record can hold is no input, as long as nothing else is given for it."""

import threading
from typing import Any

import pytest

from counterfoil.core.codec import encode
from counterfoil.engine.calls import NO_OPTIONS, TOOL, Bound, Call, bound_call
from counterfoil.engine.resources import use
from counterfoil.errors import NotStorableError

OMIT = object()
LOCK = threading.Lock()


def create(model: str, *, stop: Any = OMIT, lock: Any = LOCK, user: str | None = None) -> None: ...


def bound(function: Any, *args: Any, **kwargs: Any) -> Bound:
    return bound_call(TOOL, Call(function, args, kwargs), NO_OPTIONS)


@pytest.mark.parametrize("given", [{}, {"stop": OMIT}, {"stop": OMIT, "lock": LOCK}], ids=range(3))
def test_it_is_left_out_of_the_input_given_or_not(given):
    found = bound(create, "m", **given)
    assert (found.input, found.opaque) == ({"model": "m", "user": None}, {})


def test_another_value_for_it_is_input():
    assert bound(create, "m", stop="END").input == {"model": "m", "stop": "END", "user": None}


def test_another_value_that_can_not_be_recorded_is_refused_as_ever():
    with pytest.raises(NotStorableError, match="stop"):
        encode(bound(create, "m", stop=object()).input, where="the input")


def test_the_call_is_made_with_what_was_given_and_no_more():
    found = bound(create, "m")
    assert (found.args, found.kwargs) == (("m",), {})


def with_pool(x: int, *, db: object = use(threading.Lock)) -> int:
    return x


def without(x: int) -> int:
    return x


def test_a_resource_is_no_part_of_a_steps_contract():
    assert bound(with_pool, 1).definition.contract == bound(without, 1).definition.contract
