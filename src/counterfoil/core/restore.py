"""How values are read: from tagged JSON values back to Python objects, strictly.

Nothing is imported, and no class is built that is not handed in by name. A tag that is unknown, or whose parts are not
exactly those that the writer gives it, is refused with its place; nothing is guessed.
"""

import base64
import binascii
import collections
import enum
import sys
from collections.abc import Callable
from datetime import date, datetime, time, timedelta, timezone
from decimal import Decimal
from fractions import Fraction
from typing import Any
from uuid import UUID
from zoneinfo import ZoneInfo

from counterfoil.core.kinds import EXTRA, GIVEN, OTHERS, PRIVATE, UNSET, Parts, UnfitError, kind_of
from counterfoil.core.leaves import (
    ADDRESSES,
    BY,
    FOLD,
    LENGTH,
    NAME,
    PATHS,
    TAG,
    TYPE,
    VALUE,
    ZONE,
    Secret,
    key_path,
    text_from_hex,
)

INTEGER_TEXT_MAX = 640  # characters of a decimal integer that the writer may have written
Find = Callable[[str], type | None]
"""Gives the class that a record may name so, or None."""


class Restore:
    """One pass over a tagged JSON value, which gives the object. Raises UnfitError."""

    __slots__ = ("find", "has_named")

    def __init__(self, find: Find) -> None:
        self.find = find
        self.has_named = False  # it has met an instance that names its class

    def value(self, plain: Any) -> Any:
        """The object of a JSON value."""
        kind = type(plain)
        if kind is dict:
            return self._tagged(plain) if TAG in plain else self.members(plain)
        return self.items(plain) if kind is list else plain

    def items(self, plain: Any) -> list[Any]:
        """What is written as a list."""
        if type(plain) is not list:
            raise UnfitError("a list is missing", "a tagged value")
        out: list[Any] = []
        try:
            for item in plain:
                kind = type(item)
                out.append(self.value(item) if kind is dict or kind is list else item)
        except UnfitError as unfit:
            unfit.path.append(f"[{len(out)}]")
            raise
        return out

    def members(self, plain: Any) -> dict[str, Any]:
        """What is written as an object."""
        if type(plain) is not dict:
            raise UnfitError("an object is missing", "a tagged value")
        out: dict[str, Any] = {}
        key = ""
        try:
            for key, item in plain.items():
                kind = type(item)
                out[key] = self.value(item) if kind is dict or kind is list else item
        except UnfitError as unfit:
            unfit.path.append(f".{key}")
            raise
        return out

    def pairs(self, plain: Any) -> dict[Any, Any]:
        """What is written as pairs of keys and values."""
        out: dict[Any, Any] = {}
        for pair in plain:
            if type(pair) is not list:
                raise UnfitError("a pair is missing", "a tagged value")
            key, item = pair
            restored = self.value(key)
            try:
                out[restored] = self.value(item)
            except UnfitError as unfit:
                unfit.path.append(key_path(restored))
                raise
        _check_all_of(plain, out)
        return out

    def _tagged(self, plain: dict[str, Any]) -> Any:
        tag = plain[TAG]
        known = _READERS.get(tag) if type(tag) is str else None
        if known is None:
            raise UnfitError(f"the tag {tag!r:.40} is not known to this release", "a tagged value")
        read, optional = known
        if not {TAG, VALUE} | optional >= plain.keys() or (VALUE not in plain and tag != "enum"):
            raise UnfitError(f"the tag {tag!r} has other parts than it should", "a tagged value")
        try:
            return read(self, plain)
        except (UnfitError, RecursionError):
            raise
        except Exception as error:
            raise UnfitError(f"{error!r:.200}", f"the tag {tag!r}") from error

    def class_of(self, plain: dict[str, Any]) -> type:
        """The class that a value names."""
        self.has_named = True
        name = plain[TYPE]
        found = self.find(name) if type(name) is str else None
        if found is None:
            raise UnfitError("the class is neither in the annotation nor registered", f"{name!s:.200}")
        return found

    def instance(self, plain: dict[str, Any]) -> Any:
        """What names its class, with its attributes."""
        class_ = self.class_of(plain)
        kind = kind_of(class_)
        if kind is None or issubclass(class_, enum.Enum):
            raise UnfitError("the class is none whose instances can be recorded", class_.__qualname__)
        content = plain[VALUE]
        more = {name: self.value(group) for name, group in plain.items() if name not in {TAG, TYPE, VALUE}}
        parts = Parts(self.value(content), more)
        try:
            return kind.build(class_, parts)
        except (UnfitError, RecursionError):
            raise
        except Exception as error:
            raise UnfitError(f"it could not be built: {error!r:.200}", class_.__qualname__) from error

    def member(self, plain: dict[str, Any]) -> Any:
        """A member of an enumeration: its name and its value must still belong together."""
        class_: Any = self.class_of(plain)
        if not issubclass(class_, enum.Enum):
            raise UnfitError("the class is no enumeration any more", class_.__qualname__)
        name = plain[NAME]
        found: Any = class_.__members__.get(name)
        if found is None and issubclass(class_, enum.Flag):  # several together, or none
            found = class_(self.value(plain[VALUE]))
            found = found if found.name == name else None
        if found is None:
            raise UnfitError(f"it has no member {name!r} any more", class_.__qualname__)
        if VALUE in plain and not _is_same(found.value, self.value(plain[VALUE])):
            raise UnfitError(f"its member {name!r} has another value now", class_.__qualname__)
        return found


