"""Recorded values as plain JSON, for whoever reads them: tags and names of classes are taken off.

One way only: what is shown so can't be read back. A value that is not ours is shown as it is.
"""

from typing import Any

import msgspec

from counterfoil.core.kinds import EXTRA, OTHERS
from counterfoil.core.leaves import NAME, TAG, VALUE, text_from_hex


def plainly(raw: bytes) -> bytes:
    """The recorded JSON without what only the program needs."""
    try:
        return msgspec.json.encode(_shown(msgspec.json.decode(raw))) if b'"$"' in raw else raw
    except (ValueError, TypeError, AttributeError, RecursionError):
        return raw


def _shown(plain: Any) -> Any:
    if isinstance(plain, list):
        return [_shown(item) for item in plain]
    if not isinstance(plain, dict):
        return plain
    if TAG in plain and (VALUE in plain or NAME in plain):
        return _without_tag(plain)
    return {key: _shown(item) for key, item in plain.items()}


def _without_tag(plain: dict[str, Any]) -> Any:
    tag: Any = plain[TAG]
    inner: Any = plain.get(VALUE, plain.get(NAME))
    if tag == "int" and isinstance(inner, str):
        return msgspec.Raw(inner.encode()) if inner.lstrip("-").isdecimal() else inner
    if tag == "str":
        return text_from_hex(inner).encode("utf-8", "backslashreplace").decode()
    if tag == "dict":
        return {key: _shown(item) for key, item in inner.items()}
    shown = _shown(inner)
    if tag == "of" and isinstance(shown, dict):
        for group in (OTHERS, EXTRA):
            shown |= _shown(plain.get(group, {}))
    return shown
