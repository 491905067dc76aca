"""Declared secrets: found in what is about to be written, and replaced by their names.

The bytes that go to the store, a log line and the text of an error all pass here. What the code gets live is the
decoded record, so it sees the replaced text too, live as on replay.
"""

import base64
import bisect
import json
from collections.abc import Mapping
from typing import Any
from urllib.parse import quote, quote_plus

import msgspec

from counterfoil.core.canonical import canonical
from counterfoil.core.forms import in_order
from counterfoil.core.kinds import GIVEN, UNSET
from counterfoil.core.leaves import TAG, TYPE, VALUE, text_from_hex, text_to_hex
from counterfoil.errors import SecretError

SECRET_CHARACTERS_MIN = 6
KEY_CHARACTERS_MIN = 16
"""A key that nobody declared has so many characters, or a digit."""

LEARNED_MAX = 256
_BASE64 = frozenset({"bytes", "bytearray"})
_SETS = frozenset({"set", "frozenset"})
_PAIRS = frozenset({"map", "odict", "counter"})
_NAMES = frozenset({TAG, TYPE, GIVEN, UNSET})
_UNTOUCHED = frozenset({  # no text, and unreadable if a piece of it were replaced
    "complex", "date", "datetime", "decimal", "enum", "float", "fraction", "int", "ip", "range", "secret", "time",
    "timedelta", "uuid",
})  # fmt: skip


class Scrubber:
    """Replaces the values of declared secrets. Used by several threads: what it holds is only put in and taken out."""

    def __init__(self, secrets: Mapping[str, str] | None = None, *, learns: bool = True) -> None:
        """`secrets` maps names to values. Raises SecretError as `add` does."""
        self.outcomes: Scrubber = Scrubber(learns=False) if learns else self
        """For what is not compared on a replay: knows the secrets that were learned from requests, too."""
        self._texts: list[tuple[str, str]] = []
        self._needles: list[bytes] = []
        self._learned: list[tuple[str, str]] = []
        for name, value in (secrets or {}).items():
            self.add(name, value)

    def add(self, name: str, value: str) -> None:
        """Declare one more secret. Raises SecretError for a value too short to be told from ordinary text."""
        if len(value) < SECRET_CHARACTERS_MIN:
            raise SecretError(name=name, problem=f"is missing or has fewer than {SECRET_CHARACTERS_MIN} characters")
        if (value, f"[secret {name}]") in self._texts:
            return
        for form in _forms(value):
            bisect.insort(self._texts, (form, f"[secret {name}]"), key=_longest_first)  # one may be a part of another
            self._needles += [_quoted(form), text_to_hex(form).encode()]
        if self.outcomes is not self:
            self.outcomes.add(name, value)

    def learn(self, name: str, value: str) -> None:
        """Keep a key that a request carries out of all outcomes from now on; the last ones, as they may change.

        Not out of inputs: a replay compares those before it has seen any request. A placeholder is passed over.
        """
        if self.outcomes is not self:
            self.outcomes.learn(name, value)
        elif _is_key(value) and all(value != text for text, _ in tuple(self._texts)):
            self.add(name, value)
            self._learned.append((name, value))
            if len(self._learned) > LEARNED_MAX:
                self._forget(*self._learned.pop(0))

    def add_key(self, name: str, value: str) -> None:
        """As `add`, for a key that a client holds and nobody declared: a placeholder is passed over."""
        if _is_key(value):
            self.add(name, value)

    def raw(self, encoded: bytes) -> bytes:
        """JSON bytes without the secrets; the very same object when there is none in them."""
        if self._texts and (any(needle in encoded for needle in tuple(self._needles)) or _has_base64(encoded)):
            plain = msgspec.json.decode(encoded)
            scrubbed = self._walk(plain)
            return encoded if scrubbed == plain else msgspec.json.encode(scrubbed)
        return encoded

    def text(self, text: str) -> str:
        """Text without the secrets."""
        for value, name in tuple(self._texts):
            text = text.replace(value, name)
        return text

    def content(self, content: bytes) -> bytes:
        """Any bytes without the secrets, as far as they stand in them as UTF-8 or inside JSON."""
        for value, name in tuple(self._texts):
            content = content.replace(value.encode("utf-8", "surrogatepass"), name.encode())
        return content

    def _forget(self, name: str, value: str) -> None:
        for form in _forms(value):
            self._texts.remove((form, f"[secret {name}]"))
            for needle in (_quoted(form), text_to_hex(form).encode()):
                self._needles.remove(needle)

    def _walk(self, plain: Any) -> Any:
        if isinstance(plain, str):
            return self.text(plain)
        if isinstance(plain, list):
            return [self._walk(item) for item in plain]
        if not isinstance(plain, dict):
            return plain
        return self._tagged(plain) if TAG in plain else self._items(plain)

    def _tagged(self, plain: dict[str, Any]) -> Any:
        """A tagged value: what is text in it, or may hold text. A number, a date or a class has its name kept."""
        tag, inner = plain[TAG], plain.get(VALUE)
        if tag in _UNTOUCHED:
            return plain
        if tag == "str":
            inner = text_to_hex(self.text(text_from_hex(plain[VALUE])))
        elif tag == "dict":
            inner = self._items(plain[VALUE])
        elif tag in _BASE64:
            inner = base64.b64encode(self.content(base64.b64decode(plain[VALUE]))).decode()
        elif tag == "of":
            return {key: part if key in _NAMES else self._group(part, name=key) for key, part in plain.items()}
        else:
            inner = self._walk(inner)
        if inner == plain[VALUE]:
            return plain
        if tag in _SETS:
            inner = in_order(list({canonical(item): item for item in inner}.values()))
        elif tag in _PAIRS:
            inner = list({canonical(pair[0]): pair for pair in inner}.values())
        return plain | {VALUE: inner}

    def _group(self, plain: Any, *, name: str) -> Any:
        """What an instance holds. The names of its fields are the code's; those of its extra fields may be a secret."""
        if name == VALUE and isinstance(plain, dict) and TAG not in plain:
            return {key: self._walk(item) for key, item in plain.items()}
        return self._walk(plain)

    def _items(self, plain: dict[str, Any]) -> dict[str, Any]:
        return {self.text(key): self._walk(item) for key, item in plain.items()}


