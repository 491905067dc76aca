"""A process that dies inside a transaction leaves all of it or nothing: at each change, at the commit, right after it.

What must be there is what the memory store holds after the same operation.
"""

import asyncio
import runpy
from pathlib import Path

import pytest

from counterfoil.stores.memory import MemoryStore
from counterfoil.stores.sqlite import SqliteStore
from counterfoil.testing.conformance import everything
from counterfoil.testing.forks import ForkServer

FILE = Path(__file__).with_name("transactions.py")
OPERATIONS = runpy.run_path(str(FILE))
CHANGES = {"start": 2, "take": 1, "intend": 2, "wait": 8, "keep": 3, "end": 4, "send": 1, "batch": 4,
           "provide": 2, "hold": 4}  # fmt: skip


@pytest.fixture(scope="module")
def server():
    with ForkServer(FILE) as server:
        yield server


@pytest.fixture
def path(server, tmp_path):
    path = tmp_path / "runs.db"
    server.run("prepare", str(path)).result()
    return path


def held(store, *operations):
    """All that a store holds after these operations."""

    async def read():
        await store.open()
        for operation in operations:
            await OPERATIONS[operation](store)
        found = await everything(store)
        await store.close()
        return found

    return asyncio.run(read())


@pytest.mark.parametrize("operation", CHANGES)
def test_a_death_at_any_change_leaves_nothing(server, path, operation):
    places = [["change", number] for number in range(1, CHANGES[operation] + 2)]
    ends = [server.run("perform", str(path), operation, place) for place in places[:-1]]
    assert all(ended.is_killed for ended in ends)
    assert held(SqliteStore(path)) == held(MemoryStore(), "given")
    server.run("perform", str(path), operation, places[-1]).result()  # there is no such change, so it lives
    assert held(SqliteStore(path)) == held(MemoryStore(), "given", operation)


@pytest.mark.parametrize("operation", CHANGES)
def test_a_death_at_the_commit_leaves_nothing(server, path, operation):
    assert server.run("perform", str(path), operation, ["commit", 1]).is_killed
    assert held(SqliteStore(path)) == held(MemoryStore(), "given")


@pytest.mark.parametrize("operation", CHANGES)
def test_a_death_after_the_commit_leaves_all(server, path, operation):
    assert server.run("perform", str(path), operation, ["COMMIT done", 1]).is_killed
    assert held(SqliteStore(path)) == held(MemoryStore(), "given", operation)
