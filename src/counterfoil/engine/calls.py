"""Calls of steps: a function, its options, and arguments by parameter name.

Whatever the user gave (a function, a method, a partial, a bound call) is reduced to one form, so that two spellings of
the same call are the same record.
"""

import contextlib
import functools
import hashlib
import inspect
import math
import types
import warnings
import weakref
from collections.abc import Callable, Mapping
from typing import Any, Generic, Literal, TypedDict, TypeVar, cast, get_type_hints

import msgspec

from counterfoil.core import codec
from counterfoil.core.replay import CLOSURE
from counterfoil.core.retry import DEFAULT, Retry
from counterfoil.engine.resources import Resource, resources_in
from counterfoil.errors import ClosureWarning, DeclarationError, InputInvalidError, NotStorableError

R_co = TypeVar("R_co", covariant=True)

ATTRIBUTE = "__counterfoil__"
WRAPPED = "__counterfoil_wrapped__"
"""Attribute of the classes of wrapped clients: their options."""

TOOL, MODEL = "tool", "model"
UNSET: Any = object()
SECONDS_MAX = 1e8
_OURS = ("counterfoil.engine.", "counterfoil.journal")
_warned: "weakref.WeakSet[types.CodeType]" = weakref.WeakSet()
UNRESOLVED = (NameError, TypeError, AttributeError)
"""What an annotation raises that can't be resolved."""
OnUnknown = Literal["repeat", "pause", "raise"]


class StepOptions(TypedDict, total=False):
    """The options of a step, as keywords of a decorator or of `ctx.with_options`."""

    name: str | None
    retry: Retry | None
    timeout: float | None
    returns: Any
    opaque: tuple[str, ...]
    on_unknown: OnUnknown | None
    worst_cost_usd: float | None
    version: str | None


