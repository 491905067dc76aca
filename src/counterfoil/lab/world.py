"""What the lab's two agents share: their model, their tool, and the prompt they start from.

Everything here is outside the journal. Model and tool are plain blocking HTTP calls to the stub
server, so the stub sees each one made, whatever the journal says. The settings come from the
environment, because that is what differs between two processes of one run.
"""

import contextlib
import json
import os
import urllib.request
from dataclasses import dataclass
from typing import Any, TypeAlias

from counterfoil import model, this_step
from counterfoil.errors import NotInRunError

Message: TypeAlias = dict[str, Any]

PROMPT = "You help people to dress for the weather."
WEATHER_TOOL = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "parameters": {"type": "object", "properties": {"city": {"type": "string"}}},
    },
}


@dataclass(frozen=True)
class Decision:
    """What the model decided: to answer, or to look at the weather somewhere."""

    message: Message  # as the model worded it
    answer: str  # empty as long as the model asks for the tool
    city: str


def opening(question: str) -> list[Message]:
    """Begin a conversation, under the system prompt of this process."""
    prompt = os.environ.get("LAB_PROMPT", PROMPT)
    return [{"role": "system", "content": prompt}, {"role": "user", "content": question}]


def ask(history: list[Message]) -> Decision:
    """Ask the model what to do next."""
    options = json.loads(os.environ.get("LAB_OPTIONS", "{}"))
    request = {"model": "stub-model", "messages": history, "tools": [WEATHER_TOOL], **options}
    message = _post("/v1/chat/completions", request)["choices"][0]["message"]
    if calls := message.get("tool_calls"):
        return Decision(message, "", json.loads(calls[0]["function"]["arguments"])["city"])
    return Decision(message, message["content"], "")


paid_ask = model(worst_cost_usd=0.02)(ask)


def get_weather(city: str) -> str:
    """Look up the weather in a city."""
    return str(_post("/tools/get_weather", {"city": city})["report"])


def told(history: list[Message], decision: Decision, weather: str) -> list[Message]:
    """Go on with the conversation: what the model asked for, and what the tool said."""
    call_id = decision.message["tool_calls"][0]["id"]
    result = {"role": "tool", "tool_call_id": call_id, "content": weather}
    return [*history, decision.message, result]


def pause_seconds() -> float:
    """Say how long the rate limit makes the agent wait."""
    return float(os.environ.get("LAB_PAUSE", "1"))


def _post(path: str, body: dict[str, Any]) -> Any:
    headers = {"content-type": "application/json"}
    if process := os.environ.get("LAB_PROCESS"):
        headers["x-lab-process"] = process
    with contextlib.suppress(NotInRunError):  # the naive agent's call belongs to no step
        step = this_step()
        headers |= {"x-lab-attempt": str(step.attempt), "idempotency-key": step.provider_key}
    url = os.environ["LAB_STUB"] + path
    request = urllib.request.Request(url, json.dumps(body).encode(), headers)  # noqa: S310
    with urllib.request.urlopen(request, timeout=120) as response:  # noqa: S310
        return json.load(response)
