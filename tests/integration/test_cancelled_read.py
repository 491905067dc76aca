"""A reader that goes away takes nothing with it: the store answers the next one."""

import asyncio
import threading

import pytest

import counterfoil
from counterfoil.errors import RunNotFoundError


@pytest.mark.anyio
async def test_a_cancelled_read_leaves_the_store_readable(tmp_path):
    async with counterfoil.open(f"sqlite:///{tmp_path}/a.db") as journal:
        gate = threading.Event()
        journal.store._reader.submit(lambda _: gate.wait(60))
        reading = asyncio.create_task(journal.events("none"))
        await asyncio.sleep(0)
        reading.cancel()
        await asyncio.wait({reading})
        gate.set()
        with pytest.raises(RunNotFoundError):
            await asyncio.wait_for(journal.events("none"), 60)
