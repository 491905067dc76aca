"""What the promises of a store are tested with: runs to start, appends that come next, and all that a store says.

Records are linked as real ones are, but a store must not look into them.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import msgspec
import pytest

from counterfoil.artifacts import digest_of, need_of
from counterfoil.core import events, integrity
from counterfoil.core.clock import SECOND, Instant
from counterfoil.core.events import Envelope, Record, Reference, Stub
from counterfoil.core.state import Status
from counterfoil.errors import CounterfoilError
from counterfoil.store import Append, Chunk, Head, Message, NewRun, Query, Store, Stream, Timer, Worker

NOW: Instant = 1_800_000_000 * SECOND
LATER = NOW + 5 * SECOND
FAR = NOW + 10**6 * SECOND
RUN, OTHER = "run", "other"
WORKER = Worker(id="worker", host="host", until=NOW + 30 * SECOND)
CONTENT = b'"' + b"x" * 20_000 + b'"'
STALE: dict[str, Any] = {
    "epoch": 9,
    "status": Status.FAILED,
    "release": True,
    "timer_set": Timer("9", NOW),
    "taken": ("m",),
}


def chunk(number: int, step: str = "0", try_number: int = 1, **changes: Any) -> Chunk:
    """A piece of a stream."""
    return Chunk(Stream(step, try_number), number, **{"text": f"piece {number}"} | changes)


def record(seq: int, previous: bytes = integrity.ZERO) -> Record:
    """A record that follows the one with this hash."""
    return integrity.seal(seq, f'{{"seq":{seq}}}'.encode(), b'"body"', salt=bytes(32), previous=previous)


def record_of(content: bytes, seq: int, previous: bytes = integrity.ZERO) -> Record:
    """A record whose body is this artifact."""
    envelope = Envelope(run=RUN, seq=seq, type="run_paused", reference=Reference(size_bytes=len(content)))
    stub = Stub(digest=digest_of(content), size_bytes=len(content))
    return integrity.seal(seq, events.encode(envelope), events.encode(stub), salt=bytes(32), previous=previous)


def large(head: Head, *contents: bytes, **changes: Any) -> Append:
    """The append that comes next at this head, an event for each of these artifacts."""
    records, previous = [], head.hash
    for seq, content in enumerate(contents, head.seq + 1):
        records.append(record_of(content, seq, previous))
        previous = records[-1].hash
    return after(head, records=records, **{"artifacts": {digest_of(each): each for each in contents}} | changes)


def new_run(run: str = RUN, **changes: Any) -> NewRun:
    """A run to start, owned by the worker."""
    given: dict[str, Any] = {"workflow": "greet", "tags": {}, "record": record(0), "now": NOW, "owner": WORKER.id}
    return NewRun(run=run, **given | changes)


def after(head: Head, count: int = 1, **changes: Any) -> Append:
    """The append that comes next at this head; `changes` replace its fields."""
    records, previous = [], head.hash
    for seq in range(head.seq + 1, head.seq + 1 + count):
        records.append(record(seq, previous))
        previous = records[-1].hash
    given: dict[str, Any] = {"run": head.run, "epoch": head.epoch, "expected": head.seq, "records": records}
    return Append(**given | {"now": LATER} | changes)


def moved(head: Head, append: Append, **changes: Any) -> Head:
    """The head that this append leaves behind."""
    return msgspec.structs.replace(head, seq=append.records[-1].seq, hash=append.records[-1].hash, **changes)


def message(id: str = "m", run: str = RUN, **changes: Any) -> Message:
    """A message for a run."""
    given: dict[str, Any] = {"kind": "note", "body": b"{}", "who": "someone", "time": NOW}
    return Message(id=id, run=run, **given | changes)


async def everything(store: Store) -> tuple[Any, ...]:
    """All that a store says of its runs."""
    heads = await store.heads(Query())
    runs = [
        (head, await store.read(head.run), await store.inbox(head.run), await store.chunks(head.run)) for head in heads
    ]
    needs = [need_of(each, run) for run, each in await store.references()]
    artifacts = [(need, await store.artifact(need.digest)) for need in needs if need]
    return runs, artifacts, await store.timers(due_until=FAR), await store.worker(WORKER.id)


async def tried(call: Awaitable[Any]) -> Any:
    """What the call gives: its result, or the error that it raises."""
    return (await asyncio.gather(call, return_exceptions=True))[0]


async def called(call: Callable[[], Awaitable[Any]]) -> Any:
    """The same, for a call that may raise before there is anything to wait for."""
    try:
        return await tried(call())
    except CounterfoilError as error:
        return error


class Given:
    """What every test is given: an open store, and a run in it that the worker owns at epoch 1."""

    @pytest.fixture
    def anyio_backend(self) -> str:
        return "asyncio"

    @pytest.fixture
    def make_store(self) -> Callable[[], Store]:
        raise NotImplementedError("say how a store is made, by a fixture of this name in the subclass")

    @pytest.fixture
    async def store(self, make_store: Callable[[], Store]) -> AsyncIterator[Store]:
        store = make_store()
        await store.open()
        yield store
        await store.close()

    @pytest.fixture
    async def head(self, store: Store) -> Head:
        await store.enlist(WORKER)
        head, _ = await store.start(new_run())
        return head
