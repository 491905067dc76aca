"""The examples by the command line, against the stub: killed anywhere and resumed, they ask nothing again (J2).

Each asks its model, calls two tools at a time, and asks again; `own_function` asks three times, saves, and asks again.
What left is counted by the stub, and by what the tools print. The commands are those of the examples' page.
"""

import shlex
import shutil
from dataclasses import dataclass
from pathlib import Path

import pytest

from counterfoil.testing.stubs import StubModel, tool_call, tool_calls

pytestmark = [pytest.mark.sdk, pytest.mark.timeout(300)]  # three processes, one after the other

EXAMPLES = Path(__file__).parents[2] / "examples"
LINES = (EXAMPLES / "README.md").read_text().splitlines()
COMMANDS = [shlex.split(line)[1:] for line in LINES if line.startswith("counterfoil run") and line[-1] != "&"]
KEY = "sk-0123456789abcdef"
CITIES = tool_calls(tool_call("get_weather", city="Oslo"), tool_call("get_weather", city="Casablanca"))
BOTH = ["get_weather(Oslo)", "get_weather(Casablanca)"]


@dataclass(frozen=True)
class Example:
    """One of the examples, and what it does when nobody disturbs it."""

    file: str
    before: int  # how often the model is asked before the tools
    tools: list[str]  # what they print

    @property
    def run(self):
        """The command that its page gives."""
        (command,) = (each for each in COMMANDS if each[1].startswith(self.file))
        return command

    @property
    def id(self):
        return self.run[3]

    @property
    def resume(self):
        return "resume", self.id, self.run[1]

    def script(self, asked):
        """What the model says, once it has been asked so often."""
        first = CITIES if self.before == 1 else "final"
        return [*[first] * self.before, "final"][asked:]


ALL = [
    Example("openai_chat.py", 1, BOTH),
    Example("openai_responses.py", 1, BOTH),
    Example("anthropic_messages.py", 1, BOTH),
    Example("own_function.py", 3, ["save(opinions.txt)"]),
]


@pytest.fixture
def stub(folder):
    """The provider, where the clients look for theirs."""
    with StubModel(strict=True) as stub:
        shutil.copytree(EXAMPLES, folder.path, dirs_exist_ok=True)
        folder.environment |= {"OPENAI_BASE_URL": f"{stub.url}/v1", "OPENAI_API_KEY": KEY}
        folder.environment |= {"ANTHROPIC_BASE_URL": stub.url, "ANTHROPIC_API_KEY": KEY}
        yield stub


@pytest.fixture(params=ALL, ids=lambda each: each.file)
def example(request):
    return request.param


def plan(stub, example, *, asked=0, **plan):
    """From now on requests are counted anew, and the model says what is left to say."""
    stub.configure(script=example.script(asked), strict=True, **plan)


def is_in_its_last_tool(folder, example):
    """Whether all has begun, and all but one tool has an outcome."""
    types, begun = folder.types(example.id), example.before + len(example.tools)
    return (types.count("step_intended"), types.count("step_succeeded")) == (begun, begun - 1)


def killed(folder, example, until):
    """A process that is killed as soon as this is so: what its tools had printed."""
    live = folder.start(*example.run)
    folder.wait_for(until)
    return tools_of(live.kill())


def tools_of(ended):
    return [line.strip() for line in ended.out.splitlines() if line.startswith("  ")]


def test_killed_in_a_tool_and_in_a_model_call_it_repeats_only_these(folder, stub, example):
    plan(stub, example)
    assert killed(folder, example, lambda: is_in_its_last_tool(folder, example)) == example.tools
    assert len(stub.log) == example.before
    plan(stub, example, asked=example.before, delays=[60.0])
    assert killed(folder, example, lambda: len(stub.log) == 1) == example.tools[-1:]
    plan(stub, example, asked=example.before)
    ended = folder(*example.resume)
    assert (ended.code, ended.out.splitlines()[-1:], tools_of(ended)) == (0, ['"Take an umbrella."'], []), ended.err
    assert [call.status for call in stub.log] == [200]
    assert KEY.encode() not in folder.store.read_bytes()


def test_killed_in_the_middle_of_a_sentence_it_asks_again_and_says_the_whole_of_it(folder, stub):
    example = ALL[2]
    plan(stub, example, asked=1, paces=[0.5])
    killed(folder, example, lambda: any(call.events_sent > 3 for call in stub.log))
    plan(stub, example, asked=1)
    ended = folder(*example.run)
    assert ended.out.splitlines() == ["Take an umbrella.", '"Take an umbrella."']
    assert [(call.streamed, call.delivered) for call in stub.log] == [(True, True)]
