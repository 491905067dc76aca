"""Values: from Python objects to JSON bytes and back, exactly or not at all.

The one door to the codec: `forms` writes, `restore` reads, `kinds` takes classes apart and builds them, `declared`
knows which classes an annotation allows, `fit` makes annotated types of plain JSON. Nothing is pickled, and nothing
named in the stored bytes is ever imported. A result is decoded and compared at the moment it is recorded, so that what
the code gets live is what it gets on replay (law J6). What can't come back the same is refused by path and type.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple, NoReturn

import msgspec

from counterfoil.core.alike import circle, differences, is_surely_same
from counterfoil.core.canonical import canonical, digest
from counterfoil.core.declared import declared
from counterfoil.core.fit import fitted, left_out, type_name
from counterfoil.core.forms import DEPTH_MAX, NamedWalk, OldWalk, TooDeepError, Walk
from counterfoil.core.kinds import UnfitError
from counterfoil.core.leaves import TAG, VALUE, RefusedError, Secret, text_from_hex, text_to_hex
from counterfoil.core.restore import Find, Restore
from counterfoil.errors import NotReadableError, NotStorableError, ResultTypeUnknownError

__all__ = [
    "Encoded",
    "Secret",
    "arguments_in",
    "convert",
    "decode",
    "decode_argument",
    "digest_of",
    "encode",
    "encode_arguments",
    "input_digest",
    "record",
    "text_from_hex",
    "text_to_hex",
    "type_name",
]
PATH_PARTS_MAX = 20
_TAG_BYTES = b'"$"'
_PAIRS_WITHOUT_ORDER = ("map", "counter")
_WITHOUT_ORDER = tuple(f'"{tag}"'.encode() for tag in _PAIRS_WITHOUT_ORDER)

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder().decode


class Encoded(NamedTuple):
    """A value as it is written."""

    raw: bytes
    annotated: bool  # whether it holds an instance of a class, which reading it back needs
    plain: Any = None  # the JSON value in `raw`, if it is still at hand; never handed on


def encode(value: Any, *, where: str) -> Encoded:
    """The bytes of an input: bare, so that instances do not name their classes. `where` names it in the error.

    Raises NotStorableError with the path and the type of the first part that can't be written.
    """
    walk = Walk()
    try:
        plain = walk.plain(value)
        return Encoded(_encode(plain), walk.annotated, plain)
    except (RefusedError, TooDeepError, RecursionError, UnicodeEncodeError) as error:
        _refuse(value, error, where)


def record(value: Any, annotation: Any, *, where: str) -> tuple[Encoded, Any]:
    """The bytes of a result, and the value that they decode to: what the code gets live and on every replay.

    Raises NotStorableError when the two differ, and ResultTypeUnknownError, which has the bytes, when they are the same
    but the class of an instance is neither in the annotation nor registered.
    """
    walk = NamedWalk()
    try:
        encoded = Encoded(_encode(walk.plain(value)), walk.annotated)
    except (RefusedError, TooDeepError, RecursionError, UnicodeEncodeError) as error:
        _refuse(value, error, where)
    if not _has_tags(encoded.raw):
        return encoded, _decode(encoded.raw)
    find = declared(annotation if walk.annotated else None).find
    strange = [class_ for name, class_ in walk.classes.items() if find(name) is not class_]
    back = _back(value, encoded, walk.classes.get if strange else find, where=where)
    if strange:
        unknown = _type_unknown(value, strange, annotation, where=where)
        unknown.encoded = encoded
        raise unknown
    return encoded, back


def decode(raw: bytes, annotation: Any, *, annotated: bool, where: str) -> Any:
    """The value in the bytes. Instances are built of the annotation's classes, and of registered ones.

    Raises NotReadableError when the bytes are not ours, or do not fit the classes as they are now.
    """
    try:
        plain = _decode(raw)
        if _has_tags(raw):
            restore = Restore(declared(annotation if annotated else None).find)
            value = restore.value(plain)
            if restore.has_named or not annotated:
                return value
            return _of_bare(plain, value, annotation)
        return _of_bare(plain, plain, annotation) if annotated else plain
    except (msgspec.DecodeError, UnfitError, RecursionError) as error:
        raise _unreadable(error, where) from error


def convert(plain: Any, annotation: Any, *, where: str) -> Any:
    """A JSON value as the annotated type.

    Raises NotReadableError when it does not fit.
    """
    try:
        return fitted(plain, annotation)
    except UnfitError as error:
        raise _unreadable(error, where) from error


def encode_arguments(named: Mapping[str, Any], hints: Mapping[str, Any]) -> bytes:
    """The bytes of a workflow's arguments by parameter name, each checked against the parameter's annotation.

    Bare where that comes back the same, so that an argument given as JSON is the same argument. Raises as `record`
    and `convert` do.
    """
    return _encode({name: msgspec.Raw(_argument(value, hints.get(name, Any), name)) for name, value in named.items()})


def arguments_in(raw: bytes, *, where: str) -> dict[str, bytes]:
    """The bytes of each argument. Raises NotReadableError."""
    try:
        parts = msgspec.json.decode(raw, type=dict[str, msgspec.Raw])
    except (msgspec.DecodeError, RecursionError) as error:
        raise _unreadable(error, where) from error
    return {name: bytes(part) for name, part in parts.items()}


def decode_argument(raw: bytes, annotation: Any, *, where: str) -> Any:
    """One argument, as the parameter's annotation says. Raises NotReadableError."""
    try:
        restore = Restore(declared(annotation).find)
        value = restore.value(_decode(raw))
        return value if restore.has_named else fitted(value, annotation)
    except (msgspec.DecodeError, UnfitError, RecursionError) as error:
        raise _unreadable(error, where) from error


