"""What a person sees of runs: tables, drawn by rich."""

from collections.abc import Iterable, Iterator, Sequence

import msgspec
from rich import box
from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from counterfoil.cli.console import masked, shown
from counterfoil.cli.describe import count, moment, span
from counterfoil.cli.drawing import draw
from counterfoil.cli.money import sends_notes, spent_cell, spent_line, tokens_cell
from counterfoil.cli.view import RunView
from counterfoil.core import tally
from counterfoil.core.events import Event, RunCompleted, RunFailed, RunPaused
from counterfoil.core.failure import short_type
from counterfoil.core.plainly import plainly
from counterfoil.core.state import Status
from counterfoil.core.tally import Totals
from counterfoil.engine.queries import Entry, Summary
from counterfoil.store import Head

BODY_CHARACTERS = 200
COLOURS = {Status.COMPLETED: "green", Status.FAILED: "red", Status.PAUSED: "yellow", Status.RUNNING: "cyan"}
LIVE_FROM_HERE = "attempt {number}: replay ended, live from here"


def draw_runs(heads: Iterable[Head], *, is_wide: bool) -> None:
    """Print runs; where there is room, with tokens and money."""
    draw([runs_table(list(heads), is_wide=is_wide)])


def draw_events(events: Iterable[Event]) -> None:
    """Print events."""
    draw([events_table(events)])


def draw_run(seen: RunView) -> None:
    """Print one run."""
    draw(run_parts(seen))


def runs_table(heads: Sequence[Head], *, is_wide: bool) -> Table:
    """Runs, one a line. Tokens and money have columns where there is room, and a run that has any."""
    totals = [tally.read(head.totals) for head in heads]
    has_money = is_wide and any(each.requests for each in totals)
    money = ("tokens in + out", "spent") if has_money else ()
    table = _table("number", "run", "workflow", "state", "events", *money, "created", "updated", "tags")
    for head, sums in zip(heads, totals, strict=True):
        times = (moment(head.created), moment(head.updated))
        what = (_cell(str(head.number)), _cell(head.run), _cell(head.workflow), _state(head))
        figures = (tokens_cell(sums), spent_cell(sums)) if has_money else ()
        table.add_row(*what, *map(_cell, (str(head.seq + 1), *figures, *times, _tags(head))))
    return table


def events_table(events: Iterable[Event]) -> Table:
    """Every event, one a line; a long body is cut."""
    table = _table("seq", "time", "type", "step", "attempt", "try", "body")
    for event in events:
        body = masked(msgspec.json.encode(event.body).decode())  # before it is cut: half a key has no look of one
        cut = body if len(body) <= BODY_CHARACTERS else body[:BODY_CHARACTERS] + "..."
        where = (event.step or "", str(event.attempt or ""), str(event.envelope.try_number or ""))
        table.add_row(*map(_cell, (str(event.seq), moment(event.time), event.type, *where, cut)))
    return table


def run_parts(seen: RunView) -> Iterator[RenderableType]:
    """One run: what it is, its timeline, its sums, and what it waits for or how it ended."""
    yield _facts(_about(seen))
    yield _timeline(seen)
    yield _facts(_sums(seen.summary, seen.totals))
    if seen.pause:
        yield _facts(_pause(seen.pause))
    if seen.end:
        yield _facts(_end(seen.end))


def _about(seen: RunView) -> Iterator[tuple[str, str | Text]]:
    head = seen.head
    yield "run", head.run
    yield "workflow", head.workflow
    yield "state", _state(head)
    if head.tags:
        yield "tags", _tags(head)
    yield "created", moment(head.created)
    yield "updated", moment(head.updated)
    if head.owner:
        yield "owner", f"worker {head.owner}"
    for each in seen.passes:
        known = f"  {count(each.recorded, 'outcome')} recorded before" if each.number > 1 else ""
        made_by = f"process {each.started.process}, {each.started.release}"
        yield f"attempt {each.number}", f"{moment(each.event.time)}  {made_by}{known}"


def _timeline(seen: RunView) -> Table:
    table = _table("index", "step", "kind", "name", "what", "try", "attempt", "duration", "notes")
    for entry in seen.entries:
        if seen.goes_live_at(entry):
            border = Text(LIVE_FROM_HERE.format(number=entry.attempt), style="bold green")
            table.add_row("--", *[""] * (len(table.columns) - 2), border)
        table.add_row(*map(_cell, _entry_cells(entry)))
    return table


def _entry_cells(entry: Entry) -> tuple[str | Text, ...]:
    what = (entry.step or "", entry.kind or "", entry.name or "", entry.what)
    counts = (str(entry.try_number or ""), str(entry.attempt or ""))
    notes = Text(shown("\n".join(entry.notes)), style="yellow")
    said = Text(shown("\n".join(sends_notes(entry.sends))))
    both = Text("\n").join(each for each in (notes, said) if each)
    return (str(entry.index), *what, *counts, span(entry.duration), both)


def _sums(sums: Summary, totals: Totals) -> Iterator[tuple[str, str | Text]]:
    calls = f"{count(sums.model_calls, 'model call')} and {count(sums.tool_calls, 'tool call')} begun"
    yield "steps", f"{sums.steps} with an outcome; {calls}"
    if sums.unknown_calls:
        cost = "cost not bounded" if sums.unknown_cost_usd is None else f"at most {sums.unknown_cost_usd} USD"
        sent = f"{count(sums.unknown_calls, 'call')} sent, outcome never seen ({cost})"
        yield "unknown", Text(sent, style="yellow")
    if sums.attempts > 1:
        saved = f"{count(sums.replayed_calls, 'call')} and {sums.replayed_seconds:.3f} s"
        yield "saved", f"{saved}: answered from the record"
    if totals.requests:
        yield "spent", spent_line(totals)


def _pause(pause: RunPaused) -> Iterator[tuple[str, str | Text]]:
    at = f", at step {pause.step}" if pause.step is not None else ""
    yield "paused", Text(f"{pause.reason}{at}", style="yellow")
    yield "detail", pause.detail or ""
    for name in ("recorded", "attempted", "source"):
        if pause.facts.get(name):
            yield name, str(pause.facts[name])
    for each in pause.facts.get("differences", ()):
        yield "differs", f"{each['pointer'] or '/'}: recorded {each['recorded']}, attempted {each['attempted']}"
    yield "next", pause.next or ""


def _end(end: RunCompleted | RunFailed) -> Iterator[tuple[str, str | Text]]:
    if isinstance(end, RunFailed):
        yield "failed", Text(shown(f"{short_type(end.error)}: {end.error.message}"), style="red")
    else:
        yield "result", plainly(bytes(end.result)).decode()


def _facts(pairs: Iterable[tuple[str, str | Text]]) -> Table:
    table = Table.grid(padding=(0, 2))
    table.add_column(style="bold", no_wrap=True)
    table.add_column(overflow="fold")
    for name, value in pairs:
        table.add_row(name, _cell(value))
    return table


def _table(*columns: str) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for column in columns:
        table.add_column(column, overflow="fold")
    return table


def _cell(value: str | Text) -> Text:
    return value if isinstance(value, Text) else Text(shown(value))


def _state(head: Head) -> Text:
    text = f"{head.status}: {head.reason}" if head.reason else str(head.status)
    return Text(shown(text), style=COLOURS.get(head.status, ""))


def _tags(head: Head) -> str:
    return " ".join(f"{key}={value}" for key, value in sorted(head.tags.items()))
