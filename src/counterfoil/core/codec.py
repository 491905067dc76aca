"""Values: from Python objects to JSON bytes and back, exactly or not at all.

Nothing is pickled, and nothing named in the stored bytes is ever imported. Plain JSON values need no type to be read
back. Dataclasses, enums and pydantic models do: their type comes from the function's annotation or `returns=`, and a
result is decoded and compared at the moment it is recorded, so that what the code gets live is what it gets on replay
(law J6). What can't come back the same is refused by path and type.

Released form: JSON, in which an object with the key "$" is a tagged value.

    {"$": "int", "v": "9007199254740993"}    an integer beyond 2**53 - 1; in hexadecimal, "0x...", beyond 2048 bits
    {"$": "float", "v": "nan"}               nan, inf, -inf
    {"$": "str", "v": "<hex>"}               text with lone surrogates, UTF-8 with surrogatepass
    {"$": "dict", "v": {...}}                a dictionary that itself has the key "$"
    {"$": "datetime", "v": "<ISO 8601>"}     a datetime, naive or with a fixed offset
    {"$": "uuid", "v": "<hex and dashes>"}   a UUID
    {"$": "secret", "v": NAME}               a Secret, by name; its value is never written
"""

import dataclasses
import enum
import math
from collections.abc import Callable, Iterator, Mapping
from datetime import datetime, timezone
from functools import lru_cache
from typing import Any, NamedTuple
from uuid import UUID

import msgspec

from counterfoil.core.canonical import digest
from counterfoil.errors import NotReadableError, NotStorableError

SAFE_INTEGER = 2**53 - 1
DECIMAL_BITS_MAX = 2048  # longer ones take Python long to spell, or are refused
DEPTH_MAX = 200
PATH_PARTS_MAX = 20
TAG, VALUE = "$", "v"
_TAG_BYTES = b'"$"'
_MISSING: Any = object()

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder().decode


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


class Encoded(NamedTuple):
    """A value as it is written."""

    raw: bytes
    annotated: bool  # whether reading it back needs the declared type


class _RefusedError(Exception):
    """Why a value can't be written, and where in it; the path grows on the way up."""

    def __init__(self, value: object, reason: str, fix: str) -> None:
        super().__init__(reason)
        self.type = type(value).__name__
        self.reason, self.fix = reason, fix
        self.path: list[str] = []


class _Walk:
    """One pass over a value. Remembers whether it met anything that needs a type to come back."""

    __slots__ = ("annotated",)

    def __init__(self) -> None:
        self.annotated = False

    def plain(self, value: Any, depth: int = 0) -> Any:
        scalar = _SCALARS.get(type(value))
        return scalar(value) if scalar else self._compound(value, depth)

    def _compound(self, value: Any, depth: int) -> Any:
        if depth > DEPTH_MAX:
            raise _RefusedError(
                value, f"it is nested deeper than {DEPTH_MAX}, or contains itself", "Return a flat value."
            )
        if type(value) is list:
            return self._items(value, depth + 1)
        if type(value) is dict:
            return self._object(value, depth + 1)
        try:
            return self._typed(value, depth + 1)
        except _RefusedError:
            raise
        except Exception as error:
            reason = f"asked for its parts, it raised {error!r}"
            raise _RefusedError(value, reason, "Return a value that can be read.") from error

    def _items(self, value: list[Any], depth: int) -> list[Any]:
        out = []
        try:
            for item in value:
                out.append(self.plain(item, depth))  # noqa: PERF401 - the length tells where it stopped
        except _RefusedError as refused:
            refused.path.append(f"[{len(out)}]")
            raise
        return out

    def _object(self, value: Mapping[Any, Any], depth: int) -> dict[str, Any]:
        out: dict[str, Any] = {}
        key: Any = None
        try:
            for key, item in value.items():
                out[_key(key)] = self.plain(item, depth)
        except _RefusedError as refused:
            refused.path.append(f".{key}")
            raise
        return {TAG: "dict", VALUE: out} if TAG in out else out

    def _typed(self, value: Any, depth: int) -> Any:
        if isinstance(value, Secret):
            return {TAG: "secret", VALUE: value.name}
        if type(value) is datetime and (value.tzinfo is None or type(value.tzinfo) is timezone):
            return {TAG: "datetime", VALUE: value.isoformat()}
        self.annotated = True
        if hasattr(type(value), "get_secret_value"):  # pydantic's: never written, and so never a result
            return {TAG: "secret", VALUE: ""}
        if isinstance(value, enum.Enum):
            return self.plain(value.value, depth)
        if dataclasses.is_dataclass(value) and not isinstance(value, type):
            return self._object({f.name: getattr(value, f.name) for f in dataclasses.fields(value)}, depth)
        if hasattr(type(value), "__pydantic_validator__") and hasattr(value, "model_dump"):
            return self.plain(value.model_dump(mode="json", by_alias=True, round_trip=True), depth)
        raise _RefusedError(
            value,
            "only JSON values, dataclasses, enums and pydantic models can be recorded",
            "Turn it into one of those, for example a dataclass or a dict of plain values.",
        )


