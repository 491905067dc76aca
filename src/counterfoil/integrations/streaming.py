"""A wrapped client's streams: the client's own stream object, over a response whose bytes come from the run.

Inside the step the response is read and cut into events, each recorded as it came. The body's stream is made by the
client of today from those events, live as on replay, so its items are the same, as many, with the same borders. A
connection that breaks, and one that ends without the protocol's mark, make no answer: StreamCutError. An event by which
the other side says that it failed is raised as the client raises it.
"""

import asyncio
import contextlib
import functools
import socket
import sys
import threading
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator
from types import ModuleType
from typing import Any

from counterfoil.core.marks import Splitter, is_end, is_error
from counterfoil.engine import bridge
from counterfoil.engine.calls import MODEL, Call, Options
from counterfoil.engine.context import current, options_here
from counterfoil.engine.live import threads
from counterfoil.engine.streams import ChunkStream
from counterfoil.errors import DeclarationError, StreamCutError
from counterfoil.integrations.answered import complete, head_of, http_module, request_of
from counterfoil.integrations.asked import asked_for, to_send
from counterfoil.integrations.calls import Sender, cannot_wait, given, learn_secrets

DECODER = "_make_sse_decoder"
"""The method by which a client says what its streams are made of."""

DRAIN_SECONDS = 0.1
"""So long the bytes after the end mark are waited for, which free the connection for the next request."""


# --- inside the step ---


def flow(*, method: str, path: str, body: Any, query: Any, sender: Sender) -> AsyncGenerator[Any, None]:
    """Send what is recorded, by the client's own `request`: the head of what comes back, and each of its events."""
    return _events(body, sender)


def flow_of_upload(
    *, method: str, path: str, body: Any, query: Any, content: Any, sender: Sender
) -> AsyncGenerator[Any, None]:
    """As `flow`, with bytes whose digests are recorded."""
    return _events(body, sender)


async def _events(body: Any, sender: Sender) -> AsyncGenerator[Any, None]:
    response, splitter = await _opened(body, sender), Splitter()
    is_over, count, pieces = False, 0, _pieces(response)
    try:
        yield head_of(response)
        async for piece in pieces:
            for event in splitter.feed(piece) if piece else [splitter.rest()]:
                if is_error(event):
                    await _fail(event, sender)
                is_over = is_over or is_end(event)
                if piece or is_over:
                    count += 1
                    yield event
        raise StreamCutError(url=_place(response), events=count)
    except http_module(sender.client).RequestError as error:
        raise StreamCutError(url=_place(response), events=count) from error
    finally:
        await _let_go(response, pieces, drains=is_over)


async def _opened(body: Any, sender: Sender) -> Any:
    ask = functools.partial(sender.client.request, sender.response_class, to_send(body, sender.options), stream=True)
    return await ask() if sender.is_async else await _opened_in_thread(ask)


async def _opened_in_thread(ask: Callable[[], Any]) -> Any:
    """The response that a plain client gives. Cancelled before it is there, we close it when it comes."""
    come: list[Any] = []
    is_left = threading.Event()

    def opened() -> Any:
        response = ask()
        come.append(response)
        if is_left.is_set():
            response.close()
        return response

    try:
        return await threads.run(opened)
    except asyncio.CancelledError:
        is_left.set()
        for response in come:  # it came, and was on its way from the thread
            threads.run(response.close)
        raise


async def _pieces(response: Any) -> AsyncGenerator[bytes, None]:
    """The bytes of a response as they come, and an empty piece at the end.

    Those of a plain client are waited for in a thread.
    """
    if hasattr(response.stream, "__aiter__"):
        async for piece in response.aiter_bytes():
            if piece:
                yield piece
    else:
        plain = response.iter_bytes()
        while (piece := await _read(response, plain)) != b"":
            yield piece
    yield b""


async def _read(response: Any, plain: Iterator[bytes]) -> bytes:
    """The next piece of a plain client's response, read in a thread.

    Nobody can stop the thread. But cancelled, we hang up, so that neither it nor the other side goes on for nothing.
    """
    try:
        return await threads.run(lambda: next(plain, b""))
    except asyncio.CancelledError:
        _hang_up(response)
        raise


def _hang_up(response: Any) -> None:
    """End the connection under a thread that reads from it. One of HTTP/2 is not this response's alone."""
    told = response.extensions
    if told.get("http_version") in {b"HTTP/1.0", b"HTTP/1.1"} and "network_stream" in told:
        connection = told["network_stream"].get_extra_info("socket")
        with contextlib.suppress(OSError, AttributeError):  # it has ended, or is of another kind
            connection.shutdown(socket.SHUT_RDWR)


async def _let_go(response: Any, pieces: AsyncGenerator[bytes, None], *, drains: bool) -> None:
    """Free the connection: for the next request, if its stream has come to its end."""
    try:
        if drains:
            async with asyncio.timeout(DRAIN_SECONDS):
                async for _ in pieces:
                    pass
    except Exception:  # noqa: BLE001, S110 - all that was to come is here
        pass
    finally:
        await pieces.aclose()
        await (response.aclose() if hasattr(response.stream, "__aiter__") else threads.run(response.close))


