"""The real clients, asked alike: one face for three protocols, sync and async."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import anthropic
import openai

from counterfoil.testing.stubs import StubModel

QUESTION = "Do I need an umbrella in Paris?"
PROMPT = [{"role": "user", "content": QUESTION}]


@dataclass(frozen=True)
class Said:
    """What a client makes of an answer."""

    text: str | None
    calls: list[tuple[str, str, Any]]  # id, name, arguments
    ending: str | None
    tokens: int


@dataclass(frozen=True)
class Protocol:
    """How one protocol is asked, and how its answer is read."""

    api: str
    sync_client: type
    async_client: type
    path: str
    ask: Callable[..., Any]
    stream: Callable[..., Any]
    final: str
    read: Callable[[Any], Said]
    pieces: Callable[[Any], str | None]

    def client(self, stub: StubModel, **options: Any) -> Any:
        return self.sync_client(base_url=stub.url + self.path, api_key="none", **{"max_retries": 0, **options})

    def async_of(self, stub: StubModel, **options: Any) -> Any:
        return self.async_client(base_url=stub.url + self.path, api_key="none", **{"max_retries": 0, **options})


@contextmanager
def asking(protocol: Protocol, client_options: dict[str, Any] | None = None, **plan: Any) -> Iterator[tuple]:
    """A stub with this plan, and a sync client of the protocol."""
    with StubModel(**plan) as stub, protocol.client(stub, **(client_options or {})) as client:
        yield stub, client


def _read_chat(answer: Any) -> Said:
    choice = answer.choices[0]
    calls = [(call.id, call.function.name, call.function.arguments) for call in choice.message.tool_calls or ()]
    return Said(choice.message.content, calls, choice.finish_reason, answer.usage.total_tokens)


def _read_response(answer: Any) -> Said:
    calls = [(each.call_id, each.name, each.arguments) for each in answer.output if each.type == "function_call"]
    return Said(answer.output_text or None, calls, answer.status, answer.usage.total_tokens)


def _read_message(answer: Any) -> Said:
    texts = [block.text for block in answer.content if block.type == "text"]
    calls = [(block.id, block.name, block.input) for block in answer.content if block.type == "tool_use"]
    total = answer.usage.input_tokens + answer.usage.output_tokens
    return Said("".join(texts) or None, calls, answer.stop_reason, total)


USAGE = {"stream_options": {"include_usage": True}}

CHAT = Protocol(
    api="chat.completions",
    sync_client=openai.OpenAI,
    async_client=openai.AsyncOpenAI,
    path="/v1",
    ask=lambda client, **more: client.chat.completions.create(**{"model": "m", "messages": PROMPT, **more}),
    stream=lambda client: client.chat.completions.stream(model="m", messages=PROMPT, **USAGE),
    final="get_final_completion",
    read=_read_chat,
    pieces=lambda chunk: chunk.choices[0].delta.content,
)
RESPONSES = Protocol(
    api="responses",
    sync_client=openai.OpenAI,
    async_client=openai.AsyncOpenAI,
    path="/v1",
    ask=lambda client, **more: client.responses.create(**{"model": "m", "input": QUESTION, **more}),
    stream=lambda client: client.responses.stream(model="m", input=QUESTION),
    final="get_final_response",
    read=_read_response,
    pieces=lambda event: event.delta if event.type == "response.output_text.delta" else None,
)
MESSAGES = Protocol(
    api="messages",
    sync_client=anthropic.Anthropic,
    async_client=anthropic.AsyncAnthropic,
    path="",
    ask=lambda client, **more: client.messages.create(**{"model": "m", "messages": PROMPT, "max_tokens": 99, **more}),
    stream=lambda client: client.messages.stream(model="m", messages=PROMPT, max_tokens=99),
    final="get_final_message",
    read=_read_message,
    pieces=lambda event: event.delta.text if event.type == "content_block_delta" else None,
)
PROTOCOLS = (CHAT, RESPONSES, MESSAGES)
