"""What user code holds: the context of a run, the functions that find it, and calls that are bound for later."""

import functools
import inspect
import os
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from contextvars import ContextVar
from datetime import datetime, timedelta
from types import MappingProxyType
from typing import Any, Concatenate, Literal, ParamSpec, Self, TypeVar, Unpack, overload
from uuid import UUID

from counterfoil.artifacts import Artifact, Need, content, digest_of
from counterfoil.core.clock import after, as_datetime, as_instant
from counterfoil.core.codec import Secret
from counterfoil.core.events import ArtifactStored
from counterfoil.core.scrub import Scrubber
from counterfoil.core.state import artifact_input
from counterfoil.engine import bridge
from counterfoil.engine.attempt import Attempt
from counterfoil.engine.calls import (
    ATTRIBUTE,
    MODEL,
    NO_OPTIONS,
    TOOL,
    WRAPPED,
    Call,
    Options,
    StepOptions,
    bound_call,
    options_of,
)
from counterfoil.engine.definitions import CurrentStep, Workflow, current_run, current_step
from counterfoil.engine.streams import ChunkStream
from counterfoil.engine.system import System
from counterfoil.errors import DeclarationError, NestedStepError, NotInRunError, NotStorableError, SecretError

P = ParamSpec("P")
R = TypeVar("R")

Duration = float | timedelta
"""Seconds, or a timedelta."""

SECONDS_MAX = 1e11
"""Longer waits, and what is no number, no clock of ours can count."""

MEDIA_TYPE_CHARACTERS_MAX = 255

Level = Literal["debug", "info", "warning", "error"]


