# ruff: noqa: N818, BLE001, SIM115 - the exceptions under test
"""A recorded exception comes back as the same class with the same parts, or as a stand-in (J6)."""

import asyncio
import importlib.machinery
import json
import subprocess
import sys
import threading
import traceback
import types
import urllib.error
from typing import Self

import msgspec
import pydantic
import pytest

from counterfoil.core import failure, registry
from counterfoil.core.events import encode
from counterfoil.core.failure import rebuild, short_type, to_record
from counterfoil.core.parts import ErrorRecord, Value
from counterfoil.errors import NotStorableError, RecordedError, StepMismatchError


class Plain(Exception):
    pass


class WithAttributes(Exception):
    def __init__(self, message: str, *, status_code: int) -> None:
        super().__init__(message)
        self.status_code = status_code


class KeywordsOnly(Exception):
    def __init__(self, *, code: int, reason: str) -> None:
        super().__init__(f"{code}: {reason}")
        self.code = code


class ManyArguments(Exception):
    def __init__(self, one: int, two: str, three: list[int]) -> None:
        super().__init__(f"{one} and {two}")
        self.one, self.two, self.three = one, two, three


class Slotted(Exception):
    __slots__ = ("__hidden", "code", "unset")

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.code, self.__hidden = None, 7

    @property
    def hidden(self) -> int:
        return self.__hidden


class ReadOnly(Exception):
    def __init__(self, message: str) -> None:
        super().__init__(message)
        self._code = 5

    @property
    def code(self) -> int:
        return self._code

    def __setattr__(self, name: str, value: object) -> None:
        if name != "_code":
            raise AttributeError(name)
        super().__setattr__(name, value)


class Loud(Exception):
    """Its constructors must not run when it is read back."""

    made = 0

    def __new__(cls, text: str) -> Self:
        cls.made += 1
        return super().__new__(cls, text)

    def __init__(self, text: str) -> None:
        type(self).made += 1
        super().__init__(text)


class Group(ExceptionGroup[Exception]):
    def __new__(cls, message: str, errors: list[Exception], code: int) -> Self:
        group = super().__new__(cls, message, errors)
        group.code = code
        return group

    def derive(self, errors):
        return Group(self.message, errors, self.code)


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


class Model(pydantic.BaseModel):
    number: int


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
    ModuleNotFoundError("No module named 'x'", name="x", path="/x"),
    NameError("name 'x' is not defined", name="x"),
    SyntaxError("bad"),
    UnicodeEncodeError("utf-8", "\ud800", 0, 1, "surrogates not allowed"),
    urllib.error.URLError("refused"),
    subprocess.CalledProcessError(1, ["false"], "out", "err"),
    Plain("a", 1),
    Plain(),
    Plain("\ud800 \x00 é"),
    WithAttributes("busy", status_code=429),
    KeywordsOnly(code=5, reason="no"),
    ManyArguments(1, "two", [3]),
    Slotted("x"),
    ReadOnly("x"),
    Outer.Inner("nested"),
    raised_by(lambda: json.loads("{")),
    raised_by(lambda: {}["raised"]),
    raised_by(lambda: open("/")),
    raised_by(lambda: (1).missing),  # ty: ignore[unresolved-attribute]
    StepMismatchError(run="r", step="0", recorded="tool a", attempted="tool b", source="f.py:1"),
    RecordedError(type="a.B", message="x", attributes={"code": 1}),
]
STAND_IN = [
    ArgumentsNotStorable(HoldsClient),
    SpellsItself("x"),
    raised_by(lambda: Model(number="x")),  # ty: ignore[invalid-argument-type]
    asyncio.CancelledError("by itself"),
    KeyboardInterrupt("x"),
    StopIteration(3),
    BaseExceptionGroup("two", [ValueError("a"), KeyboardInterrupt()]),
]
FIELDS = ("errno", "strerror", "filename", "filename2", "name", "path", "object", "start", "end", "code", "hidden")


def facts_of(error: BaseException) -> tuple[object, ...]:
    fields = [getattr(error, name, "none") for name in FIELDS]
    return type(error), error.args, str(error), vars(error), fields


def names_of(record: ErrorRecord) -> list[str]:
    return [record.type, *(name for each in record.members for name in names_of(each))]


