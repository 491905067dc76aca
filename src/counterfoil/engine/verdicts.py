"""Verdicts: why a run must pause, as it is recorded, shown and raised."""

from typing import Any

import msgspec

from counterfoil.core import failure
from counterfoil.core.replay import Mismatch, Operation, describe
from counterfoil.core.state import RunState, StepState, StepStatus
from counterfoil.errors import CounterfoilError, InputMismatchError, MismatchError, StepMismatchError, UnfinishedError


class Verdict(msgspec.Struct, frozen=True, kw_only=True):
    """Why the run must pause, as it will be recorded."""

    reason: str
    detail: str
    next: str
    step: str | None = None
    facts: dict[str, Any] = {}
    cause: BaseException | None = None


def needs_code(error: CounterfoilError) -> Verdict:
    """The verdict for code that asks for what can't be done: mended code can go on from the record."""
    return Verdict(reason=error.code, detail=str(error), next=error.hint, cause=error)


def mismatch_error(run: str, found: Mismatch) -> MismatchError:
    """The typed error of a mismatch."""
    if found.verdict == "unfinished":
        return UnfinishedError(run=run, step=found.step, recorded=found.recorded)
    if found.verdict == "step_mismatch":
        return StepMismatchError(
            run=run, step=found.step, recorded=found.recorded, attempted=found.attempted, source=found.source
        )
    return InputMismatchError(
        run=run,
        step=found.step,
        name=found.recorded,
        source=found.source,
        differences="; ".join(
            f"{d.pointer or '/'}: recorded {d.recorded}, attempted {d.attempted}" for d in found.differences
        ),
    )


def mismatch_verdict(run: str, found: Mismatch) -> Verdict:
    """The verdict that pauses the run."""
    error = mismatch_error(run, found)
    facts = msgspec.to_builtins(found)
    return Verdict(reason=found.verdict, step=None, detail=str(error), next=error.hint, facts=facts, cause=error)


def unknown_verdict(run: str, operation: Operation) -> Verdict:
    """The verdict for a step that must not be repeated blindly."""
    return Verdict(
        reason="outcome_unknown",
        step=operation.key,
        detail=f"{describe(operation.kind, operation.name)} was begun and its outcome was never seen",
        next=f"Find out whether it happened. `counterfoil resume {run}` makes it again.",
    )


def crash_verdict(state: RunState) -> Verdict:
    """The verdict for a run whose process died too often in one place."""
    unknown = [step for step in state.steps.values() if step.status is StepStatus.UNKNOWN]
    where = f"in step {unknown[-1].key} ({_named(unknown[-1])})" if unknown else "outside any step"
    return Verdict(
        reason="crash_limit",
        detail=f"the process died {state.crashes} times in a row without getting further, last {where}",
        next=f"Find out why the process dies there, then `counterfoil resume {state.run}`.",
    )


def failed_verdict(run: str, step: StepState, error: BaseException) -> Verdict:
    """The verdict for a step that failed and was not caught."""
    return Verdict(
        reason="step_failed",
        step=step.key,
        detail=f"step {step.key} ({_named(step)}), try {step.try_number}: {_raised(error)}",
        next=f"Mend the cause, then `counterfoil resume {run}` tries that one step again.",
        cause=error,
    )


def replay_failed_verdict(run: str, error: Exception) -> Verdict:
    """The verdict for code that raised before it came to the end of the record."""
    return Verdict(
        reason="replay_failed",
        detail=f"the code raised before it came to the end of the record: {_raised(error)}",
        next=f"Mend what is missing here, then `counterfoil resume {run}`.",
        cause=error,
    )


def _raised(error: BaseException) -> str:
    return f"{type(error).__name__}: {failure.text_of(error)}"


def _named(step: StepState) -> str:
    return describe(step.kind, step.name)
