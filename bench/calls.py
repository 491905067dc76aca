"""What is measured of model calls: the real openai client, against the stub in a process of its own.

`python bench/calls.py` is that process: it prints its address and ends with its input.
"""

import asyncio
import contextlib
import os
import subprocess
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import openai
from openai.types.chat import ChatCompletion

import counterfoil
from counterfoil import Context, Journal
from counterfoil.testing.stubs import StubModel

QUESTION: list[Any] = [
    {"role": "system", "content": "Be short."},
    {"role": "user", "content": "Is it raining in Oslo?"},
]
TURN_BYTES = 5_000


class Clients:
    """One client as it is made, and the same one wrapped."""

    def __init__(self, url: str) -> None:
        self.bare = openai.AsyncOpenAI(base_url=f"{url}/v1", api_key="sk-for-the-benchmark")
        self.wrapped = counterfoil.wrap(self.bare)

    @counterfoil.model
    async def ask(self, messages: list[Any]) -> ChatCompletion:
        return await self.bare.chat.completions.create(model="stub-model", messages=messages)

    async def bare_calls(self, count: int) -> int:
        for _ in range(count):
            await self.ask(QUESTION)
        return count

    async def by_wrap(self, _: Context) -> None:
        await self.wrapped.chat.completions.create(model="stub-model", messages=QUESTION)

    async def by_function(self, _: Context) -> None:
        await self.ask(QUESTION)


class Calls:
    """A run that makes its calls and then waits, so that it can be stopped and replayed again and again."""

    def __init__(self, name: str, call: Callable[[Context], Awaitable[None]]) -> None:
        self._name, self._is_there = name, asyncio.Event()

        @counterfoil.workflow(name=f"bench_{name}")
        async def body(ctx: Context, count: int) -> None:
            for _ in range(count):
                await call(ctx)
            self._is_there.set()
            await asyncio.Event().wait()

        self._body, self._runs = body, 0

    async def live(self, journal: Journal, count: int) -> int:
        """A new run, driven until its last call was answered."""
        self._runs += 1
        return await self._drive(journal, count)

    async def replayed(self, journal: Journal, count: int) -> int:
        """The same run once more, from its record."""
        await self.stop(journal)
        return await self._drive(journal, count)

    async def stop(self, journal: Journal) -> None:
        await journal.stop("the benchmark goes on")
        await asyncio.gather(self._run, return_exceptions=True)

    async def _drive(self, journal: Journal, count: int) -> int:
        self._is_there.clear()
        self._run = asyncio.create_task(journal.run(self._body, count, id=f"{self._name}-{self._runs}"))
        await self._is_there.wait()
        return count


def conversation(wrapped: Any, turns: int) -> Any:
    """A workflow whose conversation grows by a turn with each call, and the size that it comes to."""

    @counterfoil.workflow(name="bench_conversation")
    async def talk(ctx: Context) -> int:
        messages: list[Any] = list(QUESTION)
        for turn in range(turns):
            answer = await wrapped.chat.completions.create(model="stub-model", messages=messages)
            said = {"role": "assistant", "content": answer.choices[0].message.content}
            told = {"role": "user", "content": f"{turn} " + "x" * TURN_BYTES}
            messages += [said, told]
        return sum(len(message["content"]) for message in messages)

    return talk


def bytes_in(folder: Path) -> int:
    """All that a store has on disk."""
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


@contextlib.contextmanager
def stub() -> Iterator[str]:
    """The address of a stub in another process, so that its CPU is not ours."""
    with subprocess.Popen([sys.executable, __file__], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as server:
        assert server.stdin
        assert server.stdout
        yield server.stdout.readline().decode().strip()
        server.stdin.close()


@contextlib.asynccontextmanager
async def journal_in(folder: Path) -> AsyncIterator[Journal]:
    folder.mkdir()  # noqa: ASYNC240 - nothing else runs
    async with counterfoil.open(f"sqlite:///{folder}/runs.db") as journal:
        yield journal


def _serve() -> None:
    with StubModel(script=["final"]) as server:
        print(server.url, flush=True)
        os.read(0, 1)


if __name__ == "__main__":
    _serve()
