"""Exceptions: into the record and back.

A failure that was recorded is raised again as the same class with the same arguments and attributes, so that code
which caught it once catches it on every replay. The class is looked up among the builtins and the modules that the
program has already loaded; nothing is ever imported because the record names it, and no constructor is run. Where that
gives no exception of the same text, RecordedError stands in, live as on replay.
"""

import builtins
import sys
import traceback
from typing import Any

from counterfoil.core import codec, registry
from counterfoil.core.events import NONE, ErrorRecord, Value
from counterfoil.errors import CounterfoilError, NotStorableError, RecordedError

TRACEBACK_CHARACTERS_MAX = 4000


def to_record(error: Exception) -> ErrorRecord:
    """The record of an exception. Attributes that can't be recorded are left out."""
    return ErrorRecord(
        type=registry.name_of(type(error)),
        message=text_of(error),
        args=_values(_arguments(error)),
        attributes=_attributes(error),
        traceback=printable(_traceback(error)),
    )


def _traceback(error: Exception) -> str:
    """The end of the traceback, in whole lines, so that no half of a secret is left at the cut."""
    text = "".join(traceback.format_exception(error))
    return text if len(text) <= TRACEBACK_CHARACTERS_MAX else text[-TRACEBACK_CHARACTERS_MAX:].partition("\n")[2]


def rebuild(record: ErrorRecord) -> Exception:
    """The exception of a record, or the RecordedError that stands for it."""
    kind = _loaded_class(record.type)
    if kind is not None:
        error = _build(kind, record)
        if error is not None and text_of(error) == record.message:
            return error
    return RecordedError(type=short_type(record), message=record.message)


def short_type(record: ErrorRecord) -> str:
    """The class name of a recorded exception, with its module unless that is builtins."""
    return record.type.removeprefix("builtins:").replace(":", ".")


def _build(kind: type[Exception], record: ErrorRecord) -> Exception | None:
    args, attributes = _decoded(record.args), _decoded(record.attributes) or {}
    if args is None:
        return None
    try:
        if issubclass(kind, CounterfoilError):
            return kind(**attributes["facts"])
        error = kind.__new__(kind, *args)
        if not (isinstance(error, OSError) and error.args):  # that one knows its own
            error.args = tuple(args)
        vars(error).update(attributes)
    except Exception:  # noqa: BLE001 - a foreign class may refuse anything; then the stand-in is used
        return None
    return error


def _decoded(value: Value) -> Any:
    return codec.decode(bytes(value), None, annotated=False, where="exception")


def _loaded_class(type_: str) -> type[Exception] | None:
    module, _, path = type_.partition(":")
    name = "__main__" if module == registry.stable_module("__main__") else module
    found: Any = builtins if module == "builtins" else sys.modules.get(name)
    for name in path.split("."):
        found = getattr(found, name, None)
    return found if isinstance(found, type) and issubclass(found, Exception) else None


def _arguments(error: Exception) -> list[Any]:
    """What makes the exception: an OSError with a file's name does not show all of it in `args`."""
    if isinstance(error, OSError) and error.filename is not None:
        return list(OSError.__reduce__(error)[1])
    return list(error.args)


def _attributes(error: Exception) -> Value:
    kept = {name: value for name, value in vars(error).items() if value is None or _values(value) is not NONE}
    return _values(kept) if kept else NONE


def _values(value: Any) -> Value:
    """The value, if plain JSON holds it; NONE otherwise."""
    try:
        encoded = codec.encode(value, where="exception")
    except NotStorableError:
        return NONE
    return NONE if encoded.annotated else Value(encoded.raw)


def printable(text: str) -> str:
    """The text as UTF-8 can hold it: lone surrogates are spelled out."""
    return text.encode("utf-8", "backslashreplace").decode()


def text_of(error: BaseException) -> str:
    """What the exception says, or its class's name if it can't say it."""
    try:
        return printable(str(error))
    except Exception:  # noqa: BLE001 - a foreign __str__ may raise anything
        return type(error).__name__
