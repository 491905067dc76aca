"""Agents that ask a model by wrapped clients, as a user writes them. The stub model is at $STUB."""

import asyncio
import os

import anthropic
import openai

import counterfoil
from counterfoil import Context, workflow

STUB = os.environ["STUB"]
KEY = "sk-0123456789abcdef"

gpt = counterfoil.wrap(openai.AsyncOpenAI(base_url=f"{STUB}/v1", api_key=KEY), worst_cost_usd=0.02)
plain_gpt = counterfoil.wrap(openai.OpenAI(base_url=f"{STUB}/v1", api_key=KEY))
claude = counterfoil.wrap(anthropic.AsyncAnthropic(base_url=STUB, api_key=KEY))
plain_claude = counterfoil.wrap(anthropic.Anthropic(base_url=STUB, api_key=KEY))


async def ask_gpt(question: str) -> str:
    answer = await gpt.chat.completions.create(model="m", messages=[{"role": "user", "content": question}])
    return answer.choices[0].message.content or ""


async def ask_plain_gpt(question: str) -> str:
    return plain_gpt.responses.create(model="m", input=question).output_text


async def ask_claude(question: str) -> str:
    message = await claude.messages.create(model="m", max_tokens=99, messages=[{"role": "user", "content": question}])
    return "".join(block.text for block in message.content if block.type == "text")


async def ask_plain_claude(question: str) -> str:
    message = plain_claude.messages.create(model="m", max_tokens=99, messages=[{"role": "user", "content": question}])
    return "".join(block.text for block in message.content if block.type == "text")


ASKS = {"gpt": ask_gpt, "plain_gpt": ask_plain_gpt, "claude": ask_claude, "plain_claude": ask_plain_claude}


@workflow
async def ask_twice(ctx: Context, who: str) -> list[str]:
    return [await ASKS[who]("first"), await ASKS[who]("second")]


@workflow
async def ask_in_branches(ctx: Context, who: str) -> list[str]:
    return await asyncio.gather(*(ASKS[who](f"branch {number}") for number in range(3)))