def input_digest(raw: bytes) -> str:
    """The digest that decides whether two inputs are the same: over the canonical bytes of the written form.

    Raises NotStorableError for one that is nested too deep.
    """
    return _digest(_decode(raw), raw)


def digest_of(encoded: Encoded) -> str:
    """The same digest of what was just encoded: nothing has to be read again."""
    raw, plain = encoded.raw, encoded.plain
    return input_digest(raw) if plain is None else _digest(plain, raw)


def _refuse(value: Any, error: Exception, where: str) -> NoReturn:
    if isinstance(error, RefusedError):
        raise NotStorableError(
            where=where, path=_path(error.path), type=error.type, reason=error.reason, fix=error.fix
        ) from None
    if isinstance(error, UnicodeEncodeError):  # the only texts that are not looked at
        reason, fix = "a name of the code in it has a lone surrogate", "Rename it."
        raise NotStorableError(where=where, path="$", type=type(value).__name__, reason=reason, fix=fix) from None
    path = circle(value)
    reason = f"it contains itself at {path}" if path else f"it is nested deeper than {DEPTH_MAX}"
    fix = "Return a value without the circle." if path else "Return a flat value."
    raise NotStorableError(where=where, path=path or "$", type=type(value).__name__, reason=reason, fix=fix) from None


def _back(value: Any, encoded: Encoded, find: Find, *, where: str) -> Any:
    """What the bytes decode to, compared with the value."""
    fix = "Return a value of a class that can be built from its attributes, or a dict of plain values."
    try:
        back = Restore(find).value(_decode(encoded.raw))
    except (UnfitError, RecursionError) as error:
        unfit = error if isinstance(error, UnfitError) else UnfitError("it is nested too deep", type(value).__name__)
        raise NotStorableError(
            where=where, path=_path(unfit.path), type=unfit.type, reason=unfit.reason, fix=fix
        ) from None
    if is_surely_same(value, back):
        return back
    for path, part in differences(value, back):
        reason = "read back, it is not the same"
        raise NotStorableError(where=where, path=path, type=type(part).__name__, reason=reason, fix=fix)
    return back


def _type_unknown(value: Any, strange: list[type], annotation: Any, *, where: str) -> ResultTypeUnknownError:
    """The error that names the first instance of a class that is not declared."""
    try:
        NamedWalk(refused=strange).plain(value)
    except RefusedError as refused:
        path, type_ = _path(refused.path), refused.reason
    return ResultTypeUnknownError(where=where, path=path, type=type_, annotation=type_name(annotation))


def _of_bare(plain: Any, value: Any, annotation: Any) -> Any:
    """What a record holds that names no class, as the annotation says; all of it, or UnfitError."""
    built = fitted(value, annotation)
    walk = OldWalk()
    try:
        lost = left_out(plain, walk.plain(built))
    except (RefusedError, TooDeepError) as error:
        raise UnfitError(f"written again, it is refused: {error}", type_name(annotation)) from None
    if not walk.annotated:
        raise UnfitError("the annotation does not say of which class it is", type_name(annotation))
    if lost:
        raise UnfitError("this part is not in what the class makes of it", type_name(annotation), lost[1:])
    return built


def _unreadable(error: Exception, where: str) -> NotReadableError:
    if isinstance(error, UnfitError):
        return NotReadableError(where=where, path=_path(error.path), type=error.type, reason=error.reason)
    reason = "it is nested too deep" if isinstance(error, RecursionError) else str(error)
    return NotReadableError(where=where, type="JSON", reason=reason)


def _has_tags(raw: bytes) -> bool:
    return b"$" in raw and _TAG_BYTES in raw  # one character is looked for fifty times faster, and is mostly not there


def _digest(plain: Any, raw: bytes) -> str:
    try:
        return digest(plain if b"$" not in raw else _in_order(plain, raw))
    except RecursionError:  # a dictionary whose keys are no text is written three levels deep
        reason, fix = "it is nested too deep to be compared", "Give a flat value."
        raise NotStorableError(where="an input", path="$", type="JSON", reason=reason, fix=fix) from None


def _in_order(plain: Any, raw: bytes) -> Any:
    """A JSON value in which pairs that have no order of their own have one."""
    return _sorted(plain) if any(mark in raw for mark in _WITHOUT_ORDER) else plain


def _sorted(plain: Any) -> Any:
    if type(plain) is list:
        return [_sorted(item) for item in plain]
    if type(plain) is not dict:
        return plain
    if plain.get(TAG) == "dict":
        return {TAG: "dict", VALUE: {key: _sorted(item) for key, item in plain[VALUE].items()}}
    out = {key: _sorted(item) for key, item in plain.items()}
    if plain.get(TAG) in _PAIRS_WITHOUT_ORDER:
        out[VALUE].sort(key=lambda pair: canonical(pair[0]))
    return out


def _path(steps: list[str]) -> str:
    return "$" + "".join(reversed(steps[-PATH_PARTS_MAX:]))


def _argument(value: Any, annotation: Any, name: str) -> bytes:
    bare = encode(value, where=name)
    try:
        built = decode_argument(bare.raw, annotation, where=name)
    except NotReadableError:
        if not bare.annotated:
            raise
    else:
        # a whole number in a field declared float is the number that was given
        if not bare.annotated or all(type(part) is int for _, part in differences(value, built)):
            return bare.raw
    return record(value, annotation, where=name)[0].raw
