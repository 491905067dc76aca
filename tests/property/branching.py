"""Programs with several branches, and a world whose answers come back in any order that a seed draws.

A program is data: nested parts that an interpreter carries out with asyncio alone. Every step's input is made of all
that the run has seen so far, so that the slightest change of order is another input, and the record would show it.
"""

import asyncio
import random
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any, ClassVar

import anyio
import msgspec
from hypothesis import strategies as st

import counterfoil
from counterfoil import Context, RunFailedError, RunPausedError, workflow
from counterfoil.core.events import Event, Record, RunStarted, read
from counterfoil.core.state import fold
from counterfoil.engine import definitions
from counterfoil.store import Append, NewRun
from counterfoil.stores.memory import MemoryStore
from counterfoil.testing.clock import ManualSystem

TURNS_OF_REST = 12
IDLE_ROUNDS = 200


class World:
    """Outside calls that end in an order drawn by the seed, one or several at once, when nothing else goes on."""

    def __init__(self, seed: int) -> None:
        self.calls: Counter[str] = Counter()
        self._random = random.Random(seed)
        self._open: list[asyncio.Future[None]] = []
        self._begun = 0

    async def call(self, key: str) -> None:
        """A call arrives, and is answered some time later."""
        self.calls[key] += 1
        await self.pause()

    async def pause(self) -> None:
        """Something takes its time: a call, a cleanup, a read."""
        self._begun += 1
        gate: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._open.append(gate)
        await gate

    async def answer(self) -> None:
        """Answer, for as long as anybody asks; return when nobody has asked for long, so the run must be stuck."""
        idle = 0
        while idle < IDLE_ROUNDS:
            before = self._begun
            for _ in range(TURNS_OF_REST):
                await asyncio.sleep(0)
            if before == self._begun:
                self._open = [gate for gate in self._open if not gate.done()]
                some = self._random.sample(self._open, min(len(self._open), self._random.choice([1, 1, 1, 2, 3])))
                for gate in some:
                    gate.set_result(None)
                idle = 0 if some else idle + 1


class Memory:
    """What the branches of one run share."""

    def __init__(self, ctx: Context, world: World) -> None:
        self.ctx, self.world = ctx, world
        self.seen: list[str] = []

    def add(self, what: object) -> None:
        """Remember it."""
        self.seen.append(str(what))


class RefusalError(ValueError):
    """What a step fails with."""


Part = tuple[Any, ...]
"""A name and what belongs to it."""


async def play(memory: Memory, parts: Sequence[Part]) -> None:
    """Carry a program out."""
    for name, *rest in parts:
        await PLAY[name](memory, *rest)


async def _step(memory: Memory, fails: bool, lingers: bool = False) -> None:
    call, pause = memory.world.call, memory.world.pause

    async def work(seen: list[str]) -> str:
        try:
            await call(counterfoil.this_step().key)
        except asyncio.CancelledError:
            if lingers:
                await pause()
            raise
        if fails:
            raise RefusalError(len(seen))
        return f"r{len(seen)}"

    try:
        memory.add(await memory.ctx.with_options(name="work", returns=str).step(work, memory.seen))
    except asyncio.CancelledError:
        memory.add("cut")
        raise


async def _caught(memory: Memory) -> None:
    try:
        await _step(memory, fails=True)
    except RefusalError as error:
        memory.add(error)


async def _read(memory: Memory) -> None:
    memory.add("read")
    memory.ctx.random()


async def _turn(memory: Memory) -> None:
    await asyncio.sleep(0)
    memory.add("turn")


async def _sleep(memory: Memory) -> None:
    await memory.ctx.sleep(len(memory.seen))
    memory.add("slept")


async def _kept(memory: Memory) -> None:
    kept = await memory.ctx.artifact(str(len(memory.seen)).encode())
    memory.add((await memory.ctx.read(kept)).decode())


async def _gather(memory: Memory, programs: Sequence[Sequence[Part]]) -> None:
    done = await asyncio.gather(*(play(memory, each) for each in programs), return_exceptions=True)
    memory.add([type(each).__name__ for each in done])


async def _nested(memory: Memory, programs: Sequence[Sequence[Part]]) -> None:
    inner = [asyncio.gather(asyncio.gather(play(memory, each))) for each in programs]
    await asyncio.gather(*inner, return_exceptions=True)
    memory.add("nested")


async def _group(memory: Memory, programs: Sequence[Sequence[Part]]) -> None:
    try:
        async with asyncio.TaskGroup() as group:
            for each in programs:
                group.create_task(play(memory, each))
    except* RefusalError as errors:
        memory.add(len(errors.exceptions))


async def _own(memory: Memory, child: Sequence[Part], own: Sequence[Part]) -> None:
    try:
        async with asyncio.TaskGroup() as group:
            group.create_task(play(memory, child))
            await play(memory, own)
    except* RefusalError as errors:
        memory.add(len(errors.exceptions))


async def _scope(memory: Memory, programs: Sequence[Sequence[Part]], own: Sequence[Part]) -> None:
    try:
        async with anyio.create_task_group() as group:
            for each in programs:
                group.start_soon(play, memory, each)
            await play(memory, own)
            group.cancel_scope.cancel()
    except* RefusalError as errors:
        memory.add(len(errors.exceptions))


async def _locked(memory: Memory, program: Sequence[Part]) -> None:
    await _guarded(memory, program, asyncio.Lock())