class Options(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
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
        if self is NO_OPTIONS:
            return other
        mine = {field: getattr(self, field) for field in self.__struct_fields__}
        unset = {"returns": UNSET, "opaque": ()}
        return msgspec.structs.replace(other, **{k: v for k, v in mine.items() if v is not unset.get(k)})

    @property
    def retry_policy(self) -> Retry:
        """The policy, or the default one."""
        return self.retry or DEFAULT


def options_of(given: StepOptions) -> Options:
    """Options as they may be recorded. Raises DeclarationError for one of a wrong type, before it is in a journal."""
    try:
        options = msgspec.convert(given, Options)
    except msgspec.ValidationError as error:
        raise DeclarationError(name="an option", problem=str(error), fix="The docstring of `step` has them.") from None
    for text in (options.name, options.version):
        if text is not None and not text.isprintable():
            raise DeclarationError(name=ascii(text), problem="it can't be printed", fix="Use printable characters.")
    return options


NO_OPTIONS = Options()
"""What a context starts with: most calls have no options of their own."""


class Form:
    """A function's parameters: binds arguments by name and fills defaults in."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self.signature = inspect.signature(function)
        parameters = list(self.signature.parameters.values())
        self.first = parameters[0].name if parameters else None
        self._names = [p.name for p in parameters]
        self._positional = [p.name for p in parameters if p.kind is p.POSITIONAL_OR_KEYWORD]
        self._defaults = {p.name: p.default for p in parameters if p.default is not p.empty}
        self.resources = resources_in(self.signature)
        self._rest = next((p.name for p in parameters if p.kind is p.VAR_POSITIONAL), None)
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
        return {name: list(value) if name == self._rest else value for name, value in bound.arguments.items()}

    def takes_by_name(self, name: str) -> bool:
        """Whether this parameter may be given as a keyword."""
        return self.signature.parameters[name].kind is not inspect.Parameter.POSITIONAL_ONLY

    def contract(self) -> str:
        """A digest of the input's parameters and the result's annotation: the version of a step's contract."""
        parts = [
            f"{p.name} {p.kind.name} {inspect.formatannotation(p.annotation)} {p.default is not p.empty}"
            for p in self.signature.parameters.values()
            if p.name not in self.resources
        ]
        text = "\n".join([*parts, inspect.formatannotation(self.signature.return_annotation)])
        return hashlib.sha256(text.encode()).hexdigest()[:12]

    @functools.cached_property
    def unrecordable(self) -> dict[str, Any]:
        """Defaults that no record can hold, such as the sentinels of SDKs: no input where nothing else was given."""
        return {name: each for name, each in self._defaults.items() if name not in self.resources and _is_refused(each)}


def _is_refused(value: object) -> bool:
    try:
        codec.encode(value, where="a default")
    except NotStorableError:
        return True
    return False


class Definition:
    """A function as the engine sees it. Made once per function."""

    def __init__(self, function: Callable[..., Any], kind: str, options: Options, *, streams: bool = False) -> None:
        self.function, self.kind, self.options, self.streams = function, kind, options, streams
        self.is_async = streams or inspect.iscoroutinefunction(function)
        self.name = str(options.name or getattr(function, "__name__", type(function).__name__))
        self.form = _form(function, self.name)
        self.cells = _cells_of(function)
        self.contract = options.version or self.form.contract()
        self.is_method = self.form.first in {"self", "cls"} and "." in _path_of(function).rpartition("<locals>.")[2]
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
    except UNRESOLVED:
        return _hints_one_by_one(function, closure)


def _hints_one_by_one(function: Callable[..., Any], closure: Mapping[str, Any]) -> dict[str, Any]:
    """One name that is imported for type checkers only must not cost the result its type."""
    found: dict[str, Any] = {}
    for name, annotation in getattr(function, "__annotations__", {}).items():
        alone = types.SimpleNamespace(__annotations__={name: annotation})
        with contextlib.suppress(*UNRESOLVED):
            found |= get_type_hints(alone, globalns=getattr(function, "__globals__", {}), localns=dict(closure))
    return found


def _form(function: Callable[..., Any], name: str) -> Form:
    try:
        return Form(function)
    except ValueError as error:
        fix = "Write a function around it, with named parameters."
        raise DeclarationError(name=name, problem=f"its parameters can't be seen: {error}", fix=fix) from None


def _check(definition: Definition, options: Options) -> None:
    function, name = definition.function, definition.name
    if not definition.streams and (inspect.isasyncgenfunction(function) or inspect.isgeneratorfunction(function)):
        raise DeclarationError(
            name=name, problem="a generator can't be a step", fix="Return a list, or make each item a step."
        )
    if name == "<lambda>":
        raise DeclarationError(name=name, problem="a lambda has no name", fix="Give one: ctx.with_options(name=...).")
    _check_options(definition, options)


def _check_options(definition: Definition, options: Options) -> None:
    name = definition.name
    by_position = [each for each in definition.form.resources if not definition.form.takes_by_name(each)]
    if by_position:
        raise DeclarationError(
            name=name, problem=f"{by_position[0]} can't be given by name", fix="Put use(...) on a keyword parameter."
        )
    unknown = [each for each in options.opaque if each not in definition.form.signature.parameters]
    if unknown:
        raise DeclarationError(
            name=name, problem=f"opaque names {unknown}, which are no parameters", fix="Use parameter names."
        )
    if options.timeout is not None and not 0 < options.timeout <= SECONDS_MAX:
        raise DeclarationError(
            name=name, problem=f"a time limit of {options.timeout} seconds can't be kept", fix="Give a positive number."
        )
    if options.worst_cost_usd is not None and not 0 <= options.worst_cost_usd < math.inf:
        raise DeclarationError(
            name=name, problem=f"{options.worst_cost_usd} dollars are no bound", fix="Give a number, 0 or more."
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
    needed: dict[str, Resource]  # what a live call is given besides


def unshared(bound: Bound) -> Bound:
    """The same call with copies of the containers that it was given, which other code may change until it is made."""
    copies = {id(value): _copied(value) for value in bound.input.values()}
    return msgspec.structs.replace(
        bound,
        args=tuple(copies.get(id(value), value) for value in bound.args),
        kwargs={name: copies.get(id(value), value) for name, value in bound.kwargs.items()},
    )


def _copied(value: Any) -> Any:
    if type(value) is dict:
        return {key: _copied(inner) for key, inner in value.items()}
    return type(value)(map(_copied, value)) if type(value) in {list, tuple, set} else value


class Call(Generic[R_co]):
    """A typed call that is not made yet: `bind(refund, order, cents=5)`."""

    __slots__ = ("args", "function", "kwargs")

    def __init__(self, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        self.function, self.args, self.kwargs = function, args, kwargs

    def __repr__(self) -> str:
        return f"<call of {getattr(self.function, '__name__', self.function)}>"


def bound_call(kind: str, call: Call[Any], options: Options, *, streams: bool = False) -> Bound:
    """A call as it is recorded: whatever was given, reduced to a definition and arguments by name.

    One that `streams` is of an async generator function of ours.
    """
    function, args, kwargs = call.function, call.args, call.kwargs
    while isinstance(function, functools.partial):
        args, kwargs, function = (*function.args, *args), {**function.keywords, **kwargs}, function.func
    receiver = getattr(function, "__self__", None) if inspect.ismethod(function) else None
    if receiver is not None:
        args, function = (receiver, *args), cast("types.MethodType", function).__func__
    definition = _streaming(function, kind) if streams else definition_of(function, kind, options)
    settled = options.over(definition.options)
    if options is not NO_OPTIONS:
        _check_options(definition, options)
    named = _bound_by_name(definition, args, kwargs)
    hidden = set(settled.opaque)
    if receiver is not None or definition.is_method:  # a method's own object is opaque by itself
        hidden.add(str(definition.form.first))
    opaque, needed = _taken_out(named, definition.form, hidden)
    if definition.cells and (held := _held_by(definition)):
        named[CLOSURE] = held
    return Bound(definition, settled, _plain(call.function, definition), call.args, call.kwargs, named, opaque, needed)


def _taken_out(named: dict[str, Any], form: Form, hidden: set[str]) -> tuple[dict[str, str], dict[str, Resource]]:
    """Take what is no input out of the arguments: what is opaque, by type, and the resources not given by hand."""
    needed = {name: named[name] for name in form.resources if type(named[name]) is Resource}
    opaque = {}
    for name in sorted(hidden | form.resources.keys()):
        value = named.pop(name)
        opaque[name] = repr(value) if name in needed else type(value).__qualname__
    for name, default in form.unrecordable.items():
        if named.get(name) is default:
            del named[name]
    return opaque, needed


def _bound_by_name(definition: Definition, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
    try:
        return definition.form.bind(args, kwargs)
    except TypeError as error:
        signature = str(definition.form.signature)
        raise InputInvalidError(name=definition.name, signature=signature, reason=str(error)) from None


def _cells_of(function: Callable[..., Any]) -> tuple[tuple[str, "types.CellType"], ...]:
    """The variables that a function took from around it, by name; not those of the decorators that stand before it."""
    function = inspect.unwrap(function)
    if not inspect.isfunction(function) or not function.__closure__:
        return ()
    return tuple(zip(function.__code__.co_freevars, function.__closure__, strict=True))


def _held_by(definition: Definition) -> dict[str, Any]:
    """What the variables from around hold now: input like any argument, but for code and for what is ours."""
    held: dict[str, Any] = {}
    for name, cell in definition.cells:
        try:
            value = cell.cell_contents
            if not _is_code(value):
                codec.encode(value, where=name)
                held[name] = value
        except NotStorableError as error:
            _warn(definition, name, error)
        except ValueError:  # it has no value yet
            continue
    return held


def _is_code(value: object) -> bool:
    is_plain_code = inspect.isroutine(value) or isinstance(value, type | types.ModuleType | functools.partial)
    return is_plain_code or type(value).__module__.startswith(_OURS)


def _warn(definition: Definition, name: str, error: NotStorableError) -> None:
    """Say once for each function that a change of this variable will not be noticed."""
    code = definition.function.__code__
    if code not in _warned:
        _warned.add(code)
        problem = f"uses {name!r} from around it, which can't be recorded with its input: {error.reason}"
        fix = "Hand it over as an argument, named in opaque=, or make it a variable of the module."
        try:
            text = f"the step {definition.name} {problem}. {fix}"
            warnings.warn_explicit(text, ClosureWarning, code.co_filename, code.co_firstlineno)
        except (
            ClosureWarning
        ):  # the program wants warnings to be errors: one that new code mends, and no end of the run
            raise DeclarationError(name=definition.name, problem=problem, fix=fix) from None


def _path_of(function: Callable[..., Any]) -> str:
    return function.__qualname__ if inspect.isfunction(function) else ""


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
    if declared is not None:
        raise DeclarationError(
            name=declared.name, problem="a workflow is no step", fix="Call it as `await workflow(ctx, ...)`."
        )
    naming = Options(name=options.name) if getattr(function, "__name__", "") == "<lambda>" else Options()
    try:
        return _definition(function, kind, naming)
    except TypeError:  # an object that can be called, but not hashed
        return Definition(function, kind, naming)


@functools.lru_cache(maxsize=1024)
def _definition(function: Any, kind: str, options: Options) -> Definition:
    return Definition(function, kind, options)


@functools.lru_cache(maxsize=64)
def _streaming(function: Any, kind: str) -> Definition:
    return Definition(function, kind, Options(), streams=True)
