"""What a step needs and no record can hold: clients, pools, sessions.

`use(provider)` stands as the default of a parameter. The first live step of a journal that needs the value has its
provider entered; the journal closes it. Only live calls ask, so a replay enters nothing (law J8). A resource belongs to
the journal and not to the step that came first: it is entered, held and closed in a task of its own, with the context
variables of whoever opened the journal.
"""

import asyncio
import contextvars
import inspect
import logging
import traceback
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Generator, Iterator, Mapping
from contextlib import _AsyncGeneratorContextManager, _GeneratorContextManager
from typing import Any, NoReturn, TypeVar, cast, overload

from counterfoil.errors import DeclarationError, ResourceNotGivenError

T = TypeVar("T")
Provider = Callable[..., Any]

CUT_SECONDS = 1.0
"""What a provider gets to end after it was cut, while it closed or was still being entered."""

_TOUCHES = (
    *(
        "__str__",
        "__format__",
        "__setattr__",
        "__delattr__",
        "__call__",
        "__bool__",
        "__len__",
        "__contains__",
        "__iter__",
        "__next__",
    ),
    *("__getitem__", "__setitem__", "__delitem__", "__await__", "__aiter__", "__anext__", "__enter__", "__exit__"),
    *("__aenter__", "__aexit__", "__lt__", "__le__", "__gt__", "__ge__", "__add__", "__radd__", "__sub__", "__rsub__"),
    *("__mul__", "__rmul__", "__truediv__", "__rtruediv__", "__int__", "__float__", "__index__", "__fspath__"),
)
"""What code does with a value without asking for an attribute of it."""

_log = logging.getLogger("counterfoil.resources")


class Resource:
    """The default itself: stands for a value until a live step gets it. Whatever is done with it says so."""

    __slots__ = ("_counterfoil_provider",)

    def __init__(self, provider: Provider) -> None:
        object.__setattr__(self, "_counterfoil_provider", provider)

    def __repr__(self) -> str:
        return f"use({_name(_provider_of(self))})"

    def __getattr__(self, name: str) -> NoReturn:
        if name.startswith("__") and name.endswith("__"):  # asked by tools that look at a signature, not by its code
            raise AttributeError(name)
        _refuse(self)


def _refuse(resource: Resource, *_: object) -> NoReturn:
    raise ResourceNotGivenError(provider=_name(_provider_of(resource)))


for _touch in _TOUCHES:
    setattr(Resource, _touch, _refuse)


def _provider_of(resource: Resource) -> Provider:
    return cast("Provider", object.__getattribute__(resource, "_counterfoil_provider"))


def _name(provider: Provider) -> str:
    name = getattr(provider, "__qualname__", type(provider).__qualname__)
    return str(name).rpartition("<locals>.")[2]


@overload
def use(provider: Callable[[], _AsyncGeneratorContextManager[T]], /) -> T: ...
@overload
def use(provider: Callable[[], _GeneratorContextManager[T]], /) -> T: ...
@overload
def use(provider: Callable[[], AsyncIterator[T]], /) -> T: ...
@overload
def use(provider: Callable[[], Iterator[T]], /) -> T: ...
@overload
def use(provider: Callable[[], Awaitable[T]], /) -> T: ...
@overload
def use(provider: Callable[[], T], /) -> T: ...
def use(provider: Any, /) -> Any:
    """Declare as the default of a step's parameter where its value comes from, when no record can hold it.

    Write `async def save(order: Order, *, db: Pool = use(pool)) -> int: ...`. The provider is a function, an async
    function, or a generator of either kind that yields once and closes after it. It is called on the event loop, once
    for a journal, when the first live step needs it, and closed with the journal, the last one first. The value is no
    input. A replay enters nothing; after a crash the next live step enters it anew. Outside a run, hand the value over.
    In tests, `counterfoil.open(..., overrides={pool: fake})`.

    A provider that raises fails that try of the step. Raises DeclarationError for what can't be called.
    """
    if not callable(provider) or not _has_hash(provider):
        raise DeclarationError(
            name="use()", problem=f"{provider!r} is no function", fix="Give the function itself, not what it returns."
        )
    return Resource(provider)


def _has_hash(provider: object) -> bool:
    try:
        hash(provider)
    except TypeError:
        return False
    return True


def resources_in(signature: inspect.Signature) -> dict[str, Resource]:
    """The parameters that have a resource as their default."""
    return {each.name: each.default for each in signature.parameters.values() if type(each.default) is Resource}


