"""What a step's function takes from around it is input like its arguments (J5)."""

import functools
import threading
from typing import Any

import pytest

import counterfoil
from counterfoil import ClosureWarning, Retry, Secret, step
from counterfoil.core.codec import encode
from counterfoil.core.replay import Mismatch
from counterfoil.engine.calls import NO_OPTIONS, TOOL, Call, bound_call
from counterfoil.errors import DeclarationError


def bound_input(function: Any, *args: Any) -> dict[str, Any]:
    return bound_call(TOOL, Call(function, args, {}), NO_OPTIONS).input


def around(value: Any) -> Any:
    def look(x: int = 0) -> Any:
        return value

    return look


def beside(one: Any, other: Any) -> Any:
    async def look() -> Any:
        return one, other

    return look


@pytest.mark.parametrize("value", [1, None, "text", [1, {2}], {"a": b"b"}, Secret("K")], ids=repr)
def test_what_can_be_recorded_is_input_under_a_name_that_no_parameter_has(value):
    assert bound_input(around(value), 5) == {"x": 5, "(closure)": {"value": value}}


def test_the_value_counts_that_is_there_at_the_call():
    items = [1]
    look = around(items)
    first = encode(bound_input(look), where="it").raw
    items.append(2)
    assert (first, encode(bound_input(look), where="it").raw) == (
        b'{"x":0,"(closure)":{"value":[1]}}',
        b'{"x":0,"(closure)":{"value":[1,2]}}',
    )


CODE = [len, [].append, around(1), functools.partial(around, 1), Retry, counterfoil, "".join, step(around(1))]


@pytest.mark.parametrize("value", CODE, ids=range(len(CODE)))
def test_code_is_no_input(value):
    assert bound_input(around(value)) == {"x": 0}


def test_a_journal_is_no_input():
    assert bound_input(around(counterfoil.open("memory://"))) == {"x": 0}


def decorated(function: Any, setting: Any) -> Any:
    @functools.wraps(function)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        return function(setting, *args, **kwargs)

    return wrapper


@pytest.mark.parametrize("setting", [("a", "list"), threading.Lock()], ids=["plain", "lock"])
def test_what_a_decorator_keeps_for_itself_is_no_input_but_what_the_function_in_it_takes_is(setting):
    assert bound_input(decorated(around(1), setting), 5) == {"x": 5, "(closure)": {"value": 1}}


def plain(x: int = 0) -> int:
    return x


@pytest.mark.parametrize("function", [plain, step(plain), functools.partial(plain, 0)], ids=range(3))
def test_a_function_that_takes_nothing_from_around_has_its_arguments_only(function):
    assert bound_input(function) == {"x": 0}


def test_a_variable_that_has_no_value_yet_is_left_out():
    def outer() -> Any:
        def look() -> Any:
            return later

        found = bound_input(look)
        later = 1
        return found, bound_input(look)

    assert outer() == ({}, {"(closure)": {"later": 1}})


def test_what_can_not_be_recorded_is_warned_about_once_for_each_function():
    with pytest.warns(ClosureWarning, match="uses 'one' from around it, which can't be recorded") as caught:
        found = [bound_input(beside(threading.Lock(), 2)) for _ in range(3)]
    assert (len(caught), found) == (1, [{"(closure)": {"other": 2}}] * 3)
    assert (caught[0].filename, caught[0].lineno) == (__file__, beside.__code__.co_firstlineno + 1)


def test_where_warnings_are_errors_it_is_an_error_that_new_code_mends():
    lock = threading.Lock()

    def look() -> Any:
        return lock

    with pytest.raises(DeclarationError, match="look: uses 'lock'"):  # pytest's settings make it so
        bound_input(look)


def test_a_record_that_knows_no_closures_fits_a_function_that_has_one(begun, ask):
    cursor = begun.done("0", value={"x": 1}).cursor
    assert not isinstance(cursor.ask(ask("0", value={"x": 1, "(closure)": {"value": 2}})), Mismatch)


@pytest.mark.parametrize("value", [{"x": 1}, {"x": 1, "(closure)": {"value": 3}}, {"x": 2, "(closure)": {"value": 2}}])
def test_another_closure_is_another_input(begun, ask, value):
    cursor = begun.done("0", value={"x": 1, "(closure)": {"value": 2}}).cursor
    assert isinstance(cursor.ask(ask("0", value=value)), Mismatch)
