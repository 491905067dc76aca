"""Records of release 0.1.0, which name no class, and arguments, which may be given as JSON."""

import dataclasses
import datetime
import decimal
import enum
import pathlib
from typing import Annotated, Any, Literal

import msgspec
import pydantic
import pytest

from counterfoil.core import codec
from counterfoil.core.registry import register
from counterfoil.errors import NotReadableError, NotStorableError, ResultTypeUnknownError

NOON = datetime.datetime(2026, 1, 1, 12, tzinfo=datetime.UTC)


class Colour(enum.Enum):
    RED = "red"


@dataclasses.dataclass
class Point:
    x: int
    y: int = 0


@dataclasses.dataclass
class Line:
    ends: list[Point]
    colour: Colour | None = None


@dataclasses.dataclass
class Price:
    euros: float
    exact: decimal.Decimal | None = None


class Model(pydantic.BaseModel):
    name: str = pydantic.Field(alias="full name")
    when: datetime.datetime
    tags: set[str] = set()


class Cat(pydantic.BaseModel):
    kind: Literal["cat"] = "cat"


class Dog(pydantic.BaseModel):
    kind: Literal["dog"] = "dog"
    age: int = 1


class Request(msgspec.Struct, rename="camel"):
    max_tokens: int


PET = Annotated[Cat | Dog, pydantic.Field(discriminator="kind")]
RECORDED = [
    (b'{"x":1,"y":2}', Point, Point(1, 2)),
    (b'{"x":1}', Point, Point(1)),
    (b'[{"x":1},null]', list[Point | None], [Point(1), None]),
    (b'{"ends":[{"x":1,"y":0}],"colour":"red"}', Line, Line([Point(1)], Colour.RED)),
    (b'"red"', Colour, Colour.RED),
    (b'{"euros":3}', Price, Price(3.0)),
    (
        b'{"full name":"a","when":"2026-01-01T12:00:00Z","tags":["x","y"]}',
        Model,
        Model(**{"full name": "a", "when": NOON, "tags": {"x", "y"}}),
    ),
    (b'{"$":"dict","v":{"$":{"x":1,"y":0}}}', dict[str, Point], {"$": Point(1)}),
]


@pytest.mark.parametrize(("raw", "annotation", "value"), RECORDED, ids=range(len(RECORDED)))
def test_a_record_that_names_no_class_is_built_as_the_annotation_says(raw, annotation, value):
    assert codec.decode(raw, annotation, annotated=True, where="it") == value


UNFIT = [
    (b'{"x":"one"}', Point, "$", "Expected `int`, got `str` - at `$.x`"),
    (b"{}", Point, "$", "missing required field `x`"),
    (b'{"x":1,"y":2,"z":3}', Point, "$.z", "the class has no field 'z'"),
    (b'{"ends":[{"x":1},{"x":1,"z":2}]}', Line, "$.ends[1].z", "the class has no field 'z'"),
    (b'"green"', Colour, "$", "Invalid enum value"),
    (b"null", Point, "$", "got `null`"),
    (b'{"full name":"a","when":"2026-01-01T12:00:00Z","gone":1}', Model, "$.gone", "is not in what the class makes"),
    (b'{"x":1}', Any, "$", "does not say of which class"),
    (b'{"x":1}', dict[str, int], "$", "does not say of which class"),
    (b'{"full name":"a"}', Model, "$", "validation error"),
]


@pytest.mark.parametrize(("raw", "annotation", "path", "reason"), UNFIT, ids=range(len(UNFIT)))
def test_a_record_that_no_longer_fits_the_class_is_named(raw, annotation, path, *, reason):
    with pytest.raises(NotReadableError) as caught:
        codec.decode(raw, annotation, annotated=True, where="the result of f")
    assert reason in str(caught.value)
    assert (caught.value.facts["where"], caught.value.facts["path"]) == ("the result of f", path)


def test_a_model_that_is_written_otherwise_than_it_was_read_is_named():
    class Shy(pydantic.BaseModel):
        inner: Any

        @pydantic.field_validator("inner")
        @classmethod
        def odd(cls, value: object) -> object:
            return object()

    with pytest.raises(NotReadableError, match="written again, it is refused"):
        codec.decode(b'{"inner":1}', Shy, annotated=True, where="it")


def test_a_value_that_does_not_fit_an_annotation_is_named():
    with pytest.raises(NotReadableError, match="does not fit Point") as caught:
        codec.convert({"x": 1, "z": 1}, Point, where="it")
    assert caught.value.facts["path"] == "$.z"


