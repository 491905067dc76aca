"""Processes by the hundred: runs coroutines of a file, each in a process that is forked for it, to be killed at will.

    with ForkServer("agent.py") as server:
        server.run("attempt", url, kill_after=0.02)  # `async def attempt(url)` in agent.py, killed after 20 ms
        assert server.run("attempt", url).result() == "done"

Why a server: a fork copies only the thread that forks, so a process with threads (a store's, a pytest-xdist worker's)
must not fork, and Python warns of it since 3.12. The server is a process of its own that imports the file, starts
neither thread nor store, and forks on request: a few milliseconds a process, where a fresh Python takes two hundred.
"""

import asyncio
import contextlib
import gc
import importlib
import os
import select
import signal
import subprocess
import sys
import time
import traceback
from pathlib import Path
from types import ModuleType, TracebackType
from typing import IO, Any, NoReturn, Self, cast

import msgspec

from counterfoil.stores import migrate

CHUNK_BYTES = 65536
_PROGRAM = "from counterfoil.testing.forks import serve; serve()"


class Ended(msgspec.Struct, frozen=True, kw_only=True):
    """How a process ended."""

    process: int
    code: int  # exit code; negative: the signal that killed it
    returned: Any = None  # by the coroutine
    raised: str | None = None  # the traceback, if the coroutine raised

    @property
    def is_killed(self) -> bool:
        """Whether it died by SIGKILL."""
        return self.code == -signal.SIGKILL

    def result(self) -> Any:
        """What the coroutine returned. Raises AssertionError, with the traceback of the process, when it did not."""
        assert self.code == 0, f"the process ended with {self.code}"
        assert self.raised is None, self.raised
        return self.returned


class _Run(msgspec.Struct, frozen=True, tag=True):
    """Run this in a new process."""

    function: str
    args: tuple[Any, ...]
    kill_after: float | None


class _Kill(msgspec.Struct, frozen=True, tag=True):
    """Kill this process, if it has not ended."""

    process: int


class _Started(msgspec.Struct, frozen=True):
    """The process is there."""

    process: int


class ForkServer:
    """Runs the coroutine functions of one file, each call in a process that is forked for it; a context manager.

    Arguments and results are JSON. What the processes print goes to standard error.
    """

    def __init__(self, file: str | Path) -> None:
        self._command = [sys.executable, "-c", _PROGRAM, str(file)]
        self._ended: dict[int, Ended] = {}

    def __enter__(self) -> Self:
        self._server = subprocess.Popen(
            self._command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True
        )
        self._requests = cast("IO[bytes]", self._server.stdin)
        self._replies = cast("IO[bytes]", self._server.stdout)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._requests.close()  # the server kills what still runs, and ends
        self._server.wait()
        self._replies.close()

    def run(self, function: str, /, *args: Any, kill_after: float | None = None) -> Ended:
        """Run the coroutine in a new process and wait for its end. It is killed after so many seconds."""
        return self.wait(self.start(function, *args, kill_after=kill_after))

    def start(self, function: str, /, *args: Any, kill_after: float | None = None) -> int:
        """Begin to run the coroutine in a new process. Returns the process id."""
        self._ask(_Run(function, args, kill_after))
        return msgspec.json.decode(self._reply(b"started"), type=_Started).process

    def wait(self, process: int) -> Ended:
        """Wait for a process that `start` began."""
        while process not in self._ended:
            self._keep(self._reply(b"ended"))
        return self._ended.pop(process)

    def kill(self, process: int) -> None:
        """Kill a process that `start` began, with SIGKILL; nothing, if it has ended by itself."""
        self._ask(_Kill(process))

    def _ask(self, request: msgspec.Struct) -> None:
        self._requests.write(msgspec.json.encode(request) + b"\n")
        self._requests.flush()

    def _reply(self, wanted: bytes) -> bytes:
        """The next reply of this kind; an end that comes before it is kept."""
        while line := self._replies.readline():
            kind, _, text = line.partition(b" ")
            if kind == wanted:
                return text
            self._keep(text)
        msg = "the fork server has ended; standard error says why"
        raise RuntimeError(msg)

    def _keep(self, text: bytes) -> None:
        ended = msgspec.json.decode(text, type=Ended)
        self._ended[ended.process] = ended


