"""Workflows for the tests of the command line.

Every outside call leaves a line in the file `calls` of the folder the command runs in. A held call goes on once the
file `hold` is gone; what is broken works once the file `mended` is there.
"""

# ruff: noqa: ASYNC110, ASYNC240, ASYNC251 - a held call waits for a file, blocking or not

import asyncio
import json
import os
import sys
import time
import urllib.request
from dataclasses import dataclass
from pathlib import Path

from counterfoil import Context, Retry, model, step, workflow


@dataclass(frozen=True)
class Order:
    item: str
    cents: int


def called(name: str) -> None:
    with Path("calls").open("a") as file:
        file.write(f"{name}\n")


@step
def price(item: str) -> int:
    called("price")
    return 5 * len(item)


@step
async def hold_on() -> str:
    called("hold_on")
    while Path("hold").exists():
        await asyncio.sleep(0.01)
    return "held"


@step(retry=Retry(tries=1))
def pay(cents: int) -> str:
    called("pay")
    if not Path("mended").exists():
        raise ConnectionError("the bank is \x1b[31mclosed\x1b[0m")
    return f"paid {cents}"


@model(worst_cost_usd=0.02)
def ask(prompt: str) -> str:
    body = {"model": "stub", "messages": [{"role": "user", "content": prompt}]}
    headers = {"content-type": "application/json"}
    request = urllib.request.Request(f"{os.environ['STUB']}/v1/chat/completions", json.dumps(body).encode(), headers)
    with urllib.request.urlopen(request, timeout=60) as response:
        return json.load(response)["choices"][0]["message"]["content"]


@workflow
async def buy(ctx: Context, item: str, count: int = 1) -> Order:
    return Order(item, count * await ctx.step(price, item))


@workflow
async def reserve(ctx: Context, item: str) -> Order:
    cents = await ctx.step(price, item)
    await ctx.step(hold_on)
    return Order(item, cents + await ctx.step(price, item))


@workflow
async def nap(ctx: Context, seconds: float) -> int:
    first = await ctx.step(price, "before")
    await ctx.sleep(seconds)
    return first + await ctx.step(price, "after")


@workflow
async def consult(ctx: Context, question: str) -> str:
    prompt = os.environ.get("PROMPT", "Be brief.")
    first = await ctx.model(ask, f"{prompt} {question}")
    cents = await ctx.step(price, "advice")
    second = await ctx.model(ask, f"{first} And then?")
    return f"{first}; {second}; {cents}"


@workflow
async def settle(ctx: Context) -> str:
    return await ctx.step(pay, await ctx.step(price, "debt"))


@step(retry=Retry(tries=1))
def send(item: str) -> str:
    called("send")
    raise ConnectionError("the road is closed")


@workflow
async def ship(ctx: Context, item: str) -> str:
    await ctx.step(price, item)
    return await ctx.step(send, item)


@workflow
async def refuse(ctx: Context, item: str) -> None:
    await ctx.step(price, item)
    raise ValueError(f"{item} is sold out")


@workflow
async def leave(ctx: Context) -> None:
    await ctx.step(price, "door")
    if not Path("mended").exists():
        sys.exit(3)


@workflow
async def block(ctx: Context) -> str:
    called("block")
    while Path("hold").exists():
        time.sleep(0.01)
    return "unblocked"
