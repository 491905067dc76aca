"""Values come back exactly, or are refused by path and type when they are recorded (J6)."""

import dataclasses
import datetime
import decimal
import enum
import fractions
import functools
import ipaddress
import math
import pathlib
import uuid
import zoneinfo
from collections import Counter, OrderedDict, defaultdict, deque
from typing import Annotated, Any, Generic, Literal, NamedTuple, NewType, TypedDict, TypeVar
from unittest import mock

import msgspec
import pydantic
import pytest

from counterfoil.core import codec
from counterfoil.core.codec import Secret
from counterfoil.core.forms import DEPTH_MAX
from counterfoil.core.leaves import SAFE_INTEGER, SCALARS
from counterfoil.core.registry import register
from counterfoil.errors import NotStorableError, ResultTypeUnknownError

BIG = 2**53 + 1
NOON = datetime.datetime(2026, 1, 1, 12, tzinfo=datetime.UTC)
OSLO = zoneinfo.ZoneInfo("Europe/Oslo")
TWICE = datetime.datetime(2026, 10, 25, 2, 30, tzinfo=OSLO)  # an hour that comes twice
HOUR = datetime.timedelta(hours=1)
T = TypeVar("T")


class Colour(enum.Enum):
    RED = "red"
    BLUE = "blue"


class Odd(enum.Enum):
    PAIR = (1, 2)
    ANY = object()


class Level(enum.IntEnum):
    LOW = 1


class Word(enum.StrEnum):
    YES = "yes"


class Right(enum.Flag):
    READ = enum.auto()
    WRITE = enum.auto()


@dataclasses.dataclass
class Point:
    x: int
    y: int = 0


@dataclasses.dataclass(frozen=True)
class Line:
    ends: list[Point]
    colour: Colour | None = None
    names: dict[str, Point] = dataclasses.field(default_factory=dict)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Spot:
    at: tuple[int, ...]
    inner: "Spot | None" = None


@dataclasses.dataclass
class Price:
    euros: float


@dataclasses.dataclass
class Point3(Point):
    z: int = 0


@dataclasses.dataclass
class Growing:
    items: list[int]
    length: int = dataclasses.field(init=False)

    def __post_init__(self) -> None:
        self.items = [*self.items, 0]
        self.length = len(self.items)
        self.noted = "beside the fields"


@dataclasses.dataclass
class Box(Generic[T]):
    inner: T


class Pair(NamedTuple):
    left: int
    right: Point | None = None


class Options(TypedDict, total=False):
    at: Point
    depth: int


class Request(msgspec.Struct, frozen=True, rename="camel"):
    max_tokens: int
    place: Point | msgspec.UnsetType = msgspec.UNSET


class Model(pydantic.BaseModel):
    name: str = pydantic.Field(alias="full name")
    when: datetime.datetime
    tags: set[str] = set()
    model_config = pydantic.ConfigDict(populate_by_name=True)


class Full(pydantic.BaseModel):
    raw: bytes = b"\xff"
    price: decimal.Decimal = decimal.Decimal("1.50")
    where: pathlib.Path = pathlib.Path("/a")
    key: uuid.UUID = uuid.UUID(int=5)
    sizes: tuple[int, ...] = (1, 2)
    link: pydantic.HttpUrl = pydantic.HttpUrl("https://a.example/b")
    inner: "Full | None" = None
    spot: Spot | None = None
    lost: int = pydantic.Field(default=0, exclude=True)
    _kept: int = pydantic.PrivateAttr(default=3)
    model_config = pydantic.ConfigDict(extra="allow")

    @pydantic.computed_field  # type: ignore[prop-decorator]
    @property
    def double(self) -> decimal.Decimal:
        return self.price * 2


class Cat(pydantic.BaseModel):
    kind: Literal["cat"] = "cat"
    age: int = 1


class Dog(pydantic.BaseModel):
    kind: Literal["dog"] = "dog"
    age: int = 1


class Wrapped(pydantic.BaseModel, Generic[T]):
    inner: T


class Numbers(pydantic.RootModel[list[int]]):
    pass


@pydantic.dataclasses.dataclass
class Checked:
    when: datetime.datetime


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


class Tricky:
    """Not of a kind that is recorded."""


