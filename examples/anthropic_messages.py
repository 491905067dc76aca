"""A weather agent on Anthropic's messages, which shows what the model says while it says it.

The pieces of a stream are recorded as they come. A replay shows them again, without asking the model.
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


async def answer_to(messages: list[Any]) -> Any:
    """One answer of the model, shown piece by piece."""
    async with client.messages.stream(model=MODEL, max_tokens=1024, messages=messages, tools=TOOLS) as stream:
        async for text in stream.text_stream:
            print(text, end="", flush=True)
        print()
        return await stream.get_final_message()


@workflow
async def weather_agent(ctx: Context, question: str) -> str:
    """Ask until the model wants no tool any more. Tools that it asks for together run together."""
    messages: list[Any] = [{"role": "user", "content": question}]
    while True:
        answer = await answer_to(messages)
        calls = [block for block in answer.content if block.type == "tool_use"]
        if not calls:
            return "".join(block.text for block in answer.content if block.type == "text")
        results = await asyncio.gather(*map(result_of, calls))
        messages += [{"role": "assistant", "content": answer.content}, {"role": "user", "content": results}]
