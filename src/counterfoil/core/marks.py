"""The marks in a streamed answer: where one event ends, which event is the last, and which one says that it failed.

A model's stream is a row of server-sent events. A connection that ends is no mark: only the protocol's own last event
says that the answer is whole. Law: what is split here and joined again is the same text.
"""

import codecs
import re
from typing import Any

import msgspec

_BLANK_LINE = re.compile(r"(?>\r\n|\n)(?>\r\n|\n|\r(?!\Z))|\r\r\n?")
"""A line's end and an empty line after it. A last CR after CRLF is not one yet: its LF is on the way."""

_LINE_END = re.compile(r"\r\n|\n|\r")

_BLANK_LINE_MAX = 4

_ENDS = frozenset({"message_stop", "response.completed", "response.incomplete", "response.failed"})
_END_HINT = re.compile(r"\[DONE]|message_stop|response\.|finishReason")


class Splitter:
    """Cuts the bytes of a stream into whole events, each with the empty line that ends it."""

    def __init__(self) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._parts: list[str] = []  # of an event under way; joined once, as a picture in one may be long
        self._tail = ""

    def feed(self, piece: bytes) -> list[str]:
        """The events that this piece makes whole."""
        text = self._decoder.decode(piece)
        self._parts.append(text)
        seen = self._tail + text
        self._tail = seen[-_BLANK_LINE_MAX:]
        return self._take(len(seen)) if _BLANK_LINE.search(seen) else []

    def rest(self) -> str:
        """What came after the last whole event. Nothing may be fed after this."""
        return "".join(self._parts) + self._decoder.decode(b"", final=True)

    def _take(self, unsearched: int) -> list[str]:
        """Cut the whole events off; all but so many characters at the end have been searched."""
        text, found, begin = "".join(self._parts), [], 0
        while match := _BLANK_LINE.search(text, begin or len(text) - unsearched):
            found.append(text[begin : match.end()])
            begin = match.end()
        self._parts = [text[begin:]]
        self._tail = self._parts[0][-_BLANK_LINE_MAX:]
        return found


def is_end(event: str) -> bool:
    """Whether this is the event by which a protocol says that the answer is whole.

    OpenAI's `[DONE]` and `response.completed` (or incomplete, or failed), Anthropic's `message_stop`, and the event
    with which Gemini gives a reason for its end.
    """
    if not _END_HINT.search(event):
        return False
    data = _field(event, "data")
    if data.startswith("[DONE]"):
        return True
    said = _parsed(data)
    return said.get("type") in _ENDS or any(
        isinstance(each, dict) and each.get("finishReason") for each in _items(said.get("candidates"))
    )


def is_error(event: str) -> bool:
    """Whether this event says that the answer failed midway, after a status that had said it went well."""
    if "error" not in event:
        return False
    said = _parsed(_field(event, "data"))
    return _field(event, "event") == "error" or said.get("type") == "error" or bool(said.get("error"))


def _field(event: str, name: str) -> str:
    """What an event says in this field, its lines joined."""
    pairs = (line.partition(":") for line in _LINE_END.split(event))
    return "\n".join(value.removeprefix(" ") for field, _, value in pairs if field == name)


def _parsed(data: str) -> dict[str, Any]:
    try:
        said = msgspec.json.decode(data)
    except (msgspec.DecodeError, RecursionError):
        return {}
    return said if isinstance(said, dict) else {}


def _items(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []
