"""What a user declares: workflows, steps and model calls.

Decorators return functions of unchanged type. A decorated function called directly in a workflow's body finds the run
by a context variable and is recorded just as through `ctx`; outside a run it is the plain function. Nothing about a
run is kept in a decorated object.
"""

import functools
import hashlib
import inspect
from collections.abc import Callable, Coroutine
from contextvars import ContextVar
from typing import Any, ParamSpec, Protocol, TypeVar, Unpack, overload

import msgspec

from counterfoil.engine.calls import (
    ATTRIBUTE,
    MODEL,
    TOOL,
    Call,
    Definition,
    Form,
    Options,
    StepOptions,
    hints_of,
    options_of,
)
from counterfoil.engine.resources import Resource
from counterfoil.errors import DeclarationError, DuplicateWorkflowError, NestedStepError, SyncStepCalledError

P = ParamSpec("P")
R = TypeVar("R")
F = TypeVar("F", bound=Callable[..., Any])
W = TypeVar("W", bound=Callable[..., Coroutine[Any, Any, Any]])


class Caller(Protocol):
    """The run that a direct call finds: what a decorated function needs of a Context."""

    async def perform(self, kind: str, call: Call[Any]) -> Any:
        """Record and make the call."""


current_run: ContextVar[Caller | None] = ContextVar("counterfoil_run", default=None)


class CurrentStep(msgspec.Struct, frozen=True, kw_only=True):
    """The step that the code is inside of."""

    run_id: str
    key: str
    name: str
    attempt: int  # pass of the code over the run, from 1
    try_number: int  # call of this step's function, from 1
    provider_key: str = ""  # idempotency key to send with a request: the same on a repeat after a crash and on a retry


current_step: ContextVar[CurrentStep | None] = ContextVar("counterfoil_step", default=None)


@overload
def step(function: F, /) -> F: ...
@overload
def step(**options: Unpack[StepOptions]) -> Callable[[F], F]: ...
def step(function: Any = None, /, **options: Unpack[StepOptions]) -> Any:
    """Declare a function whose outcome is recorded once per call in a run.

    `retry` bounds the tries (default: 5, only for failures that may pass by themselves). `timeout` is in seconds, per
    try: an async function is cancelled then; a plain one runs on, and no other try begins before it has ended.
    `returns` is the result's type when the annotation is missing; `opaque` names parameters that are no input, such as
    clients; `on_unknown` says what to do about a try whose process died: `repeat` (default), `pause`, or `raise` an
    OutcomeUnknownError in the body; `version` replaces the digest of the signature as the contract's version.

    A recorded outcome survives a crash and is never obtained again. A call cut off before it is recorded may run again,
    and the journal says so. Raises DeclarationError.
    """
    return _decorate(function, TOOL, options)


@overload
def model(function: F, /) -> F: ...
@overload
def model(**options: Unpack[StepOptions]) -> Callable[[F], F]: ...
def model(function: Any = None, /, **options: Unpack[StepOptions]) -> Any:
    """Declare a paid model call: as `step`, and the intent is on disk before the call can leave.

    `worst_cost_usd` bounds what one try can cost; a try whose outcome is lost is recorded with it.
    """
    return _decorate(function, MODEL, options)


def _decorate(function: Any, kind: str, options: StepOptions) -> Any:
    settings = options_of(options)
    if function is None:
        return lambda inner: _wrap(inner, kind, settings)
    return _wrap(function, kind, settings)


def _wrap(function: Any, kind: str, options: Options) -> Any:
    definition = Definition(function, kind, options)
    if definition.is_async:

        @functools.wraps(function)
        async def call(*args: Any, **kwargs: Any) -> Any:
            run = _run_for(definition)
            return await (function(*args, **kwargs) if run is None else run.perform(kind, Call(call, args, kwargs)))

    else:

        @functools.wraps(function)
        def call(*args: Any, **kwargs: Any) -> Any:
            if _run_for(definition) is not None:
                raise SyncStepCalledError(name=definition.name, kind="model" if kind == MODEL else "step")
            return function(*args, **kwargs)

    setattr(call, ATTRIBUTE, definition)
    return call


def _run_for(definition: Definition) -> Caller | None:
    """The run that a direct call belongs to; none outside a run, and none for a plain step inside a step."""
    outer = current_step.get()
    if outer is None:
        return current_run.get()
    if definition.kind == MODEL:
        raise NestedStepError(inner=f"model call {definition.name}", outer=outer.name)
    return None


