"""The command `lab`: runs the experiments, prints their tables, fails when a count is wrong.

Exit codes: 0 every count is as expected; 1 a row differs, or the experiment itself went wrong, and
standard error says which and how.
"""

import itertools
import json
import textwrap
from collections.abc import Sequence
from pathlib import Path
from typing import TypeVar, cast

import click
from click.core import ParameterSource

from counterfoil.lab.agent import LabError
from counterfoil.lab.report import new_console, print_report
from counterfoil.lab.rows import Row
from counterfoil.lab.runner import run_scenario
from counterfoil.lab.scenarios import SCENARIOS, Scenario

T = TypeVar("T")
FOLDER = Path("counterfoil-lab")
NAMES = tuple(dict.fromkeys(scenario.name for scenario in SCENARIOS))
EXIT_WRONG = 1


@click.command()
@click.argument("names", nargs=-1, type=click.Choice(NAMES), metavar="[NAME]...")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object a row.")
@click.option("--store", metavar="URL", help=f"Where to keep the runs. [default: a new file in {FOLDER}/]")
@click.pass_context
def lab(context: click.Context, *, names: tuple[str, ...], as_json: bool, store: str | None) -> None:
    """Run an agent, kill it with kill -9, run it again, and count its calls.

    NAME is a scenario; without one, all are run.
    """
    chosen = [scenario for scenario in SCENARIOS if not names or scenario.name in names]
    url = _given(context, "store", store) or _new_store()
    try:
        code = run_lab(chosen, url, as_json=_given(context, "as_json", as_json))
    except LabError as error:
        click.echo(f"lab: {error}", err=True)
        code = EXIT_WRONG
    context.exit(code)


def run_lab(scenarios: Sequence[Scenario], store: str, *, as_json: bool = False) -> int:
    """Run the scenarios one after the other, print their rows, and return the exit code."""
    rows = _print_json(scenarios, store) if as_json else _print_tables(scenarios, store)
    wrong = [row for row in rows if row.differences()]
    for row in wrong:
        click.echo("\n".join(f"lab: {line}" for line in row.differences()), err=True)
        click.echo(textwrap.indent(row.said, "  agent: "), err=True)
    return EXIT_WRONG if wrong else 0


def _print_json(scenarios: Sequence[Scenario], store: str) -> list[Row]:
    rows = []
    for scenario in scenarios:
        row = run_scenario(scenario, store)
        click.echo(json.dumps(row.as_json()))
        rows.append(row)
    return rows


def _print_tables(scenarios: Sequence[Scenario], store: str) -> list[Row]:
    console, rows = new_console(), []
    with console.status("") as status:
        for scenario in scenarios:
            status.update(scenario.title)
            rows.append(run_scenario(scenario, store))
    print_report(console, rows, store)
    return rows


def _given(context: click.Context, name: str, value: T) -> T:
    """The option's value, as given to this command or before its name; what the environment says is not for the lab."""
    group = context.parent
    if not value and group and group.get_parameter_source(name) is ParameterSource.COMMANDLINE:
        return cast("T", getattr(group.obj, name))
    return value


def _new_store() -> str:
    """Return the first file of the lab's folder that is not there yet."""
    FOLDER.mkdir(exist_ok=True)
    files = (FOLDER / f"{number:03}.db" for number in itertools.count(1))
    return f"sqlite:///{next(file for file in files if not file.exists()).as_posix()}"