def _text(value: str) -> Any:
    try:
        value.encode()
    except UnicodeEncodeError:
        return {TAG: "str", VALUE: text_to_hex(value)}
    return value


def text_to_hex(text: str) -> str:
    """Any text, lone surrogates included, in hexadecimal."""
    return text.encode("utf-8", "surrogatepass").hex()


def text_from_hex(hexadecimal: str) -> str:
    """What `text_to_hex` was given."""
    return bytes.fromhex(hexadecimal).decode("utf-8", "surrogatepass")


def _integer(value: int) -> Any:
    if -SAFE_INTEGER <= value <= SAFE_INTEGER:
        return value
    return {TAG: "int", VALUE: str(value) if value.bit_length() <= DECIMAL_BITS_MAX else hex(value)}


def _number(value: float) -> Any:
    return value if math.isfinite(value) else {TAG: "float", VALUE: str(value)}


def _itself(value: Any) -> Any:
    return value


_SCALARS: dict[type, Callable[[Any], Any]] = {
    str: lambda value: value if value.isascii() else _text(value),
    bool: _itself,
    type(None): _itself,
    int: _integer,
    float: _number,
    UUID: lambda value: {TAG: "uuid", VALUE: str(value)},
}


def _key(key: object) -> str:
    if type(key) is not str:
        raise _RefusedError(key, "a dictionary key must be a string", "Use string keys, or a list of pairs.")
    if not key.isascii() and type(_text(key)) is not str:
        raise _RefusedError(
            key, "a dictionary key has a lone surrogate", "Decode the text with errors='replace' first."
        )
    return key


def encode(value: Any, *, where: str) -> Encoded:
    """The bytes of a value. `where` names it in the error.

    Raises NotStorableError with the path and the type of the first part that can't be written.
    """
    walk = _Walk()
    try:
        return Encoded(_encode(walk.plain(value)), walk.annotated)
    except _RefusedError as refused:
        path = "$" + "".join(reversed(refused.path[-PATH_PARTS_MAX:]))
        raise NotStorableError(
            where=where, path=path, type=refused.type, reason=refused.reason, fix=refused.fix
        ) from None


def record(value: Any, annotation: Any, *, where: str) -> tuple[Encoded, Any]:
    """The bytes of a result, and the value that they decode to: what the code gets live and on every replay.

    Raises NotStorableError when the two differ.
    """
    encoded = encode(value, where=where)
    if not encoded.annotated:
        return encoded, decode(encoded.raw, annotation, annotated=False, where=where)
    fix = "Annotate the function's result with its exact type, or give returns=."
    try:
        back = decode(encoded.raw, annotation, annotated=True, where=where)
    except NotReadableError as error:
        raise NotStorableError(where=where, path="$", type=type(value).__name__, reason=error.reason, fix=fix) from None
    for path, part in _differences(value, back, "$"):
        reason = f"read back as {annotation!r} it is not the same"
        raise NotStorableError(where=where, path=path, type=type(part).__name__, reason=reason, fix=fix)
    return encoded, back


