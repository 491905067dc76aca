"""`wrap`: a client whose calls are model steps inside a run, and plain calls anywhere else.

A wrapped client is a copy of the client with one method covered: `request`, which every call of the kind of client that
Stainless makes (openai, anthropic and many more) comes to. So types, resources, options, retries, keys and addresses
stay those of the client.
"""

import functools
import inspect
import sys
from typing import Any, TypeVar, Unpack, cast, get_origin

from counterfoil import integrations
from counterfoil.engine import bridge, keyring, unsafe
from counterfoil.engine.calls import WRAPPED, Options, StepOptions, options_of
from counterfoil.engine.context import in_run
from counterfoil.engine.streams import ChunkStream
from counterfoil.errors import DeclarationError
from counterfoil.integrations.answered import rebuilt
from counterfoil.integrations.asked import package_of
from counterfoil.integrations.calls import WrapOptions, answer_now, answer_of, secrets_of
from counterfoil.integrations.streaming import stream_now, stream_of, streamed

T = TypeVar("T")

NEEDED = ("request", "copy", "_process_response", "_maybe_override_cast_to", "_prepare_url")
"""What a client of that kind has."""


def wrap(client: T, **options: Unpack[WrapOptions]) -> T:
    """A client of the same type whose calls in a workflow's body are recorded as model steps.

    For the clients of openai, anthropic and others of that make, at module level as a rule. Outside a run, and inside a
    step, calls are made as ever. In a body each is one step, named by its path (`chat.completions`): its intent is on
    disk before it leaves, its response is kept as it came, and a replay makes the same value of it without a
    connection. A call that is cut off by a crash is made again, and the journal says so. `retry` bounds the tries of
    the step, each with the client's own `max_retries` in it.

    Raises DeclarationError for anything else: make that a function, and call it by `ctx.model(function, ...)`.
    """
    allowed = WrapOptions.__annotations__
    for name in options:
        if name not in allowed:
            raise _refused(client, f"{name} is no option of a client", f"The options are {', '.join(allowed)}.")
    settled = options_of(cast("StepOptions", options))
    before = getattr(type(client), WRAPPED, None)
    if isinstance(before, Options):
        if settled == before or settled == Options():
            return client
        return _of_class(client, _class(type(client).__mro__[1], settled.over(before)))
    _check(client)
    return _of_class(client, _class(cast("Any", type(client)), settled))


def _check(client: Any) -> None:
    if isinstance(client, type) or not all(callable(getattr(client, name, None)) for name in NEEDED):
        raise _refused(
            client,
            "it is no client that can be wrapped: those of openai, anthropic and others of that make can",
            "Write a function that uses it, and call that by ctx.model(function, ...).",
        )


def _refused(client: Any, problem: str, fix: str) -> DeclarationError:
    return DeclarationError(name=f"wrap({type(client).__qualname__})", problem=problem, fix=fix)


def _of_class(client: T, kind: Any) -> T:
    if not inspect.iscoroutinefunction(kind.request):
        bridge.want()
    for name, value in secrets_of(client).items():
        keyring.hold(name, value)
    try:
        copy = cast("Any", client).copy()
    except TypeError as error:  # a class of the user's whose constructor takes something else
        fix = "Let its constructor take what the client's own takes, by keyword, or wrap a client of the plain class."
        raise _refused(client, f"it can't be copied: {error}", fix) from error
    copy.__class__ = kind
    return cast("T", copy)


@functools.lru_cache(maxsize=256)
def _class(kind: Any, options: Options) -> type:
    """The class of wrapped clients of this class with these options: `with_options` makes another of the same."""
    made = _async_class(kind) if inspect.iscoroutinefunction(kind.request) else _plain_class(kind)
    setattr(made, WRAPPED, options)
    made.__name__, made.__qualname__, made.__module__ = kind.__name__, kind.__qualname__, kind.__module__
    made.__doc__ = kind.__doc__
    for module in (integrations, sys.modules[package_of(kind)]):
        unsafe.pass_over(module)
    return made


def _async_class(kind: Any) -> type:
    class Wrapped(kind):  # type: ignore[misc]
        async def request(self, cast_to: Any, options: Any, **asked: Any) -> Any:
            if not in_run():
                return await super().request(cast_to, options, **asked)
            cast_to = self._maybe_override_cast_to(cast_to, options)
            if asked.get("stream") and not _is_lines(cast_to):
                chunks = await stream_of(self, options, _settings(self), stream_class=asked.get("stream_cls"))
                found = _streaming(self, options, chunks, stream_class=asked.get("stream_cls"))
            else:
                found = _whole(self, options, await answer_of(self, options, _settings(self)))
            return await self._process_response(cast_to=cast_to, options=options, **found)

    return Wrapped


def _plain_class(kind: Any) -> type:
    class Wrapped(kind):  # type: ignore[misc]
        def request(self, cast_to: Any, options: Any, **asked: Any) -> Any:
            if not in_run():
                return super().request(cast_to, options, **asked)
            cast_to = self._maybe_override_cast_to(cast_to, options)
            if asked.get("stream") and not _is_lines(cast_to):
                chunks = stream_now(self, options, _settings(self), stream_class=asked.get("stream_cls"))
                found = _streaming(self, options, chunks, stream_class=asked.get("stream_cls"))
            else:
                found = _whole(self, options, answer_now(self, options, _settings(self)))
            return self._process_response(cast_to=cast_to, options=options, **found)

    return Wrapped


def _is_lines(cast_to: Any) -> bool:
    """Whether the client asks for lines of JSON, which are no events and have no end mark: that is a whole answer."""
    return str(getattr(get_origin(cast_to) or cast_to, "__name__", "")).endswith("JSONLDecoder")


def _settings(client: Any) -> Options:
    settings: Options = getattr(client, WRAPPED)
    return settings


def _whole(client: Any, options: Any, answer: dict[str, Any]) -> dict[str, Any]:
    """What the client's `_process_response` is given: a whole response, made of the record."""
    response = rebuilt(client, options, answer)
    return {"response": response, "stream": False, "stream_cls": None, "retries_taken": answer.get("retries", 0)}


def _streaming(client: Any, options: Any, chunks: ChunkStream, *, stream_class: Any) -> dict[str, Any]:
    """The same for a stream: a response whose bytes come as the run has them."""
    retries = chunks.head.get("retries", 0)
    response = streamed(client, options, chunks)
    return {"response": response, "stream": True, "stream_cls": stream_class, "retries_taken": retries}