class Context:
    """The run, as the workflow's body sees it.

    Everything that may differ between two passes of the code goes through it, is recorded once, and comes from the
    record ever after. Calls are made from the workflow's own body and from the tasks that it makes.
    """

    def __init__(
        self, attempt: Attempt, system: System, *, log: Callable[[str, str], None], options: Options | None = None
    ) -> None:
        self._attempt, self._system, self._log = attempt, system, log
        self._options = options or NO_OPTIONS

    @property
    def run_id(self) -> str:
        """The run's id."""
        return self._attempt.run

    @property
    def tags(self) -> Mapping[str, str]:
        """The run's tags, as they were recorded when it began: the same on every pass, in whatever process."""
        return MappingProxyType(self._attempt.recorder.state.tags)

    @property
    def is_replaying(self) -> bool:
        """Whether recorded steps lie ahead. For logs and progress only: a branch on it is a mismatch to come."""
        return self._attempt.cursor.is_replaying

    @property
    def scrubber(self) -> Scrubber:
        """What keeps declared secrets out of the record."""
        return self._attempt.scrubber

    @overload
    async def step(self, call: Call[R], /) -> R: ...
    @overload
    async def step(self, function: Callable[P, Awaitable[R]], /, *args: P.args, **kwargs: P.kwargs) -> R: ...
    @overload
    async def step(self, function: Callable[P, R], /, *args: P.args, **kwargs: P.kwargs) -> R: ...
    async def step(self, function: Any, /, *args: Any, **kwargs: Any) -> Any:
        """Run a function as a step: its outcome is recorded before it is returned, and never obtained again.

        A plain function runs in a thread. A failure that may pass by itself is tried again, durably; any other is
        recorded and raised here. If the process dies before the outcome is on disk, the function may run again and the
        journal says so. Raises NotStorableError for an argument that can't be recorded, before anything runs, and for
        such a result.
        """
        return await self.perform(TOOL, Call(function, args, kwargs))

    @overload
    async def model(self, call: Call[R], /) -> R: ...
    @overload
    async def model(self, function: Callable[P, Awaitable[R]], /, *args: P.args, **kwargs: P.kwargs) -> R: ...
    @overload
    async def model(self, function: Callable[P, R], /, *args: P.args, **kwargs: P.kwargs) -> R: ...
    async def model(self, function: Any, /, *args: Any, **kwargs: Any) -> Any:
        """Make a paid model call: as `step`, and the intent is on disk before the call can leave.

        If the process dies in between, the next attempt records the lost call, with its worst-case cost, and asks
        again (or does what `on_unknown` says).
        """
        return await self.perform(MODEL, Call(function, args, kwargs))

    def now(self) -> datetime:
        """The time, aware UTC, recorded: every later pass of the code gets the same."""
        instant: int = self._attempt.read("time", self._system.now)
        return as_datetime(instant)

    def random(self) -> float:
        """A random number from 0 up to 1, recorded."""
        number: float = self._attempt.read("random", self._system.random)
        return number

    def uuid(self) -> UUID:
        """A random UUID, recorded."""
        return UUID(self._attempt.read("uuid", lambda: str(self._system.uuid())))

    async def sleep(self, duration: Duration) -> None:
        """Wait `duration` seconds, durably: after a crash only what is left of it.

        Raises ValueError for nan and for more than 3000 years.
        """
        seconds = duration.total_seconds() if isinstance(duration, timedelta) else duration
        if not abs(seconds) <= SECONDS_MAX:
            msg = f"a wait of {seconds} seconds can't be counted"
            raise ValueError(msg)
        await self._attempt.sleep({"seconds": seconds}, lambda now: after(now, seconds))

    async def sleep_until(self, moment: datetime) -> None:
        """Wait until an aware moment, durably; at once if it has passed. Raises ValueError for a naive one."""
        due = as_instant(moment)
        await self._attempt.sleep({"until": due}, lambda _: due)

    async def artifact(self, data: bytes, media_type: str = "application/octet-stream") -> Artifact:
        """Keep bytes of any size as an artifact of the run, recorded once: what is returned stands for them.

        They are on disk before this returns, without the values of declared secrets that stand in them as text. A
        replay writes nothing; other bytes at this place are a mismatch. Raises NotStorableError for what is no bytes.
        """
        kept = self._attempt.scrubber.content(_checked_bytes(data, media_type))
        media_type = self._attempt.scrubber.text(media_type)
        stored = ArtifactStored(digest=digest_of(kept), size_bytes=len(kept), media_type=media_type)
        await self._attempt.store_artifact(stored, kept)
        return Artifact(stored.digest, stored.size_bytes, media_type)

    async def read(self, artifact: Artifact) -> bytes:
        """The bytes of an artifact, whichever run of this store keeps it. In a step too; nothing is recorded.

        Raises ArtifactMissingError or ArtifactAlteredError; a run whose body these leave is paused, not failed.
        """
        recorder = self._attempt.recorder
        stored = ArtifactStored(digest=artifact.digest, size_bytes=artifact.size_bytes, media_type=artifact.media_type)
        asked = artifact_input(stored)
        step = next((each for each in recorder.state.steps.values() if each.input == asked), None)
        place = (step.seq, step.key) if step else (None, None)
        need = Need(
            digest=artifact.digest, size_bytes=artifact.size_bytes, run=self.run_id, seq=place[0], step=place[1]
        )
        return await self._attempt.load(lambda: content(need, recorder.artifact))

    def log(self, message: str, *, level: Level = "info") -> None:
        """One line in the log `counterfoil.run` per real execution: nothing is written while the record is replayed."""
        if not self.is_replaying:
            self._log(level, message)

    def with_options(self, **options: Unpack[StepOptions]) -> Self:
        """A view of this context whose calls have these options; they win over the decorator's. Records nothing."""
        given = options_of(options).over(self._options)
        return type(self)(self._attempt, self._system, log=self._log, options=given)

    async def perform(self, kind: str, call: Call[Any]) -> Any:
        """Record and make a call of this kind: what `step`, `model` and direct calls of decorated functions come to."""
        if isinstance(call.function, Call):
            call = call.function
        if _records_itself(call.function):
            return await self._passed_on(call)
        bound = bound_call(kind, call, self._options)
        return await self._attempt.perform(bound, bound.definition.kind)

    async def open_stream(self, kind: str, call: Call[Any]) -> ChunkStream:
        """Begin a streamed call of this kind, whose function is an async generator of ours: the stream, open."""
        stream = ChunkStream(self._attempt, bound_call(kind, call, self._options, streams=True), kind)
        await stream.open()
        return stream

    async def _passed_on(self, call: Call[Any]) -> Any:
        """Call what is a step by itself, with the options of this view."""
        token, branch = options_here.set(self._options), self._attempt.branches.of_current_task()
        asked = branch.ordinal if branch else None
        try:
            made = call.function(*call.args, **call.kwargs)
            made = await made if isinstance(made, Awaitable) else made
        finally:
            options_here.reset(token)
        if branch and branch.ordinal == asked and self._options != NO_OPTIONS:
            raise _asks_later(call.function, made)
        return made


options_here: ContextVar[Options] = ContextVar("counterfoil_options", default=NO_OPTIONS)
"""Options for the step that a wrapped client makes: those of the view that its method was given to."""


