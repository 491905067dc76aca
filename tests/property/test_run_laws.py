"""Any program with one branch: what is recorded is never obtained again, wherever its process died (J2, J5, J8)."""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import msgspec
from hypothesis import given
from hypothesis import strategies as st

import counterfoil
from counterfoil import Context, Retry, RunFailedError, RunPausedError, workflow
from counterfoil.core.events import Event, Record, RunStarted, StepIntended, read
from counterfoil.core.replay import Cursor, Execute, Operation, Wait
from counterfoil.core.state import RunState, fold
from counterfoil.engine import definitions
from counterfoil.store import Append, NewRun
from counterfoil.stores.memory import MemoryStore
from counterfoil.testing.clock import ManualSystem

CALLS: Counter[int] = Counter()


async def work(place: int) -> list[int]:
    CALLS[place] += 1
    return [place]


def work_plainly(place: int) -> int:
    CALLS[place] += 1
    return place


async def flaky(place: int) -> str:
    CALLS[place] += 1
    if CALLS[place] % 2:
        raise ConnectionError("once")
    return "up"


async def refuses(place: int) -> None:
    CALLS[place] += 1
    raise KeyError(place)


async def caught(ctx: Context, place: int) -> str:
    try:
        return str(await ctx.step(refuses, place))
    except KeyError as error:
        return str(error)


async def drawn(value: Any) -> str:
    return str(value)


PERFORM: dict[str, Callable[[Context, int], Awaitable[Any]]] = {
    "step": lambda ctx, place: ctx.step(work, place),
    "model": lambda ctx, place: ctx.model(work, place),
    "plain": lambda ctx, place: ctx.step(work_plainly, place),
    "flaky": lambda ctx, place: ctx.with_options(retry=Retry(tries=9)).step(flaky, place),
    "caught": caught,
    "sleep": lambda ctx, place: ctx.sleep(place),
    "now": lambda ctx, _: drawn(ctx.now()),
    "random": lambda ctx, _: drawn(ctx.random()),
    "uuid": lambda ctx, _: drawn(ctx.uuid()),
    "log": lambda ctx, _: drawn(ctx.log("here")),
}
PROGRAMS = st.lists(st.sampled_from(sorted(PERFORM)), max_size=8)


def program(operations: Sequence[str]) -> Any:
    definitions._workflows.pop("test_run_laws", None)

    @workflow(name="test_run_laws")
    async def written(ctx: Context) -> list[Any]:
        return [await PERFORM[operation](ctx, place) for place, operation in enumerate(operations)]

    return written


async def run(store: MemoryStore, declared: Any) -> tuple[Any, list[Record]]:
    async with counterfoil.open(store, system=ManualSystem()) as journal:
        try:
            result = await journal.run(declared, id="r")
        except (RunPausedError, RunFailedError) as error:
            result = str(error)
        return result, await store.read("r")


async def store_after(records: Sequence[Record]) -> MemoryStore:
    """The store of a process that died when just these were on disk."""
    store = MemoryStore()
    await store.open()
    body = read(records[0], "r").body
    assert isinstance(body, RunStarted)
    await store.start(NewRun(run="r", workflow=body.workflow, tags={}, record=records[0], now=0, owner="dead"))
    if len(records) > 1:
        status = fold("r", events_of(records)).status
        await store.append(Append(run="r", epoch=1, expected=0, records=records[1:], now=0, status=status))
    return store


def events_of(records: Sequence[Record]) -> list[Event]:
    return [read(record, "r") for record in records]


def intents(records: Sequence[Record]) -> Counter[str | None]:
    return Counter(event.step for event in events_of(records) if isinstance(event.body, StepIntended))


def outcomes(records: Sequence[Record]) -> set[str]:
    state = fold("r", events_of(records))
    return set(state.order)


@given(PROGRAMS)
def test_a_recorded_program_replays_without_a_single_call(operations):
    _, records = asyncio.run(run(MemoryStore(), program(operations)))
    state = fold("r", events_of(records))
    cursor = Cursor(state)
    steps = [
        Operation(key=s.key, kind=s.kind, name=s.name, input=bytes(s.input or b"null")) for s in state.steps.values()
    ]
    assert [d for d in map(cursor.ask, steps) if isinstance(d, Execute | Wait)] == []
    assert (cursor.finish(), cursor.is_replaying) == (None, False)


@given(PROGRAMS, st.data())
def test_a_crash_at_any_place_repeats_only_what_had_no_outcome(operations, data):
    declared = program(operations)
    CALLS.clear()
    whole, records = asyncio.run(run(MemoryStore(), declared))
    died_after = data.draw(st.integers(1, len(records) - 1))
    had = outcomes(records[:died_after])

    async def again() -> tuple[Any, list[Record]]:
        return await run(await store_after(records[:died_after]), declared)

    CALLS.clear()
    result, after = asyncio.run(again())
    repeated = set(intents(after[died_after:]))
    assert result == whole or {"now", "random", "uuid"} & set(operations)
    assert repeated & had == set()
    assert sum(CALLS.values()) == sum(intents(after[died_after:]).values())
    assert msgspec.json.encode(fold("r", events_of(after)).order) == msgspec.json.encode(
        fold("r", events_of(records)).order
    )


@given(PROGRAMS, st.data())
def test_a_fold_of_all_is_a_fold_of_the_rest_after_a_fold_of_the_beginning(operations, data):
    CALLS.clear()
    _, records = asyncio.run(run(MemoryStore(), program(operations)))
    events = events_of(records)
    cut = data.draw(st.integers(0, len(events)))
    state = RunState(run="r")
    for event in (*events[:cut], *events[cut:]):
        state.apply(event)
    first = fold("r", events[:cut])
    for event in events[cut:]:
        first.apply(event)
    assert first == state == fold("r", events)


@given(PROGRAMS)
def test_the_same_program_leaves_the_same_record_twice(operations):
    declared = program(operations)
    CALLS.clear()
    one = asyncio.run(run(MemoryStore(), declared))
    CALLS.clear()
    other = asyncio.run(run(MemoryStore(), declared))
    assert one[0] == other[0]
    assert [record.envelope for record in one[1]] == [record.envelope for record in other[1]]
