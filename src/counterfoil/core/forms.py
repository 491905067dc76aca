"""How values are written: from Python objects to JSON values, exactly or not at all.

Nothing is pickled. Released form: JSON, in which an object with the key "$" is a tagged value.

    {"$": "int", "v": "9007199254740993"}    an integer beyond 2**53 - 1; in hexadecimal, "0x...", beyond 2048 bits
    {"$": "float", "v": "nan"}               nan, inf, -inf
    {"$": "str", "v": "<hex>"}               text with lone surrogates, UTF-8 with surrogatepass
    {"$": "dict", "v": {...}}                a dictionary that itself has the key "$"
    {"$": "map", "v": [[key, value], ...]}   a dictionary with a key that is no text, or has lone surrogates
    {"$": "datetime", "v": "<ISO 8601>"}     a datetime, naive or with a fixed offset; with "zone" the local time there,
                                             with "n" the offset's own name, with "fold" the later of two, with
                                             "by": "pydantic" the offset is an object of pydantic's; "time" likewise
    {"$": "secret", "v": NAME}               a Secret, by name; its value is never written
    {"$": "of", "t": "module:Class", "v": {field: value, ...}}   an instance; see `kinds` for its further groups
    {"$": "enum", "t": "module:Class", "n": NAME, "v": value}    a member, by name; "v" if its value is plain

and bytes, bytearray (base64), tuple, set, frozenset (in the order of their canonical bytes), complex, decimal,
fraction, date, timedelta (days, seconds, microseconds), uuid, path, ip, range, deque, odict, counter: see `leaves` and
the writers below.

A value is written in one of two ways. **Named**, for what is read back by the code: every instance names its class.
**Bare**, for inputs, which are compared: an instance is the object of its fields, an enum its value, a model its own
JSON, so that it does not matter where a class lives, and an argument given as JSON is the same argument.
"""

import collections
import contextlib
import enum
from collections.abc import Callable, Collection, Iterable, Mapping
from itertools import chain
from typing import Any

from counterfoil.core import registry
from counterfoil.core.canonical import canonical
from counterfoil.core.kinds import Kind, is_model, is_pydantic_secret, kind_of
from counterfoil.core.leaves import (
    LEAVES,
    LENGTH,
    NAME,
    SCALARS,
    TAG,
    TYPE,
    VALUE,
    RefusedError,
    is_good,
    key_path,
)

DEPTH_MAX = 200
_AS_THEY_ARE = frozenset({bool, type(None)})


class TooDeepError(Exception):
    """A value is nested deeper than DEPTH_MAX, or contains itself."""


class Walk:
    """One pass over a value, which gives it as a JSON value, bare. Raises RefusedError or TooDeepError."""

    is_named, is_old = False, False
    annotated = False  # it has met an instance of a class
    is_unordered = False  # it has met a set
    refused: Collection[type] = ()  # classes to stop at

    def plain(self, value: Any, depth: int = 0) -> Any:
        """The value as JSON has it."""
        try:
            scalar = SCALARS.get(type(value))
        except TypeError as error:
            raise RefusedError(
                value, f"its class can't be looked up: {error!r}", "Return a value of another."
            ) from None
        return scalar(value) if scalar else self._compound(value, depth)

    def _compound(self, value: Any, depth: int) -> Any:
        if depth > DEPTH_MAX:
            raise TooDeepError
        kind = type(value)
        try:
            if kind is dict:
                return self._object(value, depth + 1)
            if kind is list:
                return self.items(value, depth + 1)
            if kind in LEAVES:
                return LEAVES[kind](value)
            write = _WRITERS.get(kind)
            return write(self, value, depth + 1) if write else self._instance(value, depth + 1)
        except (RefusedError, TooDeepError, RecursionError):
            raise
        except Exception as error:
            reason = f"asked for its parts, it raised {error!r}"
            raise RefusedError(value, reason, "Return a value that can be read.") from error

    def items(self, value: Iterable[Any], depth: int) -> list[Any]:
        """The items of a list, or of what is written as one."""
        out: list[Any] = []
        try:
            for item in value:
                kind = type(item)
                if (kind is str and item.isascii()) or kind in _AS_THEY_ARE:
                    out.append(item)
                else:
                    scalar = SCALARS.get(kind)
                    out.append(scalar(item) if scalar else self._compound(item, depth))
        except RefusedError as refused:
            refused.path.append(f"[{len(out)}]")
            raise
        return out

    def _object(self, value: Mapping[Any, Any], depth: int) -> Any:
        out: dict[str, Any] = {}
        key: Any = None
        items = iter(value.items())
        try:
            for key, item in items:
                if type(key) is not str or not (key.isascii() or is_good(key)):
                    break
                kind = type(item)
                if (kind is str and item.isascii()) or kind in _AS_THEY_ARE:
                    out[key] = item
                else:
                    scalar = SCALARS.get(kind)
                    out[key] = scalar(item) if scalar else self._compound(item, depth)
            else:
                return {TAG: "dict", VALUE: out} if TAG in out else out
        except RefusedError as refused:
            refused.path.append(f".{key}")
            raise
        begun = [[text, written] for text, written in out.items()]
        return {TAG: "map", VALUE: begun + self.pairs(chain([(key, item)], items), depth)}

    def pairs(self, items: Iterable[tuple[Any, Any]], depth: int) -> list[Any]:
        """The items of a dictionary as pairs, in its order."""
        out: list[Any] = []
        for key, item in items:
            try:
                out.append([self.plain(key, depth), self.plain(item, depth)])
            except RefusedError as refused:
                refused.path.append(key_path(key))
                raise
        return out

    def _instance(self, value: Any, depth: int) -> Any:
        class_: Any = type(value)
        if class_ in self.refused:
            raise RefusedError(value, registry.name_of(class_), "Declare it.")
        self.annotated = True
        if is_pydantic_secret(value):
            return self._hidden(value)
        if isinstance(value, enum.Enum):
            return self._member(value, depth) if self.is_named else self._bare_member(value, depth)
        kind = kind_of(class_)
        if kind is None:
            raise RefusedError(value, *_why_not(class_))
        if not self.is_named:
            return self._bare_model(value, kind, depth) if is_model(class_) else self._bare(value, kind, depth)
        taken = kind.take(value)
        written = {TAG: "of", TYPE: self._name_of(value), VALUE: self._content(taken.content, depth)}
        return written | {name: self._content(group, depth) for name, group in taken.more.items()}

    def _content(self, content: Any, depth: int) -> Any:
        """Fields by name, names, or a text."""
        return self._object(content, depth) if isinstance(content, dict) else self.plain(content, depth)

    def _name_of(self, value: Any) -> str:
        return registry.name_of(type(value))

    def _hidden(self, value: Any) -> Any:
        if self.is_named:
            fix = "Return something else, or declare the value: counterfoil.open(..., secrets=[...])."
            raise RefusedError(value, "a secret is never written, and so is never a result", fix)
        return {TAG: "secret", VALUE: ""}

    def _member(self, value: enum.Enum, depth: int) -> Any:
        class_: Any = type(value)
        if not isinstance(value, enum.Flag) and class_.__members__.get(value.name) is not value:
            raise RefusedError(value, "it is not a member of its class", "Return a member.")
        written = {TAG: "enum", TYPE: self._name_of(value), NAME: value.name}
        return written | ({VALUE: self.plain(value.value, depth)} if type(value.value) in SCALARS else {})

    def _bare_member(self, value: enum.Enum, depth: int) -> Any:
        try:
            return self.plain(value.value, depth)
        except RefusedError:
            return self._member(value, depth)

    def _bare(self, value: Any, kind: Kind, depth: int) -> Any:
        if isinstance(value, tuple):
            return self.items(value, depth)
        return self._content(kind.take(value).content, depth)

    def _bare_model(self, value: Any, kind: Kind, depth: int) -> Any:
        """A model's own JSON; its fields if it has none, or none that is the same each time (a set's order is chance).

        Raises RefusedError when it has neither.
        """
        if self.is_old:
            return self.plain(_json_of(value), depth)
        before, self.is_unordered = self.is_unordered, False
        fields = refusal = None
        try:
            fields = self._bare(value, kind, depth)
        except RefusedError as refused:
            refusal = refused
        if not self.is_unordered:
            with contextlib.suppress(Exception):  # a model's own code may raise anything; then its fields will do
                return self.plain(_json_of(value), depth)
        self.is_unordered |= before
        if refusal:
            raise refusal
        return fields


