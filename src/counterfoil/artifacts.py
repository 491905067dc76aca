"""Artifacts: contents too large for the journal, or kept by the workflow itself; named by digest, read only whole.

An event whose body is larger than `BODY_BYTES_MAX` keeps a stub in its place. The chain covers the stub, and the digest
in the stub covers the content, so what was altered is found before it is used. The digest lies in the body, never in
the envelope: erasing the body leaves nothing by which a content could be guessed. Knows no store: whoever reads says
how a content is fetched.
"""

import hashlib
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from typing import NamedTuple

import msgspec

from counterfoil.core import events, integrity
from counterfoil.core.events import ArtifactStored, Envelope, Event, Record, Reference, Stub
from counterfoil.core.registry import register
from counterfoil.errors import ArtifactAlteredError, ArtifactMissingError

BODY_BYTES_MAX = 16_384
"""A larger body, as it is encoded and without secrets, leaves the journal."""

Fetch = Callable[[str], Awaitable[bytes | None]]
"""Gives what lies in the place of the artifact with this digest, unchecked; None when nothing does."""


@register
@dataclass(frozen=True)
class Artifact:
    """Bytes that a run keeps outside its journal. A value like any other: return it, pass it on, read it later."""

    digest: str  # SHA-256, hexadecimal
    size_bytes: int
    media_type: str


class Sealed(NamedTuple):
    """A record, and the contents that it names, by digest."""

    record: Record
    artifacts: dict[str, bytes]


class Need(msgspec.Struct, frozen=True, kw_only=True):
    """An artifact, and the event that needs it, where that is known."""

    digest: str
    size_bytes: int
    run: str | None = None
    seq: int | None = None
    step: str | None = None

    @property
    def where(self) -> str:
        """The event in words."""
        run = "no run in particular" if self.run is None else f"run {self.run!r}"
        event = "" if self.seq is None else f", event {self.seq}"
        return run + event + ("" if self.step is None else f", step {self.step}")


def digest_of(content: bytes) -> str:
    """The name of a content."""
    return hashlib.sha256(content).hexdigest()


def seal(envelope: Envelope, raw: bytes, *, salt: bytes, previous: bytes) -> Sealed:
    """The record of an event with this encoded body, linked to the one before it."""
    artifacts = {}
    if len(raw) > BODY_BYTES_MAX:
        digest = digest_of(raw)
        artifacts[digest] = raw
        envelope = msgspec.structs.replace(envelope, reference=Reference(size_bytes=len(raw)))
        raw = events.encode(Stub(digest=digest, size_bytes=len(raw)))
    record = integrity.seal(envelope.seq, events.encode(envelope), raw, salt=salt, previous=previous)
    return Sealed(record, artifacts)


async def read(record: Record, run: str, fetch: Fetch) -> Event:
    """The event in a record that was checked, its body filled in.

    Raises ArtifactMissingError, ArtifactAlteredError, JournalUnreadableError.
    """
    if not events.has_stub(record):
        return events.read(record, run)
    need = need_of(record, run)
    return events.read(record, run, artifact=await content(need, fetch) if need else None)


async def read_all(records: Iterable[Record], run: str, fetch: Fetch) -> list[Event]:
    """The events in these records. Raises what `read` raises, for the first that can't be read."""
    return [
        await read(record, run, fetch) if events.has_stub(record) else events.read(record, run) for record in records
    ]


async def content(need: Need, fetch: Fetch) -> bytes:
    """The content that is needed, checked. Raises ArtifactMissingError, ArtifactAlteredError."""
    found = await fetch(need.digest)
    if found is not None and digest_of(found) == need.digest:
        return found
    error = ArtifactMissingError if found is None else ArtifactAlteredError
    raise error(where=need.where, **msgspec.structs.asdict(need))


def need_of(record: Record, run: str) -> Need | None:
    """The artifact that the event in this record names, if it names one. Raises JournalUnreadableError."""
    if not any(mark in record.envelope for mark in events.NAMES_AN_ARTIFACT):
        return None
    envelope, stub = events.read_stub(record, run)
    named = stub or events.read(record, run).body
    if not isinstance(named, Stub | ArtifactStored):
        return None
    return Need(digest=named.digest, size_bytes=named.size_bytes, run=run, seq=record.seq, step=envelope.step)
