"""Bytes that are not as they were written, and classes that are not what they were: a named error, nothing else (J10).

Whoever can write to the store must not get code run, an object built that the program did not declare, or another value
than the recorded one.
"""

import dataclasses
import enum
import json
import pickle
from typing import Any, NamedTuple

import msgspec
import pydantic
import pytest

from counterfoil.core import codec
from counterfoil.core.registry import name_of, register
from counterfoil.errors import NotReadableError


@dataclasses.dataclass
class Point:
    x: int
    y: int = 0


class Colour(enum.Enum):
    RED = "red"
    BLUE = "blue"


class Right(enum.Flag):
    READ = 1
    WRITE = 2


class Model(pydantic.BaseModel):
    name: str
    _kept: int = 0


def of(class_: type, content: Any, **more: Any) -> bytes:
    return json.dumps({"$": "of", "t": name_of(class_), "v": content, **more}).encode()


def member(class_: type, **parts: Any) -> bytes:
    return json.dumps({"$": "enum", "t": name_of(class_), **parts}).encode()


def tagged(tag: Any, value: Any, **more: Any) -> bytes:
    return json.dumps({"$": tag, "v": value, **more}).encode()


NOT_OURS = [
    b"", b"\xff", b"nonsense", b'{"a":1}{', b"NaN", b'"\\ud800"', b"1e999999", b"1" * 1_000_000,
    b"[" * 100_000, b"[" * 100_000 + b"]" * 100_000, b'{"$":"tuple","v":[' * 100_000,
    pickle.dumps(5), pickle.dumps(Point(1)), b"cos\nsystem\n(S'true'\ntR.",
    b'{"$":[]}', b'{"$":{}}', b'{"$":null,"v":1}', b'{"$":"int"}', b'{"$":"os:system","v":"true"}',
    tagged("__import__", "os"), tagged("pickle", "gASVBQAAAAAAAABLBS4="), tagged("int", "1", odd=2),
    b'{"$":"of","t":"os:system"}', b'{"$":"of","v":{}}', b'{"$":"enum","t":"os:system"}',
    tagged("of", {}, t="os:system"), tagged("of", {}, t="builtins:eval"), tagged("of", {}, t="subprocess:Popen"),
    tagged("of", {}, t=[]), tagged("of", {}, t=None), tagged("enum", "r", t="signal:Signals", n="SIGKILL"),
]  # fmt: skip
WRONG_PAYLOADS = [
    tagged("int", 5), tagged("int", "x"), tagged("int", "1" * 1_000_000), tagged("int", "0xz"), tagged("int", []),
    tagged("float", "1.5"), tagged("float", 1.5), tagged("str", "zz"), tagged("str", 5), tagged("dict", []),
    tagged("tuple", "abc"), tagged("tuple", {"a": 1}), tagged("set", [[]]), tagged("set", [1, 1]),
    tagged("set", [1, True]), tagged("frozenset", {}), tagged("map", [[1]]), tagged("map", [[1, 2, 3]]),
    tagged("map", [[1, 2], [1, 3]]), tagged("map", [[[], 2]]), tagged("map", {"ab": 1}), tagged("map", ["ab"]),
    tagged("bytes", "***"), tagged("bytes", "YQ"), tagged("bytes", "é"), tagged("bytearray", None),
    tagged("complex", [1, 2]), tagged("complex", [1.0]), tagged("decimal", "x"), tagged("decimal", 1),
    tagged("fraction", [1, 0]), tagged("fraction", ["1e999999999", 1]), tagged("range", [0, 1, 0]),
    tagged("range", [0, 1]), tagged("date", "2026-13-01"), tagged("date", 5), tagged("uuid", "1"),
    tagged("timedelta", [1.5, 0, 0]), tagged("timedelta", [999999999999, 0, 0]), tagged("time", "25:00"),
    tagged("datetime", "noon"), tagged("datetime", "2026-01-01T00:00:00", zone="../../etc/passwd"),
    tagged("datetime", "2026-01-01T00:00:00", zone="Nowhere/At_All"), tagged("time", "01:00:00", zone="\x00"),
    tagged("datetime", "2026-01-01T00:00:00", zone="America"), tagged("datetime", "2026-01-01T00:00:00", n="x"),
    tagged("datetime", "2026-01-01T00:00:00+01:00", zone="Europe/Oslo"),
    tagged("datetime", "2026-01-01", by="pydantic"),
    tagged("path", "a"), tagged("path", "a", t="WindowsPath"), tagged("path", 5, t="PurePosixPath"),
    tagged("ip", "999.1.1.1", t="IPv4Address"), tagged("ip", "1.2.3.4", t="socket"), tagged("secret", []),
    tagged("deque", [1, 2], maxlen=1), tagged("deque", [1], maxlen=-1), tagged("odict", 1), tagged("counter", [1]),
]  # fmt: skip


