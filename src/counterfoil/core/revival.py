"""Exceptions out of the record: the same class without its constructor, or RecordedError in its place.

A record says which of the two was raised live, and a replay raises the same. Release 0.1.0 did not say it: its records
give the class if it is loaded and says the same text, else the stand-in, as they did then.
"""

from collections.abc import Callable
from types import TracebackType
from typing import Any, NoReturn, TypeVar

from counterfoil.core import anatomy, codec
from counterfoil.core.lookup import class_of
from counterfoil.core.parts import ErrorRecord, Value
from counterfoil.core.response import restored as restored_response
from counterfoil.errors import ExceptionUnknownError, RecordedError

T = TypeVar("T")
Unknown = Callable[[ErrorRecord, str], Exception]
"""What to do about a record that can't be itself here, and why."""


def rebuild(record: ErrorRecord) -> Exception:
    """The exception of a record, as it was raised live: itself, or the RecordedError that stood in for it.

    Raises ExceptionUnknownError when it was itself and can't be here: its class is not there, or has changed.
    """

    def unknown(part: ErrorRecord, reason: str) -> NoReturn:
        raise ExceptionUnknownError(type=short_type(part), message=part.message, reason=reason)

    return _restored(record, unknown)


def readable(record: ErrorRecord) -> Exception:
    """The exception of a record for whoever looks at it; RecordedError where it can't be itself here."""
    return _restored(record, lambda part, _: _stand_in(part, answer_of(lambda: _attributes(part), {})))


def raise_again(error: BaseException, trace: TracebackType | None = None) -> NoReturn:
    """Raise a rebuilt exception with the chain that is recorded, whatever is being handled here."""
    context = anatomy.context(error)
    try:
        raise BaseException.with_traceback(error, trace)
    finally:
        anatomy.set_context(error, context)


def short_type(record: ErrorRecord) -> str:
    """The class name of a recorded exception, with its module unless that is builtins."""
    return record.type.removeprefix("builtins:").replace(":", ".")


def printable(text: str) -> str:
    """The text as UTF-8 can hold it: lone surrogates are spelled out."""
    return str.encode(text, "utf-8", "backslashreplace").decode()


def text_of(error: BaseException) -> str:
    """What the exception says, or its class's name if it can't say it."""
    name = answer_of(lambda: printable(type(error).__name__), "?")
    return answer_of(lambda: printable(str(error)), name)


def answer_of(ask: Callable[[], T], otherwise: T) -> T:
    """What a foreign exception answers, or the other value if it raises: the first failure must not be hidden."""
    try:
        return ask()
    except KeyboardInterrupt:
        raise
    except BaseException:  # noqa: BLE001 - foreign code may raise anything, exits of the interpreter too
        return otherwise


def _restored(record: ErrorRecord, unknown: Unknown) -> Exception:
    """The exception with all that stands behind it and in it."""
    error = _itself(record, unknown)
    cause, context = (None if part is None else _restored(part, unknown) for part in (record.cause, record.context))
    anatomy.link(error, cause=cause, context=context, suppressed=record.suppressed)
    return error


def _itself(record: ErrorRecord, unknown: Unknown) -> Exception:
    kind = class_of(record.type)
    if kind is None and record.stands_in is False:
        return unknown(record, "no exception of that name is loaded or registered")
    members = [_restored(each, unknown) for each in record.members]
    try:
        args, attributes = _decoded(record.args), _attributes(record)
        if kind is None or record.stands_in:
            return _stand_in(record, attributes)
        if record.stands_in is None:
            return _of_0_1_0(record, kind, args=args, attributes=attributes)
        return anatomy.built(kind, args, attributes, members=members)
    except Exception as refused:  # noqa: BLE001 - a class that has changed may refuse anything
        return unknown(record, f"what is recorded no longer makes one ({refused!r})")


def _of_0_1_0(
    record: ErrorRecord, kind: type[Exception], *, args: list[Any] | None, attributes: dict[str, Any]
) -> Exception:
    if args is None:
        return _stand_in(record, attributes)
    if issubclass(kind, OSError) and len(args) > 1:  # the file's name stood among the arguments
        shown = zip(("errno", "strerror", "filename", "", "filename2"), args, strict=False)
        attributes = {name: value for name, value in shown if name and value is not None} | attributes
        args = args[:2]
    error = answer_of(lambda: anatomy.built(kind, args, attributes), None)
    is_same = error is not None and text_of(error) == record.message
    return error if error is not None and is_same else _stand_in(record, attributes)


def _stand_in(record: ErrorRecord, attributes: dict[str, Any]) -> RecordedError:
    error = RecordedError(type=short_type(record), message=record.message, attributes=attributes)
    notes = attributes.get("__notes__")
    for note in notes if isinstance(notes, list) else ():
        error.add_note(str(note))
    return error


def _attributes(record: ErrorRecord) -> dict[str, Any]:
    attributes = _decoded(record.attributes)
    named: dict[str, Any] = attributes if isinstance(attributes, dict) else {}
    return named | ({"response": restored_response(record.response)} if record.response else {})


def _decoded(value: Value) -> Any:
    return codec.decode(bytes(value), None, annotated=False, where="exception")
