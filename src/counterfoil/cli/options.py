"""What every command takes, and the forms of single options."""

import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import click

from counterfoil.core.integrity import Anchor
from counterfoil.journal import DEFAULT_URL

HASH_BYTES = 32
Command = Callable[..., Any]


class Options:
    """The shared options of this call of the command line."""

    def __init__(self) -> None:
        self.store = os.environ.get("COUNTERFOIL_STORE") or DEFAULT_URL
        self.as_json = False
        self.with_traceback = False


class _Pair(click.ParamType[tuple[str, str]]):
    """KEY=VALUE."""

    name = "key=value"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[str, str]:
        key, separator, text = str(value).partition("=")
        if not key or not separator:
            self.fail(f"{value!r} is not KEY=VALUE", param, ctx)
        return key, text


class _Anchor(click.ParamType[Anchor]):
    """SEQ:HASH, as `head` prints it."""

    name = "seq:hash"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Anchor:
        if isinstance(value, Anchor):
            return value
        seq, _, digits = str(value).partition(":")
        try:
            anchor = Anchor(int(seq), bytes.fromhex(digits))
        except ValueError:
            anchor = Anchor(-1, b"")
        if anchor.seq < 0 or len(anchor.hash) != HASH_BYTES:
            self.fail(f"{value!r} is not SEQ:HASH, as `counterfoil head` prints it", param, ctx)
        return anchor


PAIR, ANCHOR = _Pair(), _Anchor()


def shared(command: Command) -> Command:
    """Give a command the options that all have: --store, --json, --traceback. They end up in Options."""
    options = [
        click.option(
            "--store", metavar="URL", callback=_keep, expose_value=False,
            help=f"Where the runs are kept. [env var: COUNTERFOIL_STORE; default: {DEFAULT_URL}]",
        ),
        click.option(
            "--json", "as_json", is_flag=True, callback=_keep, expose_value=False, help="Print JSON, for programs.",
        ),
        click.option(
            "--traceback", "with_traceback", is_flag=True, callback=_keep, expose_value=False,
            help="Show the traceback of an error.",
        ),
    ]  # fmt: skip
    return _decorated(command, options)


def driving(command: Command) -> Command:
    """Give a command the options of those that drive a run."""
    options = [
        click.option("--secret", "secrets", metavar="NAME", multiple=True,
                     help="Environment variable whose value must never be written."),
        click.option("--grace", metavar="SECONDS", type=click.FloatRange(min=0), default=5.0, show_default=True,
                     help="How long a step under way may go on after Ctrl-C or SIGTERM."),
        click.option("--quiet", is_flag=True, help="Do not tell the progress."),
    ]  # fmt: skip
    return _decorated(command, options)


def tags_of(pairs: Sequence[tuple[str, str]]) -> Mapping[str, str]:
    """Tags by key; the last of two with the same key wins."""
    return dict(pairs)


def _decorated(command: Command, options: Sequence[Callable[[Command], Command]]) -> Command:
    for option in reversed(options):
        command = option(command)
    return command


def _keep(context: click.Context, parameter: click.Parameter, value: Any) -> None:
    if value:
        setattr(context.ensure_object(Options), str(parameter.name), value)
