"""Every Python block of the documents runs as it stands, or ends with the error that it is there to show.

Those of README.md are run by test_readme.py, between its commands.
"""

import subprocess
import sys

import pytest


@pytest.fixture
def outcome(script, tmp_path) -> subprocess.CompletedProcess[str]:
    file = tmp_path / "trip.py"
    file.write_text(script.text)
    command = [sys.executable, "-W", "error", file]
    return subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False)


def test_a_block_runs_or_is_refused_as_the_page_says(script, outcome):
    assert _refusal(outcome.stderr) == script.refused
    assert bool(outcome.returncode) == bool(script.refused), outcome.stderr


def _refusal(traceback: str) -> str | None:
    """The reason in the last line of a traceback, or the line itself where it is no paused run."""
    last = traceback.strip().rpartition("\n")[2]
    return last.partition(" is paused (")[2].partition(")")[0] or last or None
