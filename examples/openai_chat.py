"""A weather agent on OpenAI's chat completions.

Each call of the wrapped client in the workflow is a recorded step, and so is each call of a tool. What is recorded is
not asked again after a crash.
"""

import asyncio
import json
from typing import Any

from openai import AsyncOpenAI

import counterfoil
from counterfoil import Context, step, workflow

client = counterfoil.wrap(AsyncOpenAI())  # OPENAI_API_KEY and OPENAI_BASE_URL are read as ever
MODEL = "gpt-5.4-mini"
TOOLS: list[Any] = [
    {
        "type": "function",
        "function": {
            "name": "get_weather",
            "description": "The weather in one city now.",
            "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
        },
    }
]


@step
async def get_weather(city: str) -> str:
    """The tool. It takes its time, as a real service would: time to kill it."""
    print(f"  get_weather({city})", flush=True)
    await asyncio.sleep(len(city) / 4)
    return "rain, 4 degrees" if city == "Oslo" else "sun, 21 degrees"


async def result_of(call: Any) -> dict[str, str]:
    """One message for one call of the tool."""
    weather = await get_weather(**json.loads(call.function.arguments))
    return {"role": "tool", "tool_call_id": call.id, "content": weather}


@workflow
async def weather_agent(ctx: Context, question: str) -> str:
    """Ask until the model wants no tool any more. Tools that it asks for together run together."""
    messages: list[Any] = [{"role": "user", "content": question}]
    while True:
        answer = await client.chat.completions.create(model=MODEL, messages=messages, tools=TOOLS)
        message = answer.choices[0].message
        if not message.tool_calls:
            return message.content or ""
        messages += [message, *await asyncio.gather(*map(result_of, message.tool_calls))]
