"""The lab's rows as tables: the counts, then what each run left behind, then what survives.

A run's journal stands by index, beside the log of the server that it called: what the journal
does not hold, the server has seen all the same.
"""

from collections.abc import Sequence

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from counterfoil.core.events import RunPaused
from counterfoil.engine.queries import timeline
from counterfoil.lab.rows import Row
from counterfoil.lab.scenarios import FATES

COUNTED = ("model_calls", "billed_calls", "tool_calls", "attempts", "state", "unknown_calls")
WIDTH_IN_A_FILE = 120


def new_console() -> Console:
    """Return a console as wide as the terminal, or wide enough where there is none."""
    console = Console()
    return console if console.is_terminal else Console(width=WIDTH_IN_A_FILE)


def print_report(console: Console, rows: Sequence[Row], store: str) -> None:
    """Print the whole lab."""
    console.print(_counts(rows))
    for row in rows:
        console.print(_journal(row), _calls(row))
    console.print(_fates())
    example = f"counterfoil show {rows[-1].run_id} --store {store}"
    console.print(f"The runs are kept in {store}. To read one:\n  {example}", soft_wrap=True, highlight=False)


def _counts(rows: Sequence[Row]) -> Table:
    titles = [name.replace("_", "\n") for name in COUNTED]
    table = _table("What was counted", "scenario", "mode", *titles, "Restate\n1.7.10")
    for column in table.columns[:-1]:
        column.no_wrap = True
    for row in rows:
        scenario = row.scenario
        name = "\n".join(filter(None, (scenario.name, scenario.variant)))
        table.add_row(name, scenario.mode, *(_count(row, each) for each in COUNTED), scenario.restate)
    return table


def _count(row: Row, name: str) -> Text:
    found, wanted = row.counts()[name], row.expected()[name]
    if found != wanted:
        return Text(f"{found}\nexpected\n{wanted}", style="bold red")
    reason = row.ending.reason if name == "state" else None
    return Text("\n".join([str(found), *(reason or "").split("_")]).strip())


def _journal(row: Row) -> Table:
    title = f"{row.scenario.title}: the journal"
    table = _table(title, "index", "what", "kind", "name", "attempt", "notes")
    for each in timeline(row.ending.events):
        notes = "\n".join(each.notes)
        table.add_row(str(each.index), each.what, each.kind, each.name, str(each.attempt), notes)
    bodies = [event.body for event in row.ending.events]
    table.caption = "\n".join(str(b.detail) for b in bodies if isinstance(b, RunPaused))
    return table


def _calls(row: Row) -> Table:
    title = f"{row.scenario.title}: what the server saw"
    table = _table(title, "call", "process", "prompt", "answer", "delivered", "repeats")
    for call in row.calls:
        delivered = "yes" if call.delivered else Text("no", style="bold red")
        repeats = f"{call.kind} {call.repeat_of}" if call.repeat_of else ""
        asked = (f"{call.kind} {call.n}", call.process, call.prompt_digest, call.answer)
        table.add_row(*asked, delivered, Text(repeats, style="bold red"))
    return table


def _fates() -> Table:
    table = _table("If the process dies now", "what", "what happens to it", "shown by")
    for fate in FATES:
        table.add_row(fate.what, fate.fate, fate.shown_by)
    return table


def _table(title: str, *columns: str) -> Table:
    table = Table(
        title=title,
        title_justify="left",
        title_style="bold",
        caption_justify="left",
        box=box.SIMPLE_HEAD,
        pad_edge=False,
        padding=(0, 1, 0, 0),
    )
    for column in columns:
        table.add_column(column, overflow="fold")
    return table