class _Running(msgspec.Struct):
    """A process of the server that has not ended."""

    process: int
    deadline: float | None
    report: bytearray


class _Server:
    """The server's side: one thread, one loop over pipes."""

    def __init__(self, module: ModuleType, requests: int, replies: IO[bytes]) -> None:
        self._module, self._requests, self._replies = module, requests, replies
        self._rest = b""  # of a request that has not come as a whole
        self._running: dict[int, _Running] = {}  # by the pipe that the process reports through

    def serve(self) -> None:
        """Until the requests end; then nothing of this is left running."""
        is_wanted = True
        while is_wanted:
            ready, _, _ = select.select([self._requests, *self._running], [], [], self._seconds_left())
            for pipe in set(ready).intersection(self._running):
                self._hear(pipe)
            if self._requests in ready:
                is_wanted = self._take_requests()
            now = time.monotonic()
            self._kill([each for each in self._running.values() if each.deadline and each.deadline <= now])
        self._kill(list(self._running.values()))
        for each in self._running.values():
            os.waitpid(each.process, 0)

    def _take_requests(self) -> bool:
        chunk = os.read(self._requests, CHUNK_BYTES)
        *lines, self._rest = (self._rest + chunk).split(b"\n")
        for line in lines:
            self._do(msgspec.json.decode(line, type=_Run | _Kill))
        return bool(chunk)

    def _do(self, request: _Run | _Kill) -> None:
        if isinstance(request, _Run):
            self._fork(request)
        else:
            self._kill([each for each in self._running.values() if each.process == request.process])

    def _fork(self, request: _Run) -> None:
        pipe, report = os.pipe()
        process = os.fork()
        if process == 0:
            _carry_out(self._module, request, report)
        os.close(report)
        deadline = None if request.kill_after is None else time.monotonic() + request.kill_after
        self._running[pipe] = _Running(process, deadline, bytearray())
        self._reply(b"started", _Started(process))

    def _hear(self, pipe: int) -> None:
        chunk = os.read(pipe, CHUNK_BYTES)
        if chunk:
            self._running[pipe].report += chunk
            return
        os.close(pipe)
        ended = self._running.pop(pipe)
        _, status = os.waitpid(ended.process, 0)
        told = msgspec.json.decode(ended.report) if ended.report else {}
        self._reply(b"ended", Ended(process=ended.process, code=os.waitstatus_to_exitcode(status), **told))

    def _reply(self, kind: bytes, reply: msgspec.Struct) -> None:
        self._replies.write(kind + b" " + msgspec.json.encode(reply) + b"\n")
        self._replies.flush()

    def _seconds_left(self) -> float | None:
        deadlines = [each.deadline for each in self._running.values() if each.deadline]
        return max(0.0, min(deadlines) - time.monotonic()) if deadlines else None

    def _kill(self, late: list[_Running]) -> None:
        for each in late:
            each.deadline = None
            with contextlib.suppress(ProcessLookupError):
                os.kill(each.process, signal.SIGKILL)


def serve() -> None:
    """The program of the server process; its one argument is the file."""
    requests, replies = os.dup(0), os.fdopen(os.dup(1), "wb")
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.dup2(2, 1)
    module = _loaded(Path(sys.argv[1]))
    migrate.scripts("sqlite")  # warm: its first call imports for longer than a fork takes
    gc.collect()
    gc.freeze()  # so that a collection in a child touches, and so copies, none of the parent's pages
    _Server(module, requests, replies).serve()


def _loaded(file: Path) -> ModuleType:
    """The file as a module, by its own name; it may import its neighbours."""
    sys.path.insert(0, str(file.absolute().parent))
    return importlib.import_module(file.stem)


def _carry_out(module: ModuleType, request: _Run, report: int) -> NoReturn:
    """What a forked process does, from its first line to its last."""
    try:
        told = {"returned": asyncio.run(getattr(module, request.function)(*request.args))}
        text = msgspec.json.encode(told)
    except BaseException:  # noqa: BLE001 - told to whoever waits, whole
        text = msgspec.json.encode({"raised": traceback.format_exc()})
    with os.fdopen(report, "wb") as pipe:
        pipe.write(text)
    os._exit(0)