@dataclasses.dataclass
class Guarded:
    inner: int

    def __getattribute__(self, name: str) -> Any:
        if name == "inner":
            raise LookupError("not today")
        return super().__getattribute__(name)


class Credentials(pydantic.BaseModel):
    password: pydantic.SecretStr


class Words(str):
    __slots__ = ()


class Table(dict[str, int]):
    pass


class Somewhere(datetime.tzinfo):
    def utcoffset(self, when: datetime.datetime | None) -> datetime.timedelta:
        return HOUR


FULL = Full.model_validate(
    {"link": "https://b.example", "inner": {"raw": b"\x00"}, "spot": {"at": (1,)}, "more": {"a": [1]}}
)
FULL._kept = 7
READ = pydantic.TypeAdapter(datetime.datetime).validate_python("2026-01-01T12:00:00+02:00")

PLAIN_VALUES = [
    None, True, False, 0, -1, SAFE_INTEGER, -SAFE_INTEGER, 2**53, BIG, -BIG, 2**64, 10**400, 0.0, -0.0, 1.5, 1e300,
    5e-324, math.inf, -math.inf, "", "é", "\x00", "a\x00b", "\ud800", "x\udfff\x00é", "\U0001f600", '"\\/\n\u2028',
    [], {}, [[]], [None, {"a": [1, "b"]}], {"": 0}, {"$": 1}, {"$": "int", "v": "5"}, {"$": {"$": None}},
    [{"$": []}, {"v": 1}], {"$": "secret", "v": "NAME"}, {"b": 1, "a": 2, "$": 3}, {"a.b/c~d": {"\x00": 1}},
    Secret("API_KEY"), [Secret("K")], Secret("\ud800"),
    NOON, NOON.replace(tzinfo=None, microsecond=1), uuid.UUID(int=2**127),
    {"at": [NOON.astimezone(datetime.timezone(datetime.timedelta(minutes=-210)))]},
    TWICE, TWICE.replace(fold=1), NOON.replace(tzinfo=None, fold=1), READ,
    NOON.astimezone(datetime.timezone(HOUR, "named\ud800")), NOON.replace(year=1), NOON.replace(year=9999),
    datetime.time(1, tzinfo=datetime.timezone(datetime.timedelta(microseconds=-1))),
    datetime.time(1, 2), datetime.time(1, tzinfo=OSLO, fold=1), datetime.time(1, tzinfo=datetime.UTC),
    datetime.date(1, 1, 1), datetime.timedelta.min, datetime.timedelta.max, datetime.timedelta(microseconds=-1),
    b"", b"\xff\x00", bytearray(b"a"), (), (1, (2,)), [(1,)], set(), {1, "a", None, (2,)}, frozenset({b"a"}),
    {frozenset({1}): {2}}, 1j, complex(math.inf, -0.0), decimal.Decimal("1.50"), decimal.Decimal("-0E+5"),
    decimal.Decimal("Infinity"), fractions.Fraction(-1, 3), range(5), range(0, 2**70, 3),
    pathlib.Path("/a b/\udcff"), pathlib.PurePosixPath("."), pathlib.PureWindowsPath("c:\\a"),
    ipaddress.ip_address("fe80::1%eth0"), ipaddress.ip_network("10.0.0.0/8"), ipaddress.ip_interface("1.2.3.4/24"),
    {1: 2}, {1: "int", "1": "str"}, {None: {(1, 2): {1.5: 3}}}, {"\ud800": 1}, {"a": 1, "$": 2, "\udfff": 3},
    {NOON: 1, decimal.Decimal(1): 2, b"a": 3, Secret("K"): 4}, {"a": 1, 2: [{3: 4}]},
    Counter("abca"), OrderedDict(b=1, a=2), deque([1, [2]], 5), deque(),
]  # fmt: skip
TYPED_VALUES = [
    (Point(1, 2), Point),
    (Point(BIG, -1), Point),
    ([Point(1), Point(2)], list[Point]),
    ({"a": Point(1)}, dict[str, Point]),
    (Point(1), Point | None),
    (Point(1), Point | Line),
    (Point(True), Point),
    (Point("one"), Point),
    (Point({1}), Point),
    (Price(3), Price),
    (Line([Point(1)], Colour.RED, {"n": Point(3)}), Line),
    (Line([]), Line),
    (Spot(at=(1,), inner=Spot(at=())), Spot),
    (Growing([1]), Growing),
    (Box(Point(1)), Box[Point]),
    (Box[Point](Point(1)), Box[Point]),
    (Pair(1, Point(2)), Pair),
    ([Pair(1)], list[Pair]),
    ({"at": Point(1), "depth": 2}, Options),
    (Request(5), Request),
    (Request(5, Point(1)), Request),
    (Price(1.5), Price),
    (Colour.BLUE, Colour),
    ([Colour.RED, None], list[Colour | None]),
    (Colour.RED, Literal[Colour.RED]),
    ([Odd.PAIR, Odd.ANY], list[Odd]),
    (Level.LOW, Level),
    (Word.YES, Word),
    (Right.READ | Right.WRITE, Right),
    (Right(0), Right),
    ({Colour.RED: {Spot(at=()): Point(1)}}, dict[Colour, dict[Spot, Point]]),
    ((Point(1), {Level.LOW}), tuple[Point, set[Level]]),
    (Point(1), NewType("Place", Point)),
    (Point(1), Annotated[Point, "in words"]),
    (Point(1), TypeVar("P", bound=Point)),
    (Model(name="a", when=NOON, tags={"x"}), Model),
    ([Model(name="a", when=READ)], list[Model]),
    (Model(name="\x00", when=TWICE), Model | None),
    (FULL, Full),
    ([Cat(), Dog(age=2)], list[Annotated[Cat | Dog, pydantic.Field(discriminator="kind")]]),
    (Cat(), Cat | Dog),
    (Wrapped[int](inner=1), Wrapped[int]),
    (Wrapped[Point](inner=Point(1)), Wrapped[Point]),
    (Wrapped(inner=1), Wrapped[int]),
    (Numbers([1, 2]), Numbers),
    (Checked(when=TWICE), Checked),
    (Unsure(answer=2), Unsure),
]


