"""What type checkers must infer without help."""

from collections.abc import AsyncGenerator, AsyncIterator, Generator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from datetime import datetime
from typing import Any, assert_type
from uuid import UUID

import anthropic
import openai

import counterfoil
from counterfoil import (
    Artifact,
    Call,
    Context,
    Journal,
    Retry,
    Run,
    bind,
    current,
    model,
    run_sync,
    step,
    use,
    workflow,
    wrap,
)


@step
async def weather(city: str, *, unit: str = "C") -> int:
    return len(city + unit)


@step(name="plain one", timeout=None)
def plain(x: int) -> str:
    return str(x)


@model(worst_cost_usd=0.1)
async def ask(question: str, hint: str | None = None) -> list[str]:
    return [question, hint or ""]


class Agent:
    @step
    async def tool(self, n: int) -> bytes:
        return bytes(n)


class Pool:
    def __enter__(self) -> int:
        return 1

    def __exit__(self, *_: object) -> None: ...


def plainly_made() -> Pool:
    return Pool()


async def awaited() -> Pool:
    return Pool()


async def yielded() -> AsyncIterator[Pool]:
    yield Pool()


async def generated() -> AsyncGenerator[Pool, None]:
    yield Pool()


def yielded_plainly() -> Iterator[Pool]:
    yield Pool()


def generated_plainly(*, size: int = 3) -> Generator[Pool, None, None]:
    yield Pool()


@asynccontextmanager
async def async_context(*, inner: Pool = use(awaited)) -> AsyncGenerator[Pool]:
    yield inner


@contextmanager
def context() -> Generator[Pool]:
    yield Pool()


assert_type(use(plainly_made), Pool)
assert_type(use(Pool), Pool)
assert_type(use(awaited), Pool)
assert_type(use(yielded), Pool)
assert_type(use(generated), Pool)
assert_type(use(yielded_plainly), Pool)
assert_type(use(generated_plainly), Pool)
assert_type(use(async_context), Pool)
assert_type(use(context), Pool)


@step
async def save(n: int, *, db: Pool = use(yielded)) -> int:
    return n


@workflow
async def trip(ctx: Context, question: str, depth: int = 3) -> float:
    assert_type(ctx.now(), datetime)
    assert_type(ctx.random(), float)
    assert_type(ctx.uuid(), UUID)
    assert_type(ctx.run_id, str)
    assert_type(ctx.is_replaying, bool)
    assert_type(ctx.tags, Mapping[str, str])
    assert_type(await ctx.step(weather, "Oslo"), int)
    assert_type(await ctx.step(weather, "Oslo", unit="F"), int)
    assert_type(await ctx.step(plain, 3), str)
    assert_type(await ctx.model(ask, question, hint="x"), list[str])
    assert_type(await ctx.step(Agent().tool, 3), bytes)
    assert_type(await ctx.step(bind(weather, "Oslo", unit="F")), int)
    assert_type(await ctx.step(save, 3), int)
    assert_type(await ctx.step(save, 3, db=Pool()), int)
    assert_type(await save(3), int)
    assert_type(await ctx.with_options(name="other").step(plain, depth), str)
    assert_type(ctx.with_options(timeout=3), Context)
    assert_type(await weather("Oslo"), int)
    assert_type(await ask("why"), list[str])
    assert_type(await Agent().tool(3), bytes)
    assert_type(current(), Context)
    assert_type(await ctx.artifact(b"x", "text/plain"), Artifact)
    assert_type(await ctx.read(await ctx.artifact(b"x")), bytes)
    return 1.0


@workflow(name="by keyword")
async def keyword(ctx: Context, *, question: str) -> None:
    assert_type(await trip(ctx, question), float)


@workflow
async def bare(ctx: Context) -> dict[str, int]:
    return {}


async def main(journal: Journal) -> None:
    assert_type(bind(weather, "Oslo"), Call[int])
    assert_type(bind(plain, 3), Call[str])
    assert_type(bind(trip, "q", depth=4), Call[float])
    assert_type(bind(keyword, question="q"), Call[None])
    assert_type(await journal.run(trip, "q", 3), float)
    assert_type(await journal.run(bind(trip, "q"), id="r"), float)
    assert_type(await journal.run(bare, id="r", tags={"a": "b"}), dict[str, int])
    assert_type(await journal.start(trip, "q", 3, id="r"), Run[float])
    assert_type(await journal.start(bind(keyword, question="q")), Run[None])
    assert_type(await journal.get("r", trip), Run[float])
    assert_type(await journal.get("r"), Run[Any])
    assert_type(await (await journal.get("r", trip)).result(timeout=3), float)
    assert_type(await (await journal.get("r", bare)).refresh(), Run[dict[str, int]])
    assert_type(await journal.resume("r", trip), float)
    assert_type(await journal.resume("r", keyword, who="me"), None)


def plainly() -> None:
    assert_type(run_sync(trip, "q", 3, id="r"), float)
    assert_type(run_sync(bare), dict[str, int])
    assert_type(counterfoil.open("memory://"), Journal)
    assert_type(counterfoil.open("memory://", overrides={yielded: Pool(), context: None}), Journal)


def clients() -> None:
    assert_type(wrap(openai.AsyncOpenAI()), openai.AsyncOpenAI)
    assert_type(wrap(openai.OpenAI(), retry=Retry(tries=1), worst_cost_usd=0.1), openai.OpenAI)
    assert_type(wrap(anthropic.AsyncAnthropic(), timeout=30, on_unknown="pause"), anthropic.AsyncAnthropic)


async def asked(client: openai.AsyncOpenAI) -> None:
    answer = await wrap(client).chat.completions.create(model="m", messages=[{"role": "user", "content": "?"}])
    assert_type(answer.choices[0].message.content, str | None)
