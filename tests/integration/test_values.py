"""What the code gets live is the decoded record, and so is what it gets on every replay (J6, J8)."""

import asyncio
import dataclasses
import enum
import math
from collections import Counter, OrderedDict, deque
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any, NamedTuple
from uuid import UUID
from zoneinfo import ZoneInfo

import msgspec
import pydantic
import pytest

from counterfoil import Context, CounterfoilError, RunPausedError, bind, register, step, workflow
from counterfoil.testing.clock import START

pytestmark = pytest.mark.anyio


class Colour(enum.Enum):
    RED = "red"


@dataclasses.dataclass
class City:
    name: str
    size: int | None = None


class Weather(pydantic.BaseModel):
    city: str
    at: datetime
    model_config = pydantic.ConfigDict(frozen=True)


@dataclasses.dataclass(frozen=True, slots=True)
class Spot:
    at: tuple[int, ...]


class Pair(NamedTuple):
    one: Any
    other: Any


class Request(msgspec.Struct):
    tokens: int


@pydantic.dataclasses.dataclass
class Checked:
    at: datetime


class Loose(pydantic.BaseModel):
    at: datetime
    price: Decimal
    raw: bytes
    model_config = pydantic.ConfigDict(extra="allow")


NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
OSLO = ZoneInfo("Europe/Oslo")
VALUES = [
    (None, Any), ("", str), (0, int), (False, bool), ([], list), ({}, dict), ("é\ud800\x00", str), (2**53 + 1, int),
    (-(10**30), int), (math.inf, float), (-0.0, float), (1e300, float), ({"$": {"$": [1]}}, dict), ([[{}]], list),
    (City("Oslo", 7), City), ([City("Oslo")], list[City]), ({"a": City("b")}, dict[str, City]), (None, City | None),
    (City("Oslo"), City | None), (Colour.RED, Colour), ([Colour.RED], list[Colour]),
    (Weather(city="Oslo", at=NOON), Weather), ([Weather(city="Oslo", at=NOON)], list[Weather]),
    ({"name": "Oslo"}, City), ("red", Colour),
    ({"city": 1}, Weather),
]  # fmt: skip


def twice(source, calls, seen):
    """A workflow that asks `source` and is replayed once."""
    fails = calls.function("fails", ValueError("stop"), "end")

    @workflow
    async def gets(ctx: Context) -> str:
        seen.append(await source(ctx))
        return await ctx.step(fails)

    return gets


async def live_and_replayed(desk, source, calls) -> list[Any]:
    seen: list[Any] = []
    gets = twice(source, calls, seen)
    async with desk.open() as journal:
        with pytest.raises(RunPausedError):
            await journal.run(gets, id="r")
    async with desk.open() as journal:
        await journal.resume("r")
    return seen


def alike(one: object, other: object) -> bool:
    return type(one) is type(other) and repr(one) == repr(other)


@pytest.mark.parametrize(("value", "annotation"), VALUES, ids=ascii)
@pytest.mark.parametrize("how", ["annotation", "returns"])
async def test_a_value_is_the_same_live_and_on_replay(memory_desk, calls, value, *, annotation, how):
    async def gives():
        return value

    gives.__annotations__["return"] = annotation if how == "annotation" else Any
    declared = step(gives) if how == "annotation" else step(returns=annotation)(gives)
    live, replayed = await live_and_replayed(memory_desk, lambda ctx: ctx.step(declared), calls)
    assert alike(live, replayed)
    assert live == value


async def test_the_code_gets_the_decoded_record_and_not_the_object_itself(memory_desk, calls):
    kept: dict[str, list[int]] = {"a": [1]}

    async def gives() -> dict[str, list[int]]:
        return kept

    live, _ = await live_and_replayed(memory_desk, lambda ctx: ctx.step(gives), calls)
    live["a"].append(2)
    assert kept == {"a": [1]}


