"""A process that runs one of the lab's agents, to be waited for or killed.

The command is the same at every start; the process group is its own, so that a kill takes all
of it and nothing else.
"""

import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Self

from counterfoil.lab.scenarios import Mode

QUESTION = "Do I need an umbrella in Paris?"


class LabError(Exception):
    """The experiment itself went wrong, so there is nothing to count."""


class Agent:
    """One process of a run; a context manager, which leaves no process behind."""

    def __init__(self, mode: Mode, *, run_id: str, store: str, environment: Mapping[str, str]) -> None:
        self._command = _command(mode, run_id, store)
        self._environment = environment

    def __enter__(self) -> Self:
        self._output = tempfile.TemporaryFile()
        self._process = subprocess.Popen(
            self._command,
            stdin=subprocess.DEVNULL,
            stdout=self._output,
            stderr=subprocess.STDOUT,
            env={**os.environ, **self._environment},
            start_new_session=True,
        )
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._process.poll() is None:
            self._kill()
        self._output.close()

    def must_live(self, seconds: float = 0.0) -> None:
        """Let the agent run for so long; raise LabError if it ends by then."""
        try:
            code = self._process.wait(seconds)
        except subprocess.TimeoutExpired:
            return
        raise LabError(f"the agent ended before its kill, with exit code {code}:\n{self.said()}")

    def kill(self) -> None:
        """Kill the whole process group with SIGKILL."""
        self.must_live()
        self._kill()

    def end(self, seconds: float) -> None:
        """Wait until the agent ends by itself; raise LabError if it does not in time."""
        try:
            self._process.wait(seconds)
        except subprocess.TimeoutExpired:
            raise LabError(f"the agent did not end in {seconds} s:\n{self.said()}") from None

    def said(self) -> str:
        """Return what the agent has printed so far."""
        self._output.seek(0)
        return self._output.read().decode(errors="replace")

    def _kill(self) -> None:
        os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()


def _command(mode: Mode, run_id: str, store: str) -> list[str]:
    file = Path(__file__).with_name(f"{mode}.py")
    command = [sys.executable, "-m", "counterfoil", "run", f"{file}:weather_agent"]
    question = json.dumps({"question": QUESTION})
    return [*command, "--id", run_id, "--input", question, "--store", store]
