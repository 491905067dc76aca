"""Exceptions: into the record and back.

A failure that was recorded is raised again as the same class with the same arguments, attributes and chain, so that
code which caught it once catches it on every replay. Whether that is possible is found out once, when it is recorded:
it is put together from the record and compared, and its class must be one that can be expected wherever the run is
taken up. If not, RecordedError stands in, live as on replay (J6). No constructor is run, and nothing is imported.
"""

import sys
import traceback
from collections.abc import Collection, Iterator
from itertools import islice
from typing import Any

import msgspec

from counterfoil.core import anatomy, codec, registry
from counterfoil.core.events import encode
from counterfoil.core.lookup import is_expected
from counterfoil.core.parts import NONE, ErrorRecord, ResponseRecord, Value
from counterfoil.core.response import reduced
from counterfoil.core.revival import answer_of, printable, raise_again, readable, rebuild, short_type, text_of

__all__ = ["printable", "raise_again", "readable", "rebuild", "short_type", "text_of", "to_record"]

DEPTH_MAX = 8
"""Causes behind causes, groups in groups: so many below the first."""

MEMBERS_MAX = 50
"""Of one group."""

EXCEPTIONS_MAX = 200
"""In one record, chains and groups together."""

MESSAGE_CHARACTERS_MAX = 100_000
TRACEBACK_CHARACTERS_MAX = 4000
VALUE_BYTES_MAX = 256 * 1024
"""Of the arguments, and of each attribute."""

RECORD_BYTES_MAX = 1024 * 1024
"""About: of messages, arguments and attributes in one record."""

SHORT_CHARACTERS_MAX = 1000
"""Of each message once the record is full."""

NAME_CHARACTERS_MAX = 200
LEFT_OUT_MAX = 20
CUT_COUNTED_MAX = 1000
WHERE, RESPONSE = "exception", "response"


def to_record(error: BaseException, known_modules: Collection[str] | None = None) -> ErrorRecord:
    """The record of an exception, whatever it does when it is asked for its parts.

    `known_modules` are those that had been loaded before any step ran in this process; by default all that are loaded
    now. A class from another module can't be expected elsewhere, and RecordedError will stand in for it.
    """
    known = sys.modules.keys() if known_modules is None else known_modules
    bare = ErrorRecord(type=_name_of(type(error)), message=_cut(text_of(error), SHORT_CHARACTERS_MAX), stands_in=True)
    record = answer_of(lambda: _Recording(known).record(error), bare)
    return msgspec.structs.replace(record, traceback=answer_of(lambda: printable(_traceback(error)), None))


class _Missing:
    """What of one exception is not in its record."""

    def __init__(self) -> None:
        self.names: dict[str, str] = {}  # with their types
        self.exceptions = 0

    def part(self, name: str, value: object) -> None:
        if len(self.names) < LEFT_OUT_MAX:
            self.names[_cut(printable(name), NAME_CHARACTERS_MAX)] = _name_of(type(value)).replace(":", ".")

    def chained(self, error: BaseException) -> None:
        self.exceptions += sum(1 for _ in islice(_all_of(error), CUT_COUNTED_MAX))


