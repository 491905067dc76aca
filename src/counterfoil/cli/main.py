"""The command `counterfoil`: runs workflows and shows what is recorded of them.

| exit code | means |
|---|---|
| 0 | done; the run completed; `verify`: intact, and anchored by `--expect`; `doctor`: every artifact is whole |
| 1 | the run failed: the workflow raised an exception |
| 2 | `verify`: intact, but not anchored |
| 3 | the run is paused: it needs a person or new code |
| 4 | the run was left where it is, resumable, without a signal: the store or the lease was lost, or the code exited |
| 5 | the id is taken by a run of another workflow or input |
| 6 | there is no run with this id |
| 7 | the store is missing, foreign, newer, or can't be read or written |
| 8 | another living process drives the run |
| 9 | the journal is damaged, or is not the one given to `--expect`; an artifact is missing or altered |
| 64 | the command line or the input is wrong |
| 65 | FILE.py can't be loaded, has no such workflow, or no longer fits the recorded result |
| 70 | a bug in counterfoil |
| 130 | Ctrl-C (SIGINT); a run that was driven here is resumable |
| 141 | whoever read the output went away |
| 143 | SIGTERM; a run that was driven here is resumable |

Results go to standard output, all else to standard error. `lab` has codes of its own.
"""

import asyncio
import functools
import importlib
import sys
import traceback
from collections.abc import Callable, Coroutine
from typing import Any, Concatenate, ParamSpec, cast

import click

import counterfoil
from counterfoil import Call, Status
from counterfoil.cli import console, looking, objects
from counterfoil.cli.driving import Ground, drive
from counterfoil.cli.inputs import read_input
from counterfoil.cli.loading import load, load_named
from counterfoil.cli.options import ANCHOR, PAIR, Options, driving, shared, tags_of
from counterfoil.cli.outcomes import CodeError, Exit, as_object, exit_of
from counterfoil.cli.view import view
from counterfoil.core.integrity import Anchor
from counterfoil.engine.prices import priced_now
from counterfoil.engine.system import System
from counterfoil.errors import CounterfoilError
from counterfoil.journal import DEFAULT_URL, VERSION

P = ParamSpec("P")
WIDE_COLUMNS = 140
ELSEWHERE = {"lab": "counterfoil.lab.command:lab"}
"""Commands of other layers, imported when they are asked for."""


class Commands(click.Group):
    """The commands, those of other layers among them."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """In the order in which they are declared."""
        return [*self.commands, *ELSEWHERE]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The command of this name, imported if need be."""
        if cmd_name not in ELSEWHERE:
            return super().get_command(ctx, cmd_name)
        module, _, name = ELSEWHERE[cmd_name].partition(":")
        return cast("click.Command", getattr(importlib.import_module(module), name))


def in_loop(work: Callable[Concatenate[Options, P], Coroutine[Any, Any, Exit]]) -> Callable[..., Exit]:
    """A command that runs in an event loop and is given the shared options first."""

    @functools.wraps(work)
    def command(*args: P.args, **kwargs: P.kwargs) -> Exit:
        options = click.get_current_context().ensure_object(Options)
        return asyncio.run(work(options, *args, **kwargs))

    return command


@click.group(cls=Commands)
@click.version_option(VERSION, prog_name="counterfoil")
@shared
def cli() -> None:
    """Durable LLM-agent runs: run a workflow, kill it, run it again; what is recorded is not obtained twice."""


@cli.command()
@click.argument("target", metavar="FILE.py[:WORKFLOW]")
@click.option(
    "--input", "text", metavar="JSON", default="{}", help="An object by parameter name; @FILE, or - for standard input."
)
@click.option(
    "--id", "run", metavar="ID", help="The run's id. The same command with the same id takes the run up again."
)
@click.option("--tag", "tags", metavar="KEY=VALUE", type=PAIR, multiple=True, help="A label, to list runs by.")
@driving
@shared
@click.pass_obj
def run(options: Options, /, **given: Any) -> Exit:
    """Run a workflow and print its result; take the run up where it is if it was begun before."""
    call: Call[Any] = Call(load(given["target"]), (), read_input(given["text"]))
    run_id = given["run"] if given["run"] is not None else System().new_id()

    async def work() -> Exit:
        async with counterfoil.open(options.store, secrets=given["secrets"]) as journal:
            ground = _ground(options, run_id, given)
            return await drive(journal, ground, lambda: journal.run(call, id=run_id, tags=tags_of(given["tags"])))

    return asyncio.run(work())


