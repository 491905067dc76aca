"""What a person is told of branches that were cancelled and of functions that ran on."""

import asyncio
import threading

import pytest

from counterfoil import Context, Retry, workflow
from counterfoil.cli.describe import Teller
from counterfoil.engine.queries import timeline

pytestmark = pytest.mark.anyio

FREE = threading.Event()


async def boom() -> None:
    raise ValueError("no")


async def long() -> None:
    await asyncio.Event().wait()


def slow() -> None:
    assert FREE.wait(30)


@workflow
async def eventful(ctx: Context) -> None:
    try:
        async with asyncio.TaskGroup() as group:
            group.create_task(ctx.step(long))
            group.create_task(ctx.sleep(50))
            group.create_task(ctx.step(boom))
    except* ValueError:
        pass
    try:
        await ctx.with_options(timeout=0.02, retry=Retry(tries=1)).step(slow)
    except TimeoutError:
        FREE.set()


@pytest.fixture
async def events(desk):
    FREE.clear()
    desk.system.hold()
    async with desk.open() as journal:
        await journal.run(eventful, id="r")
        return await journal.events("r")


async def test_the_timeline_tells_of_cancelled_steps_and_of_overruns(events):
    told = [(entry.step, entry.what, entry.notes) for entry in timeline(events)]
    assert told == [
        (None, "started", ()),
        ("0/0", "intended", ()),
        ("1/0", "timer set", ()),
        ("2/0", "intended", ()),
        ("2/0", "failed", ("ValueError: no",)),
        ("0/0", "cancelled", ()),
        ("1/0", "cancelled", ()),
        ("0", "intended", ("try 1 timed out, still running",)),
        ("0", "failed", ("TimeoutError: slow took longer than 0.02 seconds",)),
        (None, "completed", ()),
    ]


async def test_whoever_watches_is_told_the_same_in_words(events):
    teller = Teller()
    lines = [line for line in map(teller.line, events) if line]
    assert lines[1:] == [
        "step 2/0  tool boom  failed: ValueError: no",
        "step 0/0  tool long  cancelled",
        "step 1/0  cancelled",
        "step 0  tool slow  try 1 timed out, still running",
        "step 0  tool slow  failed: TimeoutError: slow took longer than 0.02 seconds",
    ]
