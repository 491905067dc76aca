"""Every error a user can meet, as one tree (law J10).

Each class has a stable `code`, the facts as typed fields, a sentence made of those facts, and a hint that says
what to do next. `docs/errors.md` has a section per code; a test holds the two together.

    CounterfoilError
    ├── DeclarationError ── DuplicateWorkflowError
    ├── CallError ── NotInRunError, NestedStepError, SyncStepCalledError, ConcurrentCallError,
    │                CallCancelledError, UnsafeConstructError, BranchLeftError, ResourceNotGivenError,
    │                SendRefusedError, StreamLeftError
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

from counterfoil.errors.calls import (
    BranchLeftError,
    CallCancelledError,
    CallError,
    ConcurrentCallError,
    DeclarationError,
    DuplicateWorkflowError,
    NestedStepError,
    NotInRunError,
    ResourceNotGivenError,
    SendRefusedError,
    StreamCutError,
    StreamLeftError,
    SyncStepCalledError,
    UnsafeConstructError,
)
from counterfoil.errors.root import (
    ClosureWarning,
    CounterfoilError,
    Halted,
)
from counterfoil.errors.runs import (
    IdInvalidError,
    IllegalTransitionError,
    InputMismatchError,
    MismatchError,
    OutcomeUnknownError,
    RecordedError,
    RunConflictError,
    RunError,
    RunFailedError,
    RunNotFoundError,
    RunOwnedError,
    RunPausedError,
    RunStoppedError,
    StepMismatchError,
    UnfinishedError,
    WorkflowUnknownError,
)
from counterfoil.errors.stores import (
    ArtifactAlteredError,
    ArtifactError,
    ArtifactMissingError,
    JournalDamagedError,
    JournalUnreadableError,
    NotAStoreError,
    StaleEpochError,
    StoreClosedError,
    StoreError,
    StoreNewerError,
    StoreUnavailableError,
    StoreUrlError,
)
from counterfoil.errors.values import (
    ExceptionUnknownError,
    InputInvalidError,
    NotReadableError,
    NotStorableError,
    ResultNotStorableError,
    ResultTypeUnknownError,
    SecretError,
    ValueFormError,
)

__all__ = [
    "ArtifactAlteredError",
    "ArtifactError",
    "ArtifactMissingError",
    "BranchLeftError",
    "CallCancelledError",
    "CallError",
    "ClosureWarning",
    "ConcurrentCallError",
    "CounterfoilError",
    "DeclarationError",
    "DuplicateWorkflowError",
    "ExceptionUnknownError",
    "Halted",
    "IdInvalidError",
    "IllegalTransitionError",
    "InputInvalidError",
    "InputMismatchError",
    "JournalDamagedError",
    "JournalUnreadableError",
    "MismatchError",
    "NestedStepError",
    "NotAStoreError",
    "NotInRunError",
    "NotReadableError",
    "NotStorableError",
    "OutcomeUnknownError",
    "RecordedError",
    "ResourceNotGivenError",
    "ResultNotStorableError",
    "ResultTypeUnknownError",
    "RunConflictError",
    "RunError",
    "RunFailedError",
    "RunNotFoundError",
    "RunOwnedError",
    "RunPausedError",
    "RunStoppedError",
    "SecretError",
    "SendRefusedError",
    "StaleEpochError",
    "StepMismatchError",
    "StoreClosedError",
    "StoreError",
    "StoreNewerError",
    "StoreUnavailableError",
    "StoreUrlError",
    "StreamCutError",
    "StreamLeftError",
    "SyncStepCalledError",
    "UnfinishedError",
    "UnsafeConstructError",
    "ValueFormError",
    "WorkflowUnknownError",
]

for _name in __all__:
    globals()[_name].__module__ = __name__  # journals name these classes by where users find them
