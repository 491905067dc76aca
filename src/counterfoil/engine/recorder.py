"""Writes one run's events: numbers, links, folds and sends them to the store, in order.

`note` queues an event; `flush` appends what is queued as one transaction. Every event is folded into the run's state
before it is queued, so an illegal one is refused here and never reaches the store. Of an input that most of an earlier
one begins and ends, only the rest is written, and what is left out is decided on the bytes without secrets. What is too
large for the journal goes to the store beside it, in the same append; so do the run's totals, where they changed: notes
for who lists runs.
"""

from collections.abc import Awaitable, Sequence
from typing import Any, TypeVar

import msgspec

from counterfoil import artifacts
from counterfoil.artifacts import Sealed
from counterfoil.core import codec, events, integrity, tally
from counterfoil.core.clock import Instant
from counterfoil.core.events import ArtifactStored, Body, Envelope, Event, LateReport, Record, StepIntended
from counterfoil.core.nearest import Nearest
from counterfoil.core.parts import Send, Shared
from counterfoil.core.scrub import Scrubber
from counterfoil.core.sharing import REQUESTS, SAVED_BYTES_MIN, family_of
from counterfoil.core.state import RunState, Status
from counterfoil.core.tally import Tally
from counterfoil.engine.calls import MODEL
from counterfoil.engine.prices import Prices
from counterfoil.engine.system import System
from counterfoil.store import Append, Chunk, Head, Message, Store, Stream, Timer

B = TypeVar("B", bound=Body)

COMPARED = frozenset({"run_started", "step_intended", "timer_set", "artifact_stored", "read_recorded"})
"""What a replay asks for again. Secrets that only a request told are not known to it, so they stay in these."""


class Past(msgspec.Struct, frozen=True):
    """What a run's events say when its owner takes it up."""

    state: RunState
    tally: Tally


