"""Who is dead on this host: lock files of processes that were killed, of our own, and of long ago."""

import asyncio
import os
import subprocess
import sys

import pytest

import counterfoil
from counterfoil import Context, workflow
from counterfoil.engine.liveness import LockFile, is_dead, sweep
from counterfoil.store import Worker

HOLDER = """
import pathlib, sys
from counterfoil.engine.liveness import LockFile
lock = LockFile(pathlib.Path(sys.argv[1]), sys.argv[2])
print("held", flush=True)
sys.stdin.read()
"""


@pytest.fixture
def holder(tmp_path):
    """Another process that holds the lock of worker "other"."""
    command = [sys.executable, "-c", HOLDER, str(tmp_path), "other"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        process.stdout.readline()
        yield process
        process.kill()


def worker(name: str) -> Worker:
    return Worker(id=name, host="here", until=0)


def test_a_process_that_lives_is_not_dead(tmp_path, holder):
    assert not is_dead(tmp_path, worker("other"), "here")


def test_a_killed_process_is_dead_for_each_of_its_runs(tmp_path, holder):
    holder.kill()
    holder.wait()
    assert [is_dead(tmp_path, worker("other"), "here") for _ in range(3)] == [True, True, True]


def test_a_dead_process_of_another_host_is_not_known_to_be_dead(tmp_path, holder):
    holder.kill()
    holder.wait()
    assert not is_dead(tmp_path, worker("other"), "elsewhere")


def test_looking_at_our_own_lock_does_not_drop_it(tmp_path):
    lock = LockFile(tmp_path, "own")
    assert not is_dead(tmp_path, worker("own"), "here")
    program = (
        "import sys, pathlib; from counterfoil.engine.liveness import is_dead; from counterfoil.store import Worker"
    )
    ask = f"{program}; print(is_dead(pathlib.Path(sys.argv[1]), Worker(id='own', host='here', until=0), 'here'))"
    said = subprocess.run([sys.executable, "-c", ask, str(tmp_path)], check=True, capture_output=True, text=True)
    lock.release()
    assert said.stdout == "False\n"


def test_our_own_lock_is_known_by_any_path(tmp_path):
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    lock = LockFile(tmp_path / "real", "own")
    assert not is_dead(tmp_path / "link", worker("own"), "here")
    lock.release()


def test_old_files_of_dead_workers_are_swept_and_no_others(tmp_path, holder):
    for name in ("old", "young"):
        (tmp_path / name).touch()
    for name in ("old", "other"):
        os.utime(tmp_path / name, (1000, 1000))
    sweep(tmp_path, older_than=2000)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["other", "young"]


KILLED = """
import asyncio, os, sys
import counterfoil
from counterfoil import Context, workflow
from counterfoil.store import Query

@workflow
async def ended(ctx: Context) -> str:
    await asyncio.Event().wait()

async def main():
    async with counterfoil.open(sys.argv[1]) as journal:
        runs = [asyncio.create_task(journal.run(ended, id=name)) for name in "ab"]
        while len(await journal.store.heads(Query())) < len(runs):
            await asyncio.sleep(0)
        os.kill(os.getpid(), 9)

asyncio.run(main())
"""


@pytest.mark.anyio
async def test_two_runs_of_one_killed_process_are_both_free_at_once(tmp_path):
    @workflow
    async def ended(ctx: Context) -> str:
        return "done"

    url = f"sqlite:///{tmp_path / 'runs.db'}"
    await asyncio.to_thread(subprocess.run, [sys.executable, "-c", KILLED, url], check=False)
    async with counterfoil.open(url) as journal:
        assert [await journal.resume(name, ended) for name in "ab"] == ["done", "done"]
