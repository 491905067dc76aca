"""Replay: what to do about each operation that the code asks for, given what is recorded (laws J2, J5, J8).

The cursor decides and does nothing. With one live branch a recorded outcome is handed over at once. With more, finish
order shows in the program's state, so outcomes are handed over in the order of the journal, one each time the run is
quiet, and no live call starts before the whole record is consumed: the driver asks `hand_over` then.
"""

from collections.abc import Iterator
from itertools import islice
from typing import Any

import msgspec

from counterfoil.core import codec
from counterfoil.core.clock import Instant
from counterfoil.core.parts import ErrorRecord, Value
from counterfoil.core.state import RunState, StepState, StepStatus

VALUE_TEXT_MAX = 300
DIFFERENCES_MAX = 20


CLOSURE = "(closure)"
"""Stands among a step's arguments for what its function took from around it: no parameter can have this name."""


class Operation(msgspec.Struct, frozen=True, kw_only=True):
    """What the code asks for at one place."""

    key: str
    kind: str
    name: str
    input: bytes = b"null"
    plain: Any = None  # the JSON value in `input`, if it is still at hand

    def digest(self) -> str:
        """The digest of the input, as it is recorded."""
        return codec.digest_of(codec.Encoded(self.input, annotated=False, plain=self.plain))


class Replay(msgspec.Struct, frozen=True):
    """The outcome is recorded: hand this value over."""

    value: Value | None
    annotated: bool = False


class ReplayFailure(msgspec.Struct, frozen=True):
    """The outcome is recorded: raise this; of a stream, once these chunks have been handed on."""

    error: ErrorRecord
    chunks: Value | None = None


class ReplayCut(msgspec.Struct, frozen=True):
    """Of a stream: hand these chunks on. Then the program cancelled it, and will again."""

    chunks: Value


class Execute(msgspec.Struct, frozen=True, kw_only=True):
    """Nothing is recorded, or only tries whose outcome is unknown: make this try."""

    try_number: int = 1
    first_time: Instant | None = None  # when the first try was made
    tries_before: int = 0  # that a person has already set aside by reopening the step
    unknown_tries: int = 0  # since then
    due: Instant | None = None  # not before
    last_error: ErrorRecord | None = None  # of the try before


class Wait(msgspec.Struct, frozen=True):
    """The timer is set: wait until it is due."""

    due: Instant


class Hold(msgspec.Struct, frozen=True):
    """More than one branch is live: wait for the turn that `hand_over` gives."""


class Difference(msgspec.Struct, frozen=True):
    """One place in which two inputs differ. None stands for an absent value."""

    pointer: str  # JSON pointer (RFC 6901)
    recorded: str | None
    attempted: str | None


class Mismatch(msgspec.Struct, frozen=True, kw_only=True):
    """The code asks for something else than what is recorded. `verdict` is the code of the error to raise."""

    verdict: str  # step_mismatch, input_mismatch, unfinished
    step: str
    seq: int
    recorded: str
    attempted: str = ""
    source: str = "?"  # file and line of the call, which the caller knows
    differences: tuple[Difference, ...] = ()


Decision = Replay | ReplayFailure | Execute | Wait | Hold | Mismatch
Begun = Replay | ReplayFailure | ReplayCut | Mismatch
"""What is recorded of a stream."""


class Turn(msgspec.Struct, frozen=True):
    """It is this step's turn: what its caller gets."""

    key: str
    decision: Decision


class Consumed(msgspec.Struct, frozen=True):
    """The record is used up: these held operations may now go live, in this order."""

    turns: tuple[Turn, ...]


class Cursor:
    """Walks one run's record while the code runs again."""

    def __init__(self, state: RunState) -> None:
        self._recorded, self._inputs = dict(state.steps), state.inputs
        self._order = list(state.order)
        self._position = 0
        self._asked: set[str] = set()
        self._held: dict[str, Decision] = {}
        self._handed: set[str] = set()
        self._is_consumed = not self._recorded

    @property
    def is_replaying(self) -> bool:
        """Whether a recorded step has not been asked for yet."""
        return len(self._asked) < len(self._recorded)

    def ask(self, operation: Operation, *, alone: bool = True) -> Decision:
        """What to do about an operation. `alone` says that one branch is live."""
        recorded = self._recorded.get(operation.key)
        decision: Decision = Execute()
        if recorded is not None:
            mismatch = self._compared(recorded, operation)
            if mismatch:
                return mismatch
            self._asked.add(operation.key)
            decision = _decide(recorded)
        if not alone and not self._is_consumed:
            self._held[operation.key] = decision
            return Hold()
        self._handed.add(operation.key)
        return (self.finish() or decision) if type(decision) is Execute else decision

    def begin(self, operation: Operation) -> Begun | None:
        """What is recorded of a stream. Its chunks are handed on at once, and its end when `ask` gives it its turn.

        None when nothing is that could be handed on in pieces: `ask` then.
        """
        recorded = self._recorded.get(operation.key)
        begun = None if recorded is None else _begun(recorded)
        return begun and (self._compared(self._recorded[operation.key], operation) or begun)

    def read(self, operation: Operation) -> Decision:
        """What to do about a recorded read, which can't wait for a turn and needs none: its value hangs on nothing.

        One that is not recorded is made at once, even while records are left: it can be the last that happened before
        a crash, among outcomes that were recorded later and handed over after it.
        """
        recorded = self._recorded.get(operation.key)
        if recorded is None:
            return Execute()
        self._handed.add(operation.key)
        self._asked.add(operation.key)
        return self._compared(recorded, operation) or _decide(recorded)

    def hand_over(self) -> Turn | Consumed | Mismatch:
        """The next turn, for a run that is quiet: each of its tasks waits for something unfinished."""
        while self._position < len(self._order) and self._order[self._position] in self._handed:
            self._position += 1
        if self._position == len(self._order):
            return self.finish() or self._consume()
        key = self._order[self._position]
        decision = self._held.pop(key, None)
        if decision is None:
            return _unfinished(self._recorded[key])
        self._handed.add(key)
        return Turn(key, decision)

    def withdraw(self, key: str) -> None:
        """The program cancelled this operation while it waited for its turn: it takes none any more."""
        self._held.pop(key, None)
        self._handed.add(key)

    def finish(self) -> Mismatch | None:
        """The verdict when the code goes on alone or has ended: none, if all that is recorded was asked for."""
        if not self.is_replaying:
            return None
        left = [step for key, step in self._recorded.items() if key not in self._asked]
        return _unfinished(min(left, key=lambda step: step.seq))

    def _compared(self, recorded: StepState, operation: Operation) -> Mismatch | None:
        whole = None if recorded.input is None else self._inputs.whole(recorded.input)
        return _compare(recorded, operation, whole=whole)

    def _consume(self) -> Consumed:
        self._is_consumed = True
        turns = tuple(Turn(key, decision) for key, decision in self._held.items())
        self._held = {}
        return Consumed(turns)