def shown(value: Any) -> Any:
    """All that a value shows of itself (the order of a set is chance), and what models hide."""
    hidden = (
        [value.__pydantic_fields_set__, value.__pydantic_private__] if isinstance(value, pydantic.BaseModel) else []
    )
    return [sorted(repr(value)), *hidden]


def same(one: Any, other: Any) -> bool:
    """Equal, and told apart where == does not: 1 and True, 0.0 and -0.0."""
    return type(one) is type(other) and one == other and shown(one) == shown(other)


@pytest.mark.parametrize("value", PLAIN_VALUES, ids=range(len(PLAIN_VALUES)))
def test_a_value_comes_back_as_it_was_without_a_type(value):
    encoded, back = codec.record(value, Any, where="it")
    assert same(back, value)
    assert same(codec.decode(encoded.raw, None, annotated=False, where="it"), value)
    assert not encoded.annotated


@pytest.mark.parametrize("value", PLAIN_VALUES, ids=range(len(PLAIN_VALUES)))
def test_a_value_is_written_as_an_input_as_it_is_as_a_result(value):
    assert codec.encode(value, where="it").raw == codec.record(value, Any, where="it")[0].raw


@pytest.mark.parametrize("sign", [1, -1])
def test_an_integer_longer_than_python_spells_comes_back(sign):
    assert codec.record(sign * 10**5000, Any, where="it")[1] == sign * 10**5000


@pytest.mark.parametrize("text", ["NaN", "-NaN12", "sNaN"])
def test_a_decimal_that_is_no_number_comes_back(text):
    back = codec.record([decimal.Decimal(text)], Any, where="it")[1]
    assert repr(back[0]) == f"Decimal('{text}')"


def test_nan_comes_back_as_nan():
    _, back = codec.record([math.nan], Any, where="it")
    assert math.isnan(back[0])


def test_a_decimal_is_written_the_same_in_every_context():
    with decimal.localcontext(capitals=0):
        assert codec.encode(decimal.Decimal("1E+9"), where="it").raw == b'{"$":"decimal","v":"1E+9"}'


