"""Values without parts, as they are written: numbers, text, bytes, moments, and the like. See `forms` for the forms."""

import base64
import ipaddress
import math
import pathlib
from collections.abc import Callable
from datetime import date, datetime, time, timedelta, timezone
from decimal import Decimal
from fractions import Fraction
from typing import Any
from uuid import UUID
from zoneinfo import ZoneInfo

SAFE_INTEGER = 2**53 - 1
DECIMAL_BITS_MAX = 2048  # longer ones take Python long to spell, or are refused
TAG, VALUE, TYPE, NAME = "$", "v", "t", "n"
ZONE, FOLD, BY, LENGTH = "zone", "fold", "by", "maxlen"


class Secret:
    """A secret by name: `Secret("STRIPE_KEY")` stands for the environment variable of that name.

    It may be an argument of a workflow or step: the name is recorded, the value never. Read the value inside a step
    with `counterfoil.reveal(secret)`.
    """

    __slots__ = ("name",)

    def __init__(self, name: str) -> None:
        self.name = name

    def __repr__(self) -> str:
        return f"Secret({self.name!r})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Secret) and other.name == self.name

    def __hash__(self) -> int:
        return hash((Secret, self.name))


class RefusedError(Exception):
    """Why a value can't be written, and where in it; the path grows on the way up."""

    def __init__(self, value: object, reason: str, fix: str) -> None:
        super().__init__(reason)
        self.type = type(value).__name__
        self.reason, self.fix = reason, fix
        self.path: list[str] = []


def key_path(key: object) -> str:
    """A step of a path by a key that is no text."""
    return f"[{key!r}]" if type(key) in {int, bool, type(None), float, str} else f"[a {type(key).__name__}]"


def text_to_hex(text: str) -> str:
    """Any text, lone surrogates included, in hexadecimal."""
    return text.encode("utf-8", "surrogatepass").hex()


def text_from_hex(hexadecimal: str) -> str:
    """What `text_to_hex` was given."""
    return bytes.fromhex(hexadecimal).decode("utf-8", "surrogatepass")


def is_good(text: str) -> bool:
    """Whether UTF-8 can hold it: no lone surrogates."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _text(value: str) -> Any:
    return value if value.isascii() or is_good(value) else {TAG: "str", VALUE: text_to_hex(value)}


def _integer(value: int) -> Any:
    if -SAFE_INTEGER <= value <= SAFE_INTEGER:
        return value
    return {TAG: "int", VALUE: str(value) if value.bit_length() <= DECIMAL_BITS_MAX else hex(value)}


def _number(value: float) -> Any:
    return value if math.isfinite(value) else {TAG: "float", VALUE: str(value)}


def _itself(value: Any) -> Any:
    return value


def _as_text(tag: str) -> Callable[[Any], Any]:
    return lambda value: {TAG: tag, VALUE: str(value)}


def _moment(tag: str) -> Callable[[Any], Any]:
    """A writer of datetimes or times: the zone is a part of the value."""

    def write(value: Any) -> Any:
        zone = value.tzinfo
        more: dict[str, Any] = {FOLD: 1} if value.fold else {}
        if type(zone) is ZoneInfo and zone.key is not None:
            return {TAG: tag, VALUE: value.replace(tzinfo=None).isoformat(), ZONE: zone.key, **more}
        if type(zone) is timezone:
            for name in _own_name(zone):
                more[NAME] = _text(name)
        elif is_pydantic_zone(zone):
            more[BY] = "pydantic"
        elif zone is not None:
            reason = f"its time zone is a {type(zone).__module__}.{type(zone).__qualname__}"
            raise RefusedError(value, reason, "Use datetime.timezone or zoneinfo.ZoneInfo.")
        return {TAG: tag, VALUE: value.isoformat(), **more}

    return write


def _own_name(zone: Any) -> tuple[str, ...]:
    own: tuple[str, ...] = zone.__getinitargs__()[1:]  # what it is pickled by: the offset, and a name if it has one
    return own


def is_pydantic_zone(zone: object) -> bool:
    """Whether it is the fixed offset that pydantic gives a datetime which it has read."""
    return type(zone).__name__ == "TzInfo" and type(zone).__module__.startswith("pydantic_core.")


def _base64(tag: str) -> Callable[[Any], Any]:
    return lambda value: {TAG: tag, VALUE: base64.b64encode(value).decode()}


def _typed_text(tag: str) -> Callable[[Any], Any]:
    return lambda value: {TAG: tag, TYPE: type(value).__name__, VALUE: _text(str(value))}


PATHS = {each.__name__: each for each in (pathlib.PurePosixPath, pathlib.PureWindowsPath, type(pathlib.Path()))}
ADDRESSES = {
    each.__name__: each
    for each in (
        ipaddress.IPv4Address, ipaddress.IPv6Address, ipaddress.IPv4Network, ipaddress.IPv6Network,
        ipaddress.IPv4Interface, ipaddress.IPv6Interface,
    )
}  # fmt: skip
SCALARS: dict[type, Callable[[Any], Any]] = {
    str: _text,
    bool: _itself,
    type(None): _itself,
    int: _integer,
    float: _number,
}
LEAVES: dict[type, Callable[[Any], Any]] = {
    bytes: _base64("bytes"),
    bytearray: _base64("bytearray"),
    complex: lambda value: {TAG: "complex", VALUE: [_number(value.real), _number(value.imag)]},
    Decimal: lambda value: {TAG: "decimal", VALUE: str(value).replace("e", "E")},  # the same in every context
    Fraction: lambda value: {TAG: "fraction", VALUE: [_integer(value.numerator), _integer(value.denominator)]},
    datetime: _moment("datetime"),
    time: _moment("time"),
    date: _as_text("date"),
    timedelta: lambda value: {TAG: "timedelta", VALUE: [value.days, value.seconds, value.microseconds]},
    UUID: _as_text("uuid"),
    range: lambda value: {TAG: "range", VALUE: [_integer(n) for n in (value.start, value.stop, value.step)]},
    Secret: lambda value: {TAG: "secret", VALUE: _text(value.name)},
    **dict.fromkeys(PATHS.values(), _typed_text("path")),
    **dict.fromkeys(ADDRESSES.values(), _typed_text("ip")),
}