@cli.command()
@click.argument("run", metavar="ID")
@click.argument("target", metavar="FILE.py[:WORKFLOW]", required=False)
@click.option("--why", metavar="TEXT", help="Recorded with the resumption of a paused run.")
@driving
@shared
@click.pass_obj
def resume(options: Options, /, **given: Any) -> Exit:
    """Let a run that stands still go on, and print its result. A failed step that paused it is tried again.

    FILE.py defines its workflow; the recorded name says which one.
    """
    target, run_id = given["target"], given["run"]
    function = load_named(target) if target else None

    async def work() -> Exit:
        async with looking.existing(options, given["secrets"]) as journal:
            ground = _ground(options, run_id, given)
            await journal.head(run_id)
            return await drive(
                journal, ground, lambda: journal.resume(run_id, function, who="command line", why=given["why"])
            )

    return asyncio.run(work())


@cli.command("list")
@click.option(
    "--state",
    "states",
    type=click.Choice([each.value for each in Status]),
    multiple=True,
    help="Only runs in this state.",
)
@click.option("--workflow", metavar="NAME", help="Only runs of this workflow.")
@click.option("--tag", "tags", metavar="KEY=VALUE", type=PAIR, multiple=True, help="Only runs with this tag.")
@click.option("--before", metavar="NUMBER", type=int, help="Only runs with a smaller number: the next page.")
@click.option("--limit", metavar="N", type=click.IntRange(min=1), default=50, show_default=True, help="So many runs.")
@shared
@in_loop
async def list_runs(options: Options, /, **given: Any) -> Exit:
    """List runs, newest first."""
    async with looking.existing(options) as journal:
        runs = await journal.list(
            states=[Status(each) for each in given["states"]], workflow=given["workflow"], tags=tags_of(given["tags"]),
            before=given["before"], limit=given["limit"],
        )  # fmt: skip
    heads = [each.head for each in runs]
    if options.as_json:
        for head in heads:
            console.put_object(objects.run_object(head))
        return Exit.DONE
    from counterfoil.cli.render import draw_runs  # noqa: PLC0415 - rich is slow to load

    draw_runs(heads, is_wide=console.columns() >= WIDE_COLUMNS)
    if len(heads) == given["limit"]:
        console.say(f"older ones: --before {heads[-1].number}")
    return Exit.DONE


@cli.command()
@click.argument("run", metavar="ID")
@shared
@in_loop
async def show(options: Options, /, run: str) -> Exit:
    """Show a run: its timeline by index, where replay ended and live began, what it waits for."""
    async with looking.existing(options) as journal:
        head, found = await journal.head(run), (await journal.events(run)).stored
    seen = view(head, priced_now(found))
    if options.as_json:
        console.put_object(objects.view_object(seen))
        return Exit.DONE
    from counterfoil.cli.render import draw_run  # noqa: PLC0415 - rich is slow to load

    draw_run(seen)
    return Exit.DONE


@cli.command()
@click.argument("run", metavar="ID")
@shared
@in_loop
async def events(options: Options, /, run: str) -> Exit:
    """Print every event of a run; with --json in full, one object a line."""
    async with looking.existing(options) as journal:
        found = await journal.events(run)
    if options.as_json:
        for event in found:
            console.put_object(objects.event_object(event))
        return Exit.DONE
    from counterfoil.cli.render import draw_events  # noqa: PLC0415 - rich is slow to load

    draw_events(found)
    return Exit.DONE


@cli.command()
@click.argument("run", metavar="ID")
@shared
@in_loop
async def head(options: Options, /, run: str) -> Exit:
    """Print the head of a run's journal, SEQ:HASH, to be kept elsewhere and given to `verify --expect`."""
    async with looking.existing(options) as journal:
        found = await journal.head(run)
    if options.as_json:
        console.put_object(objects.head_object(found))
    else:
        console.put(f"{found.seq}:{found.hash.hex()}")
    return Exit.DONE


