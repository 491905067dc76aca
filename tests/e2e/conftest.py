"""The command line as a process: run to its end, or started and then killed, interrupted, or let be.

What a run did outside is counted by the workflow itself, in a file, and what is recorded is read through the facade.
"""

import asyncio
import contextlib
import io
import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

import counterfoil
from counterfoil.cli.main import main
from counterfoil.core.events import Event
from counterfoil.errors import RunNotFoundError
from counterfoil.testing.stubs import StubModel

SHOP = Path(__file__).parent / "agents" / "shop.py"
COMMAND = (sys.executable, "-m", "counterfoil")
FACT_SECONDS = 60.0
LOOK_SECONDS = 0.02


@dataclass(frozen=True)
class Ended:
    """A command that has ended."""

    code: int
    out: str
    err: str

    @property
    def object(self) -> Any:
        (line,) = self.out.splitlines()
        return json.loads(line)

    @property
    def objects(self) -> list[Any]:
        return [json.loads(line) for line in self.out.splitlines()]

    @property
    def said(self) -> list[Any]:
        return [json.loads(line) for line in self.err.splitlines()]


class Command:
    """A command that is under way."""

    def __init__(self, process: "subprocess.Popen[str]") -> None:
        self.process = process

    def kill(self) -> "Ended":
        assert self.process.poll() is None
        self.process.kill()
        return self.end()

    def send(self, number: signal.Signals) -> None:
        assert self.process.poll() is None
        self.process.send_signal(number)

    def end(self) -> Ended:
        out, err = self.process.communicate(timeout=FACT_SECONDS)
        return Ended(self.process.returncode, out, err)


class Folder:
    """A folder of its own, with a store, in which commands are run."""

    command = COMMAND

    def __init__(self, path: Path) -> None:
        self.path = path
        self.environment = {k: v for k, v in os.environ.items() if not k.startswith("COUNTERFOIL_")}
        self.commands: list[Command] = []

    def __call__(self, *words: str, stdin: str = "") -> Ended:
        done = subprocess.run(
            [*COMMAND, *words], cwd=self.path, env=self.environment, input=stdin, capture_output=True, text=True,
            timeout=FACT_SECONDS, check=False,
        )  # fmt: skip
        return Ended(done.returncode, done.stdout, done.stderr)

    def look(self, *words: str) -> Ended:
        """A command in this process: for cases whose point is what it says, not that it is a process."""
        out, err = io.StringIO(), io.StringIO()
        with (
            contextlib.chdir(self.path), mock.patch.dict(os.environ, self.environment, clear=True),
            mock.patch.object(sys, "argv", ["counterfoil", *words]), redirect_stdout(out), redirect_stderr(err),
            pytest.raises(SystemExit) as exit_,
        ):  # fmt: skip
            main()
        return Ended(int(exit_.value.code), out.getvalue(), err.getvalue())

    def start(self, *words: str) -> Command:
        process = subprocess.Popen(
            [*COMMAND, *words], cwd=self.path, env=self.environment, stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip
        self.commands.append(Command(process))
        return self.commands[-1]

    def shop(self, workflow: str) -> str:
        """FILE.py:WORKFLOW of one of the tests' workflows."""
        return f"{SHOP}:{workflow}"

    def touch(self, name: str) -> None:
        (self.path / name).touch()

    def remove(self, name: str) -> None:
        (self.path / name).unlink()

    @property
    def store(self) -> Path:
        return self.path / "counterfoil.db"

    @property
    def calls(self) -> dict[str, int]:
        """Outside calls begun so far, by name."""
        file = self.path / "calls"
        return dict(Counter(file.read_text().split())) if file.exists() else {}

    def events(self, run: str) -> list[Event]:
        return asyncio.run(_events(self.store, run)) if self.store.exists() else []

    def types(self, run: str) -> list[str]:
        return [event.type for event in self.events(run)]

    def wait_for(self, fact: Callable[[], Any]) -> None:
        """Return as soon as the fact holds."""
        end = time.monotonic() + FACT_SECONDS
        while not fact():
            assert time.monotonic() < end, "the fact did not come true in time"
            time.sleep(LOOK_SECONDS)


async def _events(store: Path, run: str) -> list[Event]:
    async with counterfoil.open(f"sqlite:///{store}") as journal:
        try:
            return list(await journal.events(run))
        except RunNotFoundError:
            return []


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Folder]:
    made = Folder(tmp_path)
    yield made
    for command in made.commands:
        if command.process.poll() is None:
            command.kill()


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Folder:
    """A folder whose store is only looked at: three runs, one of each end."""
    made = Folder(tmp_path_factory.mktemp("kept"))
    made("run", f"{SHOP}:buy", "--id", "bought", "--input", '{"item": "pear"}', "--tag", "who=ann", "--tag", "day=1")
    made("run", f"{SHOP}:refuse", "--id", "refused", "--input", '{"item": "kiwi"}', "--tag", "who=ann")
    made("run", f"{SHOP}:settle", "--id", "unpaid", "--tag", "who=bob")
    return made


@pytest.fixture
def stub(folder: Folder) -> Iterator[StubModel]:
    with StubModel(script=["final"]) as server:
        folder.environment["STUB"] = server.url
        yield server
