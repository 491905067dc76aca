"""Anthropic's protocol, messages, as its own client reads it."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import cast

from counterfoil.testing.dialects import MODEL, Dialect, Json, Mark, canonical, event, slices, summary, tokens, words

KINDS = {
    400: "invalid_request_error",
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    413: "request_too_large",
    429: "rate_limit_error",
    503: "overloaded_error",
    529: "overloaded_error",
}


class Messages(Dialect):
    """POST /v1/messages."""

    api = "messages"
    path = "/v1/messages"
    request_id = "request-id"
    not_options = frozenset({"messages", "model", "system", "tools"})
    adjacent = True
    no_result = (
        "messages: `tool_use` ids were found without `tool_result` blocks immediately after: {call}. Each `tool_use` "
        "block must have a corresponding `tool_result` block in the next message."
    )
    no_call = (
        "messages: unexpected `tool_use_id` found in `tool_result` blocks: {call}. Each `tool_result` block must have "
        "a corresponding `tool_use` block in the previous message."
    )

    def history(self, request: Json) -> list[Json]:
        """Return the system prompt as a first message, then the messages."""
        messages = cast("list[Json]", request["messages"])
        if not messages or not all(each["role"] in {"user", "assistant"} for each in messages):
            raise ValueError("messages is a list of objects, each with the role user or assistant")
        if not isinstance(request.get("max_tokens"), int):
            raise ValueError("max_tokens: Field required")
        system = request.get("system")
        return [*([{"role": "system", "content": system}] if system else []), *messages]

    def marks(self, request: Json) -> Iterator[Mark]:
        """Yield the calls of tools and their results, in order."""
        for message in request["messages"]:
            if message["role"] == "assistant":
                yield "other", ""
            for block in _blocks(message):
                if block["type"] == "tool_use":
                    yield "call", block["id"]
                elif block["type"] == "tool_result":
                    yield "result", block["tool_use_id"]
                elif message["role"] == "user":
                    yield "other", ""

    def is_body(self, answer: Json) -> bool:
        """Whether this is a whole message of this protocol."""
        return bool(answer.get("type") == "message")

    def body(self, message: Json, request: Json, number: int) -> dict[str, Json]:
        """Return the message."""
        asked, said = tokens(canonical(self.history(request))), tokens(summary(message))
        return {
            "id": f"msg_{number}",
            "type": "message",
            "role": "assistant",
            "model": request.get("model", MODEL),
            "content": list(_content(message)),
            "stop_reason": "tool_use" if message.get("tool_calls") else "end_turn",
            "stop_sequence": None,
            "usage": {
                "input_tokens": asked,
                "cache_creation_input_tokens": 0,
                "cache_read_input_tokens": 0,
                "output_tokens": said,
            },
        }

    def said(self, body: Json) -> Json:
        """Return the text and tool use blocks as one message in the form of chat completions."""
        blocks = body["content"]
        uses = [block for block in blocks if block["type"] == "tool_use"]
        functions = [{"name": use["name"], "arguments": canonical(use["input"])} for use in uses]
        calls = zip(uses, functions, strict=True)
        return {
            "role": "assistant",
            "content": "".join(block["text"] for block in blocks if block["type"] == "text") or None,
            "tool_calls": [{"id": use["id"], "type": "function", "function": function} for use, function in calls],
        }

    def events(self, body: Json, request: Json) -> list[str]:
        """Return the message's events, of which `message_stop` is the last."""
        usage = body.get("usage") or {}
        begun: dict[str, Json] = {"content": [], "stop_reason": None, "usage": {**usage, "output_tokens": 1}}
        ended = {"stop_reason": body.get("stop_reason"), "stop_sequence": body.get("stop_sequence")}
        plain: list[dict[str, Json]] = [
            {"type": "message_start", "message": {**body, **begun}},
            {"type": "ping"},
            *(each for index, block in enumerate(body["content"]) for each in _block_events(block, index)),
            {"type": "message_delta", "delta": ended, "usage": {"output_tokens": usage.get("output_tokens", 0)}},
            {"type": "message_stop"},
        ]
        return [event(each, name=each["type"]) for each in plain]

    def refusal(self, status: int, message: str) -> Json:
        """Return the body of an error."""
        return {"type": "error", "error": {"type": KINDS.get(status, "api_error"), "message": message}}

    def broken(self, events: Sequence[str]) -> str:
        """Return the event of an error."""
        return event(self.refusal(529, "Overloaded"), name="error")


def _blocks(message: Json) -> list[Json]:
    content = message["content"]
    return [{"type": "text", "text": content}] if isinstance(content, str) else cast("list[Json]", content)


def _content(message: Json) -> Iterator[dict[str, Json]]:
    if message.get("content"):
        yield {"type": "text", "text": message["content"]}
    for call in message.get("tool_calls") or ():
        function = call["function"]
        yield {
            "type": "tool_use",
            "id": call["id"],
            "name": function["name"],
            "input": json.loads(function["arguments"]),
        }


def _block_events(block: Json, index: int) -> Iterator[dict[str, Json]]:
    """Yield one block, from its start to its stop."""
    emptied: Json = {"text": {"text": ""}, "tool_use": {"input": {}}, "thinking": {"thinking": "", "signature": ""}}
    begun = {**block, **emptied.get(block["type"], {})}
    yield {"type": "content_block_start", "index": index, "content_block": begun}
    for delta in _deltas(block):
        yield {"type": "content_block_delta", "index": index, "delta": delta}
    yield {"type": "content_block_stop", "index": index}


def _deltas(block: Json) -> Iterator[dict[str, Json]]:
    if block["type"] == "text":
        yield from ({"type": "text_delta", "text": word} for word in words(block["text"]))
    elif block["type"] == "tool_use":
        pieces = ["", *slices(canonical(block["input"]))]
        yield from ({"type": "input_json_delta", "partial_json": piece} for piece in pieces)
    elif block["type"] == "thinking":
        yield from ({"type": "thinking_delta", "thinking": word} for word in words(block["thinking"]))
        yield {"type": "signature_delta", "signature": block["signature"]}
