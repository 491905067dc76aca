# ruff: noqa: N818, BLE001, SIM115 - the exceptions under test
"""A recorded exception comes back as the same class with the same arguments, or as a stand-in."""

import importlib.machinery
import json
import sys
import traceback
import types
import urllib.error
from typing import Self

import pytest

from counterfoil.core import failure
from counterfoil.core.events import ErrorRecord, Value, encode
from counterfoil.core.failure import rebuild, short_type, to_record
from counterfoil.errors import NotStorableError, RecordedError, StepMismatchError


class Plain(Exception):
    pass


class WithAttributes(Exception):
    def __init__(self, message: str, *, status_code: int) -> None:
        super().__init__(message)
        self.status_code = status_code


class ManyArguments(Exception):
    def __init__(self, one: int, two: str, three: list[int]) -> None:
        super().__init__(f"{one} and {two}")
        self.one, self.two, self.three = one, two, three


class Loud(Exception):
    """Its constructor must not run when it is read back."""

    made = 0

    def __init__(self, text: str) -> None:
        type(self).made += 1
        super().__init__(text)


class HoldsClient(Exception):
    def __init__(self, message: str, client: object) -> None:
        super().__init__(message)
        self.client, self.kept = client, 1


class ArgumentsNotStorable(Exception):
    pass


class SpellsItself(Exception):
    def __str__(self) -> str:
        return f"{self.detail} at {id(self)}"

    detail = "here"


