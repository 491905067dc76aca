"""Values come back exactly, or are refused by path and type when they are recorded (J6)."""

import dataclasses
import datetime
import decimal
import enum
import math
import uuid
import zoneinfo
from typing import Annotated, Any
from unittest import mock

import pydantic
import pytest

from counterfoil.core import codec
from counterfoil.core.codec import DEPTH_MAX, SAFE_INTEGER, Secret
from counterfoil.errors import NotReadableError, NotStorableError

BIG = 2**53 + 1
NOON = datetime.datetime(2026, 1, 1, 12, tzinfo=datetime.UTC)


class Colour(enum.Enum):
    RED = "red"
    BLUE = "blue"


class Level(enum.IntEnum):
    LOW = 1


class Word(enum.StrEnum):
    YES = "yes"


@dataclasses.dataclass
class Point:
    x: int
    y: int = 0


@dataclasses.dataclass(frozen=True)
class Line:
    ends: list[Point]
    colour: Colour | None = None
    names: dict[str, Point] = dataclasses.field(default_factory=dict)


@dataclasses.dataclass
class Price:
    euros: float


@dataclasses.dataclass
class Point3(Point):
    z: int = 0


@dataclasses.dataclass
class Growing:
    items: list[int]

    def __post_init__(self) -> None:
        self.items = [*self.items, 0]


class Model(pydantic.BaseModel):
    name: str = pydantic.Field(alias="full name")
    when: datetime.datetime
    tags: set[str] = set()
    model_config = pydantic.ConfigDict(populate_by_name=True)


class Loop(pydantic.BaseModel):
    inner: object = None


class Unsure(pydantic.BaseModel):
    answer: int = 1

    @pydantic.field_serializer("answer")
    def said(self, _: int) -> int:
        raise LookupError("no answer")


@dataclasses.dataclass
class Half:
    given: int
    never_set: int = dataclasses.field(init=False)


class Lossy(pydantic.BaseModel):
    kept: int
    lost: int = pydantic.Field(default=0, exclude=True)


class Credentials(pydantic.BaseModel):
    password: pydantic.SecretStr


JSON_VALUES = [
    None, True, False, 0, -1, SAFE_INTEGER, -SAFE_INTEGER, 2**53, BIG, -BIG, 2**64, 10**400, 0.0, -0.0, 1.5, 1e300,
    5e-324, math.inf, -math.inf, "", "é", "\x00", "a\x00b", "\ud800", "x\udfff\x00é", "\U0001f600", '"\\/\n\u2028',
    [], {}, [[]], [None, {"a": [1, "b"]}], {"": 0}, {"$": 1}, {"$": "int", "v": "5"}, {"$": {"$": None}},
    [{"$": []}, {"v": 1}], {"$": "secret", "v": "NAME"}, {"b": 1, "a": 2, "$": 3}, {"a.b/c~d": {"\x00": 1}},
    Secret("API_KEY"), [Secret("K")],
    NOON, NOON.replace(tzinfo=None, microsecond=1), uuid.UUID(int=2**127),
    {"at": [NOON.astimezone(datetime.timezone(datetime.timedelta(minutes=-210)))]},
]  # fmt: skip
TYPED_VALUES = [
    (Point(1, 2), Point),
    (Point(BIG, -1), Point),
    ([Point(1), Point(2)], list[Point]),
    ({"a": Point(1)}, dict[str, Point]),
    (Point(1), Point | None),
    (Line([Point(1)], Colour.RED, {"n": Point(3)}), Line),
    (Line([]), Line),
    (Price(1.5), Price),
    (Colour.BLUE, Colour),
    ([Colour.RED, None], list[Colour | None]),
    (Level.LOW, Level),
    (Word.YES, Word),
    (Model(name="a", when=NOON, tags={"x"}), Model),
    ([Model(name="a", when=NOON)], list[Model]),
    (Model(name="\x00", when=NOON), Model | None),
]


def same(one: Any, other: Any) -> bool:
    """Equal, and told apart where == does not: 1 and True, 0.0 and -0.0."""
    return type(one) is type(other) and one == other and ("Model" in repr(one) or repr(one) == repr(other))


@pytest.mark.parametrize("value", JSON_VALUES, ids=ascii)
def test_a_json_value_comes_back_as_it_was_without_a_type(value):
    encoded, back = codec.record(value, Any, where="it")
    assert same(back, value)
    assert same(codec.decode(encoded.raw, None, annotated=False, where="it"), value)
    assert not encoded.annotated


@pytest.mark.parametrize("sign", [1, -1])
def test_an_integer_longer_than_python_spells_comes_back(sign):
    assert codec.record(sign * 10**5000, Any, where="it")[1] == sign * 10**5000


def looped() -> Loop:
    loop = Loop()
    loop.inner = loop
    return loop


UNREADABLE = [looped(), Loop(inner=object()), Unsure(), Half(1)]


