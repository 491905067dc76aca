"""Every error a user can meet, as one tree (law J10).

Each class has a stable `code`, the facts as typed fields, a sentence made of those facts, and a hint that says
what to do next. `docs/errors.md` has a section per code; a test holds the two together.

    CounterfoilError
    ├── DeclarationError ── DuplicateWorkflowError
    ├── CallError ── NotInRunError, NestedStepError, SyncStepCalledError, ConcurrentCallError,
    │                CallCancelledError, UnsafeConstructError, BranchLeftError, ResourceNotGivenError,
    │                SendRefusedError
    ├── StreamCutError
    ├── ValueFormError ── NotStorableError ── ResultNotStorableError, ResultTypeUnknownError,
    │                   NotReadableError, ExceptionUnknownError, InputInvalidError
    ├── SecretError
    ├── RunError ── RunNotFoundError, RunConflictError, RunOwnedError, RunPausedError, RunFailedError,
    │               RunStoppedError, IllegalTransitionError, WorkflowUnknownError, IdInvalidError,
    │               OutcomeUnknownError
    ├── MismatchError ── StepMismatchError, InputMismatchError, UnfinishedError
    ├── RecordedError
    └── StoreError ── StoreUrlError, StoreNewerError, NotAStoreError, StoreUnavailableError,
                      StoreClosedError, StaleEpochError, JournalDamagedError, JournalUnreadableError,
                      ArtifactError ── ArtifactMissingError, ArtifactAlteredError

Signals that user code must not swallow are not in this tree: `Halted` derives from BaseException.
Nor are warnings.
"""

from typing import Any, ClassVar


class CounterfoilError(Exception):
    """The root: catch it to catch all of ours.

    `code` never changes once released. `facts` holds the fields by name. `hint` says what to do next.
    """

    code: ClassVar[str] = "error"
    sentence: ClassVar[str] = "something went wrong"
    advice: ClassVar[str] = ""

    def __init__(self, **facts: Any) -> None:
        self.facts = facts
        for name, value in facts.items():
            setattr(self, name, value)
        super().__init__(self.sentence.format_map(facts))

    @property
    def hint(self) -> str:
        """What to do next, in one or two sentences."""
        return self.advice.format_map(self.facts)

    def __reduce__(self) -> tuple[Any, ...]:
        return _rebuild, (type(self), self.facts)


def _rebuild(kind: type[CounterfoilError], facts: dict[str, Any]) -> CounterfoilError:
    return kind(**facts)


class DeclarationError(CounterfoilError):
    """A workflow or step is declared in a way that can't work; raised where it is declared."""

    code = "declaration_invalid"
    sentence = "{name}: {problem}"
    advice = "{fix}"
    name: str
    problem: str
    fix: str


class DuplicateWorkflowError(DeclarationError):
    """Two workflows of one process have the same name."""

    code = "workflow_duplicate"
    sentence = "two workflows are named {name!r}: one in {first}, one in {second}"
    advice = "Rename one of them, or give it @workflow(name=...)."
    first: str
    second: str


class CallError(CounterfoilError):
    """A call was made where it can't be recorded. Nothing was run and nothing was recorded."""

    code = "call_invalid"


class NotInRunError(CallError):
    """`current()` was asked for outside a run, or `this_step()` outside a step."""

    code = "not_in_run"
    sentence = "there is no run here: {what} works only {where}"
    advice = "Call it from a @workflow function, a step, or something they call; in_run() tells whether there is a run."
    what: str
    where: str


class NestedStepError(CallError):
    """A context call was made inside a step."""

    code = "nested_step"
    sentence = "{inner} was called inside the step {outer}"
    advice = "A step is recorded as one whole. Move the inner call to the workflow's body, or make it a plain function."
    inner: str
    outer: str


class SyncStepCalledError(CallError):
    """A decorated plain function was called directly in a workflow's body."""

    code = "sync_step_called"
    sentence = "{name} is a plain function, so calling it here would block and could not be recorded"
    advice = "Write `await ctx.{kind}({name}, ...)`, or make it `async def`."
    name: str
    kind: str


class ResourceNotGivenError(CallError):
    """A function was called by hand without a value for a parameter that has `use(...)` as its default."""

    code = "resource_not_given"
    sentence = "the value of use({provider}) was needed where no step of a run gets it"
    advice = (
        "Hand it over as an argument; or, in a workflow's body, make the call a step of its own: "
        "`await ctx.step(function, ...)`."
    )
    provider: str