@pytest.mark.parametrize("annotation", [None, Point | Model], ids=["undeclared", "declared"])
@pytest.mark.parametrize("raw", [*NOT_OURS, *WRONG_PAYLOADS], ids=range(len(NOT_OURS) + len(WRONG_PAYLOADS)))
def test_bytes_that_are_not_as_they_were_written_are_refused(raw, annotation):
    with pytest.raises(NotReadableError) as caught:
        codec.decode(raw, annotation, annotated=annotation is not None, where="the result of f")
    assert caught.value.facts["where"] == "the result of f"


@pytest.mark.parametrize("raw", [*NOT_OURS, *WRONG_PAYLOADS], ids=range(len(NOT_OURS) + len(WRONG_PAYLOADS)))
def test_an_argument_that_is_not_as_it_was_written_is_refused(raw):
    with pytest.raises(NotReadableError):
        codec.decode_argument(raw, Point, where="it")


@pytest.mark.parametrize("raw", [b"[]", b"1", b"nonsense", b"[" * 100_000], ids=range(4))
def test_arguments_that_are_no_object_are_refused(raw):
    with pytest.raises(NotReadableError):
        codec.arguments_in(raw, where="it")


def test_a_place_inside_the_value_is_named():
    raw = b'{"a":[0,{"$":"map","v":[[[1],2]]}]}'.replace(b"[1]", b'{"$":"tuple","v":[1]}').replace(
        b",2]]", b",[" + tagged("of", {}, t="os:system") + b"]]]"
    )
    with pytest.raises(NotReadableError) as caught:
        codec.decode(raw, None, annotated=False, where="the result of f")
    assert (caught.value.facts["path"], caught.value.facts["type"]) == ("$.a[1][a tuple][0]", "os:system")


CHANGED = [
    (of(Point, {"y": 1}), "$.x", "the record has no field 'x', and it has no default"),
    (of(Point, {"x": 1, "z": 1}), "$.z", "the class has no field 'z' any more"),
    (of(Point, {"x": 1}, unset=["z"]), "$.z", "the class has no field 'z' any more"),
    (of(Point, []), "$", "its fields are missing"),
    (of(Point, {"x": 1}, unset=5), "$", "it could not be built"),
    (of(Point, {"x": 1}, others={"__class__": 1}), "$.__class__", "no attribute that can be recorded"),
    (of(Point, {"x": 1}, others=[1]), "$", "'others' is not a group"),
    (of(Point, {"x": 1}, odd=1), "$", "other parts than it should"),
    (of(Colour, {"x": 1}), "$", "none whose instances can be recorded"),
    (of(Model, {}), "$.name", "the record has no field 'name'"),
    (of(Model, {"name": "a", "age": 1}), "$.age", "the class has no field 'age' any more"),
    (of(Model, {"name": "a"}, private={"_gone": 1}), "$._gone", "the class has no attribute '_gone' any more"),
    (of(Model, {"name": of(Model, {}).decode()}, given=5), "$", "it could not be built"),
    (of(pydantic.HttpUrl, {}), "$", "its text is missing"),
    (of(pydantic.HttpUrl, "nowhere"), "$", "it could not be built"),
    (member(Point, n="RED", v="red"), "$", "no enumeration any more"),
    (member(Colour, n="GREEN", v="green"), "$", "it has no member 'GREEN' any more"),
    (member(Colour, n="RED", v="blue"), "$", "its member 'RED' has another value now"),
    (member(Colour, v="red"), "$", "KeyError"),
    (member(Right, n="READ|WRITE", v=1), "$", "it has no member 'READ|WRITE' any more"),
    (member(Right, n="READ|EXECUTE", v=5), "$", "invalid value 5"),
]