def test_an_annotation_that_can_not_be_hashed_is_as_good_as_another():
    assert codec.convert(3, Annotated[int, []], where="it") == 3


ARGUMENTS = [
    (1, Any, b"1"),
    ({"x": 1}, Point, b'{"x":1}'),
    (Point(1), Point, b'{"x":1,"y":0}'),
    (Price(3), Price, b'{"euros":3,"exact":null}'),
    (Price(1.5, decimal.Decimal("1.50")), Price, b'{"euros":1.5,"exact":{"$":"decimal","v":"1.50"}}'),
    ({1, 2}, set[int], b'{"$":"set","v":[1,2]}'),
    (pathlib.PurePosixPath("a"), pathlib.PurePosixPath, b'{"$":"path","t":"PurePosixPath","v":"a"}'),
    (Colour.RED, Colour, b'"red"'),
    ({"kind": "dog"}, PET, b'{"kind":"dog"}'),
    ({"maxTokens": 5}, Request, b'{"maxTokens":5}'),
]


@pytest.mark.parametrize(("value", "annotation", "written"), ARGUMENTS, ids=range(len(ARGUMENTS)))
def test_an_argument_is_written_bare_where_it_comes_back_so(value, annotation, written):
    assert codec.encode_arguments({"it": value}, {"it": annotation}) == b'{"it":' + written + b"}"


@dataclasses.dataclass
class Registered:
    at: Point


NAMED = [
    (Point(1), Point | Line),
    (Dog(age=2), Cat | Dog),
    (Price({1}), Price),  # type: ignore[arg-type] - not what is declared, and kept all the same
    (Registered(Point(1)), Any),
    (Model(**{"full name": "a", "when": NOON.replace(fold=1)}), Model),
]


@pytest.mark.parametrize(("value", "annotation"), NAMED, ids=range(len(NAMED)))
def test_an_argument_that_would_not_come_back_so_names_its_class(value, annotation):
    register(Registered)
    raw = codec.encode_arguments({"it": value}, {"it": annotation})
    back = codec.decode_argument(codec.arguments_in(raw, where="it")["it"], annotation, where="it")
    assert (type(back), repr(back)) == (type(value), repr(value))
    assert b'"$":"of"' in raw


GIVEN = [
    ({"x": 1}, Point, Point(1)),
    ({"kind": "dog", "age": 3}, PET, Dog(age=3)),
    ({"kind": "dog"}, Cat | Dog, Dog()),
    ({"maxTokens": 5}, Request, Request(5)),
    ("2026-01-01", datetime.date, datetime.date(2026, 1, 1)),
    ({"euros": 1, "exact": "1.50"}, Price, Price(1.0, decimal.Decimal("1.50"))),
    ({1, 2}, set[int], {1, 2}),
    ({1, 2}, Any, {1, 2}),
    ({1: "a"}, dict[int, str], {1: "a"}),
]


@pytest.mark.parametrize(("given", "annotation", "value"), GIVEN, ids=range(len(GIVEN)))
def test_an_argument_given_as_json_becomes_what_is_declared(given, annotation, value):
    raw = codec.encode(given, where="it").raw
    assert codec.decode_argument(raw, annotation, where="it") == value


REFUSED = [
    ("one", int, NotReadableError, "Expected `int`"),
    ({"x": 1, "z": 2}, Point, NotReadableError, "no field 'z'"),
    ({"maxTokens": 5, "max_tokens": 5}, Request, NotReadableError, "no field 'max_tokens'"),
    ({1, 2}, list[int], NotReadableError, "a set is no list"),
    ((1, 2), list[int], NotReadableError, "a tuple is no list"),
    ({"kind": "cow"}, PET, NotReadableError, "validation error"),
    (Point(1), Any, ResultTypeUnknownError, "neither in the annotation"),
    (Point(1), str, ResultTypeUnknownError, "neither in the annotation"),
    (object(), Any, NotStorableError, "only plain values"),
    (pydantic.SecretStr("hunter2"), pydantic.SecretStr, NotStorableError, "never written"),
]


@pytest.mark.parametrize(("value", "annotation", "error", "reason"), REFUSED, ids=range(len(REFUSED)))
def test_an_argument_that_does_not_fit_is_refused(value, annotation, error, *, reason):
    with pytest.raises(error, match=reason):
        codec.encode_arguments({"it": value}, {"it": annotation})
