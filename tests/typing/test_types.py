"""mypy --strict and basedpyright infer the types of the public face, and report wrong calls where they stand.

The wrong calls are in a text file, so that a check of all the sources passes.
"""

import json
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TypeAlias

import pytest

HERE = Path(__file__).parent
ROOT = HERE.parent.parent
PROGRAMS = Path(sys.executable).parent

Check: TypeAlias = Callable[[Path, Path], set[int]]


def mypy(file: Path, folder: Path) -> set[int]:
    command = [sys.executable, "-m", "mypy", "--strict", "--no-error-summary", "--cache-dir", str(folder), str(file)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    return {int(line) for line in re.findall(rf"{file.name}:(\d+): error", done.stdout)} | _broken(done, file.name)


def basedpyright(file: Path, folder: Path) -> set[int]:
    settings = {"include": [str(file)], "extraPaths": [str(ROOT / "src")], "typeCheckingMode": "strict"}
    (folder / "pyrightconfig.json").write_text(json.dumps(settings))
    command = [str(PROGRAMS / "basedpyright"), "--outputjson", "--pythonpath", sys.executable, "--project", str(folder)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    found = json.loads(done.stdout)["generalDiagnostics"]
    return {each["range"]["start"]["line"] + 1 for each in found if each["severity"] == "error"}


def _broken(done: subprocess.CompletedProcess[str], name: str) -> set[int]:
    """Not a line of the file: errors elsewhere, or a checker that did not run."""
    elsewhere = [line for line in done.stdout.splitlines() if ": error" in line and name not in line]
    return {0} if elsewhere or done.returncode > 1 else set()


def planted(file: Path) -> set[int]:
    return {number for number, line in enumerate(file.read_text().splitlines(), 1) if "# bad" in line}


@pytest.mark.parametrize("check", [mypy, basedpyright])
def test_every_stated_type_is_inferred(tmp_path: Path, check: Check) -> None:
    assert check(HERE / "accepted.py", tmp_path) == set()


@pytest.mark.parametrize("check", [mypy, basedpyright])
def test_wrong_calls_are_reported_where_they_stand(tmp_path: Path, check: Check) -> None:
    file = Path(shutil.copy(HERE / "refused.txt", tmp_path / "refused.py"))
    assert check(file, tmp_path) == planted(file)
