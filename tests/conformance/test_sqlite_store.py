"""What the SQLite store promises beyond the port: its file lasts, guards itself (J1), and is never misread."""

import asyncio
import contextlib
import sqlite3
import stat

import apsw
import pytest

from counterfoil.artifacts import digest_of
from counterfoil.errors import JournalDamagedError, NotAStoreError, StoreNewerError, StoreUnavailableError
from counterfoil.store import Query, Timer
from counterfoil.stores import migrate
from counterfoil.stores.sqlite import SqliteStore
from counterfoil.testing.conformance import (
    CONTENT,
    OTHER,
    RUN,
    after,
    everything,
    large,
    message,
    moved,
    new_run,
    tried,
)

pytestmark = pytest.mark.anyio
KNOWN = len(migrate.scripts("sqlite"))


@pytest.fixture
def anyio_backend():
    return "asyncio"


@pytest.fixture
def path(tmp_path):
    return tmp_path / "runs.db"


@contextlib.asynccontextmanager
async def opened(path):
    store = SqliteStore(path)
    await store.open()
    yield store
    await store.close()


@pytest.fixture
def written(path):
    """All that a store said before it was closed: two runs, three events, a message, a timer."""

    async def write():
        async with opened(path) as store:
            head, _ = await store.start(new_run())
            await store.start(new_run(OTHER, owner=None))
            await store.append(after(head, 2, timer_set=Timer("1", 5)))
            await store.send(message())
            return await everything(store)

    return asyncio.run(write())


@pytest.fixture
def file(path, written):
    """The closed store's file, opened as any program may open it."""
    with contextlib.closing(apsw.Connection(str(path))) as file:
        yield file


async def test_what_was_written_is_there_after_the_store_is_opened_again(path, written):
    async with opened(path) as store:
        assert await everything(store) == written


async def test_what_was_acknowledged_is_seen_by_another_store_on_the_file(path):
    async with opened(path) as writer, opened(path) as reader:
        head, _ = await writer.start(new_run())
        await writer.append(append := after(head))
        assert await reader.head(RUN) == moved(head, append)


async def test_two_stores_on_one_file_keep_one_order(path):
    async with opened(path) as first, opened(path) as second:
        await asyncio.gather(*(store.start(new_run(f"run {n}")) for n in range(40) for store in (first, second)))
        heads = await first.heads(Query(limit=99))
        assert sorted(head.number for head in heads) == list(range(1, 41))
        assert heads == await second.heads(Query(limit=99))


@pytest.mark.parametrize("column", ["id", "run", "seq", "prev", "envelope", "commitment", "hash", "salt", "body"])
def test_an_event_is_never_changed(file, column):
    before = file.execute("SELECT * FROM events").fetchall()
    with pytest.raises(apsw.ConstraintError, match="never changed"):
        file.execute(f"UPDATE events SET {column} = 99 WHERE seq = 1")
    assert file.execute("SELECT * FROM events").fetchall() == before


def test_an_event_is_never_removed(file):
    before = file.execute("SELECT * FROM events").fetchall()
    with pytest.raises(apsw.ConstraintError, match="never removed"):
        file.execute("DELETE FROM events WHERE seq = 1")
    assert file.execute("SELECT * FROM events").fetchall() == before


def test_an_event_is_never_replaced(path, file):
    before = file.execute("SELECT * FROM events").fetchall()
    with contextlib.closing(sqlite3.connect(path)) as theirs, pytest.raises(sqlite3.IntegrityError, match="replaced"):
        theirs.execute("INSERT OR REPLACE INTO events SELECT id, run, seq, prev, 1, 2, 3, 4, 5 FROM events")
    assert file.execute("SELECT * FROM events").fetchall() == before


def test_a_body_may_go_and_never_comes_back(file):
    file.execute("UPDATE events SET body = NULL, salt = NULL WHERE seq = 1")
    assert file.execute("SELECT body, salt FROM events WHERE seq = 1").get == (None, None)
    with pytest.raises(apsw.ConstraintError, match="never changed"):
        file.execute("UPDATE events SET body = x'00' WHERE seq = 1")