class Resources:
    """What the steps of one journal use: entered at the first need, closed in the reverse order.

    `overrides` stand in for what their providers would make; they are neither entered nor closed.
    """

    def __init__(self, overrides: Mapping[Provider, Any], scrub: Callable[[str], str]) -> None:
        self._overrides, self._scrub = dict(overrides), scrub
        self._variables = contextvars.copy_context()
        self._held: dict[Provider, _Held] = {}
        self._entered: list[_Held] = []

    async def values(self, needed: Mapping[str, Resource]) -> dict[str, Any]:
        """The value for each parameter; what is not there yet is entered. Raises what a provider raises."""
        return {name: await self._value(_provider_of(resource)) for name, resource in needed.items()}

    async def close(self, *, grace: float) -> None:
        """Close what was entered, the last one first; each gets `grace` seconds. What one raises is logged."""
        for held in [each for each in self._held.values() if each not in self._entered]:
            await _cut(held.task)
        for held in self._entered[::-1]:
            held.closing.set()
            if not (await asyncio.wait({held.task}, timeout=max(grace, CUT_SECONDS)))[0]:
                _log.error("%s did not close in time: cut off", held.name)
                await _cut(held.task)

    async def _value(self, provider: Provider) -> Any:
        if provider in self._overrides:
            return self._overrides[provider]
        held = self._held.get(provider)
        if held is None:
            held = self._held[provider] = _Held(_name(provider))
            life = self._live(held, provider)
            held.task = asyncio.Task(life, name=f"counterfoil {held.name}", context=self._variables.copy())
        if not held.value.done():
            await asyncio.wait({held.value})  # a step that is cancelled here does not cancel it for the others
        return held.value.result()

    async def _live(self, held: "_Held", provider: Provider) -> None:
        """Enter, hold and close in one task, as a provider with a task group or a time limit in it needs."""
        try:
            made = await self._made(provider)
            value = await _first(made, held.name)
        except BaseException as error:  # noqa: BLE001 - raised by each step that waits for it
            self._held.pop(provider, None)  # the next try asks again
            held.fail(error)
            return
        self._entered.append(held)
        held.value.set_result(value)
        try:
            await _hold(made, held)
        except Exception as error:  # noqa: BLE001 - what steps gave is on record: it must not be lost for that
            _log.error("closing %s failed: %s", held.name, self._scrub("".join(traceback.format_exception(error))))
        finally:  # its task may have been cancelled with all others: whoever needs it then has it entered anew
            self._entered.remove(held)
            self._held.pop(provider, None)

    async def _made(self, provider: Provider) -> AsyncGenerator[Any, None]:
        try:
            needed = resources_in(inspect.signature(provider))
        except (TypeError, ValueError):  # of a class or a builtin that does not show its parameters
            needed = {}
        return _generator(provider(**await self.values(needed)))


class _Held:
    """One resource, from the moment at which it was first needed."""

    task: "asyncio.Task[None]"

    def __init__(self, name: str) -> None:
        self.name = name
        self.value: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self.closing = asyncio.Event()

    def fail(self, error: BaseException) -> None:
        """It could not be entered."""
        if isinstance(error, asyncio.CancelledError):
            self.value.cancel()
        else:
            self.value.set_exception(error)
            self.value.exception()  # the step that asked may have been cancelled


async def _cut(task: "asyncio.Task[None]") -> None:
    task.cancel()
    await asyncio.wait({task}, timeout=CUT_SECONDS)


# --- every kind of provider as an async generator ---


def _generator(made: Any) -> AsyncGenerator[Any, None]:
    if inspect.isasyncgen(made):
        return cast("AsyncGenerator[Any, None]", made)
    if inspect.isgenerator(made):
        return _of_generator(made)
    if isinstance(made, _AsyncGeneratorContextManager):
        return _of_async_context(made)
    return _of_context(made) if isinstance(made, _GeneratorContextManager) else _of_value(made)


async def _of_generator(made: Generator[Any, Any, Any]) -> AsyncGenerator[Any, None]:
    try:
        for value in made:
            yield value
    finally:
        made.close()


async def _of_async_context(made: _AsyncGeneratorContextManager[Any]) -> AsyncGenerator[Any, None]:
    async with made as value:
        yield value


async def _of_context(made: _GeneratorContextManager[Any]) -> AsyncGenerator[Any, None]:
    with made as value:
        yield value


async def _of_value(made: Any) -> AsyncGenerator[Any, None]:
    yield await made if inspect.isawaitable(made) else made


async def _first(made: AsyncGenerator[Any, None], name: str) -> Any:
    async for value in made:
        return value
    raise DeclarationError(name=name, problem="it ended without a value", fix="Let it `yield` the value, once.")


async def _hold(made: AsyncGenerator[Any, None], held: _Held) -> None:
    """Until the journal closes. Then let the provider go on after its `yield`, to its end."""
    try:
        await held.closing.wait()
    except asyncio.CancelledError:  # the loop ends, and nobody has closed the journal
        await made.aclose()
        raise
    async for _ in made:
        await made.aclose()
        raise DeclarationError(
            name=held.name, problem="it yielded a second time", fix="Yield once, and close after it."
        )
