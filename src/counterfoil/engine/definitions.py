"""What a user declares: workflows, steps, model calls, and calls that are bound but not yet made.

Decorators return functions of unchanged type. A decorated function called directly in a workflow's body finds the run
by a context variable and is recorded just as through `ctx`; outside a run it is the plain function. Nothing about a
run is kept in a decorated object.
"""

import functools
import hashlib
import inspect
import types
from collections.abc import Callable, Coroutine, Mapping
from contextvars import ContextVar
from typing import Any, Concatenate, Generic, Literal, ParamSpec, Protocol, TypeVar, cast, get_type_hints, overload

import msgspec

from counterfoil.core.retry import DEFAULT, Retry
from counterfoil.errors import DeclarationError, DuplicateWorkflowError, NestedStepError, SyncStepCalledError

P = ParamSpec("P")
R = TypeVar("R")
R_co = TypeVar("R_co", covariant=True)
F = TypeVar("F", bound=Callable[..., Any])
W = TypeVar("W", bound=Callable[..., Coroutine[Any, Any, Any]])

ATTRIBUTE = "__counterfoil__"
TOOL, MODEL = "tool", "model"
UNSET: Any = object()
OnUnknown = Literal["repeat", "pause"]


class Options(msgspec.Struct, frozen=True, kw_only=True):
    """How a step is carried out. They stand on the decorator or on `ctx.with_options`; the call's win."""

    name: str | None = None
    retry: Retry | None = None
    timeout: float | None = None  # seconds, per try
    returns: Any = UNSET
    opaque: tuple[str, ...] = ()
    on_unknown: OnUnknown | None = None
    worst_cost_usd: float | None = None  # bound for one try
    version: str | None = None  # of the step's contract

    def over(self, other: "Options") -> "Options":
        """These options where they are set, the other ones elsewhere."""
        mine = {field: getattr(self, field) for field in self.__struct_fields__}
        unset = {"returns": UNSET, "opaque": ()}
        return msgspec.structs.replace(other, **{k: v for k, v in mine.items() if v is not unset.get(k)})

    @property
    def retry_policy(self) -> Retry:
        """The policy, or the default one."""
        return self.retry or DEFAULT


class Form:
    """A function's parameters: binds arguments by name and fills defaults in."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self.signature = inspect.signature(function)
        parameters = list(self.signature.parameters.values())
        self.first = parameters[0].name if parameters else None
        self._names = [p.name for p in parameters]
        self._positional = [p.name for p in parameters if p.kind is p.POSITIONAL_OR_KEYWORD]
        self._defaults = {p.name: p.default for p in parameters if p.default is not p.empty}
        self._is_simple = all(p.kind in {p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY} for p in parameters)

    def bind(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
        """Arguments by parameter name, in the order of the signature. Raises TypeError as the call would."""
        if self._is_simple and len(args) <= len(self._positional):
            given = dict(zip(self._positional, args, strict=False)) | kwargs
            if len(given) == len(args) + len(kwargs):
                filled = self._defaults | given
                if len(filled) == len(self._names) and filled.keys() <= self.signature.parameters.keys():
                    return {name: filled[name] for name in self._names}
        bound = self.signature.bind(*args, **kwargs)
        bound.apply_defaults()
        return {name: list(v) if isinstance(v, tuple) else v for name, v in self._spread(bound.arguments)}

    def _spread(self, arguments: Mapping[str, Any]) -> list[tuple[str, Any]]:
        kinds = {p.name: p.kind for p in self.signature.parameters.values()}
        return [
            (name, list(value) if kinds[name] is inspect.Parameter.VAR_POSITIONAL else value)
            for name, value in arguments.items()
        ]

    def contract(self) -> str:
        """A digest of the parameters and the result's annotation: the version of a step's contract."""
        parts = [
            f"{p.name} {p.kind.name} {inspect.formatannotation(p.annotation)} {p.default is not p.empty}"
            for p in self.signature.parameters.values()
        ]
        text = "\n".join([*parts, inspect.formatannotation(self.signature.return_annotation)])
        return hashlib.sha256(text.encode()).hexdigest()[:12]


class Definition:
    """A function as the engine sees it. Made once per function."""

    def __init__(self, function: Callable[..., Any], kind: str, options: Options) -> None:
        self.function, self.kind, self.options = function, kind, options
        self.form = Form(function)
        self.is_async = inspect.iscoroutinefunction(function)
        self.name = str(options.name or getattr(function, "__name__", type(function).__name__))
        self.contract = options.version or self.form.contract()
        _check(self, options)

    @functools.cached_property
    def returns(self) -> Any:
        """The declared type of the result; Any when there is none, or it can't be resolved."""
        return hints_of(self.function).get("return", Any)