def _records_itself(function: Any) -> bool:
    """Whether this is a method of a wrapped client, which makes a step of its own of whatever it asks for."""
    while isinstance(function, functools.partial):
        function = function.func
    owner = getattr(function, "__self__", None)
    if owner is None:  # a client's own cover of one, such as `with_raw_response.create`
        owner = getattr(getattr(function, "__wrapped__", None), "__self__", None)
        if owner is None or not _is_of_package(function, type(owner)):
            return False
    kind: Any = type(getattr(owner, "_client", owner))
    return hasattr(kind, WRAPPED) and (inspect.iscoroutinefunction(kind.request) or bridge.waiter() is not None)


def _asks_later(function: Any, made: Any) -> DeclarationError:
    """Why a helper such as `messages.stream` can't be given to a view: it asks when it is entered."""
    for held in getattr(made, "__dict__", {}).values():
        if inspect.iscoroutine(held):
            held.close()  # nobody will await it
    return DeclarationError(
        name=str(getattr(function, "__qualname__", type(function).__name__)),
        problem="it asks for nothing before it is entered, so the options of this view would be lost",
        fix="Give them to counterfoil.wrap(client, ...), and call its method as it stands.",
    )


def _is_of_package(function: Any, kind: type) -> bool:
    """Whether a function stands in the package of this class, whatever it says of itself."""
    module = str(getattr(function, "__globals__", {}).get("__name__", ""))
    return module.partition(".")[0] == kind.__module__.partition(".")[0]


def _checked_bytes(data: object, media_type: object) -> bytes:
    if not isinstance(data, bytes | bytearray | memoryview):
        raise _refused(data, "only bytes can be kept", "Encode it first, for example text.encode().")
    if not (isinstance(media_type, str) and media_type.isprintable() and len(media_type) <= MEDIA_TYPE_CHARACTERS_MAX):
        raise _refused(media_type, "this is no type of media", 'Give one such as "image/png".')
    return bytes(data)


def _refused(value: object, reason: str, fix: str) -> NotStorableError:
    return NotStorableError(where="ctx.artifact", path="$", type=type(value).__name__, reason=reason, fix=fix)


def current() -> Context:
    """The context of the run that this code belongs to.

    Raises NotInRunError outside a run, NestedStepError inside a step.
    """
    run = current_run.get()
    outer = current_step.get()
    if not isinstance(run, Context):
        raise NotInRunError(what="current()", where="inside a workflow's body")
    if outer is not None:
        raise NestedStepError(inner="current()", outer=outer.name)
    return run


def in_run() -> bool:
    """Whether `current()` would give a context."""
    return current_run.get() is not None and current_step.get() is None


def this_step() -> CurrentStep:
    """The step that this code is inside of, in the step's own thread too: run, key, attempt, try and provider key.

    `provider_key` is for a request that this library does not see (`requests`, `urllib`, `boto3`): sent as its
    idempotency key, it lets the other side know a repeat. It is the same on every try and after every crash, and
    another one in a fork, in a restarted run and in every other step. A step that makes several requests adds a word
    to it for each.

    Raises NotInRunError outside a step.
    """
    step = current_step.get()
    if step is None:
        raise NotInRunError(what="this_step()", where="inside a step")
    return step


def reveal(secret: Secret) -> str:
    """The value of a declared secret, from the environment. Inside a run, only in a step.

    From then on the value is scrubbed from all that is recorded or logged. Raises SecretError when it is not set.
    """
    value = os.environ.get(secret.name)
    run = current_run.get()
    if value is None:
        raise SecretError(name=secret.name, problem="is not set")
    if isinstance(run, Context):
        if current_step.get() is None:
            raise SecretError(name=secret.name, problem="may be read inside a step only, never in a workflow's body")
        run.scrubber.add(secret.name, value)
    return value


@overload
def bind(
    function: Callable[Concatenate[Context, P], Coroutine[Any, Any, R]], /, *args: P.args, **kwargs: P.kwargs
) -> Call[R]: ...
@overload
def bind(function: Callable[P, Coroutine[Any, Any, R]], /, *args: P.args, **kwargs: P.kwargs) -> Call[R]: ...
@overload
def bind(function: Callable[P, R], /, *args: P.args, **kwargs: P.kwargs) -> Call[R]: ...
def bind(function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Call[Any]:
    """A call to be made later, arguments checked against the signature now.

    Accepted by `journal.run`, `journal.start`, `ctx.step` and `ctx.model`. Raises TypeError when the arguments do not
    fit.
    """
    workflow = getattr(function, ATTRIBUTE, None)
    if isinstance(workflow, Workflow):
        workflow.form.bind(args, kwargs)
    else:
        inspect.signature(function).bind(*args, **kwargs)
    return Call(function, args, kwargs)