@pytest.mark.parametrize("value", UNREADABLE, ids=["loop", "any object", "serializer", "unset field"])
def test_a_value_whose_own_code_fails_is_refused_by_path_and_type(value):
    with pytest.raises(NotStorableError, match="asked for its parts, it raised") as caught:
        codec.record({"it": [value]}, dict[str, list[type(value)]], where="x")
    assert (caught.value.path, caught.value.type) == ("$.it[0]", type(value).__name__)


def test_an_object_that_answers_to_everything_is_refused():
    with pytest.raises(NotStorableError):
        codec.encode(mock.MagicMock(), where="it")


def test_nan_comes_back_as_nan():
    _, back = codec.record([math.nan], Any, where="it")
    assert math.isnan(back[0])


@pytest.mark.parametrize(("value", "annotation"), TYPED_VALUES, ids=lambda each: ascii(each)[:40])
def test_a_typed_value_comes_back_by_its_annotation(value, annotation):
    encoded, back = codec.record(value, annotation, where="it")
    assert same(back, value)
    assert same(codec.decode(encoded.raw, annotation, annotated=True, where="it"), value)
    assert encoded.annotated


@pytest.mark.parametrize(
    ("value", "written"),
    [
        (BIG, b'{"$":"int","v":"9007199254740993"}'),
        (SAFE_INTEGER, b"9007199254740991"),
        (math.nan, b'{"$":"float","v":"nan"}'),
        (-math.inf, b'{"$":"float","v":"-inf"}'),
        ("a\ud800", b'{"$":"str","v":"61eda080"}'),
        (NOON, b'{"$":"datetime","v":"2026-01-01T12:00:00+00:00"}'),
        (uuid.UUID(int=1), b'{"$":"uuid","v":"00000000-0000-0000-0000-000000000001"}'),
        (Secret("KEY"), b'{"$":"secret","v":"KEY"}'),
        ({"$": 1, "a": [BIG]}, b'{"$":"dict","v":{"$":1,"a":[{"$":"int","v":"9007199254740993"}]}}'),
        (Point(1), b'{"x":1,"y":0}'),
        (Colour.RED, b'"red"'),
    ],
    ids=ascii,
)
def test_the_written_form_is_the_released_one(value, written):
    assert codec.encode(value, where="it").raw == written


@pytest.mark.parametrize(
    ("value", "annotation", "path", "type_"),
    [
        (Ellipsis, Any, "$", "ellipsis"),
        ({"a": [1, (2,)]}, Any, "$.a[1]", "tuple"),
        ([{1, 2}], Any, "$[0]", "set"),
        (b"raw", Any, "$", "bytes"),
        ({"when": NOON.date()}, Any, "$.when", "date"),
        (NOON.astimezone(zoneinfo.ZoneInfo("Europe/Oslo")), Any, "$", "datetime"),
        (decimal.Decimal(1), Any, "$", "Decimal"),
        (1j, Any, "$", "complex"),
        ({1: 2}, Any, "$.1", "int"),
        ({"a": {None: 2}}, Any, "$.a.None", "NoneType"),
        ({"\ud800": 1}, Any, "$.\ud800", "str"),
        (Point, Any, "$", "type"),
        (len, Any, "$", "builtin_function_or_method"),
        (Point({1}), Point, "$.x", "set"),
        (Point(1), Any, "$", "Point"),
        (Point(1), str, "$", "Point"),
        (Point(1), dict[str, int], "$", "Point"),
        ([Point(1)], list, "$[0]", "Point"),
        ([1, Point(1)], list[Any], "$[1]", "Point"),
        (Point("one"), Point, "$", "Point"),
        (Point3(1, 2, 3), Point, "$", "Point3"),
        (Point(True), Point, "$", "Point"),
        (Point(1), Point | Line, "$", "Point"),
        (Colour.RED, str, "$", "Colour"),
        (Level.LOW, int, "$", "Level"),
        (Word.YES, Any, "$", "Word"),
        (Growing([1]), Growing, "$.items", "list"),
        (Lossy(kept=1, lost=2), Lossy, "$.lost", "int"),
        (pydantic.SecretStr("hunter2"), pydantic.SecretStr, "$", "SecretStr"),
        (Credentials(password=pydantic.SecretStr("hunter2")), Credentials, "$.password._secret_value", "str"),
        (RuntimeError("as a value"), Any, "$", "RuntimeError"),
    ],
    ids=lambda each: ascii(each)[:40],
)
def test_what_can_not_come_back_is_refused_by_path_and_type(value, annotation, *, path, type_):
    with pytest.raises(NotStorableError) as caught:
        codec.record(value, annotation, where="the result of f")
    facts = caught.value.facts
    assert (facts["where"], facts["path"], facts["type"]) == ("the result of f", path, type_)
    assert caught.value.hint


def test_a_whole_number_in_a_float_field_comes_back_as_that_number():
    _, back = codec.record(Price(3), Price, where="it")
    assert back == Price(3.0)


def test_an_annotation_that_can_not_be_hashed_is_as_good_as_another():
    assert codec.convert(3, Annotated[int, []], where="it") == 3


def test_a_secret_is_not_in_the_refusal():
    with pytest.raises(NotStorableError) as caught:
        codec.record(Credentials(password=pydantic.SecretStr("hunter2")), Credentials, where="it")
    assert "hunter2" not in str(caught.value) + repr(caught.value.facts)