def hints_of(function: Callable[..., Any]) -> dict[str, Any]:
    """A function's annotations, resolved; those that can't be are left out."""
    closure = inspect.getclosurevars(function).nonlocals if inspect.isfunction(function) else {}
    try:
        return get_type_hints(function, localns=dict(closure))
    except (NameError, TypeError, AttributeError):
        return {}


def _check(definition: Definition, options: Options) -> None:
    function, name = definition.function, definition.name
    if inspect.isasyncgenfunction(function) or inspect.isgeneratorfunction(function):
        raise DeclarationError(
            name=name, problem="a generator can't be a step", fix="Return a list, or make each item a step."
        )
    if name == "<lambda>":
        raise DeclarationError(name=name, problem="a lambda has no name", fix="Give one: ctx.with_options(name=...).")
    unknown = [each for each in options.opaque if each not in definition.form.signature.parameters]
    if unknown:
        raise DeclarationError(
            name=name, problem=f"opaque names {unknown}, which are no parameters", fix="Use parameter names."
        )
    if options.timeout is not None and not definition.is_async:
        raise DeclarationError(
            name=name,
            problem="a plain function can't be stopped, so timeout= would be a promise not kept",
            fix="Make it `async def`, or set the timeout in the client that it calls.",
        )


class Bound(msgspec.Struct, frozen=True):
    """A call of a step, ready to be recorded and made."""

    definition: Definition
    options: Options
    function: Callable[..., Any]  # takes args and kwargs as the user gave them
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    input: dict[str, Any]  # what is recorded, by parameter name
    opaque: dict[str, str]  # what is not, with its type


