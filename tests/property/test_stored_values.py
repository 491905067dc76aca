"""Any value of the supported types goes through a step and both stores, and is the same on replay (J6).

"The same" is stricter than `==`: types, signs of zero, exponents, folds, the order of keys, and what models hide.
"""

import asyncio
import dataclasses
import enum
import tempfile
from collections import Counter, OrderedDict, deque
from datetime import UTC, timedelta, timezone
from decimal import Decimal
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple
from zoneinfo import ZoneInfo

import msgspec
import pydantic
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import counterfoil
from counterfoil import Context, RunPausedError, Secret, register, step, workflow
from counterfoil.core import codec
from counterfoil.core.codec import digest_of, encode, input_digest
from counterfoil.stores.memory import MemoryStore
from counterfoil.stores.sqlite import SqliteStore


class Colour(enum.Enum):
    RED = "red"
    PAIR = (1, 2)


class Level(enum.IntEnum):
    LOW = 1


class Word(enum.StrEnum):
    YES = "yes"


class Right(enum.Flag):
    READ = enum.auto()
    WRITE = enum.auto()


@dataclasses.dataclass
class Node:
    left: Any
    right: Any = None
    noted: Any = dataclasses.field(init=False, default=None)


@dataclasses.dataclass(frozen=True, slots=True)
class Key:
    of: Any


class Pair(NamedTuple):
    one: Any
    other: Any


class Request(msgspec.Struct):
    body: Any
    extra: Any = msgspec.UNSET


class Model(pydantic.BaseModel):
    inner: Any
    rest: Any = 5
    _hidden: Any = None
    model_config = pydantic.ConfigDict(extra="allow")


@pydantic.dataclasses.dataclass
class Checked:
    inner: Any


CLASSES = (Colour, Level, Word, Right, Node, Key, Pair, Request, Model, Checked)
EVERYTHING = Colour | Level | Word | Right | Node | Key | Pair | Request | Model | Checked

FIXED = st.timedeltas(timedelta(hours=-23), timedelta(hours=23)).map(timezone)
NAMED = st.sampled_from(["Europe/Oslo", "America/New_York", "Australia/Lord_Howe", "UTC"]).map(ZoneInfo)
ZONES = st.none() | st.just(UTC) | FIXED | NAMED
TEXT = st.text(st.characters())  # lone surrogates included
DECIMALS = st.decimals() | st.sampled_from(["-0E+7", "1.50", "1E-999", "sNaN7"]).map(Decimal)
MEMBERS = st.sampled_from(
    [Colour.RED, Colour.PAIR, Level.LOW, Word.YES, Right.READ, Right.READ | Right.WRITE, Right(0)]
)
HASHABLE_LEAVES = st.one_of(
    st.none(), st.booleans(), st.integers(), st.integers(-(2**70), 2**70), st.floats(allow_nan=False), TEXT,
    st.binary(), st.decimals(allow_nan=False), st.fractions(), st.complex_numbers(allow_nan=False), st.dates(),
    st.times(timezones=ZONES), st.datetimes(timezones=ZONES), st.timedeltas(), st.uuids(), st.ip_addresses(),
    TEXT.map(PurePosixPath), MEMBERS, TEXT.map(Secret),
)  # fmt: skip
HASHABLE = st.recursive(
    HASHABLE_LEAVES,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3).map(tuple),
        st.frozensets(inner, max_size=3),
        inner.map(Key),
        st.builds(Pair, inner, inner),
    ),
    max_leaves=4,
)
LEAVES = st.one_of(HASHABLE, st.floats(), st.binary().map(bytearray), DECIMALS, st.complex_numbers(), st.sampled_from(
    [range(5), range(0, 2**80, 7)]
))  # fmt: skip


def noted(node: Node, note: Any) -> Node:
    node.noted = note
    node.beside = note  # type: ignore[attr-defined] - an attribute that is no field
    return node


def hidden(model: Model, inner: Any) -> Model:
    model._hidden = inner
    return model


def instances(inner: Any) -> Any:
    return st.one_of(
        st.builds(noted, st.builds(Node, inner, inner), inner),
        st.builds(Request, inner) | st.builds(Request, inner, inner),
        st.builds(hidden, st.builds(Model, inner=inner) | st.builds(Model, inner=inner, rest=inner, more=inner), inner),
        st.builds(Checked, inner),
        st.builds(Pair, inner, inner),
    )