def _longest_first(pair: tuple[str, str]) -> int:
    return -len(pair[0])


def _is_key(value: str) -> bool:
    """Servers without keys are given words such as "ollama" or "not-needed", which stand in ordinary text too."""
    is_odd = len(value) >= KEY_CHARACTERS_MIN or any(each.isdigit() for each in value)
    return is_odd and len(value) >= SECRET_CHARACTERS_MIN


def _has_base64(encoded: bytes) -> bool:
    """Whether it holds bytes, in which a secret can't be seen from outside."""
    return b"$" in encoded and (b'"bytes"' in encoded or b'"bytearray"' in encoded)


def _forms(value: str) -> list[str]:
    """The value as other text holds it: as it is, in a literal or a URL, and in a literal of that. Mostly one form."""
    once = _spelled(value)
    return list(dict.fromkeys([value, *once, *(form for each in once for form in _spelled(each))]))


def _spelled(text: str) -> list[str]:
    as_bytes = text.encode("utf-8", "surrogatepass")
    literals = (repr(text)[1:-1], ascii(text)[1:-1], repr(as_bytes)[2:-1], json.dumps(text)[1:-1])
    quoted = _quoted(text).decode("utf-8", "surrogatepass")
    return list(dict.fromkeys([*literals, quoted, quote(as_bytes), quote(as_bytes, safe=""), quote_plus(as_bytes)]))


def _quoted(text: str) -> bytes:
    """As it stands inside a JSON string; text with lone surrogates never does."""
    try:
        return msgspec.json.encode(text)[1:-1]
    except UnicodeEncodeError:
        return text.encode("utf-8", "surrogatepass")
