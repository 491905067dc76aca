"""Declared secrets: found in what is about to be written, and replaced by their names.

The bytes that go to the store, a log line and the text of an error all pass here. What the code gets live is the
decoded record, so it sees the replaced text too, live as on replay.
"""

from collections.abc import Mapping
from typing import Any

import msgspec

from counterfoil.core.codec import TAG, VALUE, text_from_hex, text_to_hex
from counterfoil.errors import SecretError

SECRET_CHARACTERS_MIN = 6


class Scrubber:
    """Replaces the values of declared secrets."""

    def __init__(self, secrets: Mapping[str, str] | None = None) -> None:
        """`secrets` maps names to values. Raises SecretError as `add` does."""
        self._texts: list[tuple[str, str]] = []
        self._needles: list[bytes] = []
        for name, value in (secrets or {}).items():
            self.add(name, value)

    def add(self, name: str, value: str) -> None:
        """Declare one more secret. Raises SecretError for a value too short to be told from ordinary text."""
        if len(value) < SECRET_CHARACTERS_MIN:
            raise SecretError(name=name, problem=f"is missing or has fewer than {SECRET_CHARACTERS_MIN} characters")
        if (value, f"[secret {name}]") in self._texts:
            return
        quoted = _quoted(value).decode("utf-8", "surrogatepass")
        for form in dict.fromkeys((value, repr(value)[1:-1], ascii(value)[1:-1], quoted)):
            self._texts.append((form, f"[secret {name}]"))
            self._needles += [_quoted(form), text_to_hex(form).encode()]
        self._texts.sort(key=lambda pair: -len(pair[0]))  # one may be a part of another

    def raw(self, encoded: bytes) -> bytes:
        """JSON bytes without the secrets; the very same object when there is none in them."""
        for needle in self._needles:
            if needle in encoded:
                return msgspec.json.encode(self._walk(msgspec.json.decode(encoded)))
        return encoded

    def text(self, text: str) -> str:
        """Text without the secrets."""
        for value, name in self._texts:
            text = text.replace(value, name)
        return text

    def content(self, content: bytes) -> bytes:
        """Any bytes without the secrets, as far as they stand in them as UTF-8 or inside JSON."""
        for value, name in self._texts:
            content = content.replace(value.encode("utf-8", "surrogatepass"), name.encode())
        return content

    def _walk(self, plain: Any) -> Any:
        if isinstance(plain, str):
            return self.text(plain)
        if isinstance(plain, list):
            return [self._walk(item) for item in plain]
        if isinstance(plain, dict) and plain.get(TAG) == "str":
            return {TAG: "str", VALUE: text_to_hex(self.text(text_from_hex(plain[VALUE])))}
        if isinstance(plain, dict) and plain.get(TAG) == "dict":
            return {TAG: "dict", VALUE: self._items(plain[VALUE])}
        return self._items(plain) if isinstance(plain, dict) else plain

    def _items(self, plain: dict[str, Any]) -> dict[str, Any]:
        return {self.text(key): self._walk(item) for key, item in plain.items()}


def _quoted(text: str) -> bytes:
    """As it stands inside a JSON string; text with lone surrogates never does."""
    try:
        return msgspec.json.encode(text)[1:-1]
    except UnicodeEncodeError:
        return text.encode("utf-8", "surrogatepass")