class _Recording:
    """One exception with all that stands behind it and in it, within the limits."""

    def __init__(self, known_modules: Collection[str]) -> None:
        self._known = known_modules
        self._bytes, self._exceptions = RECORD_BYTES_MAX, EXCEPTIONS_MAX - 1  # left
        self._above: list[BaseException] = []  # this one stands behind them or in them

    def record(self, error: BaseException) -> ErrorRecord:
        """The record of this exception. Whether it comes back is found out when all of it is known."""
        text, missing = text_of(error), _Missing()
        record = ErrorRecord(
            type=_name_of(type(error)),
            message=self._message(text),
            args=self._arguments(error, missing),
            attributes=self._attributes(error, missing),
            response=self._response(error, missing),
            suppressed=anatomy.is_suppressed(error),
            stands_in=False,
        )
        self._above.append(error)
        record = msgspec.structs.replace(record, **self._chain(error, missing))
        self._above.pop()
        record = msgspec.structs.replace(record, left_out=missing.names, cut=missing.exceptions)
        is_itself = record.message == text and answer_of(lambda: self._comes_back(record, error), otherwise=False)
        return msgspec.structs.replace(record, stands_in=not is_itself)

    def _comes_back(self, record: ErrorRecord, error: BaseException) -> bool:
        """Whether the record gives the same exception here, and may be expected to elsewhere."""
        kind = type(error)
        if record.args == NONE or issubclass(kind, StopIteration):  # a coroutine can't raise that one
            return False
        if not is_expected(kind, record.type, self._known):
            return False
        back = rebuild(record)
        is_short = anatomy.is_group(kind) and record.cut  # its text says how many it has
        return type(back) is kind and (bool(is_short) or text_of(back) == record.message)

    # --- what stands behind it and in it ---

    def _chain(self, error: BaseException, missing: _Missing) -> dict[str, Any]:
        members = anatomy.members(error)
        for left in members[MEMBERS_MAX:]:
            missing.chained(left)
        inside = [self._linked(each, missing) for each in members[:MEMBERS_MAX]]
        context = None if anatomy.is_suppressed(error) else anatomy.context(error)
        return {
            "cause": self._linked(anatomy.cause(error), missing),
            "context": self._linked(context, missing),
            "members": tuple(each for each in inside if each),
        }

    def _linked(self, error: BaseException | None, missing: _Missing) -> ErrorRecord | None:
        if error is None:
            return None
        if len(self._above) > DEPTH_MAX or not self._exceptions or any(error is each for each in self._above):
            missing.chained(error)
            return None
        self._exceptions -= 1
        return self.record(error)

    # --- its own parts ---

    def _message(self, text: str) -> str:
        message = _cut(text, min(MESSAGE_CHARACTERS_MAX, max(self._bytes, SHORT_CHARACTERS_MAX)))
        self._bytes -= len(message)
        return message

    def _arguments(self, error: BaseException, missing: _Missing) -> Value:
        args = list(anatomy.arguments(error))
        raw = self._raw(args)
        if raw is None:
            odd = [(index, value) for index, value in enumerate(args) if _encoded(value) is None]
            for index, value in odd or [(0, args)]:
                missing.part(f"args[{index}]" if odd else "args", value)
        return raw or NONE

    def _attributes(self, error: BaseException, missing: _Missing) -> Value:
        kept: dict[str, Any] = {}
        for name, value in anatomy.attributes(error).items():
            if self._raw({name: value}):
                kept[name] = value
            else:
                missing.part(name, value)
        return Value(codec.encode(kept, where=WHERE).raw) if kept else NONE

    def _response(self, error: BaseException, missing: _Missing) -> ResponseRecord | None:
        """The reduced form of an attribute `response` that could not be recorded as it is."""
        found = answer_of(lambda: reduced(anatomy.attributes(error)[RESPONSE]), None)
        size = len(encode(found))
        if found is None or size > self._bytes:
            return None
        self._bytes -= size
        missing.names.pop(RESPONSE, None)
        return found

    def _raw(self, value: Any) -> Value | None:
        """The value as it is written, if it can be and there is room for it."""
        raw = _encoded(value)
        if raw is None or len(raw) > min(VALUE_BYTES_MAX, self._bytes):
            return None
        self._bytes -= len(raw)
        return Value(raw)


def _encoded(value: Any) -> bytes | None:
    """The bytes of a value that needs no declared type to come back; None for any other."""
    encoded = answer_of(lambda: codec.encode(value, where=WHERE), None)
    return None if encoded is None or encoded.annotated else encoded.raw


def _all_of(error: BaseException) -> Iterator[BaseException]:
    """The exception and all that stand behind it and in it, each once."""
    seen: set[int] = set()
    left: list[BaseException | None] = [error]
    while left:
        each = left.pop()
        if each is not None and id(each) not in seen:
            seen.add(id(each))
            left += [anatomy.cause(each), anatomy.context(each), *anatomy.members(each)]
            yield each


def _name_of(kind: type) -> str:
    return answer_of(lambda: _cut(printable(registry.name_of(kind)), NAME_CHARACTERS_MAX), "?:?")


def _cut(text: str, most: int) -> str:
    """The beginning of a text in whole words, so that no half of a secret is left at the cut."""
    if len(text) <= most:
        return text
    kept = text[: max(text.rfind("\n", 0, most), text.rfind(" ", 0, most), 0)]
    return f"{kept} ... ({len(text) - len(kept)} characters more)"


def _traceback(error: BaseException) -> str:
    """The end of the traceback, in whole lines, so that no half of a secret is left at the cut."""
    text = "".join(traceback.format_exception(error))
    return text if len(text) <= TRACEBACK_CHARACTERS_MAX else text[-TRACEBACK_CHARACTERS_MAX:].partition("\n")[2]
