"""Files and other bytes of a request: recorded by their digests, and sent from memory, on every try the same."""

import copy
import hashlib
from collections.abc import Iterable, Mapping
from pathlib import PurePath
from typing import Any

from counterfoil.errors import NotStorableError


def read(options: Any) -> tuple[Any, Any]:
    """The options with all bytes read, and what is recorded of those; None where there are none."""
    files, content = getattr(options, "files", None), getattr(options, "content", None)
    raw = options.json_data if isinstance(options.json_data, bytes | bytearray) else content
    if not files and raw is None:
        return options, None
    options = copy.copy(options)
    if raw is not None:
        body = _bytes_of(raw)
        options.json_data, options.content = (body, content) if content is None else (options.json_data, body)
        return options, _digest(body)
    named: Iterable[tuple[str, Any]] = files.items() if isinstance(files, Mapping) else files or ()
    options.files = pairs = [(name, _part(part)) for name, part in named]
    return options, [_record(name, *part) for name, part in pairs]


def _part(part: Any) -> tuple[Any, ...]:
    """A file as name, bytes, and what more was given: its type and its headers."""
    if isinstance(part, tuple):
        name, content, *more = part
        return (name, _bytes_of(content), *more)
    name = PurePath(str(getattr(part, "name", "upload"))).name
    return (name, _bytes_of(part))


def _record(field: str, name: str | None, content: bytes, *more: Any) -> dict[str, Any]:
    return {"field": field, "filename": name, "type": more[0] if more else None, **_digest(content)}


def _digest(content: bytes) -> dict[str, Any]:
    return {"bytes": len(content), "sha256": hashlib.sha256(content).hexdigest()}


def _bytes_of(content: Any) -> bytes:
    if isinstance(content, str):
        return content.encode()
    if isinstance(content, bytes | bytearray | memoryview):
        return bytes(content)
    found = content.read() if hasattr(content, "read") else content
    if isinstance(found, Iterable):
        return b"".join(found) if not isinstance(found, bytes) else found
    raise NotStorableError(
        where="an upload",
        path="$",
        type=type(content).__name__,
        reason="it can be read only while it is sent",
        fix="Read it first, and give the bytes.",
    )
