"""The HTTP response that an exception of a client holds: what is kept of it, and what stands for it afterwards.

Clients put the answer they were given on the exception, as `response`. It can't be recorded whole (it holds a
connection, and the request with its key), but code that catches the exception asks it for the status, a header or the
text.
"""

from collections.abc import Mapping
from typing import Any, TypeVar

import msgspec

from counterfoil.core.parts import ResponseRecord

HEADERS_MAX = 100
HEADER_CHARACTERS_MAX = 4_000
TEXT_BYTES_MAX = 64_000
COOKIES = frozenset({"set-cookie", "set-cookie2"})

T = TypeVar("T")


class Headers(dict[str, str]):
    """Headers by name, which may be asked for in any case."""

    def __getitem__(self, name: str) -> str:
        return super().__getitem__(name.lower())

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and super().__contains__(name.lower())

    def get(self, name: str, default: Any = None) -> Any:
        """The header's value, or the default."""
        return super().get(name.lower(), default)


class RecordedResponse(msgspec.Struct, frozen=True):
    """Stands for an exception's `response`, live as on replay: status, headers, and the text if it had been read."""

    status_code: int
    headers: Headers
    text: str | None

    def json(self) -> Any:
        """The text as JSON. Raises ValueError when it is none."""
        return msgspec.json.decode(self.text or "")


def reduced(response: Any) -> ResponseRecord | None:
    """What can be kept of a response; None for what is no response. Raises whatever a foreign one raises."""
    status = response.status_code
    if not isinstance(status, int):
        return None
    return ResponseRecord(status_code=int(status), headers=_headers(response.headers), text=_text(response))


def restored(record: ResponseRecord) -> RecordedResponse:
    """What code gets in place of the response."""
    return RecordedResponse(record.status_code, Headers(record.headers), record.text)


def _headers(headers: Mapping[str, Any]) -> dict[str, str]:
    named = {str(name).lower(): str(value) for name, value in list(headers.items())[:HEADERS_MAX]}
    kept = {n: v for n, v in named.items() if n not in COOKIES and len(n) + len(v) <= HEADER_CHARACTERS_MAX}
    return {n: v for n, v in kept.items() if n.isascii() and v.isascii()}


def _text(response: Any) -> str | None:
    """The body, only if the client has read it already: asking for it otherwise would wait for the network."""
    if type(response) is RecordedResponse:
        return response.text
    content = vars(response).get("_content")  # as httpx and requests keep it
    if type(content) is not bytes or len(content) > TEXT_BYTES_MAX:
        return None
    return str(response.text).encode("utf-8", "backslashreplace").decode()
