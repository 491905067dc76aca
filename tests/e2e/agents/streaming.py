"""Agents that stream: by a wrapped client in the body, and in a function of their own. The stub model is at $STUB."""

import os

import openai

import counterfoil
from counterfoil import Context, workflow

STUB = os.environ["STUB"]
KEY = "sk-0123456789abcdef"
gpt = counterfoil.wrap(openai.AsyncOpenAI(base_url=f"{STUB}/v1", api_key=KEY, max_retries=0))
plain_gpt = counterfoil.wrap(openai.OpenAI(base_url=f"{STUB}/v1", api_key=KEY, max_retries=0))


async def listen(question: str) -> str:
    asked = [{"role": "user", "content": question}]
    async with await gpt.chat.completions.create(model="m", messages=asked, stream=True) as stream:
        return "".join([chunk.choices[0].delta.content or "" async for chunk in stream if chunk.choices])


def listen_plainly(question: str) -> str:
    asked = [{"role": "user", "content": question}]
    with plain_gpt.chat.completions.create(model="m", messages=asked, stream=True) as stream:
        return "".join(chunk.choices[0].delta.content or "" for chunk in stream if chunk.choices)


@workflow
async def in_the_body(ctx: Context) -> str:
    return await listen("Say a hundred words.")


@workflow
async def plainly_in_the_body(ctx: Context) -> str:
    return listen_plainly("Say a hundred words.")


@workflow
async def in_a_step(ctx: Context) -> str:
    return await ctx.model(listen, "Say a hundred words.")


@workflow
async def plainly_in_a_step(ctx: Context) -> str:
    return await ctx.model(listen_plainly, "Say a hundred words.")
