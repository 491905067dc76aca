"""The ways in which the real clients stream: each as a call, and as what a body sees of it."""

from collections.abc import Callable
from typing import Any, NamedTuple

from tests.integration.wrapping import ANTHROPIC, OPENAI, QUESTION

CHAT = {"model": "m", "messages": QUESTION}
MESSAGE = {"model": "m", "max_tokens": 100, "messages": QUESTION}
RESPONSE = {"model": "m", "input": "Do I need an umbrella in Paris?"}


class StreamForm(NamedTuple):
    """One way to stream: the clients, the call, and what is known at its end."""

    name: str  # of the step
    async_client: Any
    plain_client: Any
    base: str
    ask: Callable[[Any], Any]  # a stream, or the helper that opens one
    is_helper: bool
    final: str | None  # the helper's method that gives the whole answer


def chat(client: Any) -> Any:
    return client.chat.completions.create(**CHAT, stream=True, stream_options={"include_usage": True})


def chat_helper(client: Any) -> Any:
    return client.chat.completions.stream(**CHAT)


def respond(client: Any) -> Any:
    return client.responses.create(**RESPONSE, stream=True)


def respond_helper(client: Any) -> Any:
    return client.responses.stream(**RESPONSE)


def message(client: Any) -> Any:
    return client.messages.create(**MESSAGE, stream=True)


def message_helper(client: Any) -> Any:
    return client.messages.stream(**MESSAGE)


STREAMS = {
    "chat": StreamForm("chat.completions", *OPENAI, chat, False, None),
    "chat helper": StreamForm("chat.completions", *OPENAI, chat_helper, True, "get_final_completion"),
    "responses": StreamForm("responses", *OPENAI, respond, False, None),
    "responses helper": StreamForm("responses", *OPENAI, respond_helper, True, "get_final_response"),
    "messages": StreamForm("messages", *ANTHROPIC, message, False, None),
    "messages helper": StreamForm("messages", *ANTHROPIC, message_helper, True, "get_final_message"),
}


async def read(form: StreamForm, client: Any, seen: list[str], most: int = 1_000_000) -> str | None:
    """Read a stream of an async client; gives the final answer, if there is a helper that has one."""
    opened = form.ask(client) if form.is_helper else await form.ask(client)
    async with opened as stream:
        async for event in stream:
            seen.append(repr(event))
            if len(seen) >= most:
                return None
        return repr(await getattr(stream, form.final)()) if form.final else None


def read_plainly(form: StreamForm, client: Any, seen: list[str], most: int = 1_000_000) -> str | None:
    """The same of a plain client."""
    with form.ask(client) as stream:
        for event in stream:
            seen.append(repr(event))
            if len(seen) >= most:
                return None
        return repr(getattr(stream, form.final)()) if form.final else None