class Recorder:
    """The pen of a run's owner."""

    def __init__(
        self, store: Store, system: System, scrubber: Scrubber, *, head: Head, past: Past, prices: Prices
    ) -> None:
        self.state, self._nearest = past.state, Nearest(past.state.inputs)
        self._tally, self._totals, self._prices = past.tally, past.tally.totals, prices
        self._store, self._system, self.scrubber = store, system, scrubber
        self._run, self.epoch = head.run, head.epoch
        self._durable, self._hash = head.seq, head.hash
        self._status: Status | None = head.status
        self._queued: list[Record] = []
        self._artifacts: dict[str, bytes] = {}  # contents that the queued records name
        self._streams: list[Stream] = []  # whose chunks they hold
        self.attempt, self.root = 0, b""  # root: hash of the run's first event
        self.last: Body | None = None
        self.last_step: str | None = None

    @property
    def has_queued(self) -> bool:
        """Whether anything noted is not on its way to the store."""
        return bool(self._queued)

    def note(
        self, body: B, *, step: str | None = None, try_number: int = 0, contract: str | None = None,
        content: bytes | None = None,
    ) -> B:  # fmt: skip
        """Queue an event. Returns its body as it is recorded: without declared secrets.

        `content` is what an `artifact_stored` names, its secrets taken out. Raises IllegalTransitionError, and then
        nothing has changed.
        """
        envelope = Envelope(
            run=self._run,
            seq=self.state.seq + 1,
            type=body.type,
            time=self._system.now(),
            step=step,
            attempt=self.attempt,
            try_number=try_number,
            epoch=self.epoch,
            incarnation=self.state.incarnation,
            contract=contract,
        )
        if isinstance(body, StepIntended) and body.kind == MODEL:
            self._prices.wake()
        raw, body = self._scrubbed(self._prices.priced(body, envelope.time))
        stored = self._shared(body, step)
        raw = raw if stored is body else events.encode(stored)
        sealed = artifacts.seal(envelope, raw, salt=self._system.salt(), previous=self._hash)
        event = Event(envelope, stored, sealed.record.hash)
        self.state.apply(event)
        self._tally.add(event)
        if stored is not body and isinstance(body, StepIntended):
            self.state.inputs.keep(bytes(body.input))
        self._queued.append(sealed.record)
        self._artifacts |= sealed.artifacts
        if isinstance(body, ArtifactStored) and content is not None:
            self._artifacts[body.digest] = content
        self._hash, self.last, self.last_step = sealed.record.hash, body, step
        return body

    def hold(self, stream: Stream) -> None:
        """The event that is noted next holds all chunks of this stream."""
        self._streams.append(stream)

    def put_chunks(self, chunks: Sequence[Chunk]) -> Awaitable[None]:
        """Give the store provisional pieces, which are no events. The awaitable raises as that of `flush` does."""
        return self._store.put_chunks(self._run, chunks, epoch=self.epoch)

    def cleaned(self, value: Any) -> Any:
        """A plain value without declared secrets, as the record of an outcome with it would give it back."""
        raw = events.encode(value)
        cleaned = self.scrubber.outcomes.raw(raw)
        return value if cleaned is raw else msgspec.json.decode(cleaned)

    def artifact(self, digest: str) -> Awaitable[bytes | None]:
        """What the store has in the place of this artifact, unchecked."""
        return self._store.artifact(digest)

    def flush(
        self,
        *,
        reason: str | None = None,
        release: bool = False,
        timer_set: Timer | None = None,
        timer_cleared: Timer | None = None,
        taken: Sequence[str] = (),
    ) -> Awaitable[None]:
        """Append what is queued, with the run's status if it has changed. Await it to know that all is on disk.

        The awaitable raises StaleEpochError when another owner has taken the run, StoreUnavailableError when it could
        not be written; in both cases nothing of this append was kept.
        """
        records, self._queued = self._queued, []
        contents, self._artifacts = self._artifacts, {}
        streams, self._streams = self._streams, []
        expected, self._durable = self._durable, self.state.seq
        totals = b"" if self._tally.totals is self._totals else tally.written(self._tally.totals)
        self._totals = self._tally.totals
        status = None if self.state.status is self._status else self.state.status
        self._status = self.state.status
        return self._store.append(
            Append(
                run=self._run,
                epoch=self.epoch,
                expected=expected,
                records=records,
                now=self.state.updated,
                status=status,
                reason=reason,
                release=release,
                timer_set=timer_set,
                timer_cleared=timer_cleared,
                taken=taken,
                artifacts=contents,
                totals=totals,
                streams_held=streams,
            )
        )

    async def report_late(self, report: LateReport, name: str) -> None:
        """Put a report into the run's inbox: it came too late to be an event of this attempt."""
        await self._store.send(
            Message(
                run=self._run,
                kind=LateReport.type,
                id=f"late:{self._run}:{self.epoch}:{name}",
                body=self.scrubber.outcomes.raw(events.encode(report)),
                who=report.who or "",
                time=self._system.now(),
            )
        )

    def _scrubbed(self, body: B) -> tuple[bytes, B]:
        """The body without secrets, encoded and not. What is said of an input is said of it without them too."""
        encoded = events.encode(body)
        scrubber = self.scrubber if body.type in COMPARED else self.scrubber.outcomes
        raw = scrubber.raw(encoded)
        if raw is encoded:
            return raw, body
        scrubbed = msgspec.json.decode(raw, type=type(body))
        if isinstance(scrubbed, StepIntended) and isinstance(body, StepIntended) and scrubbed.input != body.input:
            scrubbed = msgspec.structs.replace(scrubbed, digest=codec.input_digest(bytes(scrubbed.input)))
            raw = events.encode(scrubbed)
        return raw, scrubbed

    def _shared(self, body: Body, step: str | None) -> Body:
        """The body as it is stored: of an input, and of requests, what no earlier one of the run has."""
        if isinstance(body, StepIntended):
            found = self._nearest.shared(bytes(body.input), step=step or "", family=family_of(body))
            return msgspec.structs.replace(body, input=found[0], shared=found[1]) if found else body
        sends: tuple[Send, ...] = getattr(body, "sends", ())
        shared = tuple(self._shared_send(sends, part, step or "") for part in range(len(sends)))
        return msgspec.structs.replace(body, sends=shared) if shared != sends else body

    def _shared_send(self, sends: tuple[Send, ...], part: int, step: str) -> Send:
        send = sends[part]
        raw = bytes(send.request)
        found = self._nearest.shared(raw, step=step, family=REQUESTS)
        first = next(earlier for earlier, each in enumerate(sends) if each.request == send.request)
        if first < part and len(raw) > SAVED_BYTES_MIN:  # sent again by the client itself
            found = as_value(b'""'), Shared(base=self.state.seq + 1, part=first + 1, head=len(raw), tail=0)
        return msgspec.structs.replace(send, request=found[0], request_shared=found[1]) if found else send


def first_record(run: str, body: Body, *, now: Instant, system: System, scrubber: Scrubber) -> Sealed:
    """The record that a run begins with, and the content that it names if it is too large for the journal."""
    envelope = Envelope(run=run, seq=0, type=body.type, time=now)
    raw = scrubber.raw(events.encode(body))
    return artifacts.seal(envelope, raw, salt=system.salt(), previous=integrity.ZERO)


def as_value(raw: bytes) -> Any:
    """Encoded bytes as a field of an event."""
    return msgspec.Raw(raw)
