"""A desk to run workflows at: a store of each kind, a clock set by hand, and functions that count their calls."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.integration.outside import OUTSIDE

import counterfoil
from counterfoil import Journal
from counterfoil.core.events import Event, Record, RunStarted, encode, read
from counterfoil.core.state import fold
from counterfoil.engine import bridge
from counterfoil.errors import CounterfoilError
from counterfoil.store import Append, NewRun, Store
from counterfoil.stores.memory import MemoryStore
from counterfoil.stores.sqlite import SqliteStore
from counterfoil.testing.clock import ManualSystem

NOT_COMPARED = {"duration", "traceback", "worker", "host", "process", "release", "version"}
"""Diagnostics that differ between two runs of the same work."""


class Desk:
    """Opens journals over one store, as process after process would."""

    def __init__(self, make_store: Callable[[], Store]) -> None:
        self.make_store = make_store
        self.system = ManualSystem()

    def open(self, **options: Any) -> Journal:
        return counterfoil.open(self.make_store(), system=self.system, **options)


class Calls(Counter[str]):
    """Makes functions that count their calls under their names."""

    def function(self, name: str, *outcomes: Any) -> Callable[..., Awaitable[Any]]:
        """An async function that gives these outcomes in turn, the last one for ever; an exception is raised."""

        def call(args: tuple[Any, ...]) -> Any:
            self[name] += 1
            outcome = outcomes[min(self[name], len(outcomes)) - 1] if outcomes else args
            if isinstance(outcome, BaseException):
                raise outcome
            return list(outcome) if isinstance(outcome, tuple) else outcome

        async def made(*args: Any) -> Any:
            return call(args)  # all that it takes from around it is code, and so no input

        made.__name__ = made.__qualname__ = name
        return made


class Gate:
    """A step that begins and waits to be let through."""

    def __init__(self) -> None:
        self.begun, self.free = asyncio.Event(), asyncio.Event()
        self.count = 0

    async def pass_through(self) -> str:
        self.count += 1
        self.begun.set()
        await self.free.wait()
        return "through"


@pytest.fixture
def gate() -> Gate:
    return Gate()


def facts(events: Sequence[Event]) -> list[Any]:
    """What was recorded, apart from times, hashes and the process."""
    return [
        (
            msgspec.json.decode(encode(msgspec.structs.replace(event.envelope, run="", time=0))),
            {k: v for k, v in msgspec.json.decode(encode(event.body)).items() if k not in NOT_COMPARED},
        )
        for event in events
    ]


def types(events: Sequence[Event]) -> list[str]:
    return [event.type for event in events]


async def crashed_after(records: Sequence[Record], count: int) -> MemoryStore:
    """A store as it is when the process died after `count` events."""
    store = MemoryStore()
    await store.open()
    started = read(records[0], "r")
    body = started.body
    assert isinstance(body, RunStarted)
    state = fold(started.envelope.run, [read(record, started.envelope.run) for record in records[:count]])
    new = NewRun(run=state.run, workflow=body.workflow, tags={}, record=records[0], now=0, owner="dead")
    await store.start(new)
    if count > 1:
        await store.append(
            Append(run=state.run, epoch=1, expected=0, records=records[1:count], now=0, status=state.status)
        )
    return store


async def after_every_crash(workflow: Any, store: MemoryStore, *, is_held: bool = False) -> list[Any]:
    """What run "r" of this store ends with after a crash at each of its events; an error as its text."""
    records, ends = await store.read("r"), []
    for count in range(1, len(records)):
        left = await crashed_after(records, count)
        left._artifacts = store._artifacts
        OUTSIDE.forget()
        OUTSIDE.open()
        system = ManualSystem()
        if is_held:
            system.hold()
        async with counterfoil.open(left, system=system) as journal:
            (end,) = await asyncio.gather(journal.run(workflow, id="r"), return_exceptions=True)
        ends.append(str(end) if isinstance(end, CounterfoilError) else end)
    return ends


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(params=["memory", "sqlite"])
def desk(request: pytest.FixtureRequest, tmp_path: Path) -> Desk:
    memory = MemoryStore()
    return Desk((lambda: memory) if request.param == "memory" else (lambda: SqliteStore(tmp_path / "runs.db")))


@pytest.fixture
def memory_desk() -> Desk:
    """For what does not hang on the store."""
    memory = MemoryStore()
    return Desk(lambda: memory)


@pytest.fixture
async def journal(desk: Desk) -> AsyncIterator[Journal]:
    async with desk.open() as journal:
        yield journal


@pytest.fixture
def calls() -> Calls:
    return Calls()


@pytest.fixture
def recorded() -> Callable[[Sequence[Event]], list[Any]]:
    return facts


@pytest.fixture
def types_of() -> Callable[[Sequence[Event]], list[str]]:
    return types


@pytest.fixture
def crashes() -> Callable[..., Awaitable[list[Any]]]:
    return after_every_crash


@pytest.fixture(autouse=True)
def own_bridge(monkeypatch: pytest.MonkeyPatch) -> None:
    """That a test wraps a plain client changes how its own branches are driven, and no other test's."""
    monkeypatch.setattr(bridge._bridges, "is_wanted", False)


@pytest.fixture(autouse=True)
def own_outside() -> None:
    """What a test calls is counted anew."""
    OUTSIDE.forget()


@pytest.fixture
def crashed() -> Callable[[Sequence[Record], int], Awaitable[MemoryStore]]:
    return crashed_after
