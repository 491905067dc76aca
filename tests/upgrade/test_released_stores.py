"""A database of each release is opened by today's code: brought up to date, with all it held, and used on (J1).

The database is made anew by the release's own schema scripts and filled with its fixture journals.
"""

import contextlib
import json
from base64 import b64decode
from pathlib import Path

import apsw
import pytest

import counterfoil
from counterfoil.core.events import Record
from counterfoil.core.state import fold
from counterfoil.errors import StoreNewerError
from counterfoil.stores import migrate, sqlite
from counterfoil.stores.sqlite import SqliteStore

pytestmark = pytest.mark.anyio
SCRIPTS = {"release_0_1_0": 1}
"""How many of the schema scripts each release had."""

HERE = Path(__file__).parent
STORED = {release: json.loads((HERE / release / "runs.json").read_text()) for release in SCRIPTS}
STATES = {release: json.loads((HERE / release / "states.json").read_text()) for release in SCRIPTS}
BYTES = {"envelope", "commitment", "salt", "body", "hash"}


@pytest.fixture
def anyio_backend():
    return "asyncio"


@pytest.fixture(params=SCRIPTS)
def release(request):
    return request.param


@pytest.fixture
def held(release):
    """The records of the release's runs, by id."""
    return {run: [record_of(stored) for stored in records] for run, records in STORED[release].items()}


def record_of(stored):
    return Record(**{name: b64decode(value) if name in BYTES else value for name, value in stored.items()})


@pytest.fixture
def path(tmp_path, release, held):
    """A database as that release left it."""
    path = tmp_path / "runs.db"
    with contextlib.closing(apsw.Connection(str(path))) as file:
        for script in migrate.scripts("sqlite")[: SCRIPTS[release]]:
            file.execute(script)
        for run, records in held.items():
            insert(file, run, records, STATES[release][run])
        file.execute(f"PRAGMA application_id = {sqlite.APPLICATION_ID}; PRAGMA user_version = {SCRIPTS[release]}")
        file.execute("PRAGMA journal_mode = WAL")
    return path


def insert(file, run, records, state):
    """A run's row and its events, as release 0.1.0 wrote them."""
    file.execute(
        "INSERT INTO runs VALUES (NULL, ?, ?, ?, NULL, '{}', 1, NULL, ?, 0, ?, 0, 0)",
        (run, state["workflow"], state["status"], records[-1].seq, records[-1].hash),
    )
    row, previous = file.last_insert_rowid(), 0
    for r in records:
        next_id = file.execute("SELECT coalesce(max(id), 0) + 1 FROM events").get
        event = (next_id, row, r.seq, previous, r.envelope, r.commitment, r.salt, r.body, r.hash)
        file.execute("INSERT INTO events VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)", event)
        previous = next_id
    file.execute("UPDATE runs SET head_id = ? WHERE id = ?", (previous, row))


async def test_a_released_store_is_read_as_it_was_written(path, held):
    async with counterfoil.open(f"sqlite:///{path}") as journal:
        found = {run.id: await journal.store.read(run.id) for run in await journal.list()}
        verified = [await journal.verify(run) for run in held]
        report = await journal.inspect_artifacts()
    assert (found, [each.flaws for each in verified]) == (held, [()] * len(held))
    assert (report.artifacts, report.is_whole) == (0, True)


async def test_a_released_store_takes_new_runs_with_artifacts(path, held):
    @counterfoil.workflow
    async def keeps(ctx: counterfoil.Context, text: str) -> str:
        return text

    for _ in range(2):
        async with counterfoil.open(f"sqlite:///{path}") as journal:
            assert await journal.run(keeps, "x" * 20_000, id="new") == "x" * 20_000
            assert fold("new", await journal.events("new")).status == "completed"
            assert len(await journal.list()) == len(held) + 1


async def test_a_store_that_was_brought_up_to_date_is_refused_by_the_release_that_made_it(path, release, monkeypatch):
    store = SqliteStore(path)
    await store.open()
    await store.close()
    known = migrate.scripts("sqlite")[: SCRIPTS[release]]
    monkeypatch.setattr(migrate, "scripts", lambda _: known)
    with pytest.raises(StoreNewerError):
        await SqliteStore(path).open()


async def test_of_many_that_open_a_released_store_at_once_one_brings_it_up_to_date(path, held):
    stores = [SqliteStore(path) for _ in range(8)]
    for store in stores:
        await store.open()
    keys = {store._files._key for store in stores}
    for store in stores:
        await store.close()
    assert len(keys) == 1
