"""What a model's response says of itself: which model answered, why it ended, and what it used.

Read from the bytes by their shape, whatever host sent them: OpenAI's chat completions, responses and embeddings (and
every host that speaks them), Anthropic's messages, Gemini's generateContent; whole, or as server-sent events. Only a
note for readers of the record: what can't be understood is left out, and no body makes this raise.
"""

import re
from collections.abc import Iterator
from typing import Any, TypeVar
from urllib.parse import unquote

import msgspec

from counterfoil.core.parts import Answer

WORD_CHARACTERS_MAX = 200
PARAMETERS_MAX = 50
PARAMETER_BYTES_MAX = 500
USAGE_BYTES_MAX = 4_000
TOKENS_MAX = 2**53
"""A larger count is no count. Sums of these can be written in any number."""
CONTENTS = frozenset(
    {
        "model", "messages", "input", "prompt", "system", "instructions", "tools", "functions", "mcp_servers",
        "contents", "systemInstruction", "system_instruction",
    }
)  # fmt: skip
"""Parts of a request that are no parameters. They stand in the step's input."""
UNENDED = frozenset({"queued", "in_progress"})

JSON = dict[str, Any]
Tokens = tuple[int | None, int | None]  # in, out
T = TypeVar("T")


class _Choice(msgspec.Struct):
    """One of several answers, in OpenAI's shape or in Gemini's. Its text is skipped."""

    index: Any = 0
    finish_reason: Any = None
    finish: Any = msgspec.field(default=None, name="finishReason")


class _Frame(msgspec.Struct):
    """A response, or one event of a streamed one: the fields of all shapes that say something here."""

    object: Any = None
    type: Any = None
    role: Any = None
    id: Any = None
    model: Any = None
    usage: Any = None
    choices: list[_Choice] | None = None
    stop_reason: Any = None
    status: Any = None
    incomplete_details: Any = None
    candidates: list[_Choice] | None = None
    gemini_usage: Any = msgspec.field(default=None, name="usageMetadata")
    gemini_model: Any = msgspec.field(default=None, name="modelVersion")
    gemini_id: Any = msgspec.field(default=None, name="responseId")
    inner: msgspec.Raw = msgspec.field(default=msgspec.Raw(b"null"), name="response")
    message: msgspec.Raw = msgspec.Raw(b"null")
    delta: msgspec.Raw = msgspec.Raw(b"null")


class _Piece(msgspec.Struct, frozen=True):
    """What one frame says. Of several, the later word counts, where there is one."""

    api: str
    model: str | None = None
    id: str | None = None
    finish: str | None = None
    usage: JSON = {}

    def then(self, later: "_Piece") -> "_Piece":
        return _Piece(
            later.api,
            later.model or self.model,
            later.id or self.id,
            later.finish or self.finish,
            self.usage | {k: v for k, v in later.usage.items() if v is not None or k not in self.usage},
        )


_frame = msgspec.json.Decoder(_Frame)
_frames = msgspec.json.Decoder(list[_Frame])
_fields = msgspec.json.Decoder(dict[str, msgspec.Raw])
_any = msgspec.json.Decoder()


def answer_of(url: str, request: bytes, response: bytes, *, streamed: bool) -> Answer | None:
    """What the response to a model's request says of itself; None when it is no model's answer.

    Of a body that was cut off: what had come. Never raises.
    """
    said: _Piece | None = None
    for frame in _each(response, streamed=streamed):
        piece = _piece(frame)
        if piece is not None:
            said = said.then(piece) if said else piece
    return _answer(said, url, _decoded(_fields, request) or {}) if said else None


def _answer(said: _Piece, url: str, request: dict[str, msgspec.Raw]) -> Answer:
    tokens_in, tokens_out = TOKENS[said.api](said.usage)
    return Answer(
        api=said.api,
        asked=_word(_decoded(_any, request.get("model"))) or _model_in(url),
        model=said.model,
        id=said.id,
        finish=said.finish,
        parameters=_parameters(request),
        usage=_bounded(said.usage),
        input_tokens=tokens_in,
        output_tokens=tokens_out,
    )


# --- the frames of a body ---


def _each(body: bytes, *, streamed: bool) -> Iterator[_Frame]:
    """The parts of a body: one, several in a JSON array, or one for each event of a stream."""
    if streamed and not body.lstrip().startswith((b"{", b"[")):
        found = (_decoded(_frame, data) for data in _events(body))
        yield from (frame for frame in found if frame is not None)
    elif (frame := _decoded(_frame, body)) is not None:
        yield frame
    else:
        yield from _decoded(_frames, body) or ()


def _events(body: bytes) -> Iterator[bytes]:
    """The data of each server-sent event, the last one too where its end is missing."""
    data: list[bytes] = []
    for line in [*body.splitlines(), b""]:
        if line.startswith(b"data:"):
            data.append(line[5:])
        elif not line and data:
            yield b"\n".join(data)
            data = []


def _decoded(decoder: msgspec.json.Decoder[T], data: bytes | msgspec.Raw | None) -> T | None:
    try:
        return decoder.decode(data or b"")
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return None


# --- the shapes ---


def _piece(frame: _Frame) -> _Piece | None:
    """What the frame says, by the first shape that it has."""
    found = (shape(frame) for shape in (_chat, _responses, _messages, _gemini, _embeddings))
    return next((piece for piece in found if piece is not None), None)


