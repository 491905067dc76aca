"""How a command ends: its exit code, and what it says on standard error.

One code per outcome; `docs/cli.md` has the same table, and a test holds the two together.
"""

from enum import IntEnum
from typing import Any

from counterfoil.errors import (
    ArtifactError,
    CounterfoilError,
    DeclarationError,
    IdInvalidError,
    InputInvalidError,
    JournalDamagedError,
    JournalUnreadableError,
    NotReadableError,
    RunConflictError,
    RunFailedError,
    RunNotFoundError,
    RunOwnedError,
    RunPausedError,
    RunStoppedError,
    SecretError,
    StoreError,
    StoreUrlError,
    WorkflowUnknownError,
)


class Exit(IntEnum):
    """The exit codes."""

    DONE = 0  # done; the run completed; verify: intact, and anchored by --expect
    FAILED = 1  # the run failed: the workflow raised
    NOT_ANCHORED = 2  # verify: intact, but nothing outside the store says so
    PAUSED = 3  # the run is paused: it needs a person or new code
    STOPPED = 4  # the run was left resumable, though nobody asked for it
    CONFLICT = 5  # the id is taken by a run of another workflow or input
    NOT_FOUND = 6  # no run has this id
    STORE = 7  # the store is missing, foreign, newer, or can't be read or written
    OWNED = 8  # another living process drives the run
    DAMAGED = 9  # the journal contradicts itself, or the head given to --expect; an artifact is lost
    USAGE = 64  # the command line or the input is wrong
    CODE = 65  # FILE.py can't be loaded, has no such workflow, or no longer fits the recorded result
    INTERNAL = 70  # a bug in counterfoil
    INTERRUPTED = 130  # Ctrl-C (SIGINT); a run that was driven here is resumable
    BROKEN_PIPE = 141  # whoever read the output went away
    TERMINATED = 143  # SIGTERM; a run that was driven here is resumable


class CodeError(CounterfoilError):
    """FILE.py can't be loaded, or it has no such workflow."""

    code = "code_unusable"
    sentence = "{file}: {problem}"
    advice = "{fix}"
    file: str
    problem: str
    fix: str


class InputTextError(CounterfoilError):
    """What --input gives is not a JSON object."""

    code = "input_unreadable"
    sentence = "--input {where}: {problem}"
    advice = (
        """Give an object by parameter name, such as --input '{{"question": "..."}}', @FILE, or - for standard input."""
    )
    where: str
    problem: str


class StoreMissingError(StoreError):
    """A command that only looks found no store. It makes none."""

    code = "store_missing"
    sentence = "there is no store {store}"
    advice = "`counterfoil run` makes one; --store or COUNTERFOIL_STORE names another one."
    store: str


_EXITS: tuple[tuple[type[CounterfoilError], Exit], ...] = (
    (RunFailedError, Exit.FAILED),
    (RunPausedError, Exit.PAUSED),
    (RunStoppedError, Exit.STOPPED),
    (RunConflictError, Exit.CONFLICT),
    (RunNotFoundError, Exit.NOT_FOUND),
    (RunOwnedError, Exit.OWNED),
    (JournalDamagedError, Exit.DAMAGED),
    (JournalUnreadableError, Exit.DAMAGED),
    (ArtifactError, Exit.DAMAGED),
    (StoreUrlError, Exit.USAGE),
    (StoreError, Exit.STORE),
    (IdInvalidError, Exit.USAGE),
    (InputInvalidError, Exit.USAGE),
    (InputTextError, Exit.USAGE),
    (SecretError, Exit.USAGE),
    (CodeError, Exit.CODE),
    (WorkflowUnknownError, Exit.CODE),
    (DeclarationError, Exit.CODE),
    (NotReadableError, Exit.CODE),
)


def exit_of(error: CounterfoilError) -> Exit:
    """The exit code of an error."""
    return next((code for kind, code in _EXITS if isinstance(error, kind)), Exit.INTERNAL)


def as_object(error: CounterfoilError) -> dict[str, Any]:
    """An error as --json shows it."""
    facts = {
        name: value for name, value in error.facts.items() if value is None or isinstance(value, str | int | float)
    }
    notes = list(getattr(error, "__notes__", ()))
    return {"error": {"code": error.code, "message": str(error), "hint": error.hint, "facts": facts, "notes": notes}}