@pytest.mark.parametrize(("value", "annotation"), TYPED_VALUES, ids=range(len(TYPED_VALUES)))
def test_a_typed_value_comes_back_by_its_annotation(value, annotation):
    encoded, back = codec.record(value, annotation, where="it")
    assert same(back, value)
    assert same(codec.decode(encoded.raw, annotation, annotated=True, where="it"), value)
    assert encoded.annotated


def test_a_field_that_was_never_set_is_not_set_when_it_comes_back():
    back = codec.record(Half(1), Half, where="it")[1]
    assert vars(back) == {"given": 1}


@dataclasses.dataclass
class Registered:
    place: Point


@pytest.mark.parametrize("annotation", [Any, Registered, Point, object], ids=repr)
def test_a_registered_class_comes_back_whatever_the_annotation_says(annotation):
    register(Registered)
    encoded, back = codec.record([Registered(Point(1))], annotation, where="it")
    assert back == [Registered(Point(1))]
    assert codec.decode(encoded.raw, None, annotated=True, where="it") == back


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
        (Cat(), b'{"kind":"cat","age":1}'),
        (Pair(1, Point(2)), b'[1,{"x":2,"y":0}]'),
        (Wrapped(inner=NOON), b'{"inner":"2026-01-01T12:00:00Z"}'),
    ],
    ids=range(14),
)
def test_an_input_is_written_as_release_0_1_0_did(value, written):
    assert codec.encode(value, where="it").raw == written


@pytest.mark.parametrize(
    ("value", "written"),
    [
        ((1, {3, 2}), b'{"$":"tuple","v":[1,{"$":"set","v":[2,3]}]}'),
        ({1: b"a"}, b'{"$":"map","v":[[1,{"$":"bytes","v":"YQ=="}]]}'),
        (TWICE.replace(fold=1), b'{"$":"datetime","v":"2026-10-25T02:30:00","zone":"Europe/Oslo","fold":1}'),
        (READ, b'{"$":"datetime","v":"2026-01-01T12:00:00+02:00","by":"pydantic"}'),
        (datetime.timedelta(1, 2, 3), b'{"$":"timedelta","v":[1,2,3]}'),
        (pathlib.PurePosixPath("a"), b'{"$":"path","t":"PurePosixPath","v":"a"}'),
        (deque([1], 2), b'{"$":"deque","v":[1],"maxlen":2}'),
        (Point(1), b'{"$":"of","t":"test_codec:Point","v":{"x":1,"y":0}}'),
        (Pair(1), b'{"$":"of","t":"test_codec:Pair","v":{"left":1,"right":null}}'),
        (Cat(), b'{"$":"of","t":"test_codec:Cat","v":{"kind":"cat","age":1},"given":[]}'),
        (Half(1), b'{"$":"of","t":"test_codec:Half","v":{"given":1},"unset":["never_set"]}'),
        (Colour.RED, b'{"$":"enum","t":"test_codec:Colour","n":"RED","v":"red"}'),
        (Odd.PAIR, b'{"$":"enum","t":"test_codec:Odd","n":"PAIR"}'),
    ],
    ids=range(13),
)
def test_a_result_is_written_in_the_released_form(value, written):
    raw = codec.record(value, Point | Pair | Cat | Half | Colour | Odd, where="it")[0].raw
    assert raw.replace(__name__.encode(), b"test_codec") == written


REFUSED = [
    (Ellipsis, "$", "ellipsis", "only plain values"),
    ({"a": [1, (2, {"b": object()})]}, "$.a[1][1].b", "object", "only plain values"),
    ([{object()}], "$[0][0]", "object", "only plain values"),
    (Point, "$", "type", "only plain values"),
    (len, "$", "builtin_function_or_method", "only plain values"),
    (Tricky(), "$", "Tricky", "only plain values"),
    (RuntimeError("as a value"), "$", "RuntimeError", "only plain values"),
    (mock.MagicMock(), "$", "MagicMock", "only plain values"),
    (Loop(inner=[Tricky()]), "$.inner[0]", "Tricky", "only plain values"),
    ({(1, 2): {3: object()}}, "$[a tuple][3]", "object", "only plain values"),
    ({Tricky: 1}, "$[a type]", "type", "only plain values"),
    (Words("a"), "$", "Words", "a str of a class of its own"),
    (Table(a=1), "$", "Table", "a dict of a class of its own"),
    (defaultdict(int, a=1), "$", "defaultdict", "a dict of a class of its own"),
    (Point(Words("a")), "$.x", "Words", "a str of a class of its own"),
    (NOON.replace(tzinfo=Somewhere()), "$", "datetime", "its time zone is a .*Somewhere"),
    (Guarded(1), "$", "Guarded", "asked for its parts, it raised LookupError"),
    (pydantic.SecretStr("hunter2"), "$", "SecretStr", "never written"),
    (Credentials(password=pydantic.SecretStr("hunter2")), "$.password", "SecretStr", "never written"),
]


