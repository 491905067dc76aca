"""OpenAI's two protocols, chat completions and responses, as its own client reads them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import cast

from counterfoil.testing.dialects import (
    CREATED,
    MODEL,
    Dialect,
    Json,
    Mark,
    canonical,
    event,
    slices,
    summary,
    tokens,
    words,
)

KINDS = {
    400: ("invalid_request_error", None),
    401: ("invalid_request_error", "invalid_api_key"),
    404: ("invalid_request_error", "not_found"),
    429: ("requests", "rate_limit_exceeded"),
    503: ("service_unavailable_error", None),
}
RESPONSE_DEFAULTS: dict[str, Json] = {
    "instructions": None,
    "max_output_tokens": None,
    "metadata": {},
    "parallel_tool_calls": True,
    "previous_response_id": None,
    "temperature": 1.0,
    "text": {"format": {"type": "text"}},
    "tool_choice": "auto",
    "tools": [],
    "top_p": 1.0,
}
CALLS = {"function_call", "custom_tool_call"}
OUTPUTS = {f"{kind}_output" for kind in CALLS}


def error_of(status: int, message: str) -> dict[str, Json]:
    """Return what OpenAI says of an error."""
    kind, code = KINDS.get(status, ("server_error", None))
    return {"message": message, "type": kind, "param": None, "code": code}


class Chat(Dialect):
    """POST /v1/chat/completions."""

    api = "chat.completions"
    path = "/v1/chat/completions"
    request_id = "x-request-id"
    not_options = frozenset({"messages", "model", "tools"})
    adjacent = True
    no_result = (
        "An assistant message with 'tool_calls' must be followed by tool messages responding to each 'tool_call_id'. "
        "The following tool_call_ids did not have response messages: {call}"
    )
    no_call = (
        "Invalid parameter: messages with role 'tool' must be a response to a preceding message with 'tool_calls'. "
        "The tool_call_id is {call}"
    )

    def history(self, request: Json) -> list[Json]:
        """Return the messages."""
        messages = cast("list[Json]", request["messages"])
        if not messages or not all(isinstance(each["role"], str) for each in messages):
            raise ValueError("messages is a list of objects, each with a role")
        return messages

    def marks(self, request: Json) -> Iterator[Mark]:
        """Yield the calls of tools and their results, in order."""
        for message in request["messages"]:
            if message["role"] == "tool":
                yield "result", message.get("tool_call_id", "")
                continue
            yield "other", ""
            for call in message.get("tool_calls") or ():
                yield "call", call["id"]

    def is_body(self, answer: Json) -> bool:
        """Whether this is a whole completion."""
        return "choices" in answer

    def body(self, message: Json, request: Json, number: int) -> dict[str, Json]:
        """Return the completion."""
        reason = "tool_calls" if message.get("tool_calls") else "stop"
        asked, said = tokens(canonical(request["messages"])), tokens(summary(message))
        return {
            "id": f"chatcmpl-{number}",
            "object": "chat.completion",
            "created": CREATED,
            "model": request.get("model", MODEL),
            "choices": [{"index": 0, "finish_reason": reason, "message": message}],
            "usage": {"prompt_tokens": asked, "completion_tokens": said, "total_tokens": asked + said},
        }

    def said(self, body: Json) -> Json:
        """Return the first choice's message."""
        return body["choices"][0]["message"]

    def events(self, body: Json, request: Json) -> list[str]:
        """Return the completion's chunks, then `[DONE]`."""
        wants_usage = bool((request.get("stream_options") or {}).get("include_usage"))
        kept = {key: body[key] for key in ("id", "created", "model") if key in body}
        chunk = {**kept, "object": "chat.completion.chunk", **({"usage": None} if wants_usage else {})}
        sent = [event({**chunk, "choices": [choice]}) for each in body["choices"] for choice in _choices(each)]
        usage = [event({**chunk, "choices": [], "usage": body.get("usage")})] if wants_usage else []
        return [*sent, *usage, event("[DONE]")]

    def refusal(self, status: int, message: str) -> Json:
        """Return the body of an error."""
        return {"error": error_of(status, message)}

    def broken(self, events: Sequence[str]) -> str:
        """Return the event of an error, which is data like any other."""
        return event({"error": error_of(500, "The server had an error while processing your request.")})


def _choices(choice: Json) -> Iterator[Json]:
    """Yield one choice of a completion, change by change."""
    for delta in _deltas(choice["message"]):
        yield {"index": choice.get("index", 0), "delta": delta, "finish_reason": None}
    yield {"index": choice.get("index", 0), "delta": {}, "finish_reason": choice.get("finish_reason", "stop")}


def _deltas(message: Json) -> Iterator[Json]:
    yield {"role": "assistant", "content": None if message.get("content") is None else ""}
    for word in words(message.get("content")):
        yield {"content": word}
    for index, call in enumerate(message.get("tool_calls") or ()):
        function = {"name": call["function"]["name"], "arguments": ""}
        yield {"tool_calls": [{"index": index, "id": call["id"], "type": "function", "function": function}]}
        for piece in slices(call["function"]["arguments"]):
            yield {"tool_calls": [{"index": index, "function": {"arguments": piece}}]}


