"""What --json prints: plain objects with stable keys, bytes as hex, times as ISO 8601 in UTC."""

from typing import Any

import msgspec

from counterfoil.cli.describe import moment_exactly
from counterfoil.core.events import Body, Event

INSTANTS = frozenset({"due", "time"})


def event_object(event: Event) -> dict[str, Any]:
    """An event: the fields of its envelope, its hash, and its body."""
    envelope = event.envelope
    names = zip(envelope.__struct_fields__, envelope.__struct_encode_fields__, strict=True)
    fields = {encoded: _plain(name, getattr(envelope, name)) for name, encoded in names}
    return {**fields, "hash": event.hash.hex(), "body": _fields(event.body)}


def _fields(value: msgspec.Struct | Body) -> dict[str, Any]:
    return {name: _plain(name, getattr(value, name)) for name in value.__struct_fields__}


def _plain(name: str, value: Any) -> Any:
    if name in INSTANTS and isinstance(value, int):
        return moment_exactly(value)
    if isinstance(value, msgspec.Struct):
        return _fields(value)
    return msgspec.json.decode(msgspec.json.encode(value))