@pytest.mark.parametrize("error", SAME, ids=ascii)
def test_an_exception_comes_back_as_itself(error):
    record = to_record(error)
    assert (facts_of(rebuild(record)), record.stands_in, record.left_out) == (facts_of(error), False, {})


@pytest.mark.parametrize("error", SAME, ids=ascii)
def test_what_came_back_is_recorded_as_before(error):
    first = to_record(error)
    second = to_record(rebuild(first))
    assert msgspec.structs.replace(second, traceback=None) == msgspec.structs.replace(first, traceback=None)


@pytest.mark.parametrize("error", STAND_IN, ids=ascii)
def test_what_can_not_be_rebuilt_has_a_stand_in_with_its_type_and_text(error):
    record = to_record(error)
    back = rebuild(record)
    assert (record.stands_in, type(back), back.type, back.message) == (
        True, RecordedError, short_type(record), record.message,
    )  # fmt: skip


def test_a_stand_in_keeps_the_attributes_and_notes_that_could_be_recorded():
    error = ArgumentsNotStorable({1, object()})
    error.status_code, error.client = 429, object()
    error.add_note("third try")
    back = rebuild(to_record(error))
    assert back.attributes == {"status_code": 429, "__notes__": ["third try"]}
    assert back.__notes__ == ["third try"]


def test_no_constructor_is_run():
    record = to_record(Loud("once"))
    assert facts_of(rebuild(record))[:3] == (Loud, ("once",), "once")
    assert Loud.made == 2


@pytest.mark.parametrize("held", [threading.Lock(), object(), iter([1])], ids=lambda held: type(held).__name__)
def test_attributes_that_can_not_be_recorded_are_left_out_and_named(held):
    record = to_record(HoldsClient("down", held))
    assert (type(rebuild(record)), vars(rebuild(record))) == (HoldsClient, {"kept": 1})
    assert record.left_out == {"client": f"{type(held).__module__}.{type(held).__qualname__}"}


def test_an_argument_that_can_not_be_recorded_is_named():
    assert to_record(Plain("a", object())).left_out == {"args[1]": "builtins.object"}


def test_notes_are_kept():
    error = ValueError("bad")
    error.add_note("while reading row 7")
    assert rebuild(to_record(error)).__notes__ == ["while reading row 7"]


def test_a_text_that_raises_does_not_hide_the_failure():
    assert to_record(BadText()).message == "BadText"


def test_a_refusal_of_ours_keeps_its_facts():
    error = NotStorableError(where="w", path="$.a", type="set", reason="r", fix="f")
    assert (rebuild(to_record(error)).facts, rebuild(to_record(error)).hint) == (error.facts, error.hint)


def test_the_short_name_leaves_builtins_out():
    assert [short_type(to_record(error)) for error in (ValueError(), Plain())] == ["ValueError", f"{__name__}.Plain"]


# --- which class can be expected elsewhere ---


def test_a_class_of_a_module_that_a_step_may_have_loaded_has_a_stand_in():
    record = to_record(Plain("x"), known_modules={"builtins"})
    assert (record.stands_in, rebuild(record).facts) == (
        True, {"type": f"{__name__}.Plain", "message": "x", "attributes": {}},
    )  # fmt: skip


def test_a_builtin_is_always_known():
    assert to_record(ValueError("x"), known_modules=sys.modules.keys()).stands_in is False


def test_a_class_that_no_name_leads_to_has_a_stand_in():
    class Local(Exception):
        pass

    assert to_record(Local("x")).stands_in is True


@pytest.fixture
def own_registry(monkeypatch):
    monkeypatch.setattr(registry, "_types", {})
    monkeypatch.setattr(registry, "_names", {})


@pytest.mark.usefixtures("own_registry")
def test_a_registered_class_comes_back_wherever_it_is_from():
    @registry.register
    class Local(Exception):
        pass

    record = to_record(Local("x"), known_modules=set())
    assert facts_of(rebuild(record)) == facts_of(Local("x"))


@pytest.mark.usefixtures("own_registry")
def test_a_class_that_has_moved_is_found_by_the_name_it_had():
    record = msgspec.structs.replace(to_record(Plain("x")), type="old_home:Plain")
    registry.register(Plain, aliases=["old_home:Plain"])
    assert type(rebuild(record)) is Plain


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


