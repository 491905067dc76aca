"""Canonical JSON (RFC 8785) and digests over it.

Digests decide whether two inputs are the same, so they must not depend on key order or spelling. The stored bytes
of a value need no canonical form: a hash runs over what is stored.
"""

import hashlib
from typing import Any

import msgspec
import rfc8785

_deterministic = msgspec.json.Encoder(order="deterministic")


def canonical(plain: Any) -> bytes:
    """The RFC 8785 bytes of a JSON value (integers within 2**53, no NaN, no lone surrogates).

    The quick way gives the same bytes and is taken when nothing in the value needs the slow one; a property test
    compares the two.
    """
    return _deterministic.encode(plain) if _quick(plain) else rfc8785.dumps(plain)


def digest(plain: Any) -> str:
    """SHA-256 of the canonical bytes, in hexadecimal."""
    return hashlib.sha256(canonical(plain)).hexdigest()


def _quick(plain: Any) -> bool:
    """No floats (their spelling differs), and no key beyond the BMP (their order differs)."""
    kind = type(plain)
    if kind is dict:
        return all((key.isascii() or max(key) < "\ud800") and _quick(item) for key, item in plain.items())
    if kind is list:
        return all(map(_quick, plain))
    return kind is not float