def _chat(frame: _Frame) -> _Piece | None:
    if frame.choices is None:
        return None
    api = "completions" if frame.object == "text_completion" else "chat.completions"
    return _named(frame, api, _finish(frame.choices))


def _responses(frame: _Frame) -> _Piece | None:
    if frame.object == "response":
        return _named(frame, "responses", _response_finish(frame))
    if isinstance(frame.type, str) and frame.type.startswith("response."):
        inner = _decoded(_frame, frame.inner)
        return _responses(inner) if inner is not None and inner.object == "response" else None
    return None


def _response_finish(frame: _Frame) -> Any:
    reason = _object(frame.incomplete_details).get("reason")
    return reason or (frame.status if frame.status not in UNENDED else None)


def _messages(frame: _Frame) -> _Piece | None:
    if frame.type == "message" and frame.role == "assistant":
        return _named(frame, "messages", frame.stop_reason)
    if frame.type == "message_start":
        inner = _decoded(_frame, frame.message)
        return _messages(inner) if inner is not None and inner.type == "message" else None
    if frame.type == "message_delta":
        delta = _decoded(_frame, frame.delta)
        return _named(frame, "messages", delta.stop_reason if delta is not None else None)
    return None


def _gemini(frame: _Frame) -> _Piece | None:
    if frame.candidates is None and not _object(frame.gemini_usage):
        return None
    model, id = _word(frame.gemini_model), _word(frame.gemini_id)
    finish = _word(_finish(frame.candidates or []))
    return _Piece("generate_content", model, id, finish, _object(frame.gemini_usage))


def _embeddings(frame: _Frame) -> _Piece | None:
    is_one = frame.object == "list" and isinstance(frame.usage, dict)
    return _named(frame, "embeddings", None) if is_one else None


def _named(frame: _Frame, api: str, finish: Any) -> _Piece:
    return _Piece(api, _word(frame.model), _word(frame.id), _word(finish), _object(frame.usage))


def _finish(choices: list[_Choice]) -> Any:
    """Why the first of the answers ended."""
    ends = (choice.finish_reason or choice.finish for choice in choices if not choice.index)
    return next((end for end in ends if end), None)


# --- tokens, by one meaning ---


def _openai_tokens(usage: JSON) -> Tokens:
    return _sum(usage, "prompt_tokens"), _sum(usage, "completion_tokens")


def _responses_tokens(usage: JSON) -> Tokens:
    return _sum(usage, "input_tokens"), _sum(usage, "output_tokens")


def _anthropic_tokens(usage: JSON) -> Tokens:
    """Anthropic's input_tokens leave out what was read from a cache and what was written to it."""
    cached = ("cache_creation_input_tokens", "cache_read_input_tokens")
    return _sum(usage, "input_tokens", *cached), _sum(usage, "output_tokens")


def _gemini_tokens(usage: JSON) -> Tokens:
    """Gemini's candidates leave out what was thought, and its prompt what its own tools put in."""
    asked = _sum(usage, "promptTokenCount", "toolUsePromptTokenCount")
    return asked, _sum(usage, "candidatesTokenCount", "thoughtsTokenCount")


TOKENS = {
    "chat.completions": _openai_tokens,
    "completions": _openai_tokens,
    "embeddings": _openai_tokens,
    "responses": _responses_tokens,
    "messages": _anthropic_tokens,
    "generate_content": _gemini_tokens,
}


def _sum(usage: JSON, *names: str) -> int | None:
    counts = [count for name in names if type(count := usage.get(name)) is int and 0 <= count <= TOKENS_MAX]
    return sum(counts) if counts else None


# --- what is kept of foreign values ---


def _parameters(request: dict[str, msgspec.Raw]) -> JSON:
    """The request without its contents; of a large value its beginning."""
    named = [(name, raw) for name, raw in request.items() if name not in CONTENTS and len(name) <= WORD_CHARACTERS_MAX]
    return {name: _cut(raw) for name, raw in named[:PARAMETERS_MAX]}


def _cut(raw: msgspec.Raw) -> Any:
    data = bytes(raw)
    if len(data) <= PARAMETER_BYTES_MAX:
        return _kept(_decoded(_any, data))
    beginning = data[:WORD_CHARACTERS_MAX].decode("utf-8", "ignore")
    return f"{beginning} ... ({len(data)} bytes)"


def _bounded(usage: JSON) -> JSON:
    kept = _kept(usage) or {}
    return kept if len(msgspec.json.encode(kept)) <= USAGE_BYTES_MAX else {}


def _kept(value: Any) -> Any:
    """The value if it can be written again: an integer of any length can be read, but not written."""
    try:
        msgspec.json.encode(value)
    except (msgspec.MsgspecError, ValueError, OverflowError, RecursionError):
        return None
    return value


def _object(value: Any) -> JSON:
    return value if isinstance(value, dict) else {}


def _word(value: Any) -> str | None:
    return value[:WORD_CHARACTERS_MAX] if isinstance(value, str) and value else None


def _model_in(url: str) -> str | None:
    """The model that the address names, as Gemini's, Azure's and Bedrock's do."""
    found = re.search(r"/(?:models?|deployments)/([^/:?]+)", url)
    return _word(unquote(found[1])) if found else None
