"""Functions that ask the stub model by a real client, async or in a thread; each is what a step is made of."""

import asyncio
from typing import Any

import openai

PATH = "/v1/chat/completions"
QUESTIONS = ("one", "two", "three")
STUB: Any = None
REQUEST: Any = None
"""Kept here by a test for its functions: what they took from around them would be part of their input."""


def body(question: str = "Do I need an umbrella?") -> dict[str, Any]:
    """A request for a chat completion."""
    return {"model": "m", "messages": [{"role": "user", "content": question}]}


def raw(module, url, *, is_async):
    """Posts a question so many times, one after the other, by a bare client of this module."""

    def ask(count: int = 1) -> str:
        with module.Client() as client:
            return [client.post(f"{url}{PATH}", json=body()).text for _ in range(count)][-1]

    async def ask_async(count: int = 1) -> str:
        async with module.AsyncClient() as client:
            return [(await client.post(f"{url}{PATH}", json=body())).text for _ in range(count)][-1]

    return ask_async if is_async else ask


def sdk(url, *, is_async, **options):
    """Asks once by the openai client, which repeats by itself."""
    options = {"base_url": f"{url}/v1", "api_key": "sk-test-0123456789", **options}

    def ask(question: str = "Do I need an umbrella?") -> str:
        with openai.OpenAI(**options) as client:
            return client.chat.completions.create(**body(question)).choices[0].message.content

    async def ask_async(question: str = "Do I need an umbrella?") -> str:
        async with openai.AsyncOpenAI(**options) as client:
            made = await client.chat.completions.create(**body(question))
            return made.choices[0].message.content

    return ask_async if is_async else ask


def together(module, url):
    """Posts the questions of this module at the same time, and returns the statuses."""

    async def ask_all() -> list[int]:
        async with module.AsyncClient() as client:
            made = await asyncio.gather(*(client.post(f"{url}{PATH}", json=body(each)) for each in QUESTIONS))
            return [each.status_code for each in made]

    return ask_all


def sends_of(events):
    """All requests that the outcomes list, in order."""
    return [send for event in events for send in getattr(event.body, "sends", ())]


def dispatched(events):
    """The further requests of a try, as they were written down before they left."""
    return [event.body for event in events if event.type == "step_dispatched"]
