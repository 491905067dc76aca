"""What a run is given and what comes of it, between the record and the types that a workflow declares."""

from typing import Any

from counterfoil.core import codec, failure
from counterfoil.core.events import Event, RunCompleted, RunFailed, RunPaused
from counterfoil.core.parts import Value
from counterfoil.engine.definitions import Workflow
from counterfoil.errors import NotReadableError, RunFailedError, RunPausedError


def arguments_of(workflow: Workflow, recorded: Value) -> dict[str, Any]:
    """The workflow's arguments by name, built from the recorded input as the annotations say."""
    where = f"the input of {workflow.name}"
    parts = codec.arguments_in(bytes(recorded), where=where)
    try:
        workflow.form.bind((), parts)
    except TypeError as error:
        raise NotReadableError(where=where, type=str(workflow.form.signature), reason=str(error)) from None
    return {
        name: codec.decode_argument(part, workflow.hints.get(name, Any), where=f"{where}, {name}")
        for name, part in parts.items()
    }


def outcome_of(workflow: Workflow | None, run: str, last: Event) -> Any:
    """The recorded result of a run that has ended, by its last event; raises how it failed or why it is paused."""
    body = last.body
    if isinstance(body, RunFailed):
        raise failed_error(run, body) from failure.readable(body.error)
    if isinstance(body, RunPaused):
        raise paused_error(run, body)
    if not isinstance(body, RunCompleted):
        msg = f"run {run} has not ended: {last.type}"
        raise AssertionError(msg)
    annotation = workflow.hints.get("return", Any) if workflow else Any
    return codec.decode(bytes(body.result), annotation, annotated=body.annotated, where=f"the result of run {run}")


def failed_error(run: str, body: RunFailed) -> RunFailedError:
    """The error of a run that failed."""
    return RunFailedError(run=run, type=failure.short_type(body.error), message=body.error.message)


def paused_error(run: str, body: RunPaused) -> RunPausedError:
    """The error of a run that is paused."""
    at = f" at step {body.step}" if body.step is not None else ""
    return RunPausedError(run=run, reason=body.reason, at=at, detail=body.detail or "", next=body.next or "")
