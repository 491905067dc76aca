"""Run ids, step keys, and the keys by which a provider knows a repeat.

A step's key is its place in program order: the numbers of the branches that lead to it, then its ordinal inside the
last one, joined by "/". `3` is the fourth step of the body; `1/0` the first step of the body's second branch.
Nothing else is in a key: no name, no time, no finish order. The format is released and never changes.
"""

import hashlib

from counterfoil.errors import IdInvalidError

ROOT: tuple[int, ...] = ()
"""The branch of the workflow's own body."""

ID_LENGTH_MAX = 200

_PROVIDER_KEY_DIGITS = 32


def step_key(branch: tuple[int, ...], ordinal: int) -> str:
    """The key of the step with this ordinal in this branch."""
    return "/".join(map(str, (*branch, ordinal)))


def parse_key(key: str) -> tuple[tuple[int, ...], int]:
    """The branch and the ordinal of a step key."""
    *branch, ordinal = map(int, key.split("/"))
    return tuple(branch), ordinal


def check_run_id(run: str) -> str:
    """The id itself, if it can be used.

    Raises IdInvalidError for an empty, blank-edged, over-long or unprintable one.
    """
    if not run or len(run) > ID_LENGTH_MAX:
        raise IdInvalidError(run=run[:40], problem=f"has {len(run)} characters")
    if run != run.strip() or not run.isprintable():
        raise IdInvalidError(run=run, problem="has blanks at an end, or characters that can't be printed")
    return run


def provider_key(root: bytes, run: str, incarnation: int, *, step: str, request: tuple[str, ...] = ()) -> str:
    """The idempotency key of a request of this step: of `request`, or of the step as a whole.

    `root` is the hash of the run's first event, so that equal ids in two stores have different keys. The derivation is
    released and never changes: a run may be taken up by a later release.
    """
    parts = ("provider-key-v1", root.hex(), run, str(incarnation), step, *request)
    return "cf-" + hashlib.sha256("\n".join(parts).encode()).hexdigest()[:_PROVIDER_KEY_DIGITS]