@pytest.mark.parametrize(("value", "path", "type_", "reason"), REFUSED, ids=range(len(REFUSED)))
def test_what_can_not_come_back_is_refused_by_path_and_type(value, path, *, type_, reason):
    with pytest.raises(NotStorableError, match=reason) as caught:
        codec.record(value, Any, where="the result of f")
    facts = caught.value.facts
    assert (facts["where"], facts["path"], facts["type"]) == ("the result of f", path, type_)
    assert caught.value.hint


UNDECLARED = [
    (Point(1), Any, "$", "Point"),
    (Point(1), str, "$", "Point"),
    (Point(1), dict[str, int], "$", "Point"),
    ([Point(1)], list, "$[0]", "Point"),
    ({"a": (1, Point(1))}, dict[str, Any], "$.a[1]", "Point"),
    (Point3(1, 2, 3), Point, "$", "Point3"),
    (Colour.RED, str, "$", "Colour"),
    (Level.LOW, int, "$", "Level"),
    (Word.YES, Any, "$", "Word"),
    (Cat(), Dog, "$", "Cat"),
    (Loop(inner=Cat()), Loop, "$.inner", "Cat"),
    (Pair(1), tuple[int, int], "$", "Pair"),
]


@pytest.mark.parametrize(("value", "annotation", "path", "type_"), UNDECLARED, ids=range(len(UNDECLARED)))
def test_a_class_that_nothing_declares_is_named_and_its_bytes_are_kept(value, annotation, *, path, type_):
    with pytest.raises(ResultTypeUnknownError) as caught:
        codec.record(value, annotation, where="the result of f")
    facts = caught.value.facts
    assert (facts["where"], facts["path"], facts["type"]) == ("the result of f", path, f"{__name__}:{type_}")
    assert "register" in caught.value.hint
    kept = caught.value.encoded
    assert (kept, value) == codec.record(value, Point | Point3 | Colour | Level | Word | Cat | Loop | Pair, where="it")


def test_a_name_in_the_code_that_no_text_can_hold_is_refused():
    odd = enum.Enum("odd", {"\ud800": 1})
    with pytest.raises(NotStorableError, match="lone surrogate"):
        codec.record(odd(1), odd, where="it")


def test_two_classes_of_one_name_in_a_value_are_refused():
    twins = [dataclasses.make_dataclass("Twin", ["a"]) for _ in range(2)]
    with pytest.raises(NotStorableError, match="two classes in it are named"):
        codec.record([each(1) for each in twins], Any, where="it")


def test_a_class_that_is_not_the_declared_one_of_its_name_is_unknown():
    ours, theirs = (dataclasses.make_dataclass("Twin", ["a"]) for _ in range(2))
    with pytest.raises(ResultTypeUnknownError):
        codec.record(ours(1), theirs, where="it")


def test_a_class_with_parts_that_nobody_sees_is_refused():
    @dataclasses.dataclass
    class Grown(list[int]):
        name: str

    with pytest.raises(NotStorableError, match="not safe"):
        codec.record(Grown("a"), Grown, where="it")


def test_a_class_that_does_not_keep_what_it_is_given_is_refused():
    @dataclasses.dataclass
    class Moody:
        mood: int

        def __setattr__(self, name: str, value: Any) -> None:
            super().__setattr__(name, value)

        def __getattribute__(self, name: str) -> Any:
            return len(seen) if name == "mood" and not seen.append(1) else super().__getattribute__(name)

    seen: list[int] = []
    with pytest.raises(NotStorableError, match="read back, it is not the same"):
        codec.record(Moody(1), Moody, where="it")