class Responses(Dialect):
    """POST /v1/responses."""

    api = "responses"
    path = "/v1/responses"
    request_id = "x-request-id"
    not_options = frozenset({"input", "instructions", "model", "tools"})
    adjacent = False
    no_result = "No tool output found for function call {call}."
    no_call = "No tool call found for function call output with call_id {call}."

    def history(self, request: Json) -> list[Json]:
        """Return the instructions as a first message, then the items of the input."""
        instructions = request.get("instructions")
        shown = [{"role": "system", "content": instructions}] if instructions else []
        return [*shown, *_items(request)]

    def marks(self, request: Json) -> Iterator[Mark]:
        """Yield the calls of tools and their results, in order; calls of a previous response are not seen here."""
        items = _items(request)
        calls = {item["call_id"] for item in items if item.get("type") in CALLS}
        for item in items:
            kind = item.get("type")
            if kind in CALLS:
                yield "call", item["call_id"]
            elif kind in OUTPUTS and (item["call_id"] in calls or not request.get("previous_response_id")):
                yield "result", item["call_id"]

    def is_answered(self, request: Json) -> bool:
        """Whether a tool's result is in the input, also of a call in a previous response."""
        return any(item.get("type") in OUTPUTS for item in _items(request))

    def is_body(self, answer: Json) -> bool:
        """Whether this is a whole response."""
        return "output" in answer

    def body(self, message: Json, request: Json, number: int) -> dict[str, Json]:
        """Return the response."""
        asked, said = tokens(canonical(self.history(request))), tokens(summary(message))
        return {
            "id": f"resp_{number}",
            "object": "response",
            "created_at": CREATED,
            "status": "completed",
            "error": None,
            "incomplete_details": None,
            "model": request.get("model", MODEL),
            "output": list(_output(message, number)),
            "usage": {
                "input_tokens": asked,
                "input_tokens_details": {"cached_tokens": 0},
                "output_tokens": said,
                "output_tokens_details": {"reasoning_tokens": 0},
                "total_tokens": asked + said,
            },
            **{key: request.get(key, default) for key, default in RESPONSE_DEFAULTS.items()},
        }

    def said(self, body: Json) -> Json:
        """Return the texts and calls of the output as one message."""
        contents = [part for item in body["output"] if item["type"] == "message" for part in item["content"]]
        calls = [item for item in body["output"] if item["type"] == "function_call"]
        return {
            "role": "assistant",
            "content": "".join(part.get("text", "") for part in contents) or None,
            "tool_calls": [{"id": c["call_id"], "type": "function", "function": c} for c in calls],
        }

    def events(self, body: Json, request: Json) -> list[str]:
        """Return the response's events, numbered; the last one holds it whole."""
        begun = {**body, "status": "in_progress", "output": [], "usage": None}
        plain: list[dict[str, Json]] = [
            {"type": "response.created", "response": begun},
            {"type": "response.in_progress", "response": begun},
            *(each for index, item in enumerate(body["output"]) for each in _item_events(item, index)),
            {"type": f"response.{body.get('status', 'completed')}", "response": body},
        ]
        return [event({**each, "sequence_number": n}, name=each["type"]) for n, each in enumerate(plain)]

    def refusal(self, status: int, message: str) -> Json:
        """Return the body of an error."""
        return {"error": error_of(status, message)}

    def broken(self, events: Sequence[str]) -> str:
        """Return the event of an error; on the wire the error is an object of its own."""
        error = error_of(500, "An error occurred while processing your request.")
        return event({"type": "error", "error": error, "sequence_number": len(events)}, name="error")


def _items(request: Json) -> list[Json]:
    given = request["input"]
    if isinstance(given, str):
        return [{"role": "user", "content": given}]
    if not given or not all(isinstance(item, dict) for item in given):
        raise ValueError("input is a text or a list of objects")
    return cast("list[Json]", given)


def _output(message: Json, number: int) -> Iterator[dict[str, Json]]:
    if message.get("content"):
        text = {"type": "output_text", "text": message["content"], "annotations": [], "logprobs": []}
        kept = {"id": f"msg_{number}", "role": "assistant", "status": "completed"}
        yield {"type": "message", **kept, "content": [text]}
    for index, call in enumerate(message.get("tool_calls") or (), 1):
        kept = {"id": f"fc_{number}_{index}", "call_id": call["id"], "status": "completed"}
        yield {"type": "function_call", **kept, **call["function"]}


def _item_events(item: Json, index: int) -> Iterator[dict[str, Json]]:
    """Yield one item of the output, from its being added to its being done."""
    emptied: Json = {"message": {"content": []}, "function_call": {"arguments": ""}}.get(item["type"], {})
    begun = {**item, "status": "in_progress", **emptied}
    yield {"type": "response.output_item.added", "output_index": index, "item": begun}
    where = {"item_id": item.get("id"), "output_index": index}
    if item["type"] == "message":
        for at, part in enumerate(item["content"]):
            yield from _text_events(part, {**where, "content_index": at})
    elif item["type"] == "function_call":
        for piece in slices(item["arguments"]):
            yield {"type": "response.function_call_arguments.delta", **where, "delta": piece}
        done = {"name": item["name"], "arguments": item["arguments"]}
        yield {"type": "response.function_call_arguments.done", **where, **done}
    yield {"type": "response.output_item.done", "output_index": index, "item": item}


def _text_events(part: Json, where: dict[str, Json]) -> Iterator[dict[str, Json]]:
    yield {"type": "response.content_part.added", **where, "part": {**part, "text": ""}}
    for word in words(part["text"]):
        yield {"type": "response.output_text.delta", **where, "delta": word, "logprobs": []}
    yield {"type": "response.output_text.done", **where, "text": part["text"], "logprobs": []}
    yield {"type": "response.content_part.done", **where, "part": part}