class ConcurrentCallError(CallError):
    """A context call came from a thread or a task that is none of the run's, or while another one was under way."""

    code = "concurrent_call"
    sentence = "{what} was called {how}"
    advice = (
        "Call it from the workflow's own code, or from a task which that made by gather, create_task or a TaskGroup. "
        "What runs in a thread can be a step: `await ctx.step(function)`."
    )
    what: str
    how: str


class UnsafeConstructError(CallError):
    """The workflow's body uses something of asyncio whose outcome hangs on real time, so a replay could differ."""

    code = "unsafe_construct"
    sentence = "{construct} was used in a workflow's body at {source}: what it gives hangs on real time"
    advice = "{fix}"
    construct: str
    source: str
    fix: str


class BranchLeftError(CallError):
    """The workflow returned while tasks that it had made were not at their end."""

    code = "branch_left"
    sentence = "the workflow returned and left {count} of its tasks behind: {names}"
    advice = "Await every task before returning, for example by a TaskGroup or asyncio.gather; then resume."
    count: int
    names: str


class CallCancelledError(CallError):
    """Something that is not recorded, such as a timer, cancelled a context call that was under way."""

    code = "call_cancelled"
    sentence = "{what} was cancelled while it was under way, by something that is not recorded"
    advice = (
        "When a timer or something outside the run cancels it, a replay could take another way. "
        "Use the step's timeout= instead, then resume."
    )
    what: str


class SendRefusedError(CallError):
    """A request of a model step was not sent: it could not be written down first, or its step is over."""

    code = "send_refused"
    sentence = "{step}: the request to {url} was not sent: {why}"
    advice = "{fix}"
    step: str
    url: str
    why: str
    fix: str


class StreamCutError(CounterfoilError):
    """A model's streamed answer ended before the mark by which its protocol says that it is whole."""

    code = "stream_cut"
    sentence = "the stream of {url} ended after {events} events without its end mark"
    advice = "What had come is no answer, and the step is tried again. If it always ends so, ask the provider."
    url: str
    events: int


class ValueFormError(CounterfoilError):
    """A value has a form that the journal can't keep or give back exactly."""

    code = "value_form"


class NotStorableError(ValueFormError):
    """A value can't be written down so that exactly the same comes back."""

    code = "not_storable"
    sentence = "{where}: the value at {path} ({type}) can't be recorded: {reason}"
    advice = "{fix}"
    where: str
    path: str
    type: str
    reason: str
    fix: str


class ResultNotStorableError(NotStorableError):
    """A step ran, and what it returned can't be recorded. It is never run again for that."""

    code = "result_not_storable"
    sentence = "{where}: the step ran, but the value at {path} ({type}) can't be recorded: {reason}"


class ResultTypeUnknownError(ValueFormError):
    """A result can be kept, but not given back yet: nothing declares the class of an instance in it.

    `encoded` holds what is to be kept: the bytes are those that a declared result has.
    """

    code = "result_type_unknown"
    sentence = (
        "{where}: the value at {path} is a {type}, which is neither in the annotation ({annotation}) nor registered"
    )
    advice = "Annotate the function with {type}, or give returns=, or counterfoil.register the class; then resume."
    where: str
    path: str
    type: str
    annotation: str
    encoded: Any = None


class NotReadableError(ValueFormError):
    """A recorded value no longer fits the type that the code now declares."""

    code = "not_readable"
    sentence = "{where}: the recorded value at {path} does not fit {type}: {reason}"
    advice = "Give the function the annotation (or returns=) that it had when this was recorded, then resume."
    where: str
    path: str
    type: str
    reason: str

    def __init__(self, *, path: str = "$", **facts: Any) -> None:
        """`path` is the place inside the value."""
        super().__init__(path=path, **facts)


class ExceptionUnknownError(ValueFormError):
    """A recorded exception's class is not there to raise it again, though it was there when the step failed."""

    code = "exception_unknown"
    sentence = "the recorded failure {type} ({message}) can't be raised again here: {reason}"
    advice = (
        "Import the module that defines it, or counterfoil.register() the class, before the run is taken up. "
        "Then resume."
    )
    type: str
    message: str
    reason: str


