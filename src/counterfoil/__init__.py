"""Durable LLM agents: every model call, tool result, clock read and wait goes into an append-only journal.

After a crash the code runs again from its first line, and the journal answers for all that already happened.
"""

import sys

if sys.platform == "win32":
    msg = "counterfoil needs POSIX file locks to know a dead process from a living one; Windows has none. Use WSL."
    raise ImportError(msg)

from counterfoil.artifacts import Artifact
from counterfoil.core.codec import Secret
from counterfoil.core.events import Event
from counterfoil.core.parts import Answer
from counterfoil.core.registry import register
from counterfoil.core.retry import Retry
from counterfoil.core.state import Status
from counterfoil.core.tally import Totals
from counterfoil.engine.calls import Call
from counterfoil.engine.context import Context, bind, current, in_run, reveal, this_step
from counterfoil.engine.definitions import CurrentStep, model, step, workflow
from counterfoil.engine.resources import use
from counterfoil.errors import (
    ArtifactAlteredError,
    ArtifactMissingError,
    ClosureWarning,
    CounterfoilError,
    InputMismatchError,
    MismatchError,
    NotStorableError,
    OutcomeUnknownError,
    RecordedError,
    ResultTypeUnknownError,
    RunConflictError,
    RunFailedError,
    RunNotFoundError,
    RunOwnedError,
    RunPausedError,
    RunStoppedError,
    SendRefusedError,
    StepMismatchError,
    StreamCutError,
    UnfinishedError,
)
from counterfoil.integrations.wrap import wrap
from counterfoil.journal import Journal, Run, open, run_sync

__all__ = [
    "Answer",
    "Artifact",
    "ArtifactAlteredError",
    "ArtifactMissingError",
    "Call",
    "ClosureWarning",
    "Context",
    "CounterfoilError",
    "CurrentStep",
    "Event",
    "InputMismatchError",
    "Journal",
    "MismatchError",
    "NotStorableError",
    "OutcomeUnknownError",
    "RecordedError",
    "ResultTypeUnknownError",
    "Retry",
    "Run",
    "RunConflictError",
    "RunFailedError",
    "RunNotFoundError",
    "RunOwnedError",
    "RunPausedError",
    "RunStoppedError",
    "Secret",
    "SendRefusedError",
    "Status",
    "StepMismatchError",
    "StreamCutError",
    "Totals",
    "UnfinishedError",
    "bind",
    "current",
    "in_run",
    "model",
    "open",
    "register",
    "reveal",
    "run_sync",
    "step",
    "this_step",
    "use",
    "workflow",
    "wrap",
]
