"""Every field is declared critical or diagnostic, and is what it is declared to be (J1).

A recorded run keeps its end without any diagnostic field; without a critical one, either JournalUnreadableError names
it, or the default that stands for an absent one is stated here.
"""

import asyncio
import json
from typing import Annotated, Any, get_args, get_origin, get_type_hints

import msgspec
import pytest

import counterfoil
from counterfoil import Context, Retry
from counterfoil.core import events
from counterfoil.core.events import BODIES, Envelope, Record, Reference, Stub
from counterfoil.core.integrity import ZERO, seal
from counterfoil.core.parts import ErrorRecord, ResponseRecord
from counterfoil.core.replay import Cursor, Execute, Mismatch, Operation
from counterfoil.core.state import RunState, fold
from counterfoil.errors import JournalUnreadableError
from counterfoil.stores.memory import MemoryStore
from counterfoil.testing.clock import ManualSystem

STRUCTS: list[type[msgspec.Struct]] = [Envelope, ErrorRecord, ResponseRecord, Reference, Stub, *BODIES.values()]
DEFAULTS = {
    ("envelope", "step"): None,  # what belongs to the run
    ("envelope", "attempt"): 0,  # recorded before any attempt
    ("envelope", "try"): 0,  # no call of a step's function
    ("envelope", "incarnation"): 1,
    ("envelope", "schema"): 1,
    ("envelope", "reference"): None,  # the body lies inside
    ("error", "args"): None,  # can't be rebuilt: RecordedError
    ("error", "attributes"): None,
    ("error", "stands_in"): None,  # recorded by 0.1.0, which decided it at each replay
    ("error", "response"): None,
    ("error", "cause"): None,
    ("error", "context"): None,
    ("error", "suppressed"): False,
    ("error", "members"): (),  # no group
    ("response", "headers"): {},
    ("response", "text"): None,  # had not been read, or is too long
    ("run_paused", "step"): None,  # nothing to reopen
    ("run_resumed", "reopened"): None,
    ("run_completed", "annotated"): False,  # plain JSON
    ("step_succeeded", "annotated"): False,
    ("step_intended", "shared"): None,  # the input is whole
    ("step_failed", "chunks"): None,  # no stream, or nothing was handed over
    ("step_cancelled", "chunks"): None,
}
"""Critical fields that may be absent, and what that means. An event is written without what has its default."""


def marks(kind: type[msgspec.Struct]) -> dict[str, str]:
    """Each field's written name and its mark."""
    hints = get_type_hints(kind, include_extras=True)
    return {field.encode_name: mark_of(hints[field.name]) for field in msgspec.structs.fields(kind)}


def mark_of(hint: Any) -> str:
    return get_args(hint)[1] if get_origin(hint) is Annotated else "not declared"


def name_of(kind: type[msgspec.Struct]) -> str:
    names = {Envelope: "envelope", ErrorRecord: "error", ResponseRecord: "response"}
    names |= {Reference: "reference", Stub: "stub"}
    return names.get(kind, getattr(kind, "type", "?"))


FIELDS = {(name_of(kind), field): mark for kind in STRUCTS for field, mark in marks(kind).items()}
CRITICAL = sorted(key for key, mark in FIELDS.items() if mark == "critical")
DIAGNOSTIC = sorted(key for key, mark in FIELDS.items() if mark == "diagnostic")


# --- a real run with nearly every event in it ---


class FlakyError(ConnectionError):
    """Passes by itself."""


class Calls:
    def __init__(self) -> None:
        self.made = 0

    async def flaky(self) -> str:
        self.made += 1
        if self.made == 1:
            raise FlakyError("once")
        return "up"

    async def bad(self) -> None:
        raise KeyError("missing")

    async def late(self, n: int) -> int:
        return n


@counterfoil.workflow(name="test_events.busy")
async def busy(ctx: Context, question: str) -> list[Any]:
    calls = Calls()
    seen: list[Any] = [ctx.now().isoformat(), ctx.random(), str(ctx.uuid()), question]
    seen.append(await ctx.with_options(retry=Retry(tries=2)).model(calls.flaky))
    await ctx.sleep(3)
    try:
        await ctx.step(calls.bad)
    except KeyError as error:
        seen.append(str(error))
    seen.append(await ctx.step(calls.late, 7))
    return seen


async def _recorded() -> list[Record]:
    store = MemoryStore()
    async with counterfoil.open(store, system=ManualSystem()) as journal:
        await journal.run(busy, "why", id="r")
    return store._records["r"]


@pytest.fixture(scope="module")
def recorded() -> list[Record]:
    return asyncio.run(_recorded())