class BadText(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no text")


class Outer:
    class Inner(Exception):
        pass


def raised_by(work) -> Exception:
    try:
        work()
    except Exception as error:
        return error
    pytest.fail("nothing was raised")


SAME = [
    ValueError("bad"),
    ValueError(),
    ValueError("bad", 3, None, {"a": [1]}),
    KeyError("x"),
    KeyError(1),
    IndexError(),
    TimeoutError("late"),
    AssertionError("x == y"),
    ZeroDivisionError("division by zero"),
    NotImplementedError(),
    StopAsyncIteration("x"),
    OSError("just text"),
    OSError(28, "No space left on device"),
    FileNotFoundError(2, "No such file or directory", "/nowhere"),
    PermissionError(13, "Permission denied", "/a", None, "/b"),
    ConnectionRefusedError(111, "Connection refused"),
    urllib.error.URLError("refused"),
    Plain("a", 1),
    Plain(),
    Plain("\ud800 \x00 é"),
    WithAttributes("busy", status_code=429),
    ManyArguments(1, "two", [3]),
    Outer.Inner("nested"),
    raised_by(lambda: json.loads("{")),
    raised_by(lambda: {}["raised"]),
    raised_by(lambda: open("/")),
    StepMismatchError(run="r", step="0", recorded="tool a", attempted="tool b", source="f.py:1"),
]
STAND_IN = [
    ArgumentsNotStorable({1}),
    ArgumentsNotStorable(b"raw"),
    SpellsItself("x"),
    ExceptionGroup("two", [ValueError("a"), KeyError("b")]),
    UnicodeDecodeError("utf-8", b"\xff", 0, 1, "invalid start byte"),
]


def facts_of(error: BaseException) -> tuple[object, ...]:
    return type(error), error.args, str(error), vars(error)


@pytest.mark.parametrize("error", SAME, ids=ascii)
def test_an_exception_comes_back_as_itself(error):
    assert facts_of(rebuild(to_record(error))) == facts_of(error)


@pytest.mark.parametrize("error", SAME, ids=ascii)
def test_what_came_back_is_recorded_as_before(error):
    first = to_record(error)
    second = to_record(rebuild(first))
    assert (first.type, first.message, first.args, first.attributes) == (
        second.type, second.message, second.args, second.attributes,
    )  # fmt: skip


def test_an_os_error_keeps_what_its_arguments_do_not_show():
    back = rebuild(to_record(FileNotFoundError(2, "No such file or directory", "/nowhere")))
    assert (back.errno, back.strerror, back.filename) == (2, "No such file or directory", "/nowhere")


@pytest.mark.parametrize("error", STAND_IN, ids=ascii)
def test_what_can_not_be_rebuilt_has_a_stand_in_with_its_type_and_text(error):
    record = to_record(error)
    back = rebuild(record)
    assert (type(back), back.facts) == (RecordedError, {"type": short_type(record), "message": record.message})


class Picky(Exception):
    def __new__(cls, text: str, number: int) -> Self:
        return super().__new__(cls, text)


def test_a_class_that_refuses_its_own_arguments_has_a_stand_in():
    record = to_record(Picky("x", 1))
    assert type(rebuild(record)) is Picky
    assert rebuild(ErrorRecord(type=record.type, message="x", args=Value(b'["x"]'))).facts["message"] == "x"


def test_a_class_that_is_not_loaded_has_a_stand_in():
    record = to_record(Plain("x"))
    gone = ErrorRecord(type="some_plugin:Gone", message="x", args=record.args)
    assert rebuild(gone).facts == {"type": "some_plugin.Gone", "message": "x"}
    assert "some_plugin" not in sys.modules


@pytest.mark.parametrize(
    "type_",
    ["os:system", "builtins:SystemExit", "builtins:KeyboardInterrupt", "builtins:print", "builtins:object", ":", ""],
)
def test_only_an_exception_is_ever_built(type_):
    record = ErrorRecord(type=type_, message="x", args=Value(b'["x"]'))
    assert type(rebuild(record)) is RecordedError


def test_no_constructor_is_run():
    record = to_record(Loud("once"))
    assert facts_of(rebuild(record))[:3] == (Loud, ("once",), "once")
    assert Loud.made == 1


def test_attributes_that_can_not_be_recorded_are_left_out():
    back = rebuild(to_record(HoldsClient("down", object())))
    assert (type(back), vars(back)) == (HoldsClient, {"kept": 1})


def test_notes_are_kept():
    error = ValueError("bad")
    error.add_note("while reading row 7")
    assert rebuild(to_record(error)).__notes__ == ["while reading row 7"]


def test_a_text_that_raises_does_not_hide_the_failure():
    assert to_record(BadText()).message == "BadText"


class Unreducible(FileNotFoundError):
    def __reduce__(self):
        raise RuntimeError("no parts")


def test_a_file_error_that_cannot_be_pickled_is_recorded_all_the_same():
    error = Unreducible(2, "No such file or directory", "/nowhere")
    assert facts_of(rebuild(to_record(error))) == facts_of(error)


@pytest.mark.parametrize(("spec", "name"), [(None, "agent"), (importlib.machinery.ModuleSpec("a.b", None), "a.b")])
def test_an_exception_of_the_program_that_is_run_has_the_name_that_others_load_it_by(monkeypatch, *, spec, name):
    main = types.ModuleType("__main__")
    main.__file__, main.__spec__, main.Own = (
        "/here/agent.py",
        spec,
        type("Own", (Exception,), {"__module__": "__main__"}),
    )
    monkeypatch.setitem(sys.modules, "__main__", main)
    record = to_record(main.Own("x"))
    assert (record.type, type(rebuild(record))) == (f"{name}:Own", main.Own)


def test_a_traceback_is_kept_for_the_reader():
    record = to_record(raised_by(lambda: {}["needle"]))
    assert "KeyError: 'needle'" in record.traceback
    assert __file__ in record.traceback


def test_a_long_traceback_is_cut_at_its_beginning_in_whole_lines():
    record = to_record(ValueError("\n".join(f"line {number}" for number in range(10_000))))
    lines = record.traceback.splitlines()
    assert failure.TRACEBACK_CHARACTERS_MAX - 20 < len(record.traceback) <= failure.TRACEBACK_CHARACTERS_MAX
    assert (lines[-1], lines[0][:5]) == ("line 9999", "line ")


@pytest.mark.parametrize("error", [ValueError("\ud800"), Plain("\udfff" * 9000), KeyError("\ud800")], ids=ascii)
def test_text_that_is_no_unicode_can_be_written(error):
    assert rebuild(to_record(error)).args == error.args
    assert encode(to_record(error))


def test_a_refusal_of_ours_keeps_its_facts():
    error = NotStorableError(where="w", path="$.a", type="set", reason="r", fix="f")
    assert rebuild(to_record(error)).facts == error.facts


def test_the_short_name_leaves_builtins_out():
    assert [short_type(to_record(error)) for error in (ValueError(), Plain())] == ["ValueError", f"{__name__}.Plain"]


def test_formatting_what_came_back_shows_no_machinery():
    text = "".join(traceback.format_exception(rebuild(to_record(ValueError("bad")))))
    assert text == "ValueError: bad\n"
