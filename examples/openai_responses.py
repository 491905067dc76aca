"""A weather agent on OpenAI's responses.

The conversation is kept by the workflow, so a crash loses none of it: what the model and the tools said is on record.
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
        "name": "get_weather",
        "description": "The weather in one city now.",
        "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
    }
]


@step
async def get_weather(city: str) -> str:
    """The tool. It takes its time, as a real service would: time to kill it."""
    print(f"  get_weather({city})", flush=True)
    await asyncio.sleep(len(city) / 4)
    return "rain, 4 degrees" if city == "Oslo" else "sun, 21 degrees"


async def result_of(call: Any) -> dict[str, str]:
    """One item for one call of the tool."""
    weather = await get_weather(**json.loads(call.arguments))
    return {"type": "function_call_output", "call_id": call.call_id, "output": weather}


@workflow
async def weather_agent(ctx: Context, question: str) -> str:
    """Ask until the model wants no tool any more. Tools that it asks for together run together."""
    items: list[Any] = [{"role": "user", "content": question}]
    while True:
        answer = await client.responses.create(model=MODEL, input=items, tools=TOOLS, store=False)
        calls = [item for item in answer.output if item.type == "function_call"]
        if not calls:
            return answer.output_text
        items += [*answer.output, *await asyncio.gather(*map(result_of, calls))]
