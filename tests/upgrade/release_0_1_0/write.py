"""Writes this folder's fixture with the code of release 0.1.0: `python tests/upgrade/release_0_1_0/write.py`.

Run once, at the release; never again. `runs.json` holds the stored records of runs in every state, base64 where they
are bytes; `states.json` what they folded to.
"""

import asyncio
import json
from base64 import b64encode
from pathlib import Path
from typing import Any

import msgspec

import counterfoil
from counterfoil import Context, Retry, RunFailedError, RunPausedError, RunStoppedError, Secret, workflow
from counterfoil.core import failure
from counterfoil.core.events import Record, read
from counterfoil.core.state import RunState, fold
from counterfoil.stores.memory import MemoryStore
from counterfoil.testing.clock import ManualSystem

HERE = Path(__file__).parent
failure.TRACEBACK_CHARACTERS_MAX = 1  # no folders of the computer that writes it


class Nowhere(ManualSystem):
    """No computer in particular."""

    process = 1  # type: ignore[assignment] - a property of the real one

    def __init__(self) -> None:
        super().__init__()
        self.host = "host"


class BusyError(Exception):
    """As a model's client raises it."""

    status_code = 429


TRIES: list[int] = []


async def ask(question: str, *, temperature: float = 0.5) -> dict[str, Any]:
    TRIES.append(1)
    if len(TRIES) == 1:
        raise BusyError("slow down")
    return {"text": question, "usage": {"$": 0.25, "tokens": 2**53 + 1}}


def tool(city: str, key: Secret) -> list[str | None]:
    return [city, "é\ud800", None]


async def missing() -> None:
    raise FileNotFoundError(2, "No such file or directory", "/nowhere")


async def refuses() -> None:
    raise ValueError("no", 3)


@workflow
async def full(ctx: Context, question: str, depth: int = 3) -> list[Any]:
    seen = [str(ctx.now()), ctx.random(), str(ctx.uuid())]
    answer = await ctx.with_options(retry=Retry(tries=3), worst_cost_usd=0.02).model(ask, question)
    await ctx.sleep(30)
    seen += await ctx.step(tool, "Oslo", Secret("API_KEY"))
    try:
        await ctx.step(missing)
    except FileNotFoundError as error:
        seen.append(str(error))
    await ctx.sleep_until(ctx.now())
    return [*seen, answer["text"]]


@workflow
async def pauses(ctx: Context) -> None:
    await ctx.step(tool, "Rome", Secret("API_KEY"))
    await ctx.step(refuses)


@workflow
async def fails(ctx: Context) -> None:
    await ctx.step(tool, "Rome", Secret("API_KEY"))
    raise LookupError("gave up")


@workflow
async def waits(ctx: Context) -> str:
    ctx.now()
    await ctx.sleep(3600)
    return "over"


@workflow
async def asks(ctx: Context) -> Any:
    return await ctx.with_options(worst_cost_usd=0.5).model(ask, "lost")


async def _write(store: MemoryStore) -> dict[str, list[Record]]:
    system = Nowhere()
    async with counterfoil.open(store, system=system) as journal:
        await journal.run(full, "why", id="completed", tags={"team": "a"})
        await _ended(journal.run(pauses, id="paused"), RunPausedError)
        await _ended(journal.run(pauses, id="resumed"), RunPausedError)
        await _ended(journal.resume("resumed", who="ada", why="mended"), RunPausedError)
        await _ended(journal.run(fails, id="failed"), RunFailedError)
        await journal.start(waits, id="pending")
        await journal.run(asks, id="asked")
        system.hold()
        waiting = asyncio.create_task(journal.run(waits, id="suspended"))
        await system.waiting(len(system.waits) + 1)
    await _ended(waiting, RunStoppedError)
    await store.open()
    runs = {id_: await store.read(id_) for id_ in ("completed", "paused", "resumed", "failed", "pending", "suspended")}
    return runs | {"lost": (await store.read("asked"))[:3], "unknown": await _unknown(store)}


async def _unknown(store: MemoryStore) -> list[Record]:
    """A run whose process died in a model call, taken up again."""
    again = MemoryStore()
    async with counterfoil.open(again, system=Nowhere()) as journal:
        await journal.run(asks, id="asked")
        lost = (await again.read("asked"))[:3]
    dead = MemoryStore()
    await dead.open()
    new = counterfoil.store.NewRun(run="asked", workflow="asks", tags={}, record=lost[0], now=0, owner="dead")
    await dead.start(new)
    status = fold("asked", [read(record, "asked") for record in lost]).status
    await dead.append(
        counterfoil.store.Append(run="asked", epoch=1, expected=0, records=lost[1:], now=0, status=status)
    )
    async with counterfoil.open(dead, system=Nowhere()) as journal:
        await journal.resume("asked")
        return await dead.read("asked")


async def _ended(work: Any, kind: type[Exception]) -> None:
    try:
        await work
    except kind:
        return
    raise AssertionError(kind)


def as_json(state: RunState) -> Any:
    """A state as plain JSON; a user's value as it is written."""
    return json.loads(msgspec.json.encode(state))


def main() -> None:
    runs = asyncio.run(_write(MemoryStore()))
    stored = {
        id_: [{k: b64encode(v).decode() if isinstance(v, bytes) else v for k, v in _fields(each)} for each in records]
        for id_, records in runs.items()
    }
    states = {id_: as_json(fold(_name(r), [read(each, id_) for each in r])) for id_, r in runs.items()}
    (HERE / "runs.json").write_text(json.dumps(stored, indent=1) + "\n")
    (HERE / "states.json").write_text(json.dumps(states, indent=1) + "\n")


def _name(records: list[Record]) -> str:
    return read(records[0], "?").envelope.run


def _fields(record: Record) -> list[tuple[str, Any]]:
    return [(name, getattr(record, name)) for name in record.__struct_fields__]


if __name__ == "__main__":
    main()
