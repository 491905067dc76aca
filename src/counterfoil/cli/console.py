"""Where words go: results to standard output, all else to standard error.

A reader of the results who went away ends the command quietly; one of standard error is no reason to end a run.
"""

import codecs
import io
import json
import os
import re
import shutil
import sys
from pathlib import Path
from typing import Any

_KEY = re.compile(
    r"""(?<![A-Za-z0-9])(?:
        sk-(?=[\w-]*\d)[\w-]{16,}         # OpenAI, Anthropic and others
        | AKIA[0-9A-Z]{16}                # AWS
        | gh[pousr]_[A-Za-z0-9]{30,} | github_pat_\w{22,}
        | AIza[\w-]{35}                   # Google
        | xox[abprs]-[A-Za-z0-9-]{10,}    # Slack
        | hf_[A-Za-z0-9]{30,}
    )""",
    re.VERBOSE | re.ASCII,
)


class ReaderGoneError(Exception):
    """Nobody reads standard output any more."""


def open_missing() -> None:
    """Give a process without one of the standard streams an empty one; let standard output take any character."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, Path(os.devnull).open(mode, encoding="utf-8"))  # noqa: SIM115 - for as long as we live
    if isinstance(sys.stdout, io.TextIOWrapper):
        codecs.register_error("json", _as_in_json)
        sys.stdout.reconfigure(errors="json")


def _as_in_json(error: UnicodeError) -> tuple[str, int]:
    """What an encoding lacks, spelled so that JSON stays JSON."""
    if not isinstance(error, UnicodeEncodeError):
        raise error
    return json.dumps(error.object[error.start : error.end])[1:-1], error.end


def put(text: str) -> None:
    """Lines of the result."""
    try:
        sys.stdout.write(text + "\n")
        sys.stdout.flush()
    except OSError as error:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # what is still buffered goes nowhere
        if not isinstance(error, BrokenPipeError):
            say(f"standard output can't be written: {error.strerror}")
        raise ReaderGoneError from None


def put_object(value: Any) -> None:
    """One JSON object, on a line of its own."""
    put(json.dumps(value, ensure_ascii=False))


def columns() -> int:
    """How wide a line of the result may get; no end in a file."""
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else sys.maxsize


def say(text: str) -> None:
    """Lines for the person who watches."""
    try:
        sys.stderr.write(shown(text) + "\n")
        sys.stderr.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stderr.fileno())


def say_object(value: Any) -> None:
    """The same for a program."""
    say(json.dumps(value))


def shown(text: str) -> str:
    """The text for a person's eyes: without keys, as far as they look like some, and without control characters.

    What a model answered must not command a terminal.
    """
    return "".join(c if c.isprintable() or c == "\n" else ascii(c)[1:-1] for c in masked(text))


def masked(text: str) -> str:
    """The text without what looks like a key that nobody declared. The record holds it, and `--json` gives it."""
    return _KEY.sub(lambda found: f"{found[0][:4]}[masked: looks like a key]", text)
