"""What --json prints: plain objects with stable keys, bytes as hex, times as ISO 8601 in UTC with microseconds."""

from typing import Any

import msgspec

from counterfoil.cli.describe import moment_exactly
from counterfoil.cli.view import Pass, RunView
from counterfoil.core import tally
from counterfoil.core.clock import SECOND
from counterfoil.core.events import Event, RunCompleted, RunFailed
from counterfoil.core.parts import Send
from counterfoil.core.plainly import plainly
from counterfoil.engine.inspection import ArtifactReport
from counterfoil.engine.queries import Entry, Verification
from counterfoil.store import Head

INSTANTS = frozenset({"due", "time"})


def head_object(head: Head) -> dict[str, Any]:
    """The head of a run's journal."""
    return {"run": head.run, "seq": head.seq, "hash": head.hash.hex()}


def run_object(head: Head) -> dict[str, Any]:
    """A run, as `list` prints it."""
    return {
        "run": head.run,
        "number": head.number,
        "workflow": head.workflow,
        "state": head.status.value,
        "reason": head.reason,
        "tags": head.tags,
        "seq": head.seq,
        "hash": head.hash.hex(),
        "epoch": head.epoch,
        "owner": head.owner,
        "created": moment_exactly(head.created),
        "updated": moment_exactly(head.updated),
        "totals": _fields(tally.read(head.totals)),
    }


def view_object(seen: RunView) -> dict[str, Any]:
    """A run, as `show` prints it."""
    end = seen.end
    return {
        **run_object(seen.head),
        "summary": _fields(seen.summary),
        "totals": _fields(seen.totals),
        "attempts": [_pass_object(each) for each in seen.passes],
        "timeline": [_entry_object(each) for each in seen.entries],
        "pause": _fields(seen.pause) if seen.pause else None,
        "result": _plain(msgspec.Raw(plainly(bytes(end.result)))) if isinstance(end, RunCompleted) else None,
        "error": _fields(end.error) if isinstance(end, RunFailed) else None,
    }


def event_object(event: Event) -> dict[str, Any]:
    """An event: the fields of its envelope, its hash, and its body."""
    envelope = event.envelope
    names = zip(envelope.__struct_fields__, envelope.__struct_encode_fields__, strict=True)
    fields = {encoded: _value(name, getattr(envelope, name)) for name, encoded in names}
    return {**fields, "hash": event.hash.hex(), "body": _fields(event.body)}


def verification_object(found: Verification) -> dict[str, Any]:
    """What `verify` found in one run."""
    return {
        "run": found.run,
        "events": found.events,
        "hash": found.head,
        "intact": found.is_intact,
        "anchored": found.anchored,
        "flaws": [_fields(flaw) for flaw in found.flaws],
    }


def report_object(report: ArtifactReport) -> dict[str, Any]:
    """What `doctor` found."""
    return {
        "artifacts": report.artifacts,
        "size_bytes": report.size_bytes,
        "whole": report.is_whole,
        "losses": [_fields(loss) for loss in report.losses],
        "unreadable": [{"run": run, **_fields(flaw)} for run, flaw in report.unreadable],
        "strays": [_fields(stray) for stray in report.strays],
    }


def _pass_object(each: Pass) -> dict[str, Any]:
    place = {"attempt": each.number, "time": moment_exactly(each.event.time), "seq": each.event.seq}
    return {**place, "recorded_before": each.recorded, "live_from": each.live_from, **_fields(each.started)}


def _entry_object(entry: Entry) -> dict[str, Any]:
    fields = _fields(entry)
    duration = fields.pop("duration")
    fields["sends"] = [_send_object(send) for send in entry.sends]
    return {
        **{"try" if name == "try_number" else name: value for name, value in fields.items()},
        "duration_seconds": None if duration is None else duration / SECOND,
    }


def _send_object(send: Send) -> dict[str, Any]:
    """A request without what it said: `events` has that."""
    return {name: value for name, value in _fields(send).items() if not name.startswith("request")}


def _fields(value: msgspec.Struct) -> dict[str, Any]:
    return {name: _value(name, getattr(value, name)) for name in value.__struct_fields__}


def _value(name: str, value: Any) -> Any:
    if name in INSTANTS and isinstance(value, int):
        return moment_exactly(value)
    return _fields(value) if isinstance(value, msgspec.Struct) else _plain(value)


def _plain(value: Any) -> Any:
    return msgspec.json.decode(msgspec.json.encode(value))