def without(record: Record, name: str, field: str) -> Record:
    """The record as if this field had never been written."""
    envelope, body = json.loads(record.envelope), json.loads(record.body or b"null")
    kind = envelope["type"]
    for holder_name, holder in (("envelope", envelope), (kind, body), ("error", body.get("error"))):
        if holder_name == name and holder is not None:
            holder.pop(field, None)
    return seal(record.seq, msgspec.json.encode(envelope), msgspec.json.encode(body), salt=bytes(32), previous=ZERO)


def stripped(records: list[Record]) -> list[Record]:
    for name, field in DIAGNOSTIC:
        records = [without(record, name, field) for record in records]
    return records


def state_of(records: list[Record]) -> RunState:
    return fold("r", [events.read(record, "r") for record in records])


def decisions(state: RunState) -> list[Any]:
    """What a replay of the whole record is told, step by step."""
    cursor = Cursor(state)
    steps = [
        Operation(key=s.key, kind=s.kind, name=s.name, input=bytes(s.input or b"null")) for s in state.steps.values()
    ]
    return [cursor.ask(step) for step in steps]


def comparable(decision: Any) -> Any:
    """A decision without what a reader alone wants of it."""
    error = getattr(decision, "error", None)
    return decision if error is None else msgspec.structs.replace(error, traceback=None)


@pytest.mark.parametrize("kind", STRUCTS, ids=name_of)
def test_every_field_is_declared_critical_or_diagnostic(kind):
    assert {field: mark for field, mark in marks(kind).items() if mark not in {"critical", "diagnostic"}} == {}


@pytest.mark.parametrize("kind", STRUCTS, ids=name_of)
def test_every_diagnostic_field_has_a_default(kind):
    diagnostic = {name for name, mark in marks(kind).items() if mark == "diagnostic"}
    assert [f.name for f in msgspec.structs.fields(kind) if f.required and f.encode_name in diagnostic] == []


def test_the_critical_fields_with_a_default_are_the_stated_ones():
    optional = {
        (name_of(kind), f.encode_name)
        for kind in STRUCTS
        for f in msgspec.structs.fields(kind)
        if not f.required and (name_of(kind), f.encode_name) in CRITICAL
    }
    assert optional - {("reference", "availability")} == set(DEFAULTS)


def test_a_run_without_any_diagnostic_field_folds_to_the_same_end(recorded):
    full, bare = state_of(recorded), state_of(stripped(recorded))
    assert (bare.status, bare.result, bare.order, list(bare.steps)) == (
        full.status,
        full.result,
        full.order,
        list(full.steps),
    )


def test_a_run_without_any_diagnostic_field_replays_to_the_same_end(recorded):
    full, bare = decisions(state_of(recorded)), decisions(state_of(stripped(recorded)))
    assert list(map(comparable, bare)) == list(map(comparable, full))
    assert not [decision for decision in bare if isinstance(decision, Execute | Mismatch)]


@pytest.mark.parametrize(("name", "field"), DIAGNOSTIC)
def test_each_diagnostic_field_alone_can_go(recorded, name, field):
    bare = state_of([without(record, name, field) for record in recorded])
    assert list(map(comparable, decisions(bare))) == list(map(comparable, decisions(state_of(recorded))))


@pytest.mark.parametrize(("name", "field"), sorted(set(CRITICAL) - set(DEFAULTS) - {("reference", "availability")}))
def test_without_a_critical_field_the_error_names_it(name, field):
    record = sample(name, field)
    with pytest.raises(JournalUnreadableError) as caught:
        read_wholly(record)
    assert (caught.value.facts["run"], caught.value.facts["seq"]) == ("r", 4)
    assert f"`{field}`" in caught.value.facts["problem"]


@pytest.mark.parametrize("key", sorted(DEFAULTS))
def test_an_absent_critical_field_means_its_stated_default(key):
    name, field = key
    event = events.read(sample(name, field), "r")
    error = getattr(event.body, "error", None)
    answer = getattr(error, "response", None)
    holder = {"envelope": event.envelope, "error": error, "response": answer}.get(name, event.body)
    value = getattr(holder, {"try": "try_number"}.get(field, field))
    assert (json.loads(bytes(value)) if isinstance(value, msgspec.Raw) else value) == DEFAULTS[key]


def read_wholly(record: Record) -> events.Event:
    """The event, and before that the stub, if it has one."""
    events.read_stub(record, "r")
    return events.read(record, "r")


