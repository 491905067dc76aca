# ruff: noqa: BLE001, N818 - the exceptions under test
"""An exception comes out of its record as what was raised live, and never as anything else. J6, FC-49, FC-54."""

import sys
import traceback
import types

import msgspec
import pytest

from counterfoil.core.failure import raise_again, readable, rebuild, short_type, to_record
from counterfoil.core.parts import NONE, ErrorRecord, Value
from counterfoil.errors import ExceptionUnknownError, RecordedError


class Plain(Exception):
    pass


class Outer:
    def method(self) -> None:
        """Its globals lead to modules."""


def raised_by(work) -> BaseException:
    try:
        work()
    except BaseException as error:
        return error
    pytest.fail("nothing was raised")


def chained(outer: Exception, *, cause: BaseException | None) -> BaseException:
    def work() -> None:
        raise outer from cause

    return raised_by(work)


def facts_of(error: BaseException) -> tuple[object, ...]:
    shown = [getattr(error, name, "none") for name in ("errno", "strerror", "filename", "filename2")]
    return type(error), error.args, str(error), vars(error), shown


# --- the decision is kept ---


def test_a_stand_in_stays_one_though_its_class_could_be_rebuilt_by_now():
    record = to_record(Plain("x"), known_modules=set())
    assert [type(rebuild(record)), type(readable(record))] == [RecordedError, RecordedError]


GONE = [
    msgspec.structs.replace(to_record(Plain("x")), type="some_plugin:Gone"),
    msgspec.structs.replace(to_record(Plain("x")), type=f"{__name__}:Missing"),
    msgspec.structs.replace(to_record(FileNotFoundError(2, "x")), type="builtins:UnicodeError", args=NONE),
]


@pytest.mark.parametrize("record", GONE, ids=lambda record: record.type)
def test_a_class_that_is_gone_is_an_error_on_replay_that_says_the_first_failure(record):
    with pytest.raises(ExceptionUnknownError) as caught:
        rebuild(record)
    assert (caught.value.type, caught.value.message) == (short_type(record), record.message)
    assert "some_plugin" not in sys.modules


@pytest.mark.parametrize("record", GONE, ids=lambda record: record.type)
def test_a_class_that_is_gone_can_still_be_read(record):
    assert (type(readable(record)), readable(record).message) == (RecordedError, record.message)


@pytest.mark.parametrize("place", [{"members": (GONE[0],)}, {"cause": GONE[0]}, {"context": GONE[0]}], ids="-".join)
def test_one_that_is_gone_inside_or_behind_another_is_an_error_too(place):
    group = to_record(chained(ExceptionGroup("g", [Plain("x")]), cause=Plain("y")))
    record = msgspec.structs.replace(group, **place)
    with pytest.raises(ExceptionUnknownError, match="some_plugin"):
        rebuild(record)
    back = readable(record)
    assert RecordedError in {type(back.exceptions[0]), type(back.__cause__), type(back.__context__)}


# --- a record that was altered (FC-54) ---


FORGED = [
    "os:system", "builtins:eval", "subprocess:Popen", "builtins:SystemExit", "builtins:KeyboardInterrupt",
    "builtins:print", "builtins:object", "antigravity:x", "lazy:anything", "lazy:holder.error", "sys:modules.os", ":",
    "", "a" * 10_000, "os.path:os.system", f"{__name__}:Outer.method.__globals__", "builtins:BaseException",
]  # fmt: skip


class Lazy(types.ModuleType):
    def __getattr__(self, name: str) -> object:
        raise AssertionError(f"{name} was asked for")

    @property
    def __class__(self):
        raise AssertionError("its class was asked for")


