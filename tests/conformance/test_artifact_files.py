"""What the SQLite store promises of its artifacts beyond the port: plain files, whole or not there, told by nobody."""

import asyncio
import contextlib
import os
import resource
import shutil
import stat
import threading
from pathlib import Path

import pytest

from counterfoil.artifacts import digest_of
from counterfoil.errors import StoreUnavailableError
from counterfoil.store import Stray
from counterfoil.stores import files, sqlite
from counterfoil.stores.files import ArtifactFiles
from counterfoil.stores.sqlite import SqliteStore
from counterfoil.testing.conformance import CONTENT, OTHER, RUN, after, large, moved, new_run, record_of, tried

pytestmark = pytest.mark.anyio
DIGEST = digest_of(CONTENT)
LIMIT_BYTES = 1 << 20
TOO_LARGE = bytes(2 * LIMIT_BYTES)


@pytest.fixture
def anyio_backend():
    return "asyncio"


@contextlib.asynccontextmanager
async def opened(path):
    store = SqliteStore(path)
    await store.open()
    yield store
    await store.close()


@pytest.fixture
async def store(tmp_path):
    async with opened(tmp_path / "runs.db") as store:
        yield store


@pytest.fixture
async def head(store):
    return (await store.start(new_run()))[0]


@pytest.fixture
def folder(tmp_path):
    return tmp_path / "runs.db-artifacts"


@pytest.fixture
async def file(store, head, folder):
    """The file of the one artifact that the store holds."""
    await store.append(large(head, CONTENT))
    (file,) = files_in(folder)
    return file


def files_in(folder):
    return sorted(path for path in folder.rglob("*") if not path.is_dir())


async def again(store):
    """Keep the same content once more."""
    await store.append(large(await store.head(RUN), CONTENT))


async def test_the_files_and_folders_are_for_whoever_may_read_the_store(file, folder):
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert {stat.S_IMODE(path.stat().st_mode) for path in (folder, *folder.rglob("*")) if path.is_dir()} == {0o700}


async def test_a_store_that_a_group_may_read_has_artifacts_that_it_may_read(tmp_path, folder):
    path = tmp_path / "runs.db"
    path.touch()
    path.chmod(0o640)
    async with opened(path) as store:
        await store.append(large((await store.start(new_run()))[0], CONTENT))
    assert [stat.S_IMODE(path.stat().st_mode) for path in files_in(folder)] == [0o640]
    assert stat.S_IMODE(folder.stat().st_mode) == 0o750


async def test_a_file_is_named_under_a_key_that_is_another_one_in_each_store(file, tmp_path):
    async with opened(tmp_path / "other.db") as store:
        await store.append(large((await store.start(new_run()))[0], CONTENT))
    (theirs,) = files_in(tmp_path / "other.db-artifacts")
    assert len({file.name, theirs.name, DIGEST}) == 3


async def test_the_key_stays_when_the_store_is_opened_again(store, file):
    await store.close()
    await store.open()
    assert await store.artifact(DIGEST) == CONTENT


async def test_a_store_that_is_opened_by_a_link_has_the_same_artifacts(store, file, tmp_path):
    (tmp_path / "elsewhere").mkdir()
    link = tmp_path / "elsewhere" / "link.db"
    link.symlink_to(store.path)
    async with opened(link) as linked:
        assert await linked.artifact(DIGEST) == CONTENT


async def test_small_events_make_no_folder(store, head, folder):
    await store.append(after(head))
    assert not folder.exists()


async def test_the_same_content_is_written_once(store, file, folder):
    before = file.stat()
    await again(store)
    assert files_in(folder) == [file]
    assert (file.stat().st_ino, file.stat().st_mtime_ns) == (before.st_ino, before.st_mtime_ns)


def cut(file):
    file.write_bytes(CONTENT[:-1])


def extend(file):
    file.write_bytes(CONTENT + b"x")


def alter(file):
    file.write_bytes(CONTENT.replace(b"x", b"y", 1))


def empty(file):
    file.write_bytes(b"")


def point_elsewhere(file):
    elsewhere = file.rename(file.with_name("elsewhere"))
    file.symlink_to(elsewhere)


def point_nowhere(file):
    file.unlink()
    file.symlink_to("nowhere")


def make_a_pipe(file):
    file.unlink()
    os.mkfifo(file)


def make_a_folder(file):
    file.unlink()
    file.mkdir()


ALTERED = [cut, extend, alter, empty]
REPLACED = [point_elsewhere, point_nowhere, make_a_pipe, make_a_folder]


def remove_its_folder(file):
    shutil.rmtree(file.parent)


def remove_all_folders(file):
    shutil.rmtree(file.parents[2])


GONE = [os.unlink, remove_its_folder, remove_all_folders]


@pytest.mark.parametrize("change", ALTERED)
async def test_what_was_altered_is_given_as_it_is_for_the_reader_to_check(store, file, change):
    change(file)
    assert await store.artifact(DIGEST) == file.read_bytes() != CONTENT


