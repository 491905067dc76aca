"""Agents that ask a model by a wrapped anthropic client, as a user writes them. The stub model is at $STUB."""

import asyncio
import os

import anthropic

import counterfoil
from counterfoil import Context, workflow

KEY = "sk-0123456789abcdef"
URL = os.environ["STUB"]

client = counterfoil.wrap(anthropic.AsyncAnthropic(base_url=URL, api_key=KEY), worst_cost_usd=0.02)
plain_client = counterfoil.wrap(anthropic.Anthropic(base_url=URL, api_key=KEY))


async def ask(question: str, *, plainly: bool) -> str:
    messages: list[anthropic.types.MessageParam] = [{"role": "user", "content": question}]
    if plainly:
        message = plain_client.messages.create(model="m", max_tokens=99, messages=messages)
    else:
        message = await client.messages.create(model="m", max_tokens=99, messages=messages)
    return "".join(block.text for block in message.content if block.type == "text")


@workflow
async def ask_twice(ctx: Context, plainly: bool) -> list[str]:
    return [await ask("first", plainly=plainly), await ask("second", plainly=plainly)]


@workflow
async def ask_in_branches(ctx: Context, plainly: bool) -> list[str]:
    return await asyncio.gather(*(ask(f"branch {number}", plainly=plainly) for number in range(3)))
