"""Reads a workflow's input: a JSON object by parameter name, given as text, as @FILE, or on standard input."""

import json
import sys
from pathlib import Path
from typing import Any, NoReturn

from counterfoil.cli.outcomes import InputTextError


def read_input(text: str) -> dict[str, Any]:
    """The object that --input gives. Raises InputTextError."""
    where, raw = _source(text)
    try:
        value = json.loads(raw, parse_constant=_refuse)
    except (ValueError, RecursionError) as error:
        raise InputTextError(where=where, problem=f"it is not JSON: {error}") from None
    if not isinstance(value, dict):
        raise InputTextError(where=where, problem="it is not a JSON object")
    return value


def _source(text: str) -> tuple[str, str]:
    where = {"-": "on standard input", "@": f"in {text[1:]}"}.get(text[:1], "after --input")
    try:
        if text == "-":
            return where, sys.stdin.read()
        if text.startswith("@"):
            return where, Path(text[1:]).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InputTextError(where=where, problem=str(error)) from None
    return where, text


def _refuse(name: str) -> NoReturn:
    msg = f"{name} is not a JSON value"
    raise ValueError(msg)
