"""No event is ever there without its artifact, wherever the process that wrote it died (J1).

At each file operation of a large append, in the middle of a write, at any moment of many appends; and with two
processes that write the same contents at once.
"""

import asyncio
from pathlib import Path

import pytest

from counterfoil.artifacts import digest_of, need_of
from counterfoil.store import Query
from counterfoil.stores.sqlite import SqliteStore
from counterfoil.testing.conformance import CONTENT, RUN
from counterfoil.testing.forks import ForkServer

FOLDER = ["mkdir", "fsync"]
WRITE = ["mkstemp", "flock", "fchmod", "write", "fsync", "replace"]
OPERATIONS = [*FOLDER * 4, *WRITE, "fsync"]
POINTS = [(when, number) for number in range(1, len(OPERATIONS) + 1) for when in ("before", "in")]
DIGEST = digest_of(CONTENT)


@pytest.fixture(scope="module")
def server():
    with ForkServer(Path(__file__).with_name("artifact_writes.py")) as server:
        yield server


@pytest.fixture
def path(server, tmp_path):
    server.run("prepare", str(tmp_path / "runs.db")).result()
    return tmp_path / "runs.db"


def name(point) -> str:
    when, number = point
    return f"{when}_{number}_{OPERATIONS[number - 1]}"


def asked(path, question):
    """What the store answers, opened by another process."""

    async def ask():
        store = SqliteStore(path)
        await store.open()
        answer = await question(store)
        await store.close()
        return answer

    return asyncio.run(ask())


async def named(store):
    """Digest and content of every artifact that an event names."""
    needs = [need_of(record, run) for run, record in await store.references()]
    return [(need.digest, await store.artifact(need.digest)) for need in needs]


async def unnamed(store):
    """What lies among the artifacts and belongs to no event."""
    return await store.strays({digest for digest, _ in await named(store)})


def test_a_first_artifact_takes_these_file_operations(server, path):
    assert server.run("keep", str(path), "never", 0).result() == OPERATIONS


def test_a_content_that_is_there_is_only_synced_again(server, path):
    server.run("keep", str(path), "never", 0).result()
    assert server.run("keep", str(path), "never", 0).result() == [*FOLDER * 4, "fsync", "fsync"]


@pytest.mark.parametrize("point", POINTS, ids=name)
def test_a_death_at_a_file_operation_leaves_no_event(server, path, point):
    assert server.run("keep", str(path), *point).is_killed
    assert asked(path, named) == []
    assert len(asked(path, lambda store: store.read(RUN))) == 1


@pytest.mark.parametrize("point", POINTS, ids=name)
def test_after_such_a_death_the_same_append_is_whole(server, path, point):
    assert server.run("keep", str(path), *point).is_killed
    server.run("keep", str(path), "never", 0).result()
    assert asked(path, named) == [(DIGEST, CONTENT)]
    assert asked(path, unnamed) == []


@pytest.mark.parametrize("point", POINTS[::5], ids=name)
def test_a_second_death_changes_no_rule(server, path, point):
    assert server.run("keep", str(path), "in", 12).is_killed
    assert server.run("keep", str(path), *point).is_killed
    assert asked(path, named) == []
    server.run("keep", str(path), "never", 0).result()
    assert asked(path, named) == [(DIGEST, CONTENT)]


@pytest.mark.parametrize("milliseconds", [30, 45, 60, 80, 100, 150])
def test_a_death_at_any_moment_leaves_no_event_without_its_artifact(server, path, milliseconds):
    assert server.run("keep_for_ever", str(path), kill_after=milliseconds / 1000).is_killed
    kept = asked(path, named)
    assert [digest for digest, content in kept if content is None or digest_of(content) != digest] == []
    events = asked(path, events_after_the_first)
    assert len(kept) == events


async def events_after_the_first(store):
    return sum(head.seq for head in await store.heads(Query(limit=99)))


def test_two_processes_that_write_the_same_contents_keep_each_once(server, path):
    contents = [f"content {number} " for number in range(20)]
    processes = [server.start("keep_many", str(path), run, contents) for run in ("a", "b")]
    assert [server.wait(process).raised for process in processes] == [None, None]
    kept = asked(path, named)
    assert [content for _, content in kept] == [each.encode() * 10_000 for each in contents] * 2
    assert asked(path, unnamed) == []
