"""Errors of runs: how one ended, or why it can't go on."""

from typing import Any

from counterfoil.errors.root import CounterfoilError


class RunError(CounterfoilError):
    """Something about one run."""

    code = "run"
    run: str


class IdInvalidError(RunError):
    """A run id that can't be used."""

    code = "id_invalid"
    sentence = "the run id {run!r} {problem}"
    advice = "Use 1 to 200 printable characters, without blanks at either end."
    problem: str


class RunNotFoundError(RunError):
    """No run has this id."""

    code = "run_not_found"
    sentence = "there is no run {run!r} in {store}"
    advice = "`counterfoil list` shows the runs of a store; --store or COUNTERFOIL_STORE names another one."
    store: str


class RunConflictError(RunError):
    """The id is taken by a run of another workflow or with another input. Nothing was changed."""

    code = "run_conflict"
    sentence = "run {run!r} exists with another {what}: recorded {recorded}, now {attempted}"
    advice = "Give the new work an id of its own, or ask for the same work to get its result."
    what: str
    recorded: str
    attempted: str


class RunOwnedError(RunError):
    """Another living process drives this run."""

    code = "run_owned"
    sentence = "run {run!r} is being driven by {owner}, whose lease runs for {seconds_left:.1f} s more"
    advice = (
        "Wait for it: `counterfoil show {run}`. A dead owner on this host is noticed at once, "
        "another when its lease has lapsed."
    )
    owner: str
    seconds_left: float


class RunPausedError(RunError):
    """The run has stopped and needs a person or new code. All that was recorded is kept.

    `__cause__` holds the error that paused it, if there is one.
    """

    code = "run_paused"
    sentence = "run {run!r} is paused ({reason}){at}: {detail}"
    advice = "{next}"
    reason: str
    at: str
    detail: str
    next: str


class RunFailedError(RunError):
    """The workflow's body raised. `__cause__` is that exception, rebuilt from the record."""

    code = "run_failed"
    sentence = "run {run!r} failed: {type}: {message}"
    advice = "The record is final. Start the work again under a new id once the cause is mended."
    type: str
    message: str


class RunStoppedError(RunError):
    """This process stopped driving the run; it can be taken up again."""

    code = "run_stopped"
    sentence = "run {run!r} was left where it is: {why}"
    advice = "Take it up again with `counterfoil resume {run}`, or the same call with the same id."
    why: str


class OutcomeUnknownError(RunError):
    """A call of a step with `on_unknown="raise"` was cut off: it may have happened or not. It was not made again."""

    code = "outcome_unknown"
    sentence = "the outcome of {name} (step {step}, try {tries}) is unknown: the process died while it was under way"
    advice = (
        "Catch it and go on, for example by telling the model so. Not caught, it pauses the run; "
        "`counterfoil resume {run}` makes the call again."
    )
    step: str
    name: str
    tries: int


class IllegalTransitionError(RunError):
    """An event that the run's state does not allow. Nothing was changed."""

    code = "illegal_transition"
    sentence = "run {run!r}: {event} is not possible while {subject} is {state}"
    advice = "`counterfoil show {run}` says what the run is waiting for."
    event: str
    subject: str
    state: str


class WorkflowUnknownError(RunError):
    """No workflow of this name is loaded in this process."""

    code = "workflow_unknown"
    sentence = "run {run!r} needs the workflow {workflow!r}, which is not loaded here"
    advice = "Import the module that defines it, or name the file: `counterfoil resume {run} FILE.py`."
    workflow: str


class MismatchError(CounterfoilError):
    """The replayed code asks for something other than what is recorded (law J5). No live call was made."""

    code = "mismatch"
    run: str
    step: str


class StepMismatchError(MismatchError):
    """Another kind or name of step at this place."""

    code = "step_mismatch"
    sentence = "run {run!r}, step {step}: recorded {recorded}, attempted {attempted} at {source}"
    advice = (
        "The code was changed, or branches on something that is not recorded. Bring back the recorded order of steps, "
        "or read what the branch hangs on by a step, then resume."
    )
    recorded: str
    attempted: str
    source: str


class InputMismatchError(MismatchError):
    """The same step with another input."""

    code = "input_mismatch"
    sentence = "run {run!r}, step {step} ({name}): the input differs from the recorded one at {source}: {differences}"
    advice = (
        "The prompt, an argument or something it is made of has changed. Bring back the recorded input, "
        "or read it by a step so that it is recorded, then resume."
    )
    name: str
    source: str
    differences: str


class UnfinishedError(MismatchError):
    """The code ended, or waits for something else, but the record goes on."""

    code = "unfinished"
    sentence = "run {run!r}: the record goes on with step {step}: {recorded}, but the code does not ask for it"
    advice = "The code took another way than the recorded one. Bring back the code that made the record, then resume."
    recorded: str


class RecordedError(CounterfoilError):
    """Stands for an exception that can't be raised again as itself, live as on every replay.

    `type` and `message` say what it was, `attributes` holds those of its attributes that could be recorded.
    """

    code = "recorded_error"
    sentence = "{type}: {message}"
    advice = (
        "Catch RecordedError and look at `type`. To have the class itself, import its module before any run is driven, "
        "or counterfoil.register() it, and let its `args` be values that can be recorded."
    )
    type: str
    message: str
    attributes: dict[str, Any]

    def __init__(self, *, type: str, message: str, attributes: dict[str, Any] | None = None) -> None:
        super().__init__(type=type, message=message, attributes=attributes or {})