class InputInvalidError(ValueFormError):
    """The arguments do not fit the function's signature or types."""

    code = "input_invalid"
    sentence = "the input does not fit {name}{signature}: {reason}"
    advice = "Give the arguments by the names and types shown."
    name: str
    signature: str
    reason: str


class SecretError(CounterfoilError):
    """A declared secret is missing, or too short to be told from ordinary text."""

    code = "secret_invalid"
    sentence = "the secret {name} {problem}"
    advice = "Set the environment variable {name} to its value (6 characters or more) before opening the journal."
    name: str
    problem: str


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


class StoreError(CounterfoilError):
    """Something about the store."""

    code = "store"


class StoreUrlError(StoreError):
    """The URL names no store we know."""

    code = "store_url"
    sentence = "{url!r} is not a store: {problem}"
    advice = "Use sqlite:///relative.db, sqlite:////absolute/path.db or memory://."
    url: str
    problem: str


class StoreNewerError(StoreError):
    """The store was written by a newer release. It was not touched."""

    code = "store_newer"
    sentence = "{store} has schema {found}; this release knows up to {known}"
    advice = "Upgrade counterfoil to the release that wrote it, or open another store."
    store: str
    found: int
    known: int


class NotAStoreError(StoreError):
    """The file is not ours. It was not touched."""

    code = "not_a_store"
    sentence = "{store} is not a counterfoil store: {problem}"
    advice = "Name another file; a new one is made when there is none."
    store: str
    problem: str


class StoreUnavailableError(StoreError):
    """The store could not be read or written. Nothing that was acknowledged is lost."""

    code = "store_unavailable"
    sentence = "{store} can't be used: {problem}"
    advice = (
        "Mend the cause (disk space, permissions, a lock held by another program), then run the same command again."
    )
    store: str
    problem: str


class StoreClosedError(StoreError):
    """The journal was closed before this call."""

    code = "store_closed"
    sentence = "{store} is closed"
    advice = "Open it again: `async with counterfoil.open(url) as journal:`."
    store: str


class StaleEpochError(StoreError):
    """Another owner has taken the run over; this append was refused and nothing of it was kept (law J7)."""

    code = "stale_epoch"
    sentence = "run {run!r}: this owner (epoch {epoch}, revision {revision}) has been replaced"
    advice = "The new owner goes on with the run. Nothing is to be done here."
    run: str
    epoch: int
    revision: int


class JournalDamagedError(StoreError):
    """The stored bytes contradict themselves."""

    code = "journal_damaged"
    sentence = "run {run!r}, event {seq}: {problem}"
    advice = "`counterfoil verify {run}` lists the damage. Restore the store from a backup; do not edit it."
    run: str
    seq: int
    problem: str


class JournalUnreadableError(StoreError):
    """A replay-critical field of an event is missing or has another form."""

    code = "journal_unreadable"
    sentence = "run {run!r}, event {seq} ({type}): {problem}"
    advice = "This field is needed to replay the run. Restore it from a backup or an export."
    run: str
    seq: int
    type: str
    problem: str


class ArtifactError(StoreError):
    """An artifact can't be given. `run`, `seq` and `step` name the event that needs it, where that is known."""

    code = "artifact"
    where: str
    run: str | None
    seq: int | None
    step: str | None
    digest: str
    size_bytes: int


class ArtifactMissingError(ArtifactError):
    """The artifact is not in the store."""

    code = "artifact_missing"
    sentence = "{where}: the artifact {digest} ({size_bytes} bytes) is missing"
    advice = (
        "Restore it from a backup of the store: with SQLite, the folder of artifacts belongs to the file. "
        "`counterfoil doctor` lists all that is missing."
    )


class ArtifactAlteredError(ArtifactError):
    """What lies in the artifact's place is not what was stored. It was not used."""

    code = "artifact_altered"
    sentence = "{where}: the artifact {digest} ({size_bytes} bytes) is not what was stored"
    advice = (
        "Something else than counterfoil changed it. Restore it from a backup; `counterfoil doctor` lists all such."
    )


class ClosureWarning(UserWarning):
    """A step's function uses something from around it that can't be recorded, so a change of it goes unnoticed."""


class Halted(BaseException):
    """Ends a workflow's body at a context call. A control signal, never an error: let it pass."""
