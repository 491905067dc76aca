"""Wrapped clients in real processes that are killed and resumed, the calls counted by the server (J2, J4)."""

import json
from pathlib import Path

import pytest

AGENTS = Path(__file__).parent / "agents"
ANSWER = "Take an umbrella."

pytestmark = pytest.mark.sdk
CLIENTS = pytest.mark.parametrize(("agent", "plainly"), [(a, p) for a in ("gpt", "claude") for p in (False, True)])
ARRIVAL_SECONDS = 30.0
"""Importing a client takes seconds on a busy computer."""


def command(workflow, agent, plainly):
    file = AGENTS / f"{agent}.py"
    return ("run", f"{file}:{workflow}", "--id", "r", "--input", json.dumps({"plainly": plainly}), "--json")


@CLIENTS
def test_killed_in_the_second_call_the_first_is_not_made_again_and_the_lost_one_is_on_record(
    folder, stub, agent, plainly
):
    stub.configure(script=["final"], delays=[0.0, 60.0])
    live = folder.start(*command("ask_twice", agent, plainly))
    stub.wait_for(lambda log: len(log) == 2, timeout=ARRIVAL_SECONDS)
    live.kill()  # one answer recorded, one call lost
    ended = folder(*command("ask_twice", agent, plainly))
    assert (ended.code, ended.object) == (0, [ANSWER, ANSWER])
    assert len(stub.log) == 3  # the first, the lost one, its repeat
    assert folder.types("r").count("outcome_unknown") == 1


@CLIENTS
def test_killed_with_three_branches_under_way_only_what_was_lost_is_asked_again(folder, stub, agent, plainly):
    stub.configure(script=["final"], delays=[0.0, 60.0, 60.0])
    live = folder.start(*command("ask_in_branches", agent, plainly))
    stub.wait_for(lambda log: len(log) == 3, timeout=ARRIVAL_SECONDS)
    folder.wait_for(lambda: "step_succeeded" in folder.types("r"))
    live.kill()  # one answer recorded, two calls lost
    ended = folder(*command("ask_in_branches", agent, plainly))
    assert (ended.code, ended.object) == (0, [ANSWER] * 3)
    assert len(stub.log) == 5
    assert folder.types("r").count("outcome_unknown") == 2