def containers(inner: Any) -> Any:
    return st.one_of(
        st.lists(inner, max_size=3),
        st.lists(inner, max_size=3).map(tuple),
        st.lists(inner, max_size=3).map(lambda items: deque(items, 3)),
        st.dictionaries(TEXT | st.sampled_from(["$", "v", "t"]), inner, max_size=3),
        st.dictionaries(HASHABLE, inner, max_size=3),
        st.dictionaries(HASHABLE, inner, max_size=3).map(OrderedDict),
        st.sets(HASHABLE, max_size=3),
        st.lists(HASHABLE, max_size=3).map(Counter),
        instances(inner),
    )


VALUES = st.recursive(LEAVES, containers, max_leaves=8)


def in_order(value: Any) -> list[str]:
    return sorted(repr(shape(item)) for item in value)


def pairs(value: Any) -> list[Any]:
    return [[shape(key), shape(item)] for key, item in value.items()]


def of_model(value: Any) -> Any:
    return shape([vars(value), value.__pydantic_extra__, value._hidden, value.__pydantic_fields_set__])


def of_struct(value: Any) -> Any:
    return pairs({name: getattr(value, name) for name in value.__struct_fields__})


SHAPES: dict[type, Any] = {
    **dict.fromkeys((dict, OrderedDict, Counter), pairs),
    **dict.fromkeys((set, frozenset), in_order),
    **dict.fromkeys((list, tuple, Pair), lambda value: [shape(item) for item in value]),
    **dict.fromkeys((Node, Checked), lambda value: pairs(vars(value))),
    deque: lambda value: [value.maxlen, *map(shape, value)],
    Key: lambda value: shape(value.of),
    Model: of_model,
    Request: of_struct,
}


def shape(value: Any) -> Any:
    """Everything that makes a value what it is, as text and lists."""
    return [type(value).__name__, SHAPES.get(type(value), repr)(value)]


@given(VALUES)
def test_a_value_of_any_type_comes_back_by_the_annotation(value):
    encoded, back = codec.record(value, EVERYTHING, where="it")
    assert shape(back) == shape(value)
    assert shape(codec.decode(encoded.raw, EVERYTHING, annotated=encoded.annotated, where="it")) == shape(value)
    assert codec.record(back, EVERYTHING, where="it")[0].raw == encoded.raw


@given(VALUES)
def test_the_digest_of_an_input_is_the_same_after_it_came_back(value):
    encoded = encode(value, where="it")
    back = codec.record(value, EVERYTHING, where="it")[1]
    assert digest_of(encoded) == input_digest(encoded.raw) == digest_of(encode(back, where="it"))


VALUE: list[Any] = []  # what the step is to return; of the module, so that it is no input of the step
TRIES: list[int] = []


@step(returns=EVERYTHING)
async def gives_declared() -> Any:
    return VALUE[-1]


@step
def gives_registered() -> Any:
    return VALUE[-1]


@step
def stops_once() -> None:
    TRIES.append(1)
    if len(TRIES) == 1:
        raise ValueError("stop")


@workflow(name="test_stored_values")
async def gives_twice(ctx: Context, given: Any, seen: int) -> list[Any]:
    SEEN[seen].append([given, await ctx.step(gives_registered), await ctx.step(gives_declared)])
    await ctx.step(stops_once)
    return SEEN[seen][-1]


SEEN: list[list[Any]] = []


async def everything_that_came(make_store: Any) -> list[Any]:
    """The value as argument, result of steps and result of the run: live, on replay, and asked for later."""
    TRIES.clear()
    SEEN.append([])
    async with counterfoil.open(make_store()) as journal:
        with pytest.raises(RunPausedError):
            await journal.run(gives_twice, VALUE[-1], len(SEEN) - 1, id="r")
    async with counterfoil.open(make_store()) as journal:
        came = [*SEEN[-1][0], *await journal.resume("r")]
    async with counterfoil.open(make_store()) as journal:
        return [*came, *SEEN[-1][1], *await journal.run(gives_twice, VALUE[-1], len(SEEN) - 1, id="r")]


@settings(max_examples=settings.default.max_examples // 2, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(value=VALUES)
def test_a_value_of_any_type_is_unchanged_by_both_stores(value):
    for class_ in CLASSES:
        register(class_)
    VALUE.append(value)
    memory = MemoryStore()
    with tempfile.TemporaryDirectory() as folder:
        for make_store in (lambda: memory, lambda: SqliteStore(Path(folder) / "runs.db")):
            came = asyncio.run(everything_that_came(make_store))
            assert [shape(each) for each in came] == [shape(value)] * 12
