"""Where words go: results to standard output, all else to standard error.

A reader of the results who went away ends the command quietly; one of standard error is no reason to end a run.
"""

import json
import os
import sys
from pathlib import Path
from typing import Any


class ReaderGoneError(Exception):
    """Nobody reads standard output any more."""


def open_missing() -> None:
    """Give a process that was started without standard output or error a place that swallows what is written."""
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, Path(os.devnull).open("w", encoding="utf-8"))  # noqa: SIM115 - for as long as we live


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


def shown(text: str) -> str:
    """The text with control characters spelled out: what a model answered must not command a terminal."""
    return "".join(c if c.isprintable() or c == "\n" else ascii(c)[1:-1] for c in text)