@cli.command()
@click.argument("run", metavar="[ID]", required=False)
@click.option(
    "--expect",
    "anchors",
    metavar="SEQ:HASH",
    type=ANCHOR,
    multiple=True,
    help="A head of this run that was kept elsewhere.",
)
@shared
@in_loop
async def verify(options: Options, /, run: str | None, anchors: tuple[Anchor, ...]) -> Exit:
    """Check a run's journal, or all: the hash chain, the sequence, the transitions. Says what that does not prove.

    Exits with 0 only when the journal is intact and anchored by --expect; 2 is intact, 9 is damaged.
    """
    if anchors and run is None:
        raise click.UsageError("--expect needs the ID of the run it belongs to.")
    found = []
    async with looking.existing(options) as journal:
        async for each in looking.verified(journal, run, anchors):
            found.append(each)
            if options.as_json:
                console.put_object(objects.verification_object(each))
            else:
                console.put("\n".join(looking.lines_of(each)))
    if not options.as_json:
        console.say(looking.left_open(found))
    return looking.verdict_of(found)


@cli.command()
@shared
@in_loop
async def doctor(options: Options) -> Exit:
    """Check the artifacts of the store: which are missing or altered, what needs them, and what a crash left behind.

    Exits with 9 when something is missing or altered.
    """
    async with looking.existing(options) as journal:
        report = await journal.inspect_artifacts()
    if options.as_json:
        console.put_object(objects.report_object(report))
    else:
        console.put("\n".join(looking.lines_of_report(report)))
    return Exit.DONE if report.is_whole else Exit.DAMAGED


def main() -> None:
    """Run the command line, and exit. No traceback is shown unless it is asked for."""
    console.open_missing()
    options = Options()
    try:
        code = cli.main(obj=options, standalone_mode=False)
    except click.ClickException as error:
        code = _tell_usage(options, error)
    except CounterfoilError as error:
        code = _tell(options, error)
    except (click.Abort, KeyboardInterrupt):
        code = Exit.INTERRUPTED
    except console.ReaderGoneError:
        code = Exit.BROKEN_PIPE
    except Exception as error:  # noqa: BLE001 - the last resort: a person is told, not shown a traceback
        code = _tell_bug(options, error)
    sys.exit(int(code or 0))


def _ground(options: Options, run_id: str, given: dict[str, Any]) -> Ground:
    store = () if options.store == DEFAULT_URL else ("--store", options.store)
    secrets = [part for name in given["secrets"] for part in ("--secret", name)]
    return Ground(
        run=run_id,
        again=("counterfoil", "resume", run_id, given["target"] or "FILE.py", *store, *secrets),
        grace=given["grace"],
        as_json=options.as_json,
        quiet=given["quiet"],
        with_traceback=options.with_traceback,
    )


def _tell(options: Options, error: CounterfoilError) -> Exit:
    if options.with_traceback and isinstance(error, CodeError) and error.__cause__ is not None:
        console.say("".join(traceback.format_exception(error.__cause__)).rstrip())
    if options.as_json:
        console.say_object(as_object(error))
    else:
        notes = getattr(error, "__notes__", ())
        console.say("\n".join([f"error[{error.code}]: {error}", f"hint: {error.hint}", *notes]))
    return exit_of(error)


def _tell_usage(options: Options, error: click.ClickException) -> Exit:
    if options.as_json or "--json" in sys.argv:  # the error may come before the option was read
        console.say_object(_object_of("usage", error.format_message(), "--help tells what there is."))
    else:
        error.show()
    return Exit.USAGE


def _tell_bug(options: Options, error: Exception) -> Exit:
    if options.with_traceback:
        console.say("".join(traceback.format_exception(error)).rstrip())
    message = f"{type(error).__name__}: {error}"
    hint = "This is a bug in counterfoil. What is recorded is safe; --traceback shows where it happened."
    if options.as_json:
        console.say_object(_object_of("internal", message, hint))
    else:
        console.say(f"error[internal]: {message}\nhint: {hint}")
    return Exit.INTERNAL


def _object_of(code: str, message: str, hint: str) -> dict[str, Any]:
    return {"error": {"code": code, "message": message, "hint": hint, "facts": {}, "notes": []}}
