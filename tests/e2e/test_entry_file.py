"""A class of the file that is run is the same class when another launcher loads that file (J6)."""

import subprocess
import sys

ENTRY = """
import dataclasses
from pathlib import Path

import counterfoil
from counterfoil import Context, step, workflow


@dataclasses.dataclass
class City:
    name: str


@step
def find() -> list[City]:
    with Path("calls").open("a") as file:
        file.write("find\\n")
    return [City("Oslo")]


@step
def stop() -> None:
    if not Path("mended").exists():
        raise ValueError("stop")


@workflow
async def travels(ctx: Context) -> City:
    found = await ctx.step(find)
    await ctx.step(stop)
    return found[0]


if __name__ == "__main__":
    counterfoil.run_sync(travels, id="r", store="sqlite:///counterfoil.db")
"""


def test_a_run_begun_by_python_is_resumed_by_the_command(folder):
    (folder.path / "entry.py").write_text(ENTRY)
    begun = subprocess.run(
        [sys.executable, "entry.py"],
        cwd=folder.path,
        env=folder.environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert "is paused (step_failed)" in begun.stderr
    folder.touch("mended")
    ended = folder("resume", "r", "entry.py", "--json")
    assert (ended.code, ended.object, folder.calls) == (0, {"name": "Oslo"}, {"find": 1})