async def test_what_the_body_does_to_a_result_does_not_reach_the_record(memory_desk, calls):
    async def gives() -> list[int]:
        return [1]

    async def source(ctx: Context) -> list[int]:
        first = await ctx.step(gives)
        first.append(99)
        return await ctx.step(gives)

    assert await live_and_replayed(memory_desk, source, calls) == [[1], [1]]


@pytest.mark.parametrize("mended", ["returns", "registered"])
async def test_a_result_of_a_type_that_nothing_declares_is_kept_until_something_does(desk, calls, mended, types_of):
    once = calls.function("once", City("Oslo"))
    declared: list[type] = [Weather]
    seen: list[Any] = []
    gets = twice(lambda ctx: ctx.with_options(returns=declared[0]).step(once), calls, seen)
    async with desk.open() as journal:
        with pytest.raises(RunPausedError) as caught:
            await journal.run(gets, id="r")
        assert (caught.value.__cause__.code, caught.value.reason) == ("result_type_unknown", "result_type_unknown")
        assert types_of(await journal.events("r"))[-2:] == ["step_succeeded", "run_paused"]
        with pytest.raises(RunPausedError, match="not_readable"):
            await journal.resume("r")
        MEND[mended](declared)
        with pytest.raises(RunPausedError, match="step_failed"):
            await journal.resume("r")
        assert await journal.resume("r") == "end"
    assert (seen, calls["once"]) == ([City("Oslo")] * 2, 1)


MEND = {"returns": lambda declared: declared.append(declared.pop() and City), "registered": lambda _: register(City)}


def everything() -> dict[str, Any]:
    """One of each kind, in one another."""
    return {
        "times": (NOON, NOON.replace(tzinfo=None), NOON.astimezone(OSLO), NOON.date(), timedelta(-1), NOON.time()),
        "numbers": [Decimal("1.50"), Fraction(1, 3), 1j, 2**70, -0.0, math.inf],
        "bytes": {b"\xff": bytearray(b"\x00")},
        "sets": [{1, "a", None}, frozenset({(1, 2)})],
        "keys": {1: "int", "1": "str", None: {(1, 2): Colour.RED}, Spot((1,)): 2},
        "rest": deque([UUID(int=1), Path("/a"), OrderedDict(b=1, a=2), Counter("aab")], 5),
        "text\ud800": "a\x00b",
        "own": [City("Oslo"), Pair(City("Rome"), 2), Request(1), Checked(NOON), Weather(city="Bonn", at=NOON)],
        "more": Loose.model_validate(
            {"at": "2026-01-01T00:00:00Z", "price": "1.10", "raw": b"\xff", "new": {"a": [1]}}
        ),
    }


EVERYTHING = Colour | City | Spot | Pair | Request | Checked | Weather | Loose


@pytest.mark.parametrize("returns", [EVERYTHING, dict[str, Loose | EVERYTHING]], ids=range(2))
async def test_one_of_each_kind_is_the_same_live_and_on_replay(desk, calls, returns):
    gives = step(returns=returns)(everything)
    live, replayed = await live_and_replayed(desk, lambda ctx: ctx.step(gives), calls)
    assert live == replayed == everything()
    assert sorted(repr(live)) == sorted(repr(replayed)) == sorted(repr(everything()))  # the order of a set is chance


async def test_a_registered_class_needs_no_annotation(desk, calls):
    register(City)
    live, replayed = await live_and_replayed(desk, lambda ctx: ctx.step(asked, City("Oslo")), calls)
    assert live == replayed == [City("Oslo")]


async def asked(city: Any) -> Any:
    return [city]


async def test_a_run_whose_result_no_annotation_declares_goes_on_once_it_is_registered(desk, calls):
    once = calls.function("once", 7)

    @workflow
    async def undeclared(ctx: Context) -> Any:
        return City("Oslo", await ctx.step(once))

    async with desk.open() as journal:
        with pytest.raises(RunPausedError, match="result_type_unknown"):
            await journal.run(undeclared, id="r")
        register(City)
        assert await journal.resume("r") == City("Oslo", 7)
    assert calls["once"] == 1