def sample(name: str, missing: str) -> Record:
    """A record with every field set, but for the missing one."""
    inner = {"type": "builtins:KeyError", "message": "k"}
    response = {"status_code": 429, "headers": {"retry-after": "1"}, "text": "t"}
    error = {
        "type": "builtins:ValueError", "message": "m", "args": ["m"], "attributes": {"a": 1}, "traceback": "t",
        "stands_in": True, "response": response, "suppressed": True,
        "cause": inner, "context": inner, "members": [inner], "left_out": {"a": "b"}, "cut": 1,
    }  # fmt: skip
    kinds = {"envelope": "timer_fired", "reference": "timer_fired", "stub": "timer_fired"}
    kinds |= {"error": "run_failed", "response": "run_failed"}
    kind = kinds.get(name, name)
    envelope = {
        "run": "r", "seq": 4, "type": kind, "time": 1, "step": "0", "attempt": 1, "try": 1, "epoch": 1,
        "incarnation": 2, "contract": "c", "schema": 1,
    }  # fmt: skip
    reference = {"size_bytes": 1, "media_type": "m", "availability": "expiring"}
    stub = {"digest": "0" * 64, "size_bytes": 1}
    values = {
        "workflow": "w", "input": {}, "reason": "x", "step": "0", "reopened": "0", "result": 1, "annotated": True,
        "error": error, "kind": "tool", "name": "f", "digest": "0" * 64, "due": 9, "value": 1,
        "size_bytes": 5, "media_type": "m",
    }  # fmt: skip
    if name in {"reference", "stub"}:
        envelope["reference"] = reference
    body = {f: v for f, v in values.items() if f in {x.encode_name for x in msgspec.structs.fields(BODIES[kind])}}
    for holder_name, holder in (
        ("envelope", envelope),
        ("reference", reference),
        ("stub", stub),
        ("error", error),
        ("response", response),
        (kind, body),
    ):
        if holder_name == name:
            holder.pop(missing, None)
    raw = msgspec.json.encode(stub if "reference" in envelope else body)
    return seal(4, msgspec.json.encode(envelope), raw, salt=bytes(32), previous=ZERO)


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"body": None, "salt": None}, "its body is gone"),
        ({"body": b"{"}, "truncated"),
        ({"body": b"[]"}, "Expected `object`, got `array`"),
        ({"envelope": b'{"run":"r","seq":4,"type":"run_teleported"}'}, "this release doesn't know the type"),
        ({"envelope": b'{"run":"r","seq":"4","type":"timer_set"}'}, "Expected `int`, got `str` - at `$.seq`"),
        ({"envelope": b'{"run":"r","seq":4,"type":"timer_set","new":1}'}, "unknown field `new`"),
        ({"envelope": b"\xff"}, "malformed"),
    ],
    ids=str,
)
def test_a_record_that_can_not_be_read_says_what_is_wrong(change, problem):
    record = msgspec.structs.replace(sample("timer_set", "due"), **change)
    with pytest.raises(JournalUnreadableError) as caught:
        events.read(record, "r")
    assert problem in caught.value.facts["problem"]


@pytest.mark.parametrize("kind", BODIES.values(), ids=name_of)
def test_a_body_of_a_later_release_with_more_diagnostics_is_read(kind):
    record = sample(kind.type, "")
    more = json.loads(record.body) | {"from_the_future": 1}
    later = msgspec.structs.replace(record, body=msgspec.json.encode(more))
    assert events.read(later, "r") == events.read(record, "r")


def test_an_event_written_and_read_is_the_same():
    envelope = Envelope(run="r", seq=0, type="timer_set", step="1/0", attempt=2, try_number=3, incarnation=2)
    body = events.TimerSet(due=9, input=msgspec.Raw(b"{}"), digest="d")
    record = seal(0, events.encode(envelope), events.encode(body), salt=bytes(32), previous=ZERO)
    assert events.read(record, "r") == events.Event(envelope, body, record.hash)


@pytest.mark.parametrize("kind", BODIES.values(), ids=name_of)
def test_a_stub_is_never_taken_for_a_body(kind):
    record = sample(kind.type, "")
    envelope = json.loads(record.envelope) | {"reference": {"size_bytes": 5}}
    outside = msgspec.structs.replace(record, envelope=msgspec.json.encode(envelope))
    with pytest.raises(JournalUnreadableError, match="its body is an artifact"):
        events.read(outside, "r")


@pytest.mark.parametrize(
    "body",
    [
        b"{}",
        b'{"digest":"0","size_bytes":1}',
        b'{"digest":"%s","size_bytes":1,"x":1}' % (b"0" * 64),
        b"null",
        b"{",
        b'"x"',
    ],
    ids=bytes.decode,
)
def test_a_stub_of_another_form_is_unreadable(body):
    record = msgspec.structs.replace(sample("stub", ""), body=body)
    with pytest.raises(JournalUnreadableError, match="it names no artifact"):
        events.read_stub(record, "r")


def test_a_stub_that_is_gone_is_unreadable():
    record = msgspec.structs.replace(sample("stub", ""), body=None, salt=None)
    with pytest.raises(JournalUnreadableError, match="its body is gone"):
        events.read_stub(record, "r")