@pytest.mark.parametrize("change", REPLACED + GONE)
async def test_what_is_no_plain_file_is_no_artifact(store, file, change):
    change(file)
    assert await store.artifact(DIGEST) is None


@pytest.mark.parametrize("change", [*ALTERED, point_elsewhere, point_nowhere, make_a_pipe, os.unlink])
async def test_keeping_the_content_again_puts_the_right_one_there(store, file, change):
    change(file)
    await again(store)
    assert (await store.artifact(DIGEST), file.is_file(), file.is_symlink()) == (CONTENT, True, False)


@pytest.mark.parametrize("change", GONE[1:])
async def test_folders_that_were_removed_meanwhile_are_made_again(store, file, change):
    change(file)
    assert type(await tried(again(store))) is StoreUnavailableError
    await again(store)
    assert await store.artifact(DIGEST) == CONTENT


async def test_a_folder_in_the_place_of_an_artifact_refuses_that_write_alone(store, file, folder):
    make_a_folder(file)
    head = await store.head(RUN)
    other, _ = await store.start(new_run(OTHER))
    outcomes = await asyncio.gather(*map(tried, (store.append(large(head, CONTENT)), store.append(large(other, b"2")))))
    assert [type(outcome) for outcome in outcomes] == [StoreUnavailableError, type(None)]
    assert (await store.head(RUN), await store.artifact(digest_of(b"2"))) == (head, b"2")
    assert list((folder / "new").iterdir()) == []


async def test_a_file_in_the_place_of_the_folder_refuses_large_writes_alone(store, head, folder):
    folder.touch()
    appends = [large(head, CONTENT), after(head)]
    outcomes = [await tried(store.append(append)) for append in appends]
    assert [type(outcome) for outcome in outcomes] == [StoreUnavailableError, type(None)]
    assert await store.head(RUN) == moved(head, appends[1])


@pytest.fixture
def full_disk():
    """No file of this process may grow beyond the limit: the kernel refuses, as it does when the disk is full."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (LIMIT_BYTES, hard))
    yield
    resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


@pytest.mark.usefixtures("full_disk")
async def test_an_artifact_that_does_not_fit_on_the_disk_fails_alone(store, head, folder):
    other, _ = await store.start(new_run(OTHER))
    writes = [store.append(large(head, TOO_LARGE)), store.append(large(other, CONTENT))]
    outcomes = await asyncio.gather(*map(tried, writes))
    assert [type(outcome) for outcome in outcomes] == [StoreUnavailableError, type(None)]
    assert (await store.head(RUN), [path.stat().st_size for path in files_in(folder)]) == (head, [len(CONTENT)])


@pytest.mark.usefixtures("full_disk")
async def test_a_run_whose_input_does_not_fit_on_the_disk_is_not_made(store):
    record, digest = record_of(TOO_LARGE, 0), digest_of(TOO_LARGE)
    started = await tried(store.start(new_run(record=record, artifacts={digest: TOO_LARGE})))
    assert (type(started), await store.head(RUN)) == (StoreUnavailableError, None)


async def test_what_is_no_bytes_fails_alone(store, head):
    outcomes = await asyncio.gather(
        tried(store.append(large(head, CONTENT, artifacts={DIGEST: None}))), tried(store.start(new_run(OTHER)))
    )
    assert [type(outcome) for outcome in outcomes] == [TypeError, tuple]


async def test_an_artifact_is_never_written_on_the_event_loop(store, head, monkeypatch):
    monkeypatch.setattr(sqlite, "QUICK_COMMITS_MIN", 0)
    synced_in = []
    monkeypatch.setattr(files, "_sync", lambda _: synced_in.append(threading.get_ident()) or True)
    await store.append(large(head, CONTENT))
    assert (len(synced_in), threading.get_ident() in synced_in) == (1, False)


async def test_what_a_dead_writer_left_is_listed_and_swept_when_the_store_is_opened(store, file, folder):
    (folder / "new" / "left").write_bytes(b"half")
    assert await store.strays({DIGEST}) == [Stray("new/left", 4)]
    await store.close()
    await store.open()
    assert (await store.strays({DIGEST}), await store.artifact(DIGEST)) == ([], CONTENT)


async def test_what_is_being_written_is_not_swept(store, file, folder):
    writer = ArtifactFiles(folder, b"key", 0o600)
    spot = writer._begin()
    await store.close()
    await store.open()
    assert [stray.name for stray in await store.strays({DIGEST})] == [f"new/{Path(spot.name).name}"]
    os.close(spot.descriptor)


async def test_a_file_that_was_put_there_by_somebody_else_is_a_stray(store, file, folder):
    (folder / "notes.txt").write_bytes(b"mine")
    assert await store.strays({DIGEST}) == [Stray("notes.txt", 4)]


async def test_a_store_without_its_key_is_not_opened(store):
    await store.close()
    with contextlib.closing(sqlite.apsw.Connection(str(store.path))) as file:
        file.execute("DELETE FROM artifact_key")
    assert type(await tried(store.open())) is StoreUnavailableError
    await store.close()
