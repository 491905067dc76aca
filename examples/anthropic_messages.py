"""A weather agent on Anthropic's messages.

Each call of the wrapped client in the workflow is a recorded step, and so is each call of a tool.
"""

import asyncio
from typing import Any

from anthropic import AsyncAnthropic

import counterfoil
from counterfoil import Context, step, workflow

client = counterfoil.wrap(AsyncAnthropic())  # ANTHROPIC_API_KEY and ANTHROPIC_BASE_URL are read as ever
MODEL = "claude-sonnet-5"
TOOLS: list[Any] = [
    {
        "name": "get_weather",
        "description": "The weather in one city now.",
        "input_schema": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
    }
]


@step
async def get_weather(city: str) -> str:
    """The tool. It takes its time, as a real service would: time to kill it."""
    print(f"  get_weather({city})", flush=True)
    await asyncio.sleep(len(city) / 4)
    return "rain, 4 degrees" if city == "Oslo" else "sun, 21 degrees"


async def result_of(call: Any) -> dict[str, str]:
    """One block for one call of the tool."""
    return {"type": "tool_result", "tool_use_id": call.id, "content": await get_weather(**call.input)}


@workflow
async def weather_agent(ctx: Context, question: str) -> str:
    """Ask until the model wants no tool any more. Tools that it asks for together run together."""
    messages: list[Any] = [{"role": "user", "content": question}]
    while True:
        answer = await client.messages.create(model=MODEL, max_tokens=1024, messages=messages, tools=TOOLS)
        calls = [block for block in answer.content if block.type == "tool_use"]
        if not calls:
            return "".join(block.text for block in answer.content if block.type == "text")
        results = await asyncio.gather(*map(result_of, calls))
        messages += [{"role": "assistant", "content": answer.content}, {"role": "user", "content": results}]