@pytest.mark.parametrize(("raw", "path", "reason"), CHANGED, ids=range(len(CHANGED)))
def test_a_class_that_has_changed_since_is_an_error_that_names_it(raw, path, reason):
    with pytest.raises(NotReadableError) as caught:
        codec.decode(raw, Point | Colour | Right | Model | pydantic.HttpUrl, annotated=True, where="it")
    assert reason in str(caught.value)
    assert caught.value.facts["path"] == path


class Pair(NamedTuple):
    left: int
    right: int = 2


class Request(msgspec.Struct):
    left: int
    right: list[int] = []


@dataclasses.dataclass
class Late:
    left: int
    right: list[int] = dataclasses.field(default_factory=list)


class Newer(pydantic.BaseModel):
    left: int
    right: list[int] = pydantic.Field(default_factory=list)
    _count: int = 5
    _unset: int


@pytest.mark.parametrize(
    ("class_", "built"),
    [(Pair, Pair(1)), (Request, Request(1)), (Late, Late(1)), (Newer, Newer(left=1))],
    ids=["named tuple", "struct", "dataclass", "model"],
)
def test_a_field_that_is_newer_than_the_record_has_its_default(class_, built):
    assert codec.decode(of(class_, {"left": 1}), class_, annotated=True, where="it") == built


@pytest.mark.parametrize("class_", [Pair, Request, Late, Newer])
def test_a_field_without_a_default_that_is_not_in_the_record_is_an_error(class_):
    with pytest.raises(NotReadableError, match="the record has no field 'left'"):
        codec.decode(of(class_, {}), class_, annotated=True, where="it")


def test_a_class_that_moved_to_another_module_is_found_by_the_annotation():
    raw = of(Point, {"x": 1}).replace(name_of(Point).partition(":")[0].encode(), b"old.place")
    assert codec.decode(raw, Point | None, annotated=True, where="it") == Point(1)


@dataclasses.dataclass
class Renamed:
    x: int


def test_a_class_that_was_renamed_is_found_by_the_names_it_had():
    register(Renamed, aliases=["old.place:Called.Otherwise"])
    raw = b'{"$":"of","t":"old.place:Called.Otherwise","v":{"x":1}}'
    assert codec.decode(raw, Any, annotated=True, where="it") == Renamed(1)


class RanError(Exception):
    """Code of the class was run."""


@dataclasses.dataclass
class Guarded:
    x: int

    def __post_init__(self) -> None:
        raise RanError

    def __setattr__(self, name: str, value: object) -> None:
        raise RanError


class Checked(pydantic.BaseModel):
    x: int

    @pydantic.field_validator("x")
    @classmethod
    def check(cls, value: int) -> int:
        raise RanError

    def model_post_init(self, _: object) -> None:
        raise RanError


@pytest.mark.parametrize("class_", [Guarded, Checked])
def test_no_constructor_validator_or_setter_is_run(class_):
    assert vars(codec.decode(of(class_, {"x": 1}), class_, annotated=True, where="it")) == {"x": 1}


def test_a_struct_that_changes_its_fields_has_the_recorded_ones():
    class Counting(msgspec.Struct):
        x: int

        def __post_init__(self) -> None:
            self.x += 1

    assert codec.record(Counting(1), Counting, where="it")[1].x == 2


def test_a_time_of_pydantic_is_refused_where_pydantic_is_not_imported(monkeypatch):
    monkeypatch.delitem(__import__("sys").modules, "pydantic_core")
    with pytest.raises(NotReadableError, match="pydantic, which is not imported here"):
        codec.decode(tagged("datetime", "2026-01-01T00:00:00+00:00", by="pydantic"), None, annotated=False, where="it")
