"""Streams of real clients in real processes, broken and killed midway, calls counted by the server (J2, J4; FC-75)."""

import asyncio
import contextlib
from pathlib import Path

import pytest

import counterfoil

AGENTS = Path(__file__).parent / "agents" / "streaming.py"
WORDS = " ".join(f"word{n}" for n in range(100))
SCRIPT = [{"role": "assistant", "content": WORDS}]

pytestmark = pytest.mark.sdk
IN_THE_BODY = pytest.mark.parametrize("workflow", ["in_the_body", "plainly_in_the_body"])
IN_A_STEP = pytest.mark.parametrize("workflow", ["in_a_step", "plainly_in_a_step"])


def command(workflow):
    return ("run", f"{AGENTS}:{workflow}", "--id", "r", "--json")


def tries(folder):
    """How many provisional chunks there are, by try."""

    async def read():
        async with counterfoil.open(f"sqlite:///{folder.path / 'counterfoil.db'}") as journal:
            return [chunk.stream.try_number for chunk in await journal.store.chunks("r")]

    with contextlib.suppress(Exception):  # the store is about to be made
        found = asyncio.run(read())
        return {number: found.count(number) for number in found}
    return {}


@IN_THE_BODY
def test_killed_midway_a_stream_is_made_again_and_only_the_second_one_counts(folder, stub, workflow):
    stub.configure(script=SCRIPT, vary=True, paces=[0.05])
    live = folder.start(*command(workflow))
    folder.wait_for(lambda: tries(folder).get(1, 0) >= 5)
    live.kill()
    ended = folder(*command(workflow))
    assert (ended.code, ended.object, len(stub.log)) == (0, WORDS, 2)
    assert folder.types("r").count("outcome_unknown") == 1
    left = tries(folder)
    assert (list(left), left[1] >= 5) == ([1], True)  # withdrawn; those of the second are in its outcome


@IN_THE_BODY
@pytest.mark.parametrize("how", ["cuts", "clean_cuts"])
def test_broken_after_40_chunks_the_run_pauses_and_a_resume_has_the_second_stream_only(folder, stub, workflow, how):
    stub.configure(script=SCRIPT, **{how: [40]})
    broken = folder(*command(workflow))
    assert broken.code != 0
    assert folder.types("r")[-2:] == ["step_failed", "run_paused"]
    resumed = folder("resume", "r", f"{AGENTS}:{workflow}", "--json")
    assert (resumed.code, resumed.object, len(stub.log)) == (0, WORDS, 2)


@IN_A_STEP
@pytest.mark.parametrize("how", ["cuts", "clean_cuts"])
def test_broken_in_a_function_of_its_own_the_second_try_has_the_answer(folder, stub, workflow, how):
    stub.configure(script=SCRIPT, **{how: [40]})
    ended = folder(*command(workflow))
    assert (ended.code, ended.object, len(stub.log)) == (0, WORDS, 2)
    assert folder.types("r").count("retry_set") == 1