def _decide(step: StepState) -> Decision:
    if step.status is StepStatus.SUCCEEDED:
        return Replay(step.result, step.annotated)
    if step.status is StepStatus.FAILED and step.error is not None:
        return ReplayFailure(step.error)
    if step.status is StepStatus.WAITING and step.due is not None:
        return Wait(step.due)
    return Execute(
        try_number=step.try_number + 1,
        first_time=None if step.status is StepStatus.CANCELLED else step.first_time,
        tries_before=step.tries_before,
        unknown_tries=step.unknown_tries,
        due=step.due if step.status is StepStatus.RETRYING else None,
        last_error=step.error,
    )


def _begun(step: StepState) -> Begun | None:
    if step.status is StepStatus.SUCCEEDED:
        return Replay(step.result, step.annotated)
    if step.chunks is msgspec.UNSET:
        return None
    if step.status is StepStatus.FAILED and step.error is not None:
        return ReplayFailure(step.error, step.chunks)
    return ReplayCut(step.chunks) if step.status is StepStatus.CANCELLED else None


def _compare(recorded: StepState, operation: Operation, *, whole: bytes | None) -> Mismatch | None:
    if (recorded.kind, recorded.name) != (operation.kind, operation.name):
        return _mismatch(recorded, operation, "step_mismatch", found=())
    if whole is None or whole == operation.input:
        return None
    if codec.input_digest(operation.input) == recorded.digest:  # the same, spelled in another order
        return None
    found = differences(whole, operation.input)
    if [(each.pointer, each.recorded) for each in found] == [(f"/{CLOSURE}", None)]:
        return None  # recorded by release 0.1.0, which did not look there
    return _mismatch(recorded, operation, "input_mismatch", found=found)


def _mismatch(recorded: StepState, operation: Operation, verdict: str, *, found: tuple[Difference, ...]) -> Mismatch:
    return Mismatch(
        verdict=verdict,
        step=operation.key,
        seq=recorded.seq,
        recorded=describe(recorded.kind, recorded.name),
        attempted=describe(operation.kind, operation.name),
        differences=found,
    )


def _unfinished(step: StepState) -> Mismatch:
    return Mismatch(verdict="unfinished", step=step.key, seq=step.seq, recorded=describe(step.kind, step.name))


def describe(kind: str, name: str) -> str:
    """A step in words: `model ask`, or just `sleep`."""
    return kind if kind == name else f"{kind} {name}"


def differences(recorded: bytes, attempted: bytes) -> tuple[Difference, ...]:
    """The places in which two encoded inputs differ, at most DIFFERENCES_MAX of them."""
    found = _differ(msgspec.json.decode(recorded), msgspec.json.decode(attempted), "")
    return tuple(islice(found, DIFFERENCES_MAX))


_ABSENT: Any = object()


def _differ(recorded: Any, attempted: Any, pointer: str) -> Iterator[Difference]:
    if type(recorded) is type(attempted) is dict:
        for key in recorded | attempted:
            place = f"{pointer}/{key.replace('~', '~0').replace('/', '~1')}"
            yield from _differ(recorded.get(key, _ABSENT), attempted.get(key, _ABSENT), place)
    elif type(recorded) is type(attempted) is list:
        for index in range(max(len(recorded), len(attempted))):
            yield from _differ(_at(recorded, index), _at(attempted, index), f"{pointer}/{index}")
    elif recorded != attempted or (type(recorded) is bool) != (type(attempted) is bool):  # 0 is not False here
        yield Difference(pointer, _shown(recorded), _shown(attempted))


def _at(items: list[Any], index: int) -> Any:
    return items[index] if index < len(items) else _ABSENT


def _shown(value: Any) -> str | None:
    if value is _ABSENT:
        return None
    text = msgspec.json.encode(value).decode()
    return text if len(text) <= VALUE_TEXT_MAX else text[:VALUE_TEXT_MAX] + "..."