# --- classes that have changed since ---


def version(*fields: Any) -> type:
    """The class `Order` as one version of the code has it."""
    made = dataclasses.make_dataclass("Order", fields)
    made.__module__ = __name__
    return made


@pytest.mark.parametrize(
    ("now", "place"),
    [
        (version(("id", int), ("added", str)), "$.deep[0].added"),
        (version(("gone", int)), "$.deep[0].id"),
        (version(), "$.deep[0].id"),
        (enum.Enum("Order", {"ID": 1}, module=__name__), "$.deep[0]"),
    ],
    ids=["added", "renamed", "removed", "another kind"],
)
async def test_a_class_that_changed_pauses_the_run_and_names_the_place(memory_desk, calls, now, place):
    first = version(("id", int))
    types = [first]

    def gives() -> Any:
        return {"deep": [types[0](1)]}

    gets = twice(lambda ctx: ctx.with_options(returns=types[0]).step(hides(gives)), calls, [])
    async with memory_desk.open() as journal:
        with pytest.raises(RunPausedError, match="step_failed"):
            await journal.run(gets, id="r")
        types[0] = now
        with pytest.raises(RunPausedError, match="not_readable") as caught:
            await journal.resume("r")
        assert caught.value.__cause__.facts["path"] == place
        types[0] = version(("id", int), ("added", str, "default"))
        assert await journal.resume("r") == "end"


def hides(function: Any) -> Any:
    """The same step, which takes only code from around it."""

    def gives() -> Any:
        return function()

    return gives


# --- text that other stores have broken on ---

TEXTS = [
    "\x00",
    "a\x00b",
    "\ud83d",
    "\ude00",
    "x\udfff\ud800",
    "\U0001f600",
    "\u202eabc\u2066",
    "\u2028\r\n\t",
    "e\u0301",
]


async def echo(text: str, *, also: dict[str, str]) -> list[Any]:
    return [text, also, {text: text}]


async def fails_with(text: str) -> None:
    raise LookupError(text, text)


async def test_ten_megabytes_are_the_same_as_argument_and_result(desk, calls):
    text = "long\U0001f600" * 1_250_000
    live, replayed = await live_and_replayed(desk, lambda ctx: ctx.step(echo_of, text), calls)
    assert live == replayed == text


async def echo_of(text: str) -> str:
    return text


@pytest.mark.parametrize("text", TEXTS, ids=range(len(TEXTS)))
async def test_any_text_is_the_same_as_argument_result_and_error(desk, calls, text):
    async def source(ctx: Context) -> Any:
        try:
            await ctx.step(fails_with, text)
        except LookupError as error:
            return [error.args, await ctx.step(bind(echo, text, also={text: text}))]

    live, replayed = await live_and_replayed(desk, source, calls)
    assert live == replayed == [(text, text), [text, {text: text}, {text: text}]]


@pytest.mark.parametrize("text", TEXTS, ids=range(len(TEXTS)))
async def test_a_name_is_kept_as_it_is_or_refused_on_entry(journal, calls, text):
    once = calls.function("once", 1)

    @workflow
    async def named(ctx: Context) -> int:
        return await ctx.with_options(name=f"step {text}").step(once)

    async def kept(**names: Any) -> bool:
        try:
            await journal.run(named, **names)
        except CounterfoilError as error:
            return (error.reason if isinstance(error, RunPausedError) else error.code) not in REFUSALS
        return True

    found = [await kept(id=f"run {text}"), await kept(tags={"tag": text}), await kept(tags={text: "tag"})]
    assert found == [text.isprintable()] * 3
    assert [f"run {text}" in {run.id for run in await journal.list()}] == [text.isprintable()]


REFUSALS = {"id_invalid", "input_invalid", "declaration_invalid"}