class Numbered(NamedTuple("Numbered", [("number", int)])):
    """A named tuple with attributes of its own."""


class Open(msgspec.Struct, dict=True):
    x: int


class Slotted(pydantic.BaseModel):
    __slots__ = ("beside",)
    x: int


def with_attribute(value: Any, name: str) -> Any:
    set_on = setattr if isinstance(value, msgspec.Struct) else object.__setattr__  # the others refuse it themselves
    set_on(value, name, [1])
    return value


@pytest.mark.parametrize("value", [Numbered(1), Open(1), Slotted(x=1), Point(1)], ids=range(4))
def test_an_attribute_beside_the_fields_comes_back(value):
    back = codec.record(with_attribute(value, "beside"), type(value), where="it")[1]
    assert (back, back.beside) == (value, [1])


@pytest.mark.parametrize("value", [Counter("a"), OrderedDict(a=1)], ids=range(2))
def test_a_collection_with_attributes_of_its_own_is_refused(value):
    with pytest.raises(NotStorableError, match="attributes of its own"):
        codec.record(with_attribute(value, "beside"), Any, where="it")


def test_what_looks_like_a_member_of_an_enumeration_and_is_none_is_refused():
    fake = object.__new__(Colour)
    fake._name_, fake._value_ = "RED", "red"
    with pytest.raises(NotStorableError, match="not a member"):
        codec.record(fake, Colour, where="it")


class Unhashable(type):
    def __hash__(cls) -> int:
        raise TypeError("not this class")


def test_an_instance_of_a_class_that_can_not_be_hashed_is_refused():
    value = Unhashable("Odd", (), {})()
    with pytest.raises(NotStorableError, match="not this class"):
        codec.record(value, Unhashable, where="it")


def test_a_dictionary_that_changes_while_it_is_read_is_refused(monkeypatch):
    table: dict[str, Any] = {"a": "é", "b": 2}
    monkeypatch.setitem(SCALARS, str, lambda text: table.pop("b", text))  # as a thread may do
    with pytest.raises(NotStorableError, match="changed size during iteration"):
        codec.encode([table], where="it")


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
        ({"kind": "cat"}, Cat),
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
    _, back = codec.record({"b": 1, "$": 2, "a": 3, 0: 4, "c": 5}, Any, where="it")
    assert list(back) == ["b", "$", "a", 0, "c"]


def test_the_value_that_is_given_back_is_not_the_value_that_was_given():
    value = {"list": [1], "point": Point(1)}
    _, back = codec.record(value, dict[str, Any] | Point, where="it")
    back["list"].append(2)
    back["point"].x = 9
    assert value == {"list": [1], "point": Point(1)}


def nested(depth: int) -> Any:
    value: Any = 1
    for _ in range(depth):
        value = [value]
    return value