@pytest.mark.parametrize("stands_in", [True, False, None])
@pytest.mark.parametrize("type_", FORGED, ids=lambda type_: type_[:40])
def test_only_an_exception_is_ever_built_and_nothing_is_imported(monkeypatch, type_, stands_in):
    lazy = Lazy("lazy")
    vars(lazy)["holder"] = types.SimpleNamespace(error=ValueError)
    monkeypatch.setitem(sys.modules, "lazy", lazy)
    before = set(sys.modules)
    record = ErrorRecord(type=type_, message="x", args=Value(b'["x"]'), stands_in=stands_in)
    assert type(readable(record)) is RecordedError
    assert type(raised_by(lambda: rebuild(record) and pytest.fail("built"))) is not AssertionError
    assert set(sys.modules) == before


ALTERED = {
    "arguments are text": {"args": Value(b'"text"')},
    "arguments are a number": {"args": Value(b"7")},
    "attributes are a list": {"attributes": Value(b"[1]")},
    "attributes of Python": {"attributes": Value(b'{"__class__": 1, "__dict__": 2, "args": 3, "__cause__": 4}')},
    "an unknown tag": {"attributes": Value(b'{"a": {"$": "os", "v": "system"}}')},
    "an empty group": {"type": "builtins:ExceptionGroup", "args": Value(b"[]")},
    "a group's odd message": {
        "type": "builtins:ExceptionGroup",
        "args": Value(b"[7]"),
        "members": (to_record(Plain()),),
    },
    "an odd field": {"type": "builtins:UnicodeDecodeError", "attributes": Value(b'{"start": "x"}')},
    "another message": {"message": "another"},
}


@pytest.mark.parametrize("name", ALTERED)
def test_an_altered_record_can_be_read(name):
    record = msgspec.structs.replace(to_record(ValueError("x")), **ALTERED[name])
    assert isinstance(readable(record), ValueError | RecordedError)


# --- raising it ---


def test_raising_again_keeps_the_recorded_chain_whatever_is_being_handled():
    outer = Plain("outer")
    outer.__context__ = KeyError("k")
    error = rebuild(to_record(outer))
    try:
        raise OSError("of the caller")
    except OSError:
        assert raised_by(lambda: raise_again(error)) is error
    assert facts_of(error.__context__) == facts_of(KeyError("k"))
    assert (error.__cause__, error.__suppress_context__) == (None, False)


def test_raising_again_hides_nothing_of_where_it_was_raised():
    error = raised_by(lambda: raise_again(ValueError("x"), raised_by(lambda: {}["needle"]).__traceback__))
    assert "needle" in "".join(traceback.format_exception(error))


# --- records of release 0.1.0, which did not say what was raised ---


OLD = [
    (ErrorRecord(type="builtins:ValueError", message="('no', 3)", args=Value(b'["no",3]')), ValueError("no", 3)),
    (
        ErrorRecord(
            type="builtins:FileNotFoundError",
            message="[Errno 2] No such file or directory: '/nowhere'",
            args=Value(b'[2,"No such file or directory","/nowhere"]'),
        ),
        FileNotFoundError(2, "No such file or directory", "/nowhere"),
    ),
    (
        ErrorRecord(type="builtins:OSError", message="[Errno 28] full", args=Value(b'[28,"full"]')),
        OSError(28, "full"),
    ),
    (
        ErrorRecord(
            type="builtins:PermissionError",
            message="[Errno 13] no: '/a' -> '/b'",
            args=Value(b'[13,"no","/a",null,"/b"]'),
        ),
        PermissionError(13, "no", "/a", None, "/b"),
    ),
]


@pytest.mark.parametrize(("record", "error"), OLD, ids=lambda each: getattr(each, "type", ""))
def test_a_record_of_the_first_release_gives_what_it_gave_then(record, error):
    assert [facts_of(rebuild(record)), facts_of(readable(record))] == [facts_of(error)] * 2


@pytest.mark.parametrize(
    "change",
    [{"type": "some_plugin:Gone"}, {"args": NONE}, {"message": "another text"}],
    ids="-".join,
)
def test_a_record_of_the_first_release_has_a_stand_in_where_it_had_one(change):
    record = msgspec.structs.replace(OLD[0][0], **change)
    assert (type(rebuild(record)), rebuild(record).message) == (RecordedError, record.message)