# --- what stands behind it ---


def test_causes_come_back():
    inner = chained(KeyError("k"), cause=OSError(2, "gone"))
    back = rebuild(to_record(chained(Plain("outer"), cause=inner)))
    assert [facts_of(back.__cause__), facts_of(back.__cause__.__cause__)] == [
        facts_of(KeyError("k")),
        facts_of(OSError(2, "gone")),
    ]
    assert (back.__suppress_context__, back.__context__) == (True, None)


def handling(outer: Exception, inner: Exception) -> BaseException:
    def work() -> None:
        try:
            raise inner
        except Exception:
            raise outer  # noqa: B904 - the context is under test

    return raised_by(work)


def test_what_was_being_handled_comes_back():
    back = rebuild(to_record(handling(Plain("outer"), KeyError("k"))))
    assert (facts_of(back.__context__), back.__cause__, back.__suppress_context__) == (
        facts_of(KeyError("k")), None, False,
    )  # fmt: skip


def test_a_suppressed_context_is_not_recorded():
    error = Plain("x")
    error.__context__ = KeyError("k")
    record = to_record(chained(error, cause=None))
    assert (record.context, record.cut, rebuild(record).__suppress_context__) == (None, 0, True)


def chain(length: int) -> Exception:
    error = ValueError("0")
    for number in range(1, length):
        error, error.__cause__ = ValueError(str(number)), error
    return error


@pytest.mark.parametrize(("length", "kept", "cut"), [(1, 1, 0), (9, 9, 0), (10, 9, 1), (500, 9, 491), (5000, 9, 1000)])
def test_a_long_chain_is_cut_and_counted(length, kept, cut):
    record, found = to_record(chain(length)), 1
    while record.cause:
        record, found = record.cause, found + 1
    assert (found, record.cut) == (kept, cut)


def test_a_chain_that_comes_back_to_itself_is_cut():
    one, two = Plain("one"), Plain("two")
    one.__cause__, two.__cause__ = two, one
    record = to_record(one)
    assert (record.cause.message, record.cause.cause, record.cause.cut) == ("two", None, 2)


# --- groups ---


def shape(error: BaseException) -> object:
    nested = [shape(each) for each in getattr(error, "exceptions", ())]
    return type(error), str(error), getattr(error, "code", None), nested


GROUPS = [
    ExceptionGroup("two", [ValueError("a"), KeyError("b")]),
    ExceptionGroup("deep", [ExceptionGroup("inner", [OSError(2, "x")]), Plain("y")]),
    Group("own", [WithAttributes("z", status_code=503)], 7),
    BaseExceptionGroup("of exceptions", [ValueError("a")]),
]


@pytest.mark.parametrize("group", GROUPS, ids=str)
def test_a_group_comes_back_with_its_members(group):
    back = rebuild(to_record(group))
    assert (shape(back), back.message, len(back.args)) == (shape(group), group.message, len(group.args))


def test_a_part_of_a_group_is_caught_as_it_was_live():
    seen: list[object] = []

    def work() -> None:
        try:
            raise rebuild(to_record(GROUPS[1]))
        except* OSError as part:
            seen.append(shape(part))

    left = raised_by(work)
    assert [*seen, shape(left)] == [shape(GROUPS[1].subgroup(OSError)), shape(GROUPS[1].split(OSError)[1])]


def test_a_member_that_can_not_come_back_has_a_stand_in_inside_the_group():
    back = rebuild(to_record(ExceptionGroup("g", [ValueError("a"), ArgumentsNotStorable(object())])))
    assert [type(each) for each in back.exceptions] == [ValueError, RecordedError]


def test_a_large_group_is_cut_and_counted():
    record = to_record(ExceptionGroup("g", [ValueError(str(number)) for number in range(170)]))
    assert (len(record.members), record.cut, len(rebuild(record).exceptions)) == (50, 120, 50)


def test_many_exceptions_in_groups_of_groups_are_bounded():
    group = ExceptionGroup("g", [ExceptionGroup(f"{n}", [ValueError("x")] * 40) for n in range(40)])
    record = to_record(group)
    assert 100 < len(names_of(record)) <= failure.EXCEPTIONS_MAX
    assert type(rebuild(record)) is ExceptionGroup


