"""Parts that several events have, and the marks that say what each field is good for."""

from typing import Annotated, Any, TypeVar

import msgspec

T = TypeVar("T")
Critical = Annotated[T, "critical"]
Diagnostic = Annotated[T, "diagnostic"]
Value = msgspec.Raw
"""A user's value, as the codec's JSON bytes."""
Digest = Annotated[str, "critical", msgspec.Meta(pattern="^[0-9a-f]{64}$")]
"""SHA-256 of an artifact, in hexadecimal."""
NONE = Value(b"null")
"""Stands for a value that is not there."""


class ResponseRecord(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What is kept of the HTTP response that an exception held."""

    status_code: Critical[int]
    headers: Critical[dict[str, str]] = {}  # names in lower case, without cookies
    text: Critical[str | None] = None  # the body, if it had been read and is not too long


class ErrorRecord(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """An exception, so that it can be raised again."""

    type: Critical[str]  # module and qualified name, joined by ":"
    message: Critical[str]
    args: Critical[Value] = NONE  # null when an argument can't be recorded; of a group, without its members
    attributes: Critical[Value] = NONE  # slots and fields of builtin classes too
    traceback: Diagnostic[str | None] = None
    stands_in: Critical[bool | None] = None  # RecordedError is raised for it; None: 0.1.0 wrote it, and never said
    response: Critical[ResponseRecord | None] = None  # stands for the attribute of this name
    cause: Critical["ErrorRecord | None"] = None
    context: Critical["ErrorRecord | None"] = None  # unless it is suppressed
    suppressed: Critical[bool] = False  # raised "from" something
    members: Critical[tuple["ErrorRecord", ...]] = ()  # of a group
    left_out: Diagnostic[dict[str, str]] = {}  # what could not be recorded, and its type
    cut: Diagnostic[int] = 0  # exceptions that stood behind or in this one, and are not here


class Shared(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Most of an input stands in an earlier one: so much of its beginning and of its end, in bytes of JSON.

    A growing conversation is stored once this way, whatever the shape of its messages.
    """

    base: Critical[int]  # seq of the event with the other input, which may itself share an earlier one
    part: Critical[int] = 0  # which of that event's requests, from 1; 0: the input of an intent
    head: Critical[int]
    tail: Critical[int]


class Send(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One request of a try to the outside, and what came of it. Holds no header but the key."""

    url: Diagnostic[str] = ""  # scheme, host and path
    key: Diagnostic[str | None] = None  # idempotency key that it carried
    request_digest: Diagnostic[str | None] = None  # SHA-256 of the bytes sent, secrets replaced by their names
    request_bytes: Diagnostic[int | None] = None
    request: Diagnostic[Value] = NONE  # its JSON, where the step's input does not hold it
    request_shared: Diagnostic[Shared | None] = None
    status: Diagnostic[int | None] = None  # of the response; None: none was seen
    error: Diagnostic[str | None] = None  # class of the exception, where no whole response was seen
    response_digest: Diagnostic[str | None] = None  # SHA-256 of the body, decoded from gzip and the like; likewise
    response_bytes: Diagnostic[int | None] = None
    undecoded: Diagnostic[bool] = False  # digest and size are those of the bytes as they came: they can't be decoded
    partial: Diagnostic[bool] = False  # the response was not read to its end: digest and size are of what was
    streamed: Diagnostic[bool] = False
    sdk: Diagnostic[str | None] = None  # client library and version
    answer: Diagnostic["Answer | None"] = None  # what the response says of itself, if a model gave it


class Answer(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a model's response says of itself, by one set of names for all providers."""

    api: Diagnostic[str] = ""  # chat.completions, responses, messages, generate_content
    asked: Diagnostic[str | None] = None  # model asked for
    model: Diagnostic[str | None] = None  # model or revision that answered
    id: Diagnostic[str | None] = None  # the provider's id of the response
    finish: Diagnostic[str | None] = None  # why it ended, in the provider's word
    parameters: Diagnostic[dict[str, Any]] = {}  # decoding parameters: the request without messages and tools
    usage: Diagnostic[dict[str, Any]] = {}  # as the provider gave it
    input_tokens: Diagnostic[int | None] = None  # all of them, those read from or written to a cache included
    output_tokens: Diagnostic[int | None] = None
    cost_usd: Diagnostic[float | None] = None  # None: the model has no known price, or no prices were at hand
    prices: Diagnostic[str | None] = None  # name and version of the price table
