"""Which thread a commit is made in: the event loop's for a lone small one on a quick disk, else the writer's."""

import asyncio
import contextlib
import threading

import apsw
import pytest

from counterfoil.core import integrity
from counterfoil.stores import sqlite
from counterfoil.stores.sqlite import SqliteStore
from counterfoil.testing.conformance import OTHER, after, new_run, record

pytestmark = pytest.mark.anyio
BIG = b'"' + b"x" * sqlite.SMALL_BYTES + b'"'


@pytest.fixture
def anyio_backend():
    return "asyncio"


@pytest.fixture(autouse=True)
def quick_disk(monkeypatch):
    monkeypatch.setattr(sqlite, "QUICK_SECONDS", 60)


@pytest.fixture
def committed_in():
    """The thread of each commit, in order."""
    threads = []

    def note():
        threads.append(threading.get_ident())
        return False  # do not roll back

    def hook(db):
        db.set_commit_hook(note)

    apsw.connection_hooks.append(hook)
    yield threads
    apsw.connection_hooks.remove(hook)


@pytest.fixture
async def store(tmp_path, committed_in):
    store = SqliteStore(tmp_path / "runs.db")
    await store.open()
    for number in range(sqlite.QUICK_COMMITS_MIN):
        await store.start(new_run(f"warm-up {number}"))
    committed_in.clear()
    yield store
    await store.close()


async def test_a_lone_commit_on_a_quick_disk_is_made_on_the_event_loop(store, committed_in):
    head, _ = await store.start(new_run())
    await store.append(after(head))
    assert committed_in == [threading.get_ident()] * 2


async def test_commits_that_come_together_are_made_in_the_thread_as_one(store, committed_in):
    await asyncio.gather(store.start(new_run()), store.start(new_run(OTHER)))
    assert len(committed_in) == 1
    assert committed_in != [threading.get_ident()]


async def test_a_large_body_is_written_in_the_thread(store, committed_in):
    head, _ = await store.start(new_run())
    big = integrity.seal(1, record(1).envelope, BIG, salt=bytes(32), previous=head.hash)
    await store.append(after(head, records=[big]))
    assert [thread == threading.get_ident() for thread in committed_in] == [True, False]


async def test_a_slow_commit_sends_the_next_ones_to_the_thread(store, committed_in, monkeypatch):
    monkeypatch.setattr(sqlite, "QUICK_SECONDS", 0)
    await store.start(new_run())
    await store.start(new_run(OTHER))
    assert [thread == threading.get_ident() for thread in committed_in] == [True, False]


async def test_the_event_loop_never_waits_for_another_process_that_is_writing(store, committed_in):
    with contextlib.closing(apsw.Connection(str(store.path))) as other:
        other.execute("BEGIN IMMEDIATE")
        started = asyncio.ensure_future(store.start(new_run()))
        done, _ = await asyncio.wait({started}, timeout=0.05)
        other.execute("ROLLBACK")
    assert (done, (await started)[1]) == (set(), True)
    assert committed_in != [threading.get_ident()]


async def test_a_long_log_is_moved_into_the_file_by_the_thread(store, monkeypatch):
    monkeypatch.setattr(sqlite, "CHECKPOINT_PAGES", 1)
    before = store.path.stat().st_size
    head, _ = await store.start(new_run())
    await store.append(after(head, 200))
    await asyncio.wrap_future(store._writer.submit(lambda _: None))  # the thread has done what came before
    assert store.path.stat().st_size > before
