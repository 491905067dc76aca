"""Read models: what a person asks about a run, made from its events. Nothing here runs user code."""

from collections.abc import Iterable, Iterator, Sequence

import msgspec

from counterfoil import artifacts
from counterfoil.core import codec, integrity
from counterfoil.core.clock import SECOND, Instant
from counterfoil.core.events import (
    BOOKKEEPING,
    ArtifactStored,
    AttemptStarted,
    Event,
    LateReport,
    OutcomeUnknown,
    ReadRecorded,
    Record,
    RetrySet,
    RunStarted,
    StepCancelled,
    StepDispatched,
    StepFailed,
    StepIntended,
    StepSucceeded,
    StepTimedOut,
    TimerFired,
    TimerSet,
)
from counterfoil.core.failure import short_type
from counterfoil.core.integrity import Anchor, Flaw
from counterfoil.core.parts import NONE, ErrorRecord, Send
from counterfoil.core.sharing import WholeEvents
from counterfoil.core.state import RunState, fold
from counterfoil.engine.flowing import LEFT
from counterfoil.errors import ArtifactError, ArtifactMissingError, CounterfoilError
from counterfoil.store import Head

OUTCOMES = StepSucceeded | StepFailed | ReadRecorded | ArtifactStored | TimerFired
"""Events that end a step."""


class Entry(msgspec.Struct, frozen=True, kw_only=True):
    """One line of the timeline. Bookkeeping events belong to the entry before or after and have no index."""

    index: int
    seq: int
    what: str  # started, intended, succeeded, failed, timer set, timer fired, read, completed
    time: Instant
    attempt: int
    step: str | None = None
    kind: str | None = None
    name: str | None = None
    try_number: int = 0
    duration: int | None = None  # microseconds
    notes: tuple[str, ...] = ()  # retries, unknown outcomes
    sends: tuple[Send, ...] = ()  # requests of the try; at an intent: those of tries that failed


class Summary(msgspec.Struct, frozen=True, kw_only=True):
    """What happened to a run, in numbers."""

    attempts: int
    steps: int  # with an outcome
    model_calls: int  # tries begun
    tool_calls: int  # tries begun
    unknown_calls: int  # tries whose outcome was never seen
    unknown_cost_usd: float | None  # worst case; None when a bound is missing
    replayed_calls: int  # outcomes served from the record, over all later attempts
    replayed_seconds: float  # what those calls took when they were made
    live_from: int | None  # seq at which the last attempt went live, if it replayed anything


class Verification(msgspec.Struct, frozen=True, kw_only=True):
    """What was checked of one run, and what was found."""

    run: str
    events: int
    head: str  # hash of the last event, hexadecimal
    flaws: tuple[Flaw, ...]
    anchored: bool

    @property
    def is_intact(self) -> bool:
        """Whether the stored bytes agree with themselves and with the anchors that were given."""
        return not self.flaws


def timeline(events: Sequence[Event]) -> list[Entry]:
    """The run's entries by index, bookkeeping folded in."""
    entries: list[Entry] = []
    names: dict[str, tuple[str, str]] = {}
    for event in events:
        if event.step is not None and isinstance(event.body, StepIntended | ReadRecorded):
            kind = event.body.kind
            names[event.step] = (kind, getattr(event.body, "name", kind))
        if event.type in BOOKKEEPING or _is_repeat(event):
            _annotate(entries, event)
        else:
            entries.append(_entry(len(entries), event, names))
    return entries


def summary(events: Sequence[Event]) -> Summary:
    """The run in numbers."""
    intents = [event for event in events if isinstance(event.body, StepIntended)]
    unknown = [event.body for event in events if isinstance(event.body, OutcomeUnknown)]
    costs = [body.worst_cost_usd for body in unknown]
    replayed = list(_replayed(events))
    starts = [event.seq for event in events if isinstance(event.body, AttemptStarted)]
    return Summary(
        attempts=len(starts),
        steps=sum(isinstance(event.body, OUTCOMES) for event in events),
        model_calls=_count(intents, "model"),
        tool_calls=_count(intents, "tool"),
        unknown_calls=sum(body.calls for body in unknown),
        unknown_cost_usd=None if None in costs else sum(cost for cost in costs if cost is not None),
        replayed_calls=len(replayed),
        replayed_seconds=sum(replayed) / SECOND,
        live_from=starts[-1] + 1 if len(starts) > 1 else None,
    )


async def verify(
    row: Head, records: Sequence[Record], fetch: artifacts.Fetch, *, anchors: Sequence[Anchor] = ()
) -> Verification:
    """Check a run: chain, sequence, artifacts, transitions, the digest of each whole input, and what its row says.

    The row was read before the records, so a run that goes on meanwhile has no flaw by that.
    """
    found = integrity.flaws(records, anchors=anchors)
    if not any((record.seq, record.hash) == (row.seq, row.hash) for record in records):
        found.append(Flaw(row.seq, "the run's row names another event as its last one"))
    found += [flaw for record in records for flaw in await _artifact_flaws(record, row.run, fetch)]
    if not found:
        try:
            events = WholeEvents(row.run, await artifacts.read_all(records, row.run, fetch))
            found = [*_status_flaws(row, fold(row.run, events.stored)), *_input_flaws(events)]
        except CounterfoilError as error:
            found = [Flaw(getattr(error, "seq", 0), str(error))]
    head = records[-1].hash.hex() if records else ""
    return Verification(run=row.run, events=len(records), head=head, flaws=tuple(found), anchored=bool(anchors))