def decode(raw: bytes, annotation: Any, *, annotated: bool, where: str) -> Any:
    """The value in the bytes. With `annotated`, built as the annotated type.

    Raises NotReadableError when the bytes do not fit the type.
    """
    plain = _decode(raw)
    if _TAG_BYTES in raw:
        try:
            plain = _untag(plain)
        except (LookupError, TypeError, ValueError, AttributeError) as error:
            raise NotReadableError(where=where, type="a tagged value", reason=repr(error)) from error
    return convert(plain, annotation, where=where) if annotated else plain


def convert(plain: Any, annotation: Any, *, where: str) -> Any:
    """A JSON value as the annotated type.

    Raises NotReadableError when it does not fit.
    """
    try:
        return _converter(annotation)(plain)
    except Exception as error:
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise NotReadableError(where=where, type=type_name(annotation), reason=reason) from error


def input_digest(raw: bytes) -> str:
    """The digest that decides whether two inputs are the same: over the canonical bytes of the written form."""
    return digest(_decode(raw))


def type_name(annotation: Any) -> str:
    """An annotation in words."""
    if annotation is Any:
        return "anything"
    return (
        str(annotation) if hasattr(annotation, "__origin__") else getattr(annotation, "__qualname__", str(annotation))
    )


def _untag(plain: Any) -> Any:
    if type(plain) is list:
        return [_untag(item) for item in plain]
    if type(plain) is not dict:
        return plain
    if TAG in plain:
        return _UNTAG[plain[TAG]](plain[VALUE])
    return {key: _untag(item) for key, item in plain.items()}


_UNTAG: dict[str, Callable[[Any], Any]] = {
    "int": lambda text: int(text, 0),
    "float": float,
    "str": text_from_hex,
    "dict": lambda inner: {key: _untag(item) for key, item in inner.items()},
    "datetime": datetime.fromisoformat,
    "uuid": UUID,
    "secret": Secret,
}


@lru_cache(maxsize=1024)
def _converter_of(annotation: Any) -> Callable[[Any], Any]:
    def own_types(kind: type, value: Any) -> Any:
        if hasattr(kind, "model_validate"):
            return kind.model_validate(value)
        if kind is Secret and isinstance(value, Secret):
            return value
        msg = f"{kind.__qualname__} is not a type that can be recorded"
        raise TypeError(msg)

    return lambda plain: msgspec.convert(plain, annotation, dec_hook=own_types)


def _converter(annotation: Any) -> Callable[[Any], Any]:
    try:
        return _converter_of(annotation)
    except TypeError:  # an annotation that can't be hashed is compiled each time
        return _converter_of.__wrapped__(annotation)


def _differences(value: Any, back: Any, path: str) -> Iterator[tuple[str, Any]]:
    """Places where what was read back is not what was given, types included."""
    if type(value) is int and type(back) is float and value == back:
        return  # a whole number in a field declared float: what comes back is the number that was given
    if type(value) is not type(back):
        yield path, value
    elif type(value) is list and len(value) == len(back):
        for index, (one, other) in enumerate(zip(value, back, strict=True)):
            yield from _differences(one, other, f"{path}[{index}]")
    elif type(value) is dict or dataclasses.is_dataclass(value) or hasattr(value, "__dict__"):
        ours, theirs = _parts(value), _parts(back)
        for key in ours:
            yield from _differences(ours[key], theirs.get(key, _MISSING), f"{path}.{key}")
    elif value != back and not (value != value and back != back):  # noqa: PLR0124 - NaN differs from itself
        yield path, value


def _parts(value: Any) -> dict[Any, Any]:
    if isinstance(value, enum.Enum):
        return {"value": value.value}
    if dataclasses.is_dataclass(value):
        return {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
    return value if type(value) is dict else vars(value)
