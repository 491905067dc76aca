"""The hash chain: what it covers, how it is made, how it is checked.

commitment = SHA-256("commit-v1" + 32 random bytes + body); the random bytes are stored beside the body, so that a short
body can't be guessed from the commitment once body and salt are gone.
hash = SHA-256("event-v1" + previous hash + commitment + envelope bytes).

A chain alone proves that nothing in the middle was changed. It does not notice a cut end or a chain replaced as a
whole: for that, compare with a head that was kept elsewhere (`Anchor`).
"""

import hashlib
from collections.abc import Iterable, Sequence

import msgspec

from counterfoil.core.events import Record

ZERO = bytes(32)
"""Stands before the first event."""

SALT_BYTES = 32


def commit(salt: bytes, body: bytes) -> bytes:
    """The commitment to a body."""
    return hashlib.sha256(b"commit-v1" + salt + body).digest()


def link(previous: bytes, commitment: bytes, envelope: bytes) -> bytes:
    """The hash of the event that follows `previous`."""
    return hashlib.sha256(b"event-v1" + previous + commitment + envelope).digest()


def seal(seq: int, envelope: bytes, body: bytes, *, salt: bytes, previous: bytes) -> Record:
    """The record of an event, linked to the one before it."""
    commitment = commit(salt, body)
    return Record(seq, envelope, commitment, salt, body, link(previous, commitment, envelope))


class Anchor(msgspec.Struct, frozen=True):
    """A head that somebody kept outside the store: the hash at one position."""

    seq: int
    hash: bytes


class Flaw(msgspec.Struct, frozen=True):
    """One contradiction in the stored bytes."""

    seq: int
    problem: str


def flaws(records: Iterable[Record], *, anchors: Sequence[Anchor] = ()) -> list[Flaw]:
    """All contradictions of a run's records, in order; none for a good chain."""
    found: list[Flaw] = []
    absent = {anchor.seq for anchor in anchors}
    previous, count = ZERO, 0
    for record in records:
        found += [Flaw(record.seq, problem) for problem in _problems(record, count, previous)]
        if any(anchor.seq == record.seq and anchor.hash != record.hash for anchor in anchors):
            found.append(Flaw(record.seq, "is not the event that was anchored"))
        absent.discard(record.seq)
        previous, count = record.hash, count + 1
    found += [Flaw(seq, "was anchored, but is not here") for seq in sorted(absent)]
    return found


def _problems(record: Record, position: int, previous: bytes) -> Iterable[str]:
    if record.seq != position:
        yield f"stands at position {position}"
    if record.hash != link(previous, record.commitment, record.envelope):
        yield "its hash does not follow from its envelope and the event before it"
    if record.body is not None and commit(record.salt or b"", record.body) != record.commitment:
        yield "its body is not the one that was committed to"