async def _artifact_flaws(record: Record, run: str, fetch: artifacts.Fetch) -> list[Flaw]:
    """What is wrong with the artifact that this record names; a stub that can't be read is for others to tell."""
    try:
        need = artifacts.need_of(record, run)
        if need:
            await artifacts.content(need, fetch)
    except ArtifactMissingError as error:
        return [Flaw(record.seq, f"its artifact {error.digest} is missing")]
    except ArtifactError as error:
        return [Flaw(record.seq, f"its artifact {error.digest} is not what was stored")]
    except CounterfoilError:
        return []
    return []


def _input_flaws(events: Iterable[Event]) -> Iterable[Flaw]:
    """Inputs that are not what their digests were made of. Of most of them a part stands in an earlier event."""
    for event in events:
        body = event.body
        if isinstance(body, StepIntended | TimerSet) and codec.input_digest(bytes(body.input)) != body.digest:
            yield Flaw(event.seq, "its input, whole, has another digest than it was recorded with")


def _status_flaws(row: Head, state: RunState) -> list[Flaw]:
    if state.seq != row.seq or state.status is row.status:
        return []
    return [Flaw(row.seq, f"the run's row says {row.status}, its events say {state.status}")]


def _is_repeat(event: Event) -> bool:
    return isinstance(event.body, StepIntended) and event.envelope.try_number > 1


def _entry(index: int, event: Event, names: dict[str, tuple[str, str]]) -> Entry:
    kind, name = _named(event, names)
    return Entry(
        index=index,
        seq=event.seq,
        what=_WHAT[event.type],
        time=event.time,
        attempt=event.attempt,
        step=event.step,
        kind=kind,
        name=name,
        try_number=event.envelope.try_number,
        duration=getattr(event.body, "duration", None),
        notes=(*_failure_note(event), *_stream_note(event)),
        sends=getattr(event.body, "sends", ()),
    )


def _named(event: Event, names: dict[str, tuple[str, str]]) -> tuple[str | None, str | None]:
    if isinstance(event.body, RunStarted):
        return None, event.body.workflow
    if isinstance(event.body, ArtifactStored):
        return "artifact", "artifact"
    if isinstance(event.body, TimerSet | TimerFired):
        return "sleep", "sleep"
    return names.get(event.step or "", (None, None))


def _failure_note(event: Event) -> tuple[str, ...]:
    if not isinstance(event.body, StepFailed):
        return ()
    return (f"{short_type(event.body.error)}: {event.body.error.message}",)


def _stream_note(event: Event) -> Iterator[str]:
    """How much came of a stream that did not come to its end."""
    match event.body:
        case StepFailed(chunks=held) if held != NONE:
            how = "broke"
        case StepCancelled(chunks=held) if held != NONE:
            how = "cut off"
        case StepSucceeded(result=held) if bytes(held).endswith(LEFT):
            how = "left"
        case _:
            return
    count = len(msgspec.json.decode(held)["chunks"])
    yield f"{how} after {count} chunk{'s' * (count != 1)}"


def _annotate(entries: list[Entry], event: Event) -> None:
    """Put what bookkeeping says where a reader looks for it: at the step's intent."""
    note, sends = _note(event), getattr(event.body, "sends", ())
    for position in range(len(entries) - 1, -1, -1):
        entry = entries[position]
        if note and (event.step is None or entry.step == event.step):
            notes, sent = (*entry.notes, note), (*entry.sends, *sends)
            entries[position] = msgspec.structs.replace(entry, notes=notes, sends=sent)
            return


def _note(event: Event) -> str:
    number = event.envelope.try_number
    match event.body:
        case OutcomeUnknown(lost_attempt=lost, worst_cost_usd=worst):
            cost = "no bound declared" if worst is None else f"at most {worst} USD"
            said = f"try {number} of attempt {lost}: sent, outcome unknown ({cost})"
        case RetrySet(error=error):
            said = f"try {number} failed, tried again ({_error_text(error)})"
        case StepIntended():
            said = f"try {number} in attempt {event.attempt}"
        case StepDispatched(number=request, before=before):
            said = f"request {request} of try {number}, after: {before or 'no answer yet'}"
        case StepTimedOut():
            said = f"try {number} timed out, still running"
        case LateReport(event=kind, of_step=step):
            said = f"late report: {kind or 'nothing'} of step {step or '?'}"
        case AttemptStarted():
            said = f"attempt {event.attempt} begins" if event.attempt > 1 else ""
        case body:
            reason = getattr(body, "reason", None) or getattr(body, "who", None) or ""
            said = f"{event.type.removeprefix('run_')}: {reason}"
    return said


def _error_text(error: ErrorRecord | None) -> str:
    return f"{short_type(error)}: {error.message}" if error else "failed"


def _count(intents: Sequence[Event], kind: str) -> int:
    return sum(isinstance(event.body, StepIntended) and event.body.kind == kind for event in intents)


def _replayed(events: Sequence[Event]) -> Iterable[int]:
    """For every outcome that a later attempt was served: how long its call had taken, in microseconds."""
    durations: list[int] = []
    for event in events:
        if isinstance(event.body, StepSucceeded):
            durations.append(event.body.duration or 0)
        if isinstance(event.body, AttemptStarted):
            yield from durations


_WHAT = {
    "run_started": "started",
    "run_completed": "completed",
    "run_failed": "failed",
    "step_intended": "intended",
    "step_succeeded": "succeeded",
    "step_failed": "failed",
    "step_cancelled": "cancelled",
    "read_recorded": "read",
    "artifact_stored": "stored",
    "timer_set": "timer set",
    "timer_fired": "timer fired",
}
