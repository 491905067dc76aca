"""The crash harness itself: what it says of a process is so."""

import os
import signal

import pytest

from counterfoil.testing.crash import Tally
from counterfoil.testing.forks import ForkServer


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    """Forks of a file that imports its neighbour, as a user's file may."""
    folder = tmp_path_factory.mktemp("user")
    (folder / "neighbour.py").write_text("HARD_EXIT = 7\n")
    (folder / "mine.py").write_text(MINE)
    with ForkServer(folder / "mine.py") as server:
        yield server


MINE = """
import asyncio, os, sys, threading
import neighbour
from counterfoil.testing.crash import Tally, kill

async def add(a, b):
    print("this goes to standard error")
    return {"sum": a + b, "threads": threading.active_count()}

async def fail():
    raise ValueError("so it is")

async def leave():
    os._exit(neighbour.HARD_EXIT)

async def die():
    kill()

async def count(path, name, times):
    for _ in range(times):
        Tally(path).mark(name)

async def hang():
    await asyncio.Event().wait()

async def large():
    return "x" * 300_000
"""


def test_a_result_comes_back_from_a_process_with_one_thread(server):
    ended = server.run("add", 1, 2)
    assert (ended.code, ended.is_killed, ended.result()) == (0, False, {"sum": 3, "threads": 1})


def test_a_large_result_comes_back_whole(server):
    assert server.run("large").result() == "x" * 300_000


def test_what_was_raised_is_told_with_its_traceback(server):
    ended = server.run("fail")
    assert "in fail\n" in ended.raised
    with pytest.raises(AssertionError, match="ValueError: so it is"):
        ended.result()


def test_a_hard_exit_is_told_by_its_code(server):
    ended = server.run("leave")
    assert (ended.code, ended.is_killed) == (7, False)
    with pytest.raises(AssertionError, match="ended with 7"):
        ended.result()


def test_a_process_that_kills_itself_is_killed(server):
    assert server.run("die").code == -signal.SIGKILL


def test_a_process_is_killed_when_its_time_is_over(server):
    assert server.run("hang", kill_after=0.01).is_killed


def test_a_process_is_killed_when_it_is_asked_for(server):
    processes = [server.start("hang") for _ in range(3)]
    for process in reversed(processes):
        server.kill(process)
    assert [server.wait(process).is_killed for process in processes] == [True] * 3


def test_killing_what_has_ended_changes_nothing(server):
    process = server.start("add", 1, 1)
    ended = server.wait(process)
    server.kill(process)
    assert (ended.process, server.run("add", 2, 2).returned["sum"]) == (process, 4)


def test_a_tally_counts_what_many_processes_mark_at_once(server, tmp_path):
    path = str(tmp_path / "tally")
    processes = [server.start("count", path, name, 200) for name in "abcd"]
    assert [server.wait(process).result() for process in processes] == [None] * 4
    assert Tally(path).counts() == dict.fromkeys("abcd", 200)


def test_a_tally_that_was_never_marked_is_empty(tmp_path):
    assert (Tally(tmp_path / "tally").marks(), Tally(tmp_path / "tally").counts()) == ([], {})


def test_leaving_the_server_kills_what_still_runs(tmp_path):
    (tmp_path / "mine_too.py").write_text(MINE.replace("import neighbour", ""))
    with ForkServer(tmp_path / "mine_too.py") as server:
        process = server.start("hang")
    with pytest.raises(ProcessLookupError):
        os.kill(process, 0)


def test_a_server_that_cannot_load_its_file_says_so(tmp_path, capfd):
    with ForkServer(tmp_path / "missing.py") as server, pytest.raises((RuntimeError, BrokenPipeError)):
        server.run("anything")
    assert "No module named 'missing'" in capfd.readouterr().err
