"""The command `counterfoil`."""

import asyncio
import json
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import click

import counterfoil
from counterfoil import Journal
from counterfoil.cli.console import Settings
from counterfoil.cli.driving import Foreground, drive
from counterfoil.cli.loading import load
from counterfoil.cli.objects import event_object
from counterfoil.cli.outcomes import Exit, InputTextError, StoreMissingError, as_object, exit_of
from counterfoil.engine.calls import Call
from counterfoil.engine.queries import timeline
from counterfoil.engine.system import System
from counterfoil.errors import CounterfoilError
from counterfoil.journal import DEFAULT_URL
from counterfoil.stores.sqlite import SqliteStore


def shared_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """The options of every command."""

    def kept(context: click.Context, parameter: click.Parameter, value: Any) -> None:
        if value:
            setattr(context.ensure_object(Settings), str(parameter.name), value)

    store = click.option(
        "--store", metavar="URL", envvar="COUNTERFOIL_STORE", callback=kept, expose_value=False,
        help=f"Where the runs are kept [default: {DEFAULT_URL}].",
    )  # fmt: skip
    as_json = click.option(
        "--json", "as_json", is_flag=True, callback=kept, expose_value=False, help="Print JSON, for programs."
    )
    return store(as_json(command))


@click.group()
def cli() -> None:
    """Durable LLM-agent runs."""


@cli.command()
@click.argument("target", metavar="FILE.py:WORKFLOW")
@click.option("--input", "input_text", default="{}")
@click.option("--id", "run")
@click.option("--tag", "tags", multiple=True)
@click.option("--quiet", is_flag=True)
@click.option("--grace", default=5.0)
@shared_options
@click.pass_obj
def run(settings: Settings, /, **options: Any) -> Exit:
    """Run a workflow, or take a run up where it is."""
    return asyncio.run(_run(settings, **options))


async def _run(settings: Settings, /, **options: Any) -> Exit:
    function = load(options["target"])
    call: Call[Any] = Call(function, (), _input(options["input_text"]))
    tags = dict(each.partition("=")[::2] for each in options["tags"])
    run_id = options["run"] or System().new_id()
    ground = Foreground(
        run=run_id, settings=settings, target=options["target"], grace=options["grace"], quiet=options["quiet"]
    )
    async with counterfoil.open(settings.store) as journal:
        return await drive(journal, ground, lambda: journal.run(call, id=run_id, tags=tags))


def _input(text: str) -> dict[str, Any]:
    where = "from standard input" if text == "-" else text
    if text == "-":
        text = sys.stdin.read()
    elif text.startswith("@"):
        text = Path(text[1:]).read_text(encoding="utf-8")
    try:
        value = json.loads(text)
    except ValueError as error:
        raise InputTextError(where=where, problem=str(error)) from None
    if not isinstance(value, dict):
        raise InputTextError(where=where, problem="it is not a JSON object")
    return value


@cli.command()
@click.argument("run")
@click.argument("target", required=False)
@click.option("--quiet", is_flag=True)
@click.option("--grace", default=5.0)
@shared_options
@click.pass_obj
def resume(settings: Settings, /, **options: Any) -> Exit:
    """Let a run that stands still go on."""
    return asyncio.run(_resume(settings, **options))


async def _resume(settings: Settings, /, **options: Any) -> Exit:
    run_id, target = options["run"], options["target"]
    function = load(target) if target else None
    ground = Foreground(run=run_id, settings=settings, target=target, grace=options["grace"], quiet=options["quiet"])
    async with looking(settings) as journal:
        return await drive(journal, ground, lambda: journal.resume(run_id, function, who="cli"))


@cli.command()
@click.argument("run")
@shared_options
@click.pass_obj
def events(settings: Settings, run: str) -> Exit:
    """Every event of a run."""

    async def work() -> Exit:
        async with looking(settings) as journal:
            for event in await journal.events(run):
                settings.print_object(event_object(event))
        return Exit.DONE

    return asyncio.run(work())


@cli.command()
@click.argument("run")
@shared_options
@click.pass_obj
def show(settings: Settings, run: str) -> Exit:
    """A run's timeline."""

    async def work() -> Exit:
        async with looking(settings) as journal:
            for entry in timeline(await journal.events(run)):
                settings.print(f"{entry.index}  {entry.what}  {entry.kind or ''} {entry.name or ''}  {entry.attempt}")
        return Exit.DONE

    return asyncio.run(work())


@asynccontextmanager
async def looking(settings: Settings) -> AsyncIterator[Journal]:
    """The journal for a command that must not make a store."""
    journal = counterfoil.open(settings.store)
    if isinstance(journal.store, SqliteStore) and not journal.store.path.exists():
        raise StoreMissingError(store=journal.store.name)
    async with journal:
        yield journal


def main() -> None:
    """Run the command line, and exit."""
    settings = Settings()
    try:
        code = cli.main(obj=settings, standalone_mode=False)
    except click.ClickException as error:
        error.show()
        code = Exit.USAGE
    except CounterfoilError as error:
        code = _told(settings, error)
    sys.exit(int(code or 0))


def _told(settings: Settings, error: CounterfoilError) -> Exit:
    if settings.as_json:
        settings.say_object(as_object(error))
    else:
        settings.say(f"error[{error.code}]: {error}")
        settings.say(f"hint: {error.hint}")
    return exit_of(error)
