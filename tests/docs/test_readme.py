"""README.md is done as it says, in its order: files written, commands run, a process killed, the output compared.

The model is asked twice in all, once before the kill and once after it; what shows that is the pasted output.
"""

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from subprocess import PIPE

import pytest

from counterfoil.lab.scenarios import SCENARIOS
from counterfoil.testing.stubs import StubModel

WAIT_FOR_FACT = """
sleep() {  # the reader waits for time; the test for what that time is there for: the pause has begun, and was told
    until grep -q 'sleep until' "$TOLD"; do kill -0 $! || exit 1; command sleep 0.05; done
}
"""
CHANGING = [
    (r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\dZ?", "TIME"),
    (r"\b\d+\.\d+ s\b", "SPAN"),
    (r"process \d+, counterfoil \S+, Python \S+", "PROCESS"),
    (r" {2,}", "  "),
    (r"-{2,}|─{2,}|━{2,}", "--"),
]


class Shell:
    """A folder in which the README's blocks are done one after the other."""

    def __init__(self, folder: Path, commands: Path, *, model: str) -> None:
        self.folder = folder
        path = f"{commands}{os.pathsep}{os.environ['PATH']}"
        self._told = commands / "standard-error.txt"
        self._environment = {**os.environ, "PATH": path, "PYTHONUNBUFFERED": "1", "TOLD": str(self._told)}
        self._environment |= {"OPENAI_BASE_URL": model, "OPENAI_API_KEY": "sk-of-the-reader"}
        self._environment.pop("COUNTERFOIL_STORE", None)
        self.out: list[str] = []
        self.err: list[str] = []

    def sh(self, text: str) -> None:
        self._run(["bash", "-c", WAIT_FOR_FACT + text])

    def python(self, text: str) -> None:
        self._run([sys.executable, "-c", text])

    def _run(self, command: list[str]) -> None:
        environment = self._environment
        with self._told.open("w") as told:
            done = subprocess.run(
                command, cwd=self.folder, env=environment, stdout=PIPE, stderr=told, text=True, timeout=60, check=False
            )
        self.out = _lines(done.stdout)
        self.err = [line for line in _lines(self._told.read_text()) if " Killed " not in line]
        assert done.returncode == 0, self.err


@pytest.fixture
def model() -> Iterator[str]:
    """What the reader's key leads to."""
    with StubModel(script=["final"]) as stub:
        yield f"{stub.url}/v1"


@pytest.fixture
def told(pages, tmp_path, command_folder, model) -> list[tuple[list[str], list[str], list[str]]]:
    """For each output on the page: its lines, and those that really came on standard output and standard error."""
    shell = Shell(tmp_path, command_folder, model=model)
    found = []
    for block in pages["README.md"].blocks:
        if block.marker.startswith("file: "):
            (tmp_path / block.marker.removeprefix("file: ")).write_text(block.text)
        elif block.language == "text":
            found.append((_lines(block.text), shell.out, shell.err))
        elif not block.marker.startswith("not run: "):
            {"sh": shell.sh, "python": shell.python}[block.language](block.text)
    return found


def test_the_readme_shows_what_happens(told):
    assert [shown for shown, _, _ in told] == [_merged(shown, out, err) for shown, out, err in told]


def test_the_readme_gives_the_counts_of_the_lab(pages, tables):
    shown = [(row[1], row[2]) for row in tables(pages["README.md"].sections()["Kill it"])[1:]]
    killed = [each for each in SCENARIOS if each.name == "kill-in-pause" and each.variant is None]
    assert shown == [(str(each.expected.model_calls), str(each.expected.tool_calls)) for each in killed]


def _lines(text: str) -> list[str]:
    for pattern, word in CHANGING:
        text = re.sub(pattern, word, text)
    return [line.rstrip() for line in text.splitlines() if line.strip()]


def _merged(shown: list[str], out: list[str], err: list[str]) -> list[str]:
    """Both streams as one, each in its own order, in the order of the page where both are possible."""
    out, err, merged = list(out), list(err), []
    for line in shown:
        stream = next((each for each in (out, err) if each and each[0] == line), None)
        merged += [stream.pop(0)] if stream else []
    return [*merged, *out, *err]
