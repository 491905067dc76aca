"""What a wire protocol of a model looks like: the shape all of them have here, and what they share.

An answer is thought of as an assistant message in the form of chat completions; a dialect makes the body of it, and
out of the body the server-sent events, so that a whole body given by hand can be streamed too. A dialect is pure and
knows nothing of plans, sockets and logs. The judges are the providers' own clients.
"""

from __future__ import annotations

import hashlib
import json
import re
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, ClassVar, Literal, TypeAlias

Json: TypeAlias = Any  # a decoded JSON value, at the edge
Api: TypeAlias = Literal["chat.completions", "responses", "messages"]
Mark: TypeAlias = tuple[Literal["call", "result", "other"], str]  # what is paired in a history, with the call's id

CREATED = 1_764_460_800  # the instant in every answer: the stub has no clock
MODEL = "stub-model"
TOKEN_CHARACTERS = 4
ARGUMENT_CHARACTERS = 16  # of a tool's arguments in one event


class Dialect(ABC):
    """One protocol; what is planned and counted is the same for all."""

    api: ClassVar[Api]
    path: ClassVar[str]
    request_id: ClassVar[str]  # response header with the id of the request
    not_options: ClassVar[frozenset[str]]  # keys of a request that do not tune its answer
    adjacent: ClassVar[bool]  # whether a tool's result has to follow its call at once
    no_result: ClassVar[str]  # how a call without a result is refused
    no_call: ClassVar[str]  # how a result without a call is refused

    @abstractmethod
    def history(self, request: Json) -> list[Json]:
        """Return all that the model is shown; raise ValueError, KeyError or TypeError for what is no request."""

    @abstractmethod
    def marks(self, request: Json) -> Iterator[Mark]:
        """Yield the calls of tools and their results, in order."""

    @abstractmethod
    def is_body(self, answer: Json) -> bool:
        """Whether this is a whole body rather than a message."""

    @abstractmethod
    def body(self, message: Json, request: Json, number: int) -> dict[str, Json]:
        """Return the whole body with this message in it."""

    @abstractmethod
    def said(self, body: Json) -> Json:
        """Return the body's message in the form of chat completions."""

    @abstractmethod
    def events(self, body: Json, request: Json) -> list[str]:
        """Return the body as server-sent events; the last one is the end mark."""

    @abstractmethod
    def refusal(self, status: int, message: str) -> Json:
        """Return the body of an error."""

    @abstractmethod
    def broken(self, events: Sequence[str]) -> str:
        """Return the event that says, after these, that nothing more will come."""

    def is_answered(self, request: Json) -> bool:
        """Whether a tool's result is among what the model is shown."""
        return any(what == "result" for what, _ in self.marks(request))

    def options(self, request: dict[str, Json]) -> dict[str, Json]:
        """Return what tunes the answer."""
        return {key: value for key, value in request.items() if key not in self.not_options}

    def unpaired(self, request: Json) -> str | None:
        """Return the provider's refusal when calls of tools and results are not one to one."""
        waiting: list[str] = []
        for what, call in self.marks(request):
            if what == "call":
                waiting.append(call)
            elif what == "other" and waiting and self.adjacent:
                break
            elif what == "result":
                if call not in waiting:
                    return self.no_call.format(call=call)
                waiting.remove(call)
        return self.no_result.format(call=", ".join(waiting)) if waiting else None


def canonical(value: Json) -> str:
    """Return the value as JSON, written in one way only."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)


def prompt_digest(messages: Sequence[Json]) -> str:
    """First 12 hex digits of the SHA-256 over the canonical JSON of the messages."""
    return hashlib.sha256(canonical(messages).encode()).hexdigest()[:12]


def summary(message: Json) -> str:
    """Return in short what a message says and asks for."""
    text = [message["content"]] if message.get("content") else []
    functions = [call["function"] for call in message.get("tool_calls") or ()]
    return " ".join(text + [f"{f['name']}({f['arguments']})" for f in functions])


def tokens(text: str) -> int:
    """Return about how many tokens this is."""
    return len(text) // TOKEN_CHARACTERS


def words(text: str | None) -> list[str]:
    """Return the text in the pieces it is streamed in: a word with what parts it from the next."""
    return re.findall(r"\S+\s*|\s+", text or "")


def slices(arguments: str) -> Iterable[str]:
    """Return a tool's arguments in the pieces they are streamed in."""
    return (arguments[at : at + ARGUMENT_CHARACTERS] for at in range(0, len(arguments), ARGUMENT_CHARACTERS))


def event(data: Json, *, name: str | None = None) -> str:
    """Return one server-sent event, with the blank line that ends it."""
    text = data if isinstance(data, str) else json.dumps(data)
    return (f"event: {name}\n" if name else "") + f"data: {text}\n\n"
