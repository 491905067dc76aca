"""A model called by a function of your own, with any HTTP client and any provider.

The function is a model step: its call is on record before it leaves, and its answer before you see it. The client is
no part of the record: `use(client)` opens it when the first live step needs it.
"""

import asyncio
import os
import time
from collections.abc import AsyncIterator
from pathlib import Path

import httpx

from counterfoil import Context, Retry, model, step, use, workflow

URL = os.environ.get("OPENAI_BASE_URL", "https://api.openai.com/v1")
MODEL = "gpt-5.4-mini"
ROLES = ("an optimist", "a pessimist", "a lawyer")


async def client() -> AsyncIterator[httpx.AsyncClient]:
    """One client for all live steps of a process, closed with the journal."""
    key = {"authorization": f"Bearer {os.environ['OPENAI_API_KEY']}"}
    async with httpx.AsyncClient(base_url=URL, headers=key, timeout=60) as opened:
        yield opened


@model(retry=Retry(tries=3), worst_cost_usd=0.01)
async def ask(prompt: str, *, http: httpx.AsyncClient = use(client)) -> str:
    """One answer. A status that may pass by itself, such as 429, is tried again, as the record shows."""
    body = {"model": MODEL, "messages": [{"role": "user", "content": prompt}]}
    response = await http.post("chat/completions", json=body)
    response.raise_for_status()
    return str(response.json()["choices"][0]["message"]["content"])


@step
def save(file: str, text: str) -> int:
    """Written in a thread, and done again if it was cut off: the same text in the same place."""
    print(f"  save({file})", flush=True)
    time.sleep(2)
    return Path(file).write_text(text, encoding="utf-8")


@workflow
async def council(ctx: Context, question: str) -> str:
    """Ask three at a time, keep what they said, and have it summed up."""
    opinions = await asyncio.gather(*(ctx.model(ask, f"You are {role}. {question}") for role in ROLES))
    await ctx.step(save, "opinions.txt", "\n\n".join(opinions))
    return await ctx.model(ask, "Sum these up in two sentences:\n\n" + "\n\n".join(opinions))