async def test_a_record_that_no_longer_fits_the_type_pauses_until_it_does(desk, calls):
    @dataclasses.dataclass
    class Renamed:
        title: str

    async def gives() -> City:
        return City("Oslo")

    gets = twice(lambda ctx: ctx.with_options(returns=types[0]).step(gives), calls, [])
    types: list[type] = [City]
    async with desk.open() as journal:
        with pytest.raises(RunPausedError, match="step_failed"):
            await journal.run(gets, id="r")
        types[0] = Renamed
        with pytest.raises(RunPausedError, match="not_readable"):
            await journal.resume("r")
        types[0] = City
        assert await journal.resume("r") == "end"


async def test_a_workflow_result_is_built_as_its_annotation_says(desk):
    @workflow
    async def typed(ctx: Context) -> list[City]:
        return [City("Oslo", 7)]

    async with desk.open() as journal:
        live = await journal.run(typed, id="r")
    async with desk.open() as journal:
        later = [
            await journal.run(typed, id="r"),
            await journal.resume("r"),
            await (await journal.get("r", typed)).result(),
        ]
    assert [live, *later] == [[City("Oslo", 7)]] * 4


# --- reads ---


async def reads(ctx: Context) -> list[object]:
    return [ctx.now(), ctx.random(), ctx.uuid(), ctx.now()]


async def test_reads_are_the_same_live_and_on_replay_whatever_the_clock_says(desk, calls):
    async def source(ctx: Context) -> list[object]:
        found = await reads(ctx)
        desk.system.advance(1000)
        return found

    live, replayed = await live_and_replayed(desk, source, calls)
    began = datetime(2026, 1, 1, tzinfo=UTC)
    assert live == replayed == [began, 0.0, UUID(int=0, version=4), began]


async def test_a_replay_draws_nothing_reads_no_clock_and_calls_no_function(memory_desk, calls):
    once = calls.function("once", 1)

    def reading(count: int):
        fails = calls.function(f"fails{count}", ValueError("stop"), "end")

        @workflow(name=f"reads{count}")
        async def many(ctx: Context) -> str:
            for _ in range(count):
                await reads(ctx)
                await ctx.sleep(5)
                await ctx.step(once)
            return await ctx.step(fails)

        return many

    asked = []
    for count in (1, 40):
        async with memory_desk.open() as journal:
            with pytest.raises(RunPausedError):
                await journal.run(reading(count), id=str(count))
        before = memory_desk.system.calls.copy()
        async with memory_desk.open() as journal:
            await journal.resume(str(count))
        asked.append(memory_desk.system.calls - before)
    assert asked[0] == asked[1]
    assert (asked[1]["random"], asked[1]["uuid"], calls["once"]) == (0, 0, 41)


async def test_reads_are_on_disk_before_the_next_function_starts(desk):
    seen: list[list[str]] = []

    async def look() -> None:
        seen.append([event.type for event in await journal.events("r")])

    def look_plainly() -> None:
        look_again.append(1)

    look_again: list[int] = []

    @workflow
    async def draws(ctx: Context) -> None:
        ctx.now()
        await ctx.step(look)
        ctx.random()
        await ctx.sleep(1)
        await ctx.step(look)
        ctx.uuid()
        await ctx.model(look)
        await ctx.step(look_plainly)

    async with desk.open() as journal:
        await journal.run(draws, id="r")
    assert [types.count("read_recorded") for types in seen] == [1, 2, 3]


# --- waits ---


@pytest.mark.parametrize("duration", [0, 3, 0.5, timedelta(hours=30), -1, timedelta(0)], ids=str)
async def test_a_wait_is_as_long_as_asked(desk, journal, duration):
    @workflow
    async def waits(ctx: Context) -> None:
        await ctx.sleep(duration)

    await journal.run(waits, id="r")
    seconds = duration.total_seconds() if isinstance(duration, timedelta) else duration
    assert desk.system.now() == START + max(0, int(seconds * 1_000_000))