class Workflow:
    """A workflow as the engine sees it."""

    def __init__(
        self, function: Callable[..., Any], *, name: str | None, aliases: tuple[str, ...], version: str | None
    ) -> None:
        self.function = function
        self.name = name or function.__name__
        self.aliases = aliases
        self.form = Form(functools.partial(function, None))  # without the context
        self.version = version or f"source:{_source_digest(function)}"

    @functools.cached_property
    def hints(self) -> dict[str, Any]:
        """Resolved annotations by parameter name, and `return`."""
        return hints_of(self.function)

    @property
    def file(self) -> str:
        """Where it is defined."""
        return f"{inspect.getsourcefile(self.function) or '?'}:{self.function.__code__.co_firstlineno}"


_workflows: dict[str, Workflow] = {}
"""Workflows of this process by name. Filled by the decorator, read when a run is taken up by id alone."""


@overload
def workflow(function: W, /) -> W: ...
@overload
def workflow(
    *, name: str | None = ..., aliases: tuple[str, ...] = ..., version: str | None = ...
) -> Callable[[W], W]: ...
def workflow(
    function: Any = None, /, *, name: str | None = None, aliases: tuple[str, ...] = (), version: str | None = None
) -> Any:
    """Declare an async function whose runs are durable. Its first parameter is the Context.

    `name` is what runs are recorded under (default: the function's own name), so that moving the file orphans nothing;
    `aliases` are names that older runs may have; `version` names the code's version instead of a digest of its source.
    Raises DeclarationError for a method or a plain function, DuplicateWorkflowError for a name in use elsewhere.
    """
    if function is None:
        return functools.partial(_declared, name=name, aliases=aliases, version=version)
    return _declared(function, name=name, aliases=aliases, version=version)


def _declared(function: W, *, name: str | None, aliases: tuple[str, ...], version: str | None) -> W:
    _check_workflow(function)
    for text in (name, version, *aliases):
        if text is not None and not (type(text) is str and text.isprintable()):
            raise DeclarationError(name=ascii(text), problem="it is no printable text", fix="Give a printable string.")
    declared = Workflow(function, name=name, aliases=aliases, version=version)
    names = (declared.name, *aliases)
    for each in names:
        _check_free(each, declared)
    _workflows.update(dict.fromkeys(names, declared))
    setattr(function, ATTRIBUTE, declared)
    return function


def workflow_of(function: Any) -> Workflow:
    """The declaration of a workflow function. Raises DeclarationError when it has none."""
    declared = getattr(function, ATTRIBUTE, None)
    if not isinstance(declared, Workflow):
        name = getattr(function, "__name__", repr(function))
        raise DeclarationError(name=name, problem="it is no workflow", fix="Put @workflow on the async function.")
    return declared


def known_workflow(name: str) -> Workflow | None:
    """The workflow of this name or alias, if it is loaded."""
    return _workflows.get(name)


def _check_free(name: str, declared: Workflow) -> None:
    other = _workflows.get(name)
    if other and not _is_redefinition(other.function, declared.function):
        raise DuplicateWorkflowError(name=name, first=other.file, second=declared.file)


def _is_redefinition(old: Callable[..., Any], new: Callable[..., Any]) -> bool:
    """Whether a notebook cell or a reload gave the same function anew."""
    return (old.__module__, old.__qualname__) == (new.__module__, new.__qualname__)


def _check_workflow(function: Any) -> None:
    name = getattr(function, "__name__", repr(function))
    if not inspect.iscoroutinefunction(function):
        raise DeclarationError(
            name=name, problem="a workflow must be `async def`", fix="Make it async; plain functions can be its steps."
        )
    parameters = list(inspect.signature(function).parameters.values())
    if not parameters or parameters[0].name in {"self", "cls"}:
        raise DeclarationError(
            name=name,
            problem="its first parameter must be the Context",
            fix="Write `async def name(ctx: Context, ...)`, outside a class.",
        )
    if any(type(each.default) is Resource for each in parameters):
        raise DeclarationError(
            name=name, problem="a workflow takes no use(...)", fix="Give it to the steps that need the value."
        )
    if any(each.kind not in {each.POSITIONAL_OR_KEYWORD, each.KEYWORD_ONLY} for each in parameters[1:]):
        raise DeclarationError(
            name=name,
            problem="its input is recorded by parameter name, which *args, **kwargs and `/` do not have",
            fix="Take a list or a dict instead.",
        )


def _source_digest(function: Callable[..., Any]) -> str:
    try:
        text = inspect.getsource(function).encode()
    except (OSError, TypeError):  # typed into a prompt
        text = function.__code__.co_code
    return hashlib.sha256(text).hexdigest()[:12]
