"""Canonical JSON (RFC 8785) and digests over it.

Digests decide whether two inputs are the same, so they must not depend on key order or spelling. The stored bytes
of a value need no canonical form: a hash runs over what is stored.
"""

import hashlib
from typing import Any

import msgspec
import rfc8785

INTEGER_MAX = 2**53 - 1  # beyond it, RFC 8785 has no form for an integer
EXPONENT_POSITIVE_MAX, EXPONENT_NEGATIVE_MIN = 20, -6  # outside of these, ES6 spells a number with an exponent

_encode = msgspec.json.Encoder(order="deterministic").encode
_AS_IS = frozenset({str, bool, type(None)})


class _NoQuickWayError(Exception):
    """The value holds what only the reference can spell, or refuse."""


def canonical(plain: Any) -> bytes:
    """The RFC 8785 bytes of a JSON value (integers within 2**53, no NaN, no lone surrogates).

    The quick way spells what msgspec spells otherwise (floats, and objects with keys beyond the BMP) itself, and leaves
    the rest to msgspec. Whatever it does not know goes to the reference, to be spelled or refused there; a property
    test compares the two.
    """
    try:
        return _encode(_ready(plain))
    except (_NoQuickWayError, UnicodeEncodeError):
        return rfc8785.dumps(plain)


def digest(plain: Any) -> str:
    """SHA-256 of the canonical bytes, in hexadecimal."""
    return hashlib.sha256(canonical(plain)).hexdigest()


def _ready(plain: Any) -> Any:
    """The value itself where msgspec spells it as RFC 8785 does; else a copy with the parts in question spelled."""
    kind = type(plain)
    if kind in _AS_IS:
        return plain
    if kind is int and -INTEGER_MAX <= plain <= INTEGER_MAX:
        return plain
    if kind is float:
        return _number(plain)
    if kind is dict:
        return _object(plain)
    if kind is list:
        return _array(plain)
    raise _NoQuickWayError


def _array(plain: list[Any]) -> list[Any]:
    out = plain
    for index, item in enumerate(plain):
        kind = type(item)
        if kind not in _AS_IS and not (kind is int and -INTEGER_MAX <= item <= INTEGER_MAX):
            ready = _ready(item)
            if ready is not item:
                out = plain.copy() if out is plain else out
                out[index] = ready
    return out


def _object(plain: dict[str, Any]) -> Any:
    out = plain
    for key, item in plain.items():
        kind = type(item)
        if kind not in _AS_IS and not (kind is int and -INTEGER_MAX <= item <= INTEGER_MAX):
            ready = _ready(item)
            if ready is not item:
                out = plain.copy() if out is plain else out
                out[key] = ready
    keys = "".join(plain)
    return out if keys.isascii() or max(keys) <= "\uffff" else _by_utf16(out)


def _by_utf16(plain: dict[str, Any]) -> msgspec.Raw:
    """The object's bytes: beyond the BMP, the order of UTF-16 is not that of the code points."""
    keys = sorted(plain, key=lambda key: key.encode("utf-16-be"))
    return msgspec.Raw(b"{" + b",".join(_encode(key) + b":" + _encode(plain[key]) for key in keys) + b"}")


def _number(number: float) -> msgspec.Raw:
    """A float as ES6 spells it. Python's digits are the same shortest ones; where the exponent begins is not."""
    text = repr(number)
    digits, mark, exponent = text.partition("e")
    if not mark:
        if text in {"nan", "inf", "-inf"}:
            raise _NoQuickWayError
        return msgspec.Raw((digits.removesuffix(".0") if number else "0").encode())
    return msgspec.Raw(_with_exponent(digits, int(exponent)).encode())


def _with_exponent(digits: str, exponent: int) -> str:
    sign, digits = ("-", digits[1:]) if digits[0] == "-" else ("", digits)
    first, _, rest = digits.partition(".")
    if 0 < exponent <= EXPONENT_POSITIVE_MAX:
        return sign + (first + rest).ljust(exponent + 1, "0")
    if EXPONENT_NEGATIVE_MIN <= exponent < 0:
        return sign + "0." + "0" * (-exponent - 1) + first + rest
    return f"{sign}{digits}e{exponent:+d}"
