"""Tables and live lines, by rich: coloured and fitted on a terminal.

Anywhere else they are plain, and nothing in them is cut or folded. Loaded only to draw: rich takes a fifth of a start.
"""

import io
import sys
from collections.abc import Iterable
from typing import Any

from rich.console import Console, RenderableType
from rich.live import Live
from rich.spinner import Spinner

from counterfoil.cli.console import put, shown

WIDTH_IN_A_FILE = 10_000


def draw(parts: Iterable[RenderableType]) -> None:
    """Print parts of the result."""
    is_terminal = sys.stdout.isatty()
    console = _console(sys.stdout if is_terminal else io.StringIO())
    for part in parts:
        console.print(part)
    if isinstance(console.file, io.StringIO):
        lines = console.file.getvalue().splitlines()
        put("\n".join(line.rstrip() for line in lines).strip("\n"))


class LiveLine(Live):
    """A last line on standard error that is drawn over. What is printed meanwhile, by anyone, appears above it."""

    def __init__(self) -> None:
        console = _console(sys.stderr)
        super().__init__(console=console, transient=True, redirect_stdout=sys.stdout.isatty(), refresh_per_second=8)

    def say(self, text: str) -> None:
        """Change the line."""
        self.update(Spinner("dots", shown(text)))


def _console(file: Any) -> Console:
    """A console that takes text as it is."""
    width = None if file.isatty() else WIDTH_IN_A_FILE
    return Console(file=file, width=width, markup=False, highlight=False, emoji=False)