async def _paired(memory: Memory, program: Sequence[Part]) -> None:
    await _guarded(memory, program, asyncio.Semaphore(2))


async def _guarded(memory: Memory, program: Sequence[Part], guard: Any) -> None:
    async def one(number: int) -> None:
        async with guard:
            memory.add(number)
            await play(memory, program)

    await asyncio.gather(one(1), one(2), one(3), return_exceptions=True)


async def _queue(memory: Memory, items: int) -> None:
    queue: asyncio.Queue[int] = asyncio.Queue()

    async def worker() -> None:
        while not queue.empty():
            memory.add(queue.get_nowait())
            await _step(memory, fails=False)

    for item in range(items):
        queue.put_nowait(item)
    await asyncio.gather(worker(), worker())


async def _cancel(memory: Memory, one: Sequence[Part], other: Sequence[Part]) -> None:
    task = asyncio.create_task(play(memory, one))
    try:
        await play(memory, other)
    finally:
        task.cancel()
        (ended,) = await asyncio.gather(task, return_exceptions=True)
        memory.add(type(ended).__name__)


PLAY: dict[str, Any] = {
    "step": lambda memory: _step(memory, fails=False),
    "fail": lambda memory: _step(memory, fails=True),
    "caught": _caught,
    "linger": lambda memory: _step(memory, fails=False, lingers=True),
    "kept": _kept,
    "own": _own,
    "scope": _scope,
    "read": _read,
    "turn": _turn,
    "sleep": _sleep,
    "gather": _gather,
    "nested": _nested,
    "group": _group,
    "locked": _locked,
    "paired": _paired,
    "queue": _queue,
    "cancel": _cancel,
}
LEAF_NAMES = ["step", "step", "step", "linger", "fail", "caught", "read", "turn", "sleep", "kept"]
LEAVES = st.sampled_from(LEAF_NAMES).map(lambda name: (name,))


def _nodes(parts: st.SearchStrategy[Part]) -> st.SearchStrategy[Part]:
    program = st.lists(parts, max_size=3)
    programs = st.lists(program, min_size=1, max_size=3)
    several = st.tuples(st.sampled_from(["gather", "nested", "group"]), programs)
    guarded = st.tuples(st.sampled_from(["locked", "paired"]), program)
    pair = st.tuples(st.sampled_from(["cancel", "own"]), program, program)
    return several | guarded | pair | st.tuples(st.just("scope"), programs, program) | st.just(("queue", 4))


PROGRAMS = st.lists(LEAVES | st.recursive(LEAVES, _nodes, max_leaves=8), min_size=1, max_size=3)


def declare(parts: Sequence[Part], world: World) -> Any:
    """A workflow that plays the program, and gives all that it has seen."""
    definitions._workflows.pop("branching", None)

    @workflow(name="branching")
    async def branching(ctx: Context) -> list[str]:
        memory = Memory(ctx, world)
        try:
            await play(memory, parts)
        except RefusalError as error:
            memory.add(f"left by {error}")
        return memory.seen

    return branching


class Outcome(msgspec.Struct, frozen=True):
    """How a run ended, what was called, and what is recorded."""

    result: Any
    calls: Counter[str]
    records: list[Record]

    def had(self, count: int) -> set[str]:
        """The steps with an outcome among the first events."""
        return set(fold("r", events_of(self.records[:count])).order)


def run(parts: Sequence[Part], *, seed: int, records: Sequence[Record] = ()) -> Outcome:
    """Run a program, or take it up after a process that left just these records."""
    return drive(lambda world: declare(parts, world), seed=seed, records=records)


def drive(make: Callable[[World], Any], *, seed: int, records: Sequence[Record] = ()) -> Outcome:
    """Run a workflow that is made for a world, or take it up after a process that left just these records."""

    async def main() -> Outcome:
        world = World(seed)
        answering = asyncio.create_task(world.answer())
        store = await _store_of(records, world)
        async with counterfoil.open(store, system=ManualSystem()) as journal:
            running = asyncio.create_task(journal.run(make(world), id="r"))
            await asyncio.wait({running, answering}, return_when=asyncio.FIRST_COMPLETED)
            assert not answering.done(), "the run is stuck"
            answering.cancel()
            (result,) = await asyncio.gather(running, return_exceptions=True)
            known = isinstance(result, RunPausedError | RunFailedError)
            return Outcome(str(result) if known else result, world.calls, await store.read("r"))

    return asyncio.run(main())


class SlowReads(MemoryStore):
    """A store that takes its time to read what lies beside the journal, and has all that any of its kind kept."""

    kept: ClassVar[dict[str, bytes]] = {}

    def __init__(self, world: World) -> None:
        super().__init__()
        self._world, self._artifacts = world, self.kept

    async def artifact(self, digest: str) -> bytes | None:
        await self._world.pause()
        return await super().artifact(digest)


async def _store_of(records: Sequence[Record], world: World) -> MemoryStore:
    store = SlowReads(world)
    if records:
        await store.open()
        body = read(records[0], "r").body
        assert isinstance(body, RunStarted)
        await store.start(NewRun(run="r", workflow=body.workflow, tags={}, record=records[0], now=0, owner="dead"))
    if len(records) > 1:
        status = fold("r", events_of(records)).status
        await store.append(Append(run="r", epoch=1, expected=0, records=records[1:], now=0, status=status))
    return store


def events_of(records: Sequence[Record]) -> list[Event]:
    """The events in the records."""
    return [read(record, "r") for record in records]