async def test_only_the_owner_can_read_the_files(path):
    async with opened(path) as store:
        await store.start(new_run())
        modes = {file.name: stat.S_IMODE(file.stat().st_mode) for file in path.parent.iterdir()}
        assert modes == dict.fromkeys(["runs.db", "runs.db-wal", "runs.db-shm"], 0o600)


async def test_a_store_of_an_earlier_release_is_brought_up_to_date_with_all_it_holds(path, written):
    with contextlib.closing(apsw.Connection(str(path))) as file:
        file.execute("DROP TABLE artifact_key; DROP TABLE stream_chunks; ALTER TABLE runs DROP COLUMN totals")
        file.pragma("user_version", 1)
    async with opened(path) as store:
        assert await everything(store) == written
        await store.append(large(await store.head(RUN), CONTENT))
        assert await store.artifact(digest_of(CONTENT)) == CONTENT


async def refused(path):
    """The error of opening, when that has changed nothing: no byte of the file, and no file beside it."""
    before = path.read_bytes(), path.stat().st_mtime_ns
    error = await tried(SqliteStore(path).open())
    assert (path.read_bytes(), path.stat().st_mtime_ns) == before
    assert list(path.parent.iterdir()) == [path]
    return error


async def test_a_store_of_a_newer_release_is_refused_untouched(path, file):
    file.pragma("user_version", KNOWN + 1)
    file.close()
    error = await refused(path)
    assert (type(error), error.found, error.known) == (StoreNewerError, KNOWN + 1, KNOWN)


@pytest.mark.parametrize("mark", ["user_version = 1", "application_id = 77", "journal_mode = WAL"])
async def test_a_database_of_another_program_is_refused_untouched(path, mark):
    with contextlib.closing(apsw.Connection(str(path))) as file:
        file.execute(f"CREATE TABLE theirs (a); PRAGMA {mark}")
    assert type(await refused(path)) is NotAStoreError


@pytest.mark.parametrize("content", [b"name,amount\n" * 100, b"SQLite", bytes(5000)], ids=["text", "short", "zeros"])
async def test_a_file_that_is_no_database_is_refused_untouched(path, content):
    path.write_bytes(content)
    assert type(await refused(path)) is NotAStoreError


async def test_an_empty_file_becomes_a_store(path):
    path.touch()
    async with opened(path) as store:
        assert (await store.start(new_run()))[1]


@pytest.mark.parametrize("name", ["missing/runs.db", "."])
async def test_a_place_that_holds_no_file_is_an_error(path, name):
    assert type(await tried(SqliteStore(path.parent / name).open())) is StoreUnavailableError
    assert list(path.parent.iterdir()) == []


async def test_a_write_that_cannot_be_written_fails_alone(path):
    async with opened(path) as store:
        heads = [(await store.start(new_run(name)))[0] for name in ("a", "b", "c")]
        impossible = after(heads[1], timer_set=Timer("1", 2**70))
        appends = [after(heads[0]), impossible, after(heads[2])]
        outcomes = await asyncio.gather(*(tried(store.append(append)) for append in appends))
        assert [type(outcome) for outcome in outcomes] == [type(None), OverflowError, type(None)]
        assert [(await store.head(head.run)).seq for head in heads] == [1, 0, 1]


async def test_a_damaged_file_is_a_typed_error(path, file):
    file.execute("DROP TABLE inbox")
    async with opened(path) as store:
        assert type(await tried(store.inbox(RUN))) is StoreUnavailableError
        assert type(await tried(store.send(message()))) is StoreUnavailableError


@pytest.mark.parametrize(
    ("column", "value"),
    [
        ("status", "gone"),
        ("tags", "{"),
        ("tags", 5),
        ("reason", b"x"),
        ("last_seq", b""),
        ("head", "ab" * 32),
        ("created", "soon"),
        ("updated", 1.5),
    ],
)
async def test_a_run_whose_row_holds_what_we_never_write_is_a_typed_error(path, file, column, value):
    file.execute(f"UPDATE runs SET {column} = ? WHERE key = ?", (value, RUN))
    async with opened(path) as store:
        assert type(await tried(store.head(RUN))) is JournalDamagedError
        assert type(await tried(store.heads(Query()))) is JournalDamagedError
        assert (await store.head(OTHER)).run == OTHER
