"""Where a command's words go: results to standard output, all else to standard error.

A reader that went away ends the command quietly; one of standard error only is no reason to end a run.
"""

import io
import json
import sys
from typing import Any

import click
from rich.console import Console, RenderableType

from counterfoil.cli.outcomes import Exit
from counterfoil.journal import DEFAULT_URL

WIDTH_IN_A_FILE = 10_000  # wide enough that nothing is cut or folded


class Settings:
    """What the shared options ask for, and the way out."""

    def __init__(self) -> None:
        self.store = DEFAULT_URL
        self.as_json = False
        self.with_traceback = False

    def print(self, text: str) -> None:
        """A line, or several, of the result."""
        try:
            sys.stdout.write(text + "\n")
            sys.stdout.flush()
        except BrokenPipeError:
            raise SystemExit(Exit.BROKEN_PIPE) from None

    def print_object(self, value: Any) -> None:
        """One JSON object on a line of its own."""
        self.print(json.dumps(value, ensure_ascii=False))

    def draw(self, *parts: RenderableType) -> None:
        """Tables and text: coloured on a terminal, plain and uncut anywhere else."""
        is_terminal = sys.stdout.isatty()
        console = new_console(sys.stdout if is_terminal else io.StringIO())
        for part in parts:
            console.print(part)
        if isinstance(console.file, io.StringIO):
            lines = console.file.getvalue().splitlines()
            self.print("\n".join(line.rstrip() for line in lines))

    def say(self, text: str) -> None:
        """A line for the person who watches."""
        try:
            sys.stderr.write(shown(text) + "\n")
            sys.stderr.flush()
        except BrokenPipeError:
            return

    def say_object(self, value: Any) -> None:
        """The same for a program."""
        self.say(json.dumps(value))


def new_console(file: Any) -> Console:
    """A console that takes text as it is."""
    width = None if file.isatty() else WIDTH_IN_A_FILE
    return Console(file=file, width=width, markup=False, highlight=False, emoji=False, soft_wrap=False)


def shown(text: str) -> str:
    """The text with control characters spelled out: what a model answered must not command a terminal."""
    return "".join(
        c if c.isprintable() or c == "\n" else c.encode("unicode_escape", "backslashreplace").decode() for c in text
    )


def settings_of(context: click.Context) -> Settings:
    """The settings of this call of the command line."""
    return context.ensure_object(Settings)