async def _fail(event: str, sender: Sender) -> None:
    """Raise what the client makes of an event that says that the answer failed; some it just hands on."""
    http, client, options = http_module(sender.client), sender.client, sender.options
    request = http.Request(options.method, request_of(client, options).url)
    response = http.Response(200, content=event.encode(), request=request)
    stream = client._process_response(  # noqa: SLF001 - not told elsewhere
        cast_to=object, options=options, response=response, stream=True, stream_cls=sender.stream_class
    )
    if sender.is_async:
        async for _ in await stream:
            pass
    else:
        for _ in stream:
            pass


def _place(response: Any) -> str:
    return str(response.request.url.copy_with(query=None, fragment=None, userinfo=b""))


# --- in the body ---


async def stream_of(client: Any, options: Any, settings: Options, *, stream_class: Any) -> ChunkStream:
    """The open stream of a call: from the record, or from a step that is made now.

    Raises DeclarationError for a client whose streams are no server-sent events, before anything is sent.
    """
    _check(client)
    context = current()
    learn_secrets(client, context)
    asked, options = asked_for(client, options)
    view = context.with_options(opaque=("sender",), **given(options_here.get().over(settings), asked.name))
    sender = Sender(client, options, stream_class)
    asks = {"method": asked.method, "path": asked.path, "body": asked.body, "query": asked.query, "sender": sender}
    if asked.content is None:
        call: Call[Any] = Call(flow, (), asks)
    else:
        call = Call(flow_of_upload, (), {**asks, "content": asked.content})
    try:
        return await view.open_stream(MODEL, call)
    except Exception as error:
        complete(client, options, error)
        raise


def stream_now(client: Any, options: Any, settings: Options, *, stream_class: Any) -> ChunkStream:
    """As `stream_of`, for a plain client: waits here, while the loop goes on."""
    wait = bridge.waiter()
    if wait is None:
        raise cannot_wait(client)
    chunks: ChunkStream = wait(stream_of(client, options, settings, stream_class=stream_class))
    return chunks


def _check(client: Any) -> None:
    """What is no text can't be cut into events: no end mark would be found, and a whole answer be thrown away."""
    kinds = [kind for kind in type(client).__mro__ if DECODER in vars(kind)]
    if len(kinds) > 1:  # the first of them has put its own in place of the usual one
        raise DeclarationError(
            name=f"a stream of {type(client).__qualname__}",
            problem="it comes in a form of its own, and not as server-sent events",
            fix="Ask without stream=True, or stream in a function of your own and call it by ctx.model(function, ...).",
        )


def streamed(client: Any, options: Any, chunks: ChunkStream) -> Any:
    """A response of the client's own HTTP library, whose bytes are the chunks of this stream."""
    http, request = http_module(client), request_of(client, options)
    kind = _bytes(http) if Sender(client, options).is_async else _plain_bytes(http)
    return http.Response(
        chunks.head["status"], headers=chunks.head["headers"], stream=kind(client, options, chunks), request=request
    )


def _is_dropped() -> bool:
    """Whether we are called because something was collected, and by nobody's will."""
    return isinstance(sys.exception(), GeneratorExit)


@functools.cache
def _bytes(http: ModuleType) -> type:
    """The class of bytes that an async client of this HTTP library reads."""

    class Bytes(http.AsyncByteStream):  # type: ignore[misc, name-defined]
        def __init__(self, client: Any, options: Any, chunks: ChunkStream) -> None:
            self._of, self._chunks = (client, options), chunks

        async def __aiter__(self) -> AsyncIterator[bytes]:
            while True:
                try:
                    chunk = await self._chunks.next()
                except StopAsyncIteration:
                    return
                except Exception as error:
                    complete(*self._of, error)
                    raise
                yield chunk.encode()

        async def aclose(self) -> None:
            if self._chunks.is_of_current_task or not _is_dropped():  # what is collected is closed in another task
                await self._chunks.close()

    return Bytes


@functools.cache
def _plain_bytes(http: ModuleType) -> type:
    """The class of bytes that a plain client of this HTTP library reads."""

    class PlainBytes(http.SyncByteStream):  # type: ignore[misc, name-defined]
        def __init__(self, client: Any, options: Any, chunks: ChunkStream) -> None:
            self._of, self._chunks = (client, options), chunks

        def __iter__(self) -> Iterator[bytes]:
            while True:
                wait = bridge.waiter()
                if wait is None:
                    raise cannot_wait(self._of[0])
                try:
                    chunk: str = wait(self._chunks.next())
                except StopAsyncIteration:
                    return
                except Exception as error:
                    complete(*self._of, error)
                    raise
                yield chunk.encode()

        def close(self) -> None:
            wait = bridge.waiter()
            if wait is not None and not _is_dropped():
                wait(self._chunks.close())

    return PlainBytes
