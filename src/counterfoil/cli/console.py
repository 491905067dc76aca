"""Where words go: results to standard output, all else to standard error.

On a terminal tables are coloured and fitted; anywhere else they are plain, and nothing in them is cut or folded. A
reader of the results who went away ends the command quietly; one of standard error is no reason to end a run.
"""

import io
import json
import os
import sys
from collections.abc import Iterable
from typing import Any

from rich.console import Console, RenderableType

WIDTH_IN_A_FILE = 10_000


class ReaderGoneError(Exception):
    """Nobody reads standard output any more."""


def put(text: str) -> None:
    """Lines of the result."""
    try:
        sys.stdout.write(text + "\n")
        sys.stdout.flush()
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # what is still buffered goes nowhere
        raise ReaderGoneError from None


def put_object(value: Any) -> None:
    """One JSON object, on a line of its own."""
    put(json.dumps(value, ensure_ascii=False))


def draw(parts: Iterable[RenderableType]) -> None:
    """Tables and text of the result."""
    is_terminal = sys.stdout.isatty()
    console = new_console(sys.stdout if is_terminal else io.StringIO())
    for part in parts:
        console.print(part)
    if isinstance(console.file, io.StringIO):
        lines = console.file.getvalue().splitlines()
        put("\n".join(line.rstrip() for line in lines).strip("\n"))


def say(text: str) -> None:
    """Lines for the person who watches."""
    try:
        sys.stderr.write(shown(text) + "\n")
        sys.stderr.flush()
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stderr.fileno())


def say_object(value: Any) -> None:
    """The same for a program."""
    say(json.dumps(value))


def new_console(file: Any) -> Console:
    """A console that takes text as it is."""
    width = None if file.isatty() else WIDTH_IN_A_FILE
    return Console(file=file, width=width, markup=False, highlight=False, emoji=False)


def shown(text: str) -> str:
    """The text with control characters spelled out: what a model answered must not command a terminal."""
    return "".join(c if c.isprintable() or c == "\n" else ascii(c)[1:-1] for c in text)