def _json_of(model: Any) -> Any:
    return model.model_dump(mode="json", by_alias=True, round_trip=True, warnings=False)


class NamedWalk(Walk):
    """The same for a result: every instance names its class."""

    is_named = True

    def __init__(self, *, refused: Collection[type] = ()) -> None:
        self.refused = refused
        self.classes: dict[str, type] = {}  # those that it has named

    def _name_of(self, value: Any) -> str:
        name = super()._name_of(value)
        if self.classes.setdefault(name, type(value)) is not type(value):
            raise RefusedError(value, f"two classes in it are named {name}", "Give each class its own name.")
        return name


class OldWalk(Walk):
    """The same as release 0.1.0 did it, for a comparison with its records."""

    is_old = True


def _why_not(class_: type) -> tuple[str, str]:
    known = {dict, list, *SCALARS, *LEAVES, *_WRITERS}
    above = next((each.__name__ for each in class_.__mro__[1:] if each in known), None)
    if above is None:
        reason = "only plain values, and instances of dataclasses, enums, named tuples and models, can be recorded"
    else:
        reason = f"it is a {above} of a class of its own, which would not come back"
    return reason, "Turn it into one of those, for example a dataclass or a dict of plain values."


def _list_as(tag: str) -> "Writer":
    return lambda walk, value, depth: {TAG: tag, VALUE: walk.items(value, depth)}


def _pairs_as(tag: str) -> "Writer":
    def write(walk: Walk, value: Any, depth: int) -> Any:
        if vars(value):
            raise RefusedError(value, "it has attributes of its own", "Return it without them, or a dict.")
        return {TAG: tag, VALUE: walk.pairs(value.items(), depth)}

    return write


def _set_as(tag: str) -> "Writer":
    def write(walk: Walk, value: Any, depth: int) -> Any:
        walk.is_unordered = True
        return {TAG: tag, VALUE: in_order(walk.items(value, depth))}

    return write


def in_order(items: list[Any]) -> list[Any]:
    """The written items of a set, in the order that does not hang on chance."""
    return sorted(items, key=canonical)


def _deque(walk: Walk, value: Any, depth: int) -> Any:
    more = {} if value.maxlen is None else {LENGTH: value.maxlen}
    return {TAG: "deque", VALUE: walk.items(value, depth), **more}


Writer = Callable[[Walk, Any, int], Any]
_WRITERS: dict[type, Writer] = {
    tuple: _list_as("tuple"),
    set: _set_as("set"),
    frozenset: _set_as("frozenset"),
    collections.deque: _deque,
    collections.OrderedDict: _pairs_as("odict"),
    collections.Counter: _pairs_as("counter"),
}