async def test_a_wait_until_a_moment_ends_then(desk, journal):
    @workflow
    async def waits(ctx: Context) -> list[str]:
        await ctx.sleep_until(NOON)
        await ctx.sleep_until(NOON - timedelta(days=9))
        return [ctx.now().isoformat()]

    assert await journal.run(waits) == ["2026-01-01T12:00:00+00:00"]


async def test_a_wait_until_a_moment_without_a_zone_is_an_error_of_the_body(journal, types_of):
    @workflow
    async def waits(ctx: Context) -> str:
        try:
            await ctx.sleep_until(datetime(2026, 1, 1))  # noqa: DTZ001 - the case under test
        except ValueError as error:
            return str(error)
        return "waited"

    assert "ambiguous" in await journal.run(waits, id="r")
    assert types_of(await journal.events("r"))[2:] == ["run_completed"]


@pytest.mark.parametrize("duration", [math.nan, math.inf, -math.inf, 1e300], ids=repr)
async def test_a_wait_that_no_clock_can_count_is_refused_and_takes_no_place(journal, types_of, duration):
    @workflow
    async def waits(ctx: Context) -> str:
        try:
            await ctx.sleep(duration)
        except (ValueError, OverflowError):
            await ctx.sleep(1)
            return "refused"
        return "waited"

    assert await journal.run(waits, id="r") == "refused"
    assert [event.step for event in await journal.events("r")][2:] == ["0", "0", None]


async def test_the_recorded_due_time_rules(desk, calls):
    @workflow
    async def waits(ctx: Context) -> str:
        await ctx.sleep(1000)
        return "over"

    desk.system.hold()
    async with desk.open() as journal:
        running = asyncio.create_task(journal.run(waits, id="r"))
        await desk.system.waiting(1)
    await asyncio.gather(running, return_exceptions=True)
    desk.system.advance(400)
    async with desk.open() as journal:
        running = asyncio.create_task(journal.run(waits, id="r"))
        await desk.system.waiting(2)
        assert desk.system.waits == [START + 1_000_000_000] * 2
        desk.system.advance(600)
        assert await running == "over"


async def test_a_wait_that_came_due_while_no_process_was_there_is_over_at_once(desk):
    @workflow
    async def waits(ctx: Context) -> str:
        await ctx.sleep(1000)
        return "over"

    desk.system.hold()
    async with desk.open() as journal:
        running = asyncio.create_task(journal.run(waits, id="r"))
        await desk.system.waiting(1)
    await asyncio.gather(running, return_exceptions=True)
    desk.system.advance(5000)
    async with desk.open() as journal:
        assert await journal.run(waits, id="r") == "over"
    assert len(desk.system.waits) == 1


async def test_an_annotation_that_cannot_be_resolved_costs_the_others_nothing(memory_desk):
    async def visit(client: "OnlyForTypeCheckers") -> City:  # noqa: F821 - as under TYPE_CHECKING
        return City("Oslo")

    @workflow
    async def visited(ctx: Context) -> City:
        return await ctx.with_options(opaque=("client",)).step(visit, None)

    async with memory_desk.open() as journal:
        assert await journal.run(visited) == City("Oslo")


async def test_an_input_that_no_longer_fits_the_signature_pauses_until_it_does(memory_desk):
    def declared(source: str) -> Any:
        names = {"Context": Context, "workflow": workflow, "__name__": __name__}
        exec(f"@workflow\nasync def visit(ctx: Context, {source}) -> str:\n    return {source[0]}", names)
        return names["visit"]

    async with memory_desk.open() as journal:
        await journal.start(declared("a: str"), "Oslo", id="r")
        with pytest.raises(RunPausedError, match="not_readable"):
            await journal.resume("r", declared("b: str"))
        assert await journal.resume("r", declared("a: str, b: int = 2")) == "Oslo"