# --- limits ---


def test_a_message_that_is_too_long_is_cut_between_words_and_the_exception_has_a_stand_in():
    record = to_record(ValueError("word " * 100_000))
    assert record.stands_in is True
    assert record.message == "word " * 19_999 + "word ... (400001 characters more)"


def test_a_message_without_a_word_to_cut_at_is_left_out():
    assert to_record(ValueError("x" * 200_000)).message == " ... (200000 characters more)"


def test_an_attribute_that_is_too_large_is_left_out_and_named():
    error = WithAttributes("busy", status_code=429)
    error.document = "x" * (failure.VALUE_BYTES_MAX + 1)
    record = to_record(error)
    assert (record.left_out, vars(rebuild(record))) == ({"document": "builtins.str"}, {"status_code": 429})


def test_a_record_is_bounded_as_a_whole():
    error = Plain("x" * 50_000)
    for number in range(3000):
        setattr(error, f"a{number}", "y" * 5_000)
    error.__cause__ = ExceptionGroup("z", [Plain(f"{n} " + "z " * 40_000) for n in range(50)])
    record = to_record(error)
    assert 500_000 < len(encode(record)) < 1.2 * failure.RECORD_BYTES_MAX
    assert len(record.left_out) == failure.LEFT_OUT_MAX


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


def test_formatting_what_came_back_shows_no_machinery():
    text = "".join(traceback.format_exception(rebuild(to_record(ValueError("bad")))))
    assert text == "ValueError: bad\n"


# --- whatever the exception does ---


class Exits(Exception):
    def __str__(self) -> str:
        raise SystemExit(1)


class Text(str):
    __slots__ = ()

    def encode(self, *_: object) -> bytes:
        raise RuntimeError("no bytes")

    def __getitem__(self, _: object) -> str:
        raise RuntimeError("no part")


class OddText(Exception):
    def __str__(self) -> str:
        return Text("odd")


class HidesItsParts(Exception):
    @property
    def args(self):
        raise RuntimeError("no args")

    @property
    def __dict__(self):
        raise RuntimeError("no dict")

    @property
    def __cause__(self):
        raise RuntimeError("no cause")

    @property
    def __context__(self):
        raise RuntimeError("no context")

    @property
    def __class__(self):
        raise RuntimeError("no class")

    def __getattribute__(self, name: str) -> object:
        raise RuntimeError(name)

    def __reduce__(self):
        raise RuntimeError("no parts")


class HidingMeta(type):
    def __getattribute__(cls, name: str) -> object:
        raise RuntimeError(name)


class OfHidingMeta(Exception, metaclass=HidingMeta):
    pass


class NoModule(Exception):
    __module__ = 7


class WithItself(Exception):
    def __init__(self) -> None:
        super().__init__(self)
        self.me, self.round = self, []
        self.round.append(self.round)
        vars(self)[7] = "seven"
        vars(self)["\ud800"] = 1


class Unequal(Exception):
    def __eq__(self, _: object) -> bool:
        raise RuntimeError("not comparable")

    __hash__ = None


HOSTILE = {
    "exits": lambda: Exits("x"),
    "odd text": lambda: OddText("x"),
    "bad text": lambda: BadText("x"),
    "hides its parts": lambda: HidesItsParts("x"),
    "of a hiding metaclass": lambda: OfHidingMeta("x"),
    "no module": lambda: NoModule("x"),
    "with itself": WithItself,
    "unequal": lambda: Unequal("x"),
    "long name": lambda: type("L" * 100_000, (Exception,), {})("x"),
    "group": lambda: ExceptionGroup("g", [HidesItsParts("x"), Unequal("y"), WithItself()]),
}


@pytest.mark.parametrize("made", HOSTILE)
def test_whatever_an_exception_does_it_is_recorded_and_read(made):
    record = to_record(HOSTILE[made]())
    assert issubclass(type(rebuild(record)), Exception)
    assert len(encode(record)) < 10_000


def test_an_exception_that_hides_its_parts_comes_back_all_the_same():
    record = to_record(HidesItsParts("x"))
    assert (record.args, record.stands_in, type(rebuild(record))) == (Value(b'["x"]'), False, HidesItsParts)