def _is_same(one: object, other: object) -> bool:
    return type(one) is type(other) and (one == other or repr(one) == repr(other))


def _check_all_of(written: Any, restored: Any) -> None:
    if len(written) != len(restored):
        raise UnfitError("two of its items are the same", "a tagged value")


def _integer(text: str) -> int:
    is_hexadecimal = text.lstrip("-").startswith("0x")
    if not is_hexadecimal and len(text) > INTEGER_TEXT_MAX:
        raise UnfitError("no integer of this length is written in decimal", "the tag 'int'")
    return int(text, 16 if is_hexadecimal else 10)


def _number(text: str) -> float:
    return {"nan": float("nan"), "inf": float("inf"), "-inf": float("-inf")}[text]


def _bytes(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except binascii.Error as error:
        raise UnfitError(f"{error}", "the tag 'bytes'") from None


def _moment(kind: Any) -> Callable[[Restore, dict[str, Any]], Any]:
    def read(restore: Restore, plain: dict[str, Any]) -> Any:
        text = plain[VALUE]
        moment = kind.fromisoformat(text)
        if text[-16:-6] in {"+00:00:00.", "-00:00:00."}:  # less than a second, which Python reads as none
            moment = moment.replace(tzinfo=timezone(timedelta(microseconds=int(text[-16] + text[-6:]))))
        if plain.get(FOLD, 0):
            moment = moment.replace(fold=1)
        if ZONE in plain:
            return moment.replace(tzinfo=ZoneInfo(plain[ZONE])) if moment.tzinfo is None else _wrong_zone()
        if NAME in plain:
            return moment.replace(tzinfo=timezone(moment.utcoffset(), restore.value(plain[NAME])))
        return moment.replace(tzinfo=_pydantic_zone(moment.utcoffset())) if BY in plain else moment

    return read


def _wrong_zone() -> Any:
    raise UnfitError("it has two time zones", "a tagged value")


def _pydantic_zone(offset: timedelta) -> Any:
    pydantic_core = sys.modules.get("pydantic_core")
    if pydantic_core is None:
        raise UnfitError("it was made by pydantic, which is not imported here", "datetime")
    return pydantic_core.TzInfo(int(offset.total_seconds()))


def _typed_text(classes: dict[str, Any]) -> Callable[[Restore, dict[str, Any]], Any]:
    def read(restore: Restore, plain: dict[str, Any]) -> Any:
        return classes[plain[TYPE]](_text_of(restore, plain))

    return read


def _text_of(restore: Restore, plain: dict[str, Any]) -> str:
    text = restore.value(plain[VALUE])
    if type(text) is not str:
        raise UnfitError("its text is missing", "a tagged value")
    return text


def _no_text() -> Any:
    raise UnfitError("its text is missing", "a tagged value")


def _of_text(read: Callable[[Any], Any]) -> Callable[[Restore, dict[str, Any]], Any]:
    return lambda _restore, plain: read(plain[VALUE]) if type(plain[VALUE]) is str else _no_text()


def _of_items(make: Callable[[list[Any]], Any]) -> Callable[[Restore, dict[str, Any]], Any]:
    return lambda restore, plain: make(restore.items(plain[VALUE]))


def _set(make: Callable[[list[Any]], Any]) -> Callable[[Restore, dict[str, Any]], Any]:
    def read(restore: Restore, plain: dict[str, Any]) -> Any:
        made = make(restore.items(plain[VALUE]))
        _check_all_of(plain[VALUE], made)
        return made

    return read


def _of_pairs(make: Callable[[dict[Any, Any]], Any]) -> Callable[[Restore, dict[str, Any]], Any]:
    return lambda restore, plain: make(restore.pairs(plain[VALUE]))


def _of_numbers(make: Callable[..., Any], kind: type, count: int) -> Callable[[Restore, dict[str, Any]], Any]:
    def read(restore: Restore, plain: dict[str, Any]) -> Any:
        numbers = restore.items(plain[VALUE])
        if [type(number) for number in numbers] != [kind] * count:
            raise UnfitError(f"{count} numbers are missing", "a tagged value")
        return make(*numbers)

    return read


def _deque(restore: Restore, plain: dict[str, Any]) -> Any:
    made = collections.deque(restore.items(plain[VALUE]), plain.get(LENGTH))
    if len(made) != len(plain[VALUE]):
        raise UnfitError("it has more items than it may", "a tagged value")
    return made


_NONE: frozenset[str] = frozenset()
_READERS: dict[str, tuple[Callable[[Restore, dict[str, Any]], Any], frozenset[str]]] = {
    "int": (_of_text(_integer), _NONE),
    "float": (_of_text(_number), _NONE),
    "str": (_of_text(text_from_hex), _NONE),
    "dict": (lambda restore, plain: restore.members(plain[VALUE]), _NONE),
    "map": (_of_pairs(dict), _NONE),
    "datetime": (_moment(datetime), frozenset({ZONE, FOLD, NAME, BY})),
    "time": (_moment(time), frozenset({ZONE, FOLD, NAME, BY})),
    "date": (_of_text(date.fromisoformat), _NONE),
    "timedelta": (_of_numbers(timedelta, int, 3), _NONE),
    "uuid": (_of_text(UUID), _NONE),
    "secret": (lambda restore, plain: Secret(_text_of(restore, plain)), _NONE),
    "bytes": (_of_text(_bytes), _NONE),
    "bytearray": (_of_text(lambda text: bytearray(_bytes(text))), _NONE),
    "tuple": (_of_items(tuple), _NONE),
    "set": (_set(set), _NONE),
    "frozenset": (_set(frozenset), _NONE),
    "complex": (_of_numbers(complex, float, 2), _NONE),
    "decimal": (_of_text(Decimal), _NONE),
    "fraction": (_of_numbers(Fraction, int, 2), _NONE),
    "range": (_of_numbers(range, int, 3), _NONE),
    "deque": (_deque, frozenset({LENGTH})),
    "odict": (_of_pairs(collections.OrderedDict), _NONE),
    "counter": (_of_pairs(collections.Counter), _NONE),
    "path": (_typed_text(PATHS), frozenset({TYPE})),
    "ip": (_typed_text(ADDRESSES), frozenset({TYPE})),
    "of": (Restore.instance, frozenset({TYPE, UNSET, OTHERS, EXTRA, PRIVATE, GIVEN})),
    "enum": (Restore.member, frozenset({TYPE, NAME})),
}