@pytest.mark.parametrize("wrap", [list, tuple, deque, Box, lambda inner: {1: inner}], ids=range(5))
def test_a_value_may_be_nested_up_to_the_limit(wrap):
    value: Any = 1
    for _ in range(DEPTH_MAX // 2):
        value = wrap([value])
    assert codec.record(value, Box, where="it")[1] == value


@pytest.mark.parametrize("value", [nested(DEPTH_MAX + 2), nested(5000)], ids=["just over", "far over"])
def test_a_value_nested_deeper_is_refused(value):
    with pytest.raises(NotStorableError, match="nested deeper than 200"):
        codec.encode(value, where="it")


def circle_of_lists() -> Any:
    value: list[Any] = [1]
    value.append(value)
    return value


def circle_of_dicts() -> Any:
    value: dict[str, Any] = {"a": {"b": []}}
    value["a"]["b"].append(value)
    return value


def circle_of_dataclasses() -> Any:
    value = Point(1)
    value.x = {7: (value,)}  # type: ignore[assignment] - the case under test
    return [value]


def circle_of_models() -> Any:
    loop = Loop()
    loop.inner = loop
    return loop


def record_untyped(value: Any, *, where: str) -> Any:
    return codec.record(value, Any, where=where)


CIRCLES = [
    (circle_of_lists, "$[1]"),
    (circle_of_dicts, "$.a.b[0]"),
    (circle_of_dataclasses, "$[0].x[7][0]"),
    (circle_of_models, "$.inner"),
]


@pytest.mark.parametrize("write", [codec.encode, record_untyped], ids=["input", "result"])
@pytest.mark.parametrize(("make", "path"), CIRCLES, ids=range(4))
def test_a_value_that_contains_itself_is_refused_by_the_place(write, make, path):
    with pytest.raises(NotStorableError) as caught:
        write(make(), where="it")
    assert caught.value.facts["reason"] == f"it contains itself at {path}"


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ({"a": 1, "b": 2}, {"b": 2, "a": 1}),
        ({"$": 1, "b": 2}, {"b": 2, "$": 1}),
        ({"n": 1}, {"n": 1.0}),
        (Point(1, 2), {"y": 2, "x": 1}),
        ({1: 2, "a": {3: 4, 5: 6}}, {"a": {5: 6, 3: 4}, 1: 2}),
        ({"$": {1: 2, 3: 4}}, {"$": {3: 4, 1: 2}}),
        (Counter(a=1, b=2), Counter(b=2, a=1)),
        ({"a": {1: 2, 3: (4,)}}, {"a": {3: (4,), 1: 2}}),
        ({"a", "b", "c"}, {"c", "b", "a"}),
    ],
    ids=range(9),
)
def test_the_same_input_in_another_spelling_has_the_same_digest(one, other):
    first, second = (codec.encode(each, where="it") for each in (one, other))
    assert codec.input_digest(first.raw) == codec.input_digest(second.raw)
    assert codec.digest_of(first) == codec.digest_of(second) == codec.input_digest(first.raw)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (BIG, BIG + 1),
        (BIG, str(BIG)),
        (math.nan, "nan"),
        ({"$": "int", "v": "5"}, 5),
        (Secret("A"), Secret("B")),
        ([], {}),
        ([1], (1,)),
        ({1}, frozenset({1})),
        (b"a", "a"),
        ({1: 2}, {"1": 2}),
        (OrderedDict(a=1, b=2), OrderedDict(b=2, a=1)),
        (decimal.Decimal(1), decimal.Decimal("1.0")),
        (TWICE, TWICE.replace(fold=1)),
        ({"$": "map", "v": [[2, 1], [1, 2]]}, {"$": "map", "v": [[1, 2], [2, 1]]}),
    ],
    ids=range(14),
)
def test_different_inputs_have_different_digests(one, other):
    first, second = (codec.encode(each, where="it").raw for each in (one, other))
    assert codec.input_digest(first) != codec.input_digest(second)


def test_the_digest_of_what_was_read_back_is_worked_out_from_its_bytes():
    encoded = codec.record({"a": None}, Any, where="it")[0]
    assert codec.digest_of(encoded) == codec.input_digest(encoded.raw)


class Tagged(pydantic.BaseModel):
    names: set[str]


@pytest.mark.parametrize("inner", [{"b", "a", "c"}, frozenset("xyz")], ids=range(2))
def test_a_set_in_a_model_that_is_an_input_has_an_order_of_its_own(inner):
    raw = codec.encode(Tagged.model_construct(names=inner), where="it").raw
    assert codec.decode(raw, None, annotated=False, where="it") == {"names": inner}


def test_a_model_without_a_json_of_its_own_is_an_input_by_its_fields():
    assert codec.encode([Unsure(), Full()], where="it").raw.startswith(b'[{"answer":1},{"raw":{"$":"bytes"')


def test_a_model_that_neither_json_nor_its_fields_can_show_is_refused():
    with pytest.raises(NotStorableError) as caught:
        codec.encode({"it": Loop(inner=Tricky())}, where="it")
    assert caught.value.facts["path"] == "$.it.inner"


def test_an_enum_whose_value_can_not_be_written_is_an_input_by_its_name():
    assert b'"n":"ANY"' in codec.encode(Odd.ANY, where="it").raw


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


def test_an_input_nested_too_deep_to_be_compared_is_refused_by_name():
    value = functools.reduce(lambda inner, _: {1: inner}, range(190), 1)
    with pytest.raises(NotStorableError, match="nested too deep to be compared"):
        codec.digest_of(codec.encode(value, where="it"))
