"""FC-33: killed anywhere in a round of three tools, the model gets one result for each, in its own order (J2, J4).

The stub refuses a conversation in which a call has no result, as providers do. What a tool was cut off from its result
is told in words, if its step says `on_unknown="raise"`; else the tool is called again.
"""

from pathlib import Path

import pytest

from counterfoil.testing.forks import ForkServer
from counterfoil.testing.stubs import StubModel, prompt_digest, tool_call, tool_calls

TOOLS = ["weather", "hotel", "train"]
ASKED = tool_calls(*map(tool_call, TOOLS))
QUESTION = [{"role": "user", "content": "Plan my trip."}]
RESULTS = {name: f"result of {name}" for name in TOOLS}
TOGETHER = ["in_a_gather", "in_a_group", "in_a_group_with_a_cut"]
CUT = {"in_a_group_with_a_cut": {"hotel": "hotel: cancelled"}}
DEATHS = ["when all have begun", "after train", "after weather", "after hotel", "after all"]
STORE_CALLS = 17
POINTS = [(when, number) for number in range(1, STORE_CALLS + 1) for when in ("before", "after")]
AGAIN = [(when, number) for number in (5, 7) for when in ("before", "after")]


@pytest.fixture(scope="module")
def server():
    """Forks of the agent."""
    with ForkServer(Path(__file__).parent / "rounds.py") as server:
        yield server


@pytest.fixture(scope="module")
def stub():
    with StubModel() as stub:
        yield stub


@pytest.fixture(params=["raise", "repeat"])
def on_unknown(request):
    return request.param


class Round:
    """One run of the agent, by process after process."""

    def __init__(self, place, stub, *, together, on_unknown):
        self.place, self.stub, self.together, self.on_unknown = place, stub, together, on_unknown
        self.how = {"url": stub.url, "together": together, "on_unknown": on_unknown}
        stub.configure(script=[ASKED, "final"], strict=True)

    def start(self, **how):
        """A process that begins, and may be killed; the tools end in turn."""
        return self.place.start("run", self.how | {"in_turn": True} | how)

    def go_on(self):
        """The moments before and after a process that goes on; the stub tells the rest of its story."""
        asked = self.place.look().recorded.count("model ask")
        self.stub.configure(script=[ASKED, "final"][asked:] or ["final"], strict=True)
        return self.place.go_on("run", self.how)

    def asked(self, at):
        """What a process is to ask the model that goes on from this moment: status and conversation."""
        conversations = [prompt_digest(QUESTION), prompt_digest([*QUESTION, ASKED, *self.told(at)])]
        return [(200, each) for each in conversations[at.recorded.count("model ask") :]]

    def told(self, at):
        """One result for each tool, in the order in which the model asked for them."""
        lost = {tool: f"{tool}: outcome unknown" for tool in TOOLS if f"tool {tool}" in [*at.open, *at.unknown]}
        results = RESULTS | (lost if self.on_unknown == "raise" else {}) | CUT.get(self.together, {})
        calls = zip(ASKED["tool_calls"], TOOLS, strict=True)
        return [{"role": "tool", "tool_call_id": call["id"], "content": results[tool]} for call, tool in calls]


@pytest.fixture(params=TOGETHER)
def round_of_tools(request, place, stub, on_unknown):
    return Round(place, stub, together=request.param, on_unknown=on_unknown)


def asked_of(stub):
    return [(call.status, call.prompt_digest) for call in stub.log]


def test_an_undisturbed_round_is_told_in_the_order_it_was_asked_for(round_of_tools, stub, place):
    at_first = place.look()
    assert len(round_of_tools.start().result()) <= STORE_CALLS
    assert asked_of(stub) == round_of_tools.asked(at_first)
    assert place.calls == {"model ask": 2} | dict.fromkeys([f"tool {tool}" for tool in TOOLS], 1)


@pytest.mark.parametrize("death", DEATHS)
def test_killed_between_any_two_tools_the_model_is_told_of_each_once(round_of_tools, stub, *, death):
    assert round_of_tools.start(death=death).is_killed
    at_the_kill, ended = round_of_tools.go_on()
    assert asked_of(stub) == round_of_tools.asked(at_the_kill)
    assert (ended.state, ended.result, ended.flaws) == ("completed", "Take an umbrella.", [])


@pytest.mark.parametrize("on_unknown", ["raise"], indirect=True)
@pytest.mark.parametrize(("when", "number"), POINTS)
def test_killed_at_any_store_call_the_model_is_told_of_each_tool_once(round_of_tools, stub, when, *, number):
    process = round_of_tools.start(kill_at={when: number})
    assert process.is_killed or len(process.result()) < number
    at_the_kill, ended = round_of_tools.go_on()
    assert asked_of(stub) == round_of_tools.asked(at_the_kill)
    assert {ended.calls.get(f"tool {tool}", 0) for tool in TOOLS} <= {0, 1}  # what may have happened is not done again


@pytest.mark.parametrize("on_unknown", ["raise"], indirect=True)
@pytest.mark.parametrize("death", DEATHS[:3])
@pytest.mark.parametrize(("when", "number"), AGAIN)
def test_a_kill_while_going_on_changes_no_rule(round_of_tools, stub, death, *, when, number):
    assert round_of_tools.start(death=death).is_killed
    round_of_tools.start(kill_at={when: number}, in_turn=False)
    at_the_kill, ended = round_of_tools.go_on()
    assert asked_of(stub) == round_of_tools.asked(at_the_kill)
    assert (ended.state, ended.result, ended.flaws) == ("completed", "Take an umbrella.", [])
