"""Agents that ask a model by a wrapped openai client, as a user writes them. The stub model is at $STUB."""

import asyncio
import os

import openai

import counterfoil
from counterfoil import Context, workflow

KEY = "sk-0123456789abcdef"
URL = f"{os.environ['STUB']}/v1"

client = counterfoil.wrap(openai.AsyncOpenAI(base_url=URL, api_key=KEY), worst_cost_usd=0.02)
plain_client = counterfoil.wrap(openai.OpenAI(base_url=URL, api_key=KEY))


async def ask(question: str, *, plainly: bool) -> str:
    if plainly:
        return plain_client.responses.create(model="m", input=question).output_text
    answer = await client.chat.completions.create(model="m", messages=[{"role": "user", "content": question}])
    return answer.choices[0].message.content or ""


@workflow
async def ask_twice(ctx: Context, plainly: bool) -> list[str]:
    return [await ask("first", plainly=plainly), await ask("second", plainly=plainly)]


@workflow
async def ask_in_branches(ctx: Context, plainly: bool) -> list[str]:
    return await asyncio.gather(*(ask(f"branch {number}", plainly=plainly) for number in range(3)))
