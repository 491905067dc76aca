"""The events of a journal: what is written, and what each field is good for.

An event is an envelope, a body, and a place in the run's hash chain. The envelope says where and when; it is never
removed. The body says what; it may expire or be erased later, and the chain still verifies, because the chain covers
a salted commitment to the body and not the body itself (see integrity).

Every field is declared `Critical` (a replay needs it) or `Diagnostic` (a reader of the record wants it). A test drops
all diagnostic ones and the run still ends the same; without a critical one JournalUnreadableError names it.

Rule for changes: a released type is only ever added to, by fields with a default that says what their absence always
meant. A changed meaning is a new type. `tests/upgrade` keeps a journal of each release with its folded state.
"""

from typing import Any, ClassVar

import msgspec

from counterfoil.core.clock import Instant
from counterfoil.core.parts import NONE, Critical, Diagnostic, Digest, ErrorRecord, Send, Shared, Value
from counterfoil.errors import JournalUnreadableError

SCHEMA = 1
"""Version of the event types below; readers upgrade older ones."""


class Reference(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Says that the body is an artifact. Which one, only the stub says, so that erasing it leaves no trace."""

    size_bytes: Critical[int]
    media_type: Diagnostic[str] = "application/json"
    availability: Critical[str] = "durable"  # durable: kept as long as the event; expiring: may go by retention


class Stub(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What is kept as the body of an event whose own body is an artifact."""

    digest: Digest
    size_bytes: Critical[int]


class Envelope(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """Where and when an event stands. Holds nothing of a user's data."""

    run: Critical[str]
    seq: Critical[int]  # position in the run, from 0, without gaps
    type: Critical[str]
    time: Diagnostic[Instant] = 0  # when it was recorded, by the owner's clock
    step: Critical[str | None] = None  # step key, for what belongs to a step
    attempt: Critical[int] = 0  # pass of the code over the run, from 1
    try_number: Critical[int] = msgspec.field(default=0, name="try")  # call of the step's function, from 1
    epoch: Diagnostic[int] = 0  # the owner's fencing number, as the append was checked with
    incarnation: Critical[int] = 1  # life of the run: one more at each restart
    contract: Diagnostic[str | None] = None  # version of the step's declaration
    schema: Critical[int] = SCHEMA
    reference: Critical[Reference | None] = None  # set when the body lies outside


class Body(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What an event says. One subclass per type."""

    type: ClassVar[str]


# --- the run ---


class RunStarted(Body, frozen=True):
    """The run exists. Written in one transaction with the run's row."""

    type = "run_started"
    workflow: Critical[str]
    input: Critical[Value]  # an object by parameter name, defaults filled in
    version: Diagnostic[str | None] = None  # of the workflow's code: declared, or a digest of its source
    tags: Diagnostic[dict[str, str]] = {}


class AttemptStarted(Body, frozen=True):
    """The code begins to pass over the run once more."""

    type = "attempt_started"
    worker: Diagnostic[str | None] = None
    host: Diagnostic[str | None] = None
    process: Diagnostic[int | None] = None
    release: Diagnostic[str | None] = None  # of this package, and of Python
    version: Diagnostic[str | None] = None


class RunSuspended(Body, frozen=True):
    """The run waits and holds no process: it was stopped on purpose, or its next timer is far off."""

    type = "run_suspended"
    reason: Diagnostic[str | None] = None


class RunPaused(Body, frozen=True):
    """The run needs a person or new code before it can go on."""

    type = "run_paused"
    reason: Critical[str]  # step_failed, crash_limit, outcome_unknown, or the code of a mismatch
    step: Critical[str | None] = None  # the step whose failure can be reopened
    detail: Diagnostic[str | None] = None
    next: Diagnostic[str | None] = None  # what to do
    facts: Diagnostic[dict[str, Any]] = {}  # a mismatch: recorded, attempted, source, differences


class RunResumed(Body, frozen=True):
    """A person let a paused run go on."""

    type = "run_resumed"
    reopened: Critical[str | None] = None  # the failed step that is tried again
    who: Diagnostic[str | None] = None
    why: Diagnostic[str | None] = None


class RunCompleted(Body, frozen=True):
    """The body returned. Final."""

    type = "run_completed"
    result: Critical[Value]
    annotated: Critical[bool] = False  # whether the value needs the declared type to be read back


class RunFailed(Body, frozen=True):
    """The body raised an exception of its own. Final."""

    type = "run_failed"
    error: Critical[ErrorRecord]


# --- steps ---


class StepIntended(Body, frozen=True):
    """A try of a step is about to be made. For a model call this is on disk before any byte leaves (J4)."""

    type = "step_intended"
    kind: Critical[str]
    name: Critical[str]
    input: Critical[Value]  # with `shared`: only what differs from the base, as a string
    digest: Critical[str]  # of the input's canonical bytes; lies in the body, so that erasing covers it
    shared: Critical[Shared | None] = None  # where the rest of the input stands
    opaque: Diagnostic[dict[str, str]] = {}  # arguments that are no input, with their types
    worst_cost_usd: Diagnostic[float | None] = None  # declared bound for one try


class StepDispatched(Body, frozen=True):
    """A further request of the same try is about to leave: a client's own retry. The first one is the intent's."""

    type = "step_dispatched"
    number: Diagnostic[int] = 0  # of the request among those of its try, from 2
    url: Diagnostic[str | None] = None  # without query
    request_digest: Diagnostic[str | None] = None  # of the bytes sent
    before: Diagnostic[str | None] = None  # what came of the request before it, such as "HTTP 503"


class StepSucceeded(Body, frozen=True):
    """The try's result was seen. Never obtained again (J2)."""

    type = "step_succeeded"
    result: Critical[Value]
    annotated: Critical[bool] = False
    duration: Diagnostic[int | None] = None  # microseconds
    sends: Diagnostic[tuple[Send, ...]] = ()


class StepFailed(Body, frozen=True):
    """The try failed for good: the exception was raised in the workflow's body."""

    type = "step_failed"
    error: Critical[ErrorRecord]
    duration: Diagnostic[int | None] = None
    chunks: Critical[Value] = NONE  # of a stream that broke: what had been handed over
    sends: Diagnostic[tuple[Send, ...]] = ()


class RetrySet(Body, frozen=True):
    """The try failed, and another one is due."""

    type = "retry_set"
    due: Critical[Instant]
    error: Diagnostic[ErrorRecord | None] = None
    duration: Diagnostic[int | None] = None
    sends: Diagnostic[tuple[Send, ...]] = ()


class StepTimedOut(Body, frozen=True):
    """The try's time is over, and its function, which can't be stopped, still runs. Its late result will be refused."""

    type = "step_timed_out"
    duration: Diagnostic[int | None] = None


class StepCancelled(Body, frozen=True):
    """The program's own code cancelled the step while it was under way. Whatever the try did outside stays done."""

    type = "step_cancelled"
    still_running: Diagnostic[bool] = False  # a plain function, which can't be stopped
    worst_cost_usd: Diagnostic[float | None] = None
    chunks: Critical[Value] = NONE  # of a stream: what had been handed over
    sends: Diagnostic[tuple[Send, ...]] = ()


class OutcomeUnknown(Body, frozen=True):
    """A try was begun in an earlier attempt and its outcome was never seen: it may have happened, and been paid for."""

    type = "outcome_unknown"
    lost_attempt: Diagnostic[int] = 0
    calls: Diagnostic[int] = 1  # outside calls this may have been
    worst_cost_usd: Diagnostic[float | None] = None  # None: no bound was declared


class ReadRecorded(Body, frozen=True):
    """A read of the clock, a random draw or a new UUID. Rides with the next commit (J3)."""

    type = "read_recorded"
    kind: Critical[str]
    value: Critical[Value]


class ArtifactStored(Body, frozen=True):
    """The run keeps these bytes as an artifact; they were on disk before this event."""

    type = "artifact_stored"
    digest: Digest
    size_bytes: Critical[int]
    media_type: Critical[str]


class TimerSet(Body, frozen=True):
    """A durable wait began; the due time recorded here rules, whatever happens to the process."""

    type = "timer_set"
    due: Critical[Instant]
    input: Critical[Value]  # what was asked for: {"seconds": ...} or {"until": ...}
    digest: Critical[str]


class TimerFired(Body, frozen=True):
    """The wait is over."""

    type = "timer_fired"


# --- the record itself ---


class LateReport(Body, frozen=True):
    """What came too late to count, from a replaced owner or a function that ran on. Evidence only; changes nothing."""

    type = "late_report"
    event: Diagnostic[str | None] = None  # type of the event it wanted to append
    of_step: Diagnostic[str | None] = None
    of_try: Diagnostic[int | None] = None
    from_epoch: Diagnostic[int | None] = None
    report: Diagnostic[Value] = NONE
    who: Diagnostic[str | None] = None


BODIES: dict[str, type[Body]] = {
    body.type: body
    for body in (
        RunStarted, AttemptStarted, RunSuspended, RunPaused, RunResumed, RunCompleted, RunFailed,
        StepIntended, StepDispatched, StepSucceeded, StepFailed, RetrySet, StepTimedOut, StepCancelled, OutcomeUnknown,
        ReadRecorded, ArtifactStored, TimerSet, TimerFired, LateReport,
    )
}  # fmt: skip
BOOKKEEPING = frozenset(
    {
        "attempt_started",
        "run_suspended",
        "run_paused",
        "run_resumed",
        "outcome_unknown",
        "retry_set",
        "step_dispatched",
        "step_timed_out",
        "late_report",
    }
)
"""Types that a reader of the timeline sees folded into the entry they belong to."""


class Record(msgspec.Struct, frozen=True):
    """An event as it is stored. Stores keep these bytes and interpret none of them."""

    seq: int
    envelope: bytes
    commitment: bytes
    salt: bytes | None  # None once the body is gone
    body: bytes | None
    hash: bytes


class Event(msgspec.Struct, frozen=True):
    """An event as it is read: the envelope, the typed body, and its place in the chain."""

    envelope: Envelope
    body: Body
    hash: bytes

    @property
    def seq(self) -> int:
        """Position in the run, from 0."""
        return self.envelope.seq

    @property
    def type(self) -> str:
        """The event's type, such as "step_succeeded"."""
        return self.envelope.type

    @property
    def step(self) -> str | None:
        """The step key, for what belongs to a step."""
        return self.envelope.step

    @property
    def attempt(self) -> int:
        """The attempt that recorded it, from 1."""
        return self.envelope.attempt

    @property
    def time(self) -> Instant:
        """When it was recorded, in microseconds since 1970 UTC."""
        return self.envelope.time


encode = msgspec.json.Encoder().encode
"""Bytes of an envelope or a body."""

NAMES_AN_ARTIFACT = (b'"reference":{', b'"type":"artifact_stored"')
"""An envelope as we write it holds one of these if, and only if, its event names an artifact."""

_envelope = msgspec.json.Decoder(Envelope).decode
_stub = msgspec.json.Decoder(Stub).decode
_bodies = {name: msgspec.json.Decoder(body).decode for name, body in BODIES.items()}


def has_stub(record: Record) -> bool:
    """Whether the record may have a stub for a body. Quick, and right for every envelope that we wrote."""
    return NAMES_AN_ARTIFACT[0] in record.envelope


def read(record: Record, run: str, *, artifact: bytes | None = None) -> Event:
    """The event in a record; `artifact` is its body, when that is one.

    Raises JournalUnreadableError, which names the field, when something a replay needs is missing or has another
    form, or when the type is one that this release doesn't know.
    """
    where = "envelope"
    try:
        envelope = _envelope(record.envelope)
        where = envelope.type
        is_outside = envelope.reference is not None and record.body is not None
        if is_outside and artifact is None:
            raise JournalUnreadableError(run=run, seq=record.seq, type=where, problem="its body is an artifact")
        body = _bodies[envelope.type]((artifact if is_outside else record.body) or b"null")
    except KeyError:
        raise JournalUnreadableError(
            run=run, seq=record.seq, type=where, problem="this release doesn't know the type"
        ) from None
    except (msgspec.ValidationError, msgspec.DecodeError) as error:
        problem = "its body is gone" if record.body is None else str(error)
        raise JournalUnreadableError(run=run, seq=record.seq, type=where, problem=problem) from None
    return Event(envelope, body, record.hash)


def read_stub(record: Record, run: str) -> tuple[Envelope, Stub | None]:
    """The envelope, and the stub if the body is an artifact.

    Raises JournalUnreadableError when either has another form.
    """
    where = "envelope"
    try:
        envelope = _envelope(record.envelope)
        where = envelope.type
        return envelope, _stub(record.body or b"null") if envelope.reference else None
    except (msgspec.ValidationError, msgspec.DecodeError) as error:
        problem = "its body is gone" if record.body is None else f"it names no artifact: {error}"
        raise JournalUnreadableError(run=run, seq=record.seq, type=where, problem=problem) from None