@pytest.mark.parametrize(
    ("value", "annotation"),
    [
        ({"x": 1, "y": 2}, Point),
        ([], Point),
        ("red", Colour),
        (1, Level),
        ({"kept": 1}, Lossy),
        (1, str),
        (None, Point),
    ],
    ids=repr,
)
def test_a_plain_value_stays_plain_whatever_the_annotation_says(value, annotation):
    encoded, back = codec.record(value, annotation, where="it")
    assert same(back, value)
    assert not encoded.annotated


def test_a_dictionary_keeps_the_order_of_its_keys():
    _, back = codec.record({"b": 1, "$": 2, "a": 3}, Any, where="it")
    assert list(back) == ["b", "$", "a"]


def test_the_value_that_is_given_back_is_not_the_value_that_was_given():
    value = {"list": [1]}
    _, back = codec.record(value, Any, where="it")
    back["list"].append(2)
    assert value == {"list": [1]}


def nested(depth: int) -> Any:
    value: Any = 1
    for _ in range(depth):
        value = [value]
    return value


def test_a_value_may_be_nested_up_to_the_limit():
    value = nested(DEPTH_MAX)
    assert codec.record(value, Any, where="it")[1] == value


@pytest.mark.parametrize("kind", [nested(DEPTH_MAX + 2), nested(5000)], ids=["just over", "far over"])
def test_a_value_nested_deeper_is_refused(kind):
    with pytest.raises(NotStorableError, match="nested deeper than 200, or contains itself"):
        codec.encode(kind, where="it")


def circle_of_lists() -> Any:
    value: list[Any] = []
    value.append(value)
    return value


def circle_of_dicts() -> Any:
    value: dict[str, Any] = {}
    value["self"] = value
    return value


def circle_of_dataclasses() -> Any:
    value = Point(1)
    value.x = value  # type: ignore[assignment] - the case under test
    return value


@pytest.mark.parametrize("make", [circle_of_lists, circle_of_dicts, circle_of_dataclasses])
def test_a_value_that_contains_itself_is_refused(make):
    with pytest.raises(NotStorableError, match="contains itself"):
        codec.encode(make(), where="it")


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ({"a": 1, "b": 2}, {"b": 2, "a": 1}),
        ({"$": 1, "b": 2}, {"b": 2, "$": 1}),
        ({"n": 1}, {"n": 1.0}),
        (Point(1, 2), {"y": 2, "x": 1}),
    ],
    ids=repr,
)
def test_the_same_input_in_another_spelling_has_the_same_digest(one, other):
    first, second = (codec.encode(each, where="it").raw for each in (one, other))
    assert codec.input_digest(first) == codec.input_digest(second)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (BIG, BIG + 1),
        (BIG, str(BIG)),
        (math.nan, "nan"),
        ({"$": "int", "v": "5"}, 5),
        (Secret("A"), Secret("B")),
        ([], {}),
    ],
    ids=repr,
)
def test_different_inputs_have_different_digests(one, other):
    first, second = (codec.encode(each, where="it").raw for each in (one, other))
    assert codec.input_digest(first) != codec.input_digest(second)


@pytest.mark.parametrize(
    ("raw", "annotation", "reason"),
    [
        (b'{"x":"one"}', Point, "Expected `int`, got `str`"),
        (b"{}", Point, "missing required field `x`"),
        (b'"green"', Colour, "Invalid enum value"),
        (b"null", Point, "got `null`"),
    ],
)
def test_a_record_that_no_longer_fits_the_type_is_named(raw, annotation, reason):
    with pytest.raises(NotReadableError, match=reason) as caught:
        codec.decode(raw, annotation, annotated=True, where="the result of f")
    assert caught.value.facts["where"] == "the result of f"


@pytest.mark.parametrize(
    "raw", [b'{"$":"os:system","v":"true"}', b'{"$":"int","v":"x"}', b'{"$":"int"}', b'{"$":"dict","v":1}', b'{"$":[]}']
)
def test_a_tag_that_is_not_ours_is_refused_and_nothing_is_imported(raw):
    with pytest.raises(NotReadableError, match="a tagged value"):
        codec.decode(raw, None, annotated=False, where="it")


def test_a_pydantic_secret_as_an_argument_is_neither_written_nor_compared():
    one, other = (codec.encode({"key": pydantic.SecretStr(text)}, where="it").raw for text in ("hunter2", "other"))
    assert one == other
    assert b"hunter2" not in one


def test_a_secret_shows_its_name_only():
    assert (repr(Secret("KEY")), Secret("KEY") == Secret("KEY"), hash(Secret("KEY")) == hash(Secret("KEY"))) == (
        "Secret('KEY')",
        True,
        True,
    )


@pytest.mark.parametrize(
    ("annotation", "words"),
    [(Any, "anything"), (int, "int"), (list[int], "list[int]"), (Point | None, "Point | None"), (Point, "Point")],
)
def test_a_type_is_named_in_words(annotation, words):
    assert words in codec.type_name(annotation)