class Call(Generic[R_co]):
    """A typed call that is not made yet: `bind(refund, order, cents=5)`."""

    __slots__ = ("args", "function", "kwargs")

    def __init__(self, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        self.function, self.args, self.kwargs = function, args, kwargs

    def __repr__(self) -> str:
        return f"<call of {getattr(self.function, '__name__', self.function)}>"


@overload
def bind(
    function: Callable[Concatenate["Caller", P], Coroutine[Any, Any, R]], /, *args: P.args, **kwargs: P.kwargs
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


class Caller(Protocol):
    """The run that a direct call finds: what a decorated function needs of a Context."""

    async def perform(self, kind: str, call: Call[Any]) -> Any:
        """Record and make the call."""


current_run: ContextVar[Caller | None] = ContextVar("counterfoil_run", default=None)
current_step: ContextVar[str | None] = ContextVar("counterfoil_step", default=None)
"""The step that the code is inside of, by name."""


@overload
def step(function: F, /) -> F: ...
@overload
def step(
    *, name: str | None = ..., retry: Retry | None = ..., timeout: float | None = ..., returns: Any = ...,
    opaque: tuple[str, ...] = ..., on_unknown: OnUnknown | None = ..., version: str | None = ...,
) -> Callable[[F], F]: ...  # fmt: skip
def step(function: Any = None, /, **options: Any) -> Any:
    """Declare a function whose outcome is recorded once per call in a run.

    `retry` bounds the tries (default: 5, only for failures that may pass by themselves); `timeout` is in seconds, per
    try, for async functions; `returns` is the result's type when the annotation is missing; `opaque` names parameters
    that are no input, such as clients; `on_unknown` says what to do about a try whose process died: `repeat` (default)
    or `pause`; `version` replaces the digest of the signature as the contract's version.

    A recorded outcome survives a crash and is never obtained again. A call cut off before it is recorded may run again,
    and the journal says so. Raises DeclarationError.
    """
    return _decorate(function, TOOL, options)


@overload
def model(function: F, /) -> F: ...
@overload
def model(
    *, name: str | None = ..., retry: Retry | None = ..., timeout: float | None = ..., returns: Any = ...,
    opaque: tuple[str, ...] = ..., on_unknown: OnUnknown | None = ..., version: str | None = ...,
    worst_cost_usd: float | None = ...,
) -> Callable[[F], F]: ...  # fmt: skip
def model(function: Any = None, /, **options: Any) -> Any:
    """Declare a paid model call: as `step`, and the intent is on disk before the call can leave.

    `worst_cost_usd` bounds what one try can cost; a try whose outcome is lost is recorded with it.
    """
    return _decorate(function, MODEL, options)


def _decorate(function: Any, kind: str, options: dict[str, Any]) -> Any:
    settings = Options(**options)
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
        raise NestedStepError(inner=f"model call {definition.name}", outer=outer)
    return None


def bound_call(kind: str, call: Call[Any], options: Options) -> Bound:
    """A call as it is recorded: whatever was given, reduced to a definition and arguments by name."""
    if isinstance(call.function, Call):
        call = call.function
    function, args, kwargs = call.function, call.args, call.kwargs
    while isinstance(function, functools.partial):
        args, kwargs, function = (*function.args, *args), {**function.keywords, **kwargs}, function.func
    receiver = getattr(function, "__self__", None) if inspect.ismethod(function) else None
    if receiver is not None:
        args, function = (receiver, *args), cast("types.MethodType", function).__func__
    definition = definition_of(function, kind, options)
    settled = options.over(definition.options)
    named = definition.form.bind(args, kwargs)
    opaque = {*settled.opaque, *_receivers(definition, receiver)}
    return Bound(
        definition,
        settled,
        _plain(call.function, definition),
        call.args,
        call.kwargs,
        {name: value for name, value in named.items() if name not in opaque},
        {name: type(value).__qualname__ for name, value in named.items() if name in opaque},
    )


def _receivers(definition: Definition, receiver: object) -> set[str]:
    """The name of a method's own object: opaque by itself."""
    path = definition.function.__qualname__ if inspect.isfunction(definition.function) else ""
    is_method = receiver is not None or (
        definition.form.first in {"self", "cls"} and "." in path.rpartition("<locals>.")[2]
    )
    return {definition.form.first} if is_method and definition.form.first else set()


def _plain(function: Any, definition: Definition) -> Callable[..., Any]:
    """The function to call in the step: for one of ours, the one inside the wrapper."""
    if isinstance(function, functools.partial):
        return functools.partial(_plain(function.func, definition), *function.args, **function.keywords)
    if inspect.ismethod(function):
        return types.MethodType(definition.function, function.__self__)
    return definition.function


def definition_of(function: Any, kind: str, options: Options) -> Definition:
    """The definition of a function, declared or not. A model call stays one however it is called."""
    if not callable(function):
        raise DeclarationError(
            name=repr(function), problem="it is no function", fix="Give the function itself, not its result."
        )
    declared = getattr(function, ATTRIBUTE, None)
    if isinstance(declared, Definition) and declared.kind in {kind, MODEL}:
        return declared
    if isinstance(declared, Definition):
        return _definition(declared.function, kind, declared.options)
    if isinstance(declared, Workflow):
        raise DeclarationError(
            name=declared.name, problem="a workflow is no step", fix="Call it as `await workflow(ctx, ...)`."
        )
    naming = Options(name=options.name) if getattr(function, "__name__", "") == "<lambda>" else Options()
    return _definition(function, kind, naming)


@functools.lru_cache(maxsize=1024)
def _definition(function: Any, kind: str, options: Options) -> Definition:
    return Definition(function, kind, options)


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
    declared = Workflow(function, name=name, aliases=aliases, version=version)
    for each in (declared.name, *aliases):
        _register(each, declared)
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


def _register(name: str, declared: Workflow) -> None:
    other = _workflows.get(name)
    if other and not _is_redefinition(other.function, declared.function):
        raise DuplicateWorkflowError(name=name, first=other.file, second=declared.file)
    _workflows[name] = declared


def _is_redefinition(old: Callable[..., Any], new: Callable[..., Any]) -> bool:
    """Whether a notebook cell or a reload gave the same function anew."""
    return (old.__module__, old.__qualname__) == (new.__module__, new.__qualname__)


def _check_workflow(function: Any) -> None:
    name = getattr(function, "__name__", repr(function))
    if not inspect.iscoroutinefunction(function):
        raise DeclarationError(
            name=name, problem="a workflow must be `async def`", fix="Make it async; plain functions can be its steps."
        )
    parameters = list(inspect.signature(function).parameters)
    if not parameters or parameters[0] in {"self", "cls"}:
        raise DeclarationError(
            name=name,
            problem="its first parameter must be the Context",
            fix="Write `async def name(ctx: Context, ...)`, outside a class.",
        )


def _source_digest(function: Callable[..., Any]) -> str:
    try:
        text = inspect.getsource(function).encode()
    except (OSError, TypeError):  # typed into a prompt
        text = function.__code__.co_code
    return hashlib.sha256(text).hexdigest()[:12]
