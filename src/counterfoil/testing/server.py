"""The stub model on the wire: one connection, one request, so that a caller's death shows as its closed end.

A connection kept open would hide that, and a pooled one could fail by chance as the stub leaves; so each answer says
`connection: close`. What is answered is decided elsewhere; here it is sent, held back, or broken off.
"""

from __future__ import annotations

import contextlib
import gzip
import json
import selectors
import socket
import zlib
from dataclasses import asdict, dataclass
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Protocol, Self

from counterfoil.testing.anthropic_wire import Messages
from counterfoil.testing.calls import Book, Request, Visit
from counterfoil.testing.dialects import MODEL, Dialect, Json
from counterfoil.testing.openai_wire import Chat, Responses

DIALECTS: dict[str, Dialect] = {dialect.path: dialect for dialect in (Chat(), Responses(), Messages())}
OTHERWISE = Chat()  # how errors read where no protocol is spoken
GZIP_WINDOW = 31  # zlib's word for a gzip header
END = b"0\r\n\r\n"  # of a chunked body


class Server(ThreadingHTTPServer):
    """Answers by the book until closed."""

    daemon_threads = False  # closing waits for them, so no thread outlives its stub
    request_queue_size = 128

    def __init__(self, book: Book, port: int) -> None:
        self.book = book
        self._stop, self.stopped = socket.socketpair()
        super().__init__(("127.0.0.1", port), _Handler)

    def close(self) -> None:
        """Let go of every answer still held back, and of the port."""
        self._stop.close()
        self.shutdown()
        self.server_close()
        self.stopped.close()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    timeout = 10  # seconds for a caller to send its request
    disable_nagle_algorithm = True  # each event leaves at once
    server: Server

    def log_message(self, *_: object) -> None:
        """Stay silent: the log is the stub's, not standard error."""

    def do_GET(self) -> None:
        if self.path == "/log":
            self._send(HTTPStatus.OK, [asdict(call) for call in self.server.book.log()])
        else:
            self._refuse(HTTPStatus.NOT_FOUND, f"no such path: {self.path}")

    def do_POST(self) -> None:
        try:
            body = json.loads(self.rfile.read(int(self.headers["content-length"])))
            request = self._understood(body)
            visit = self.server.book.arrive(request) if request else None
        except (KeyError, TypeError, ValueError) as error:
            self._refuse(HTTPStatus.BAD_REQUEST, str(error))
        else:
            if visit:
                self._answer(visit)

    def _understood(self, body: Json) -> Request | None:
        """The call that was asked for; None when this was no call, and is answered."""
        path = self.path.partition("?")[0]
        headers = {name.lower(): value for name, value in self.headers.items()}
        if path == "/config":
            self.server.book.configure(body)
            self._send(HTTPStatus.OK, {})
        elif dialect := DIALECTS.get(path):
            dialect.history(body)
            return Request(dialect=dialect, name=body.get("model", MODEL), body=body, headers=headers)
        elif path.startswith("/tools/"):
            name = path.removeprefix("/tools/")
            return Request(dialect=None, name=name, body=dict(body), headers=headers)
        else:
            self._refuse(HTTPStatus.NOT_FOUND, f"no such path: {self.path}")
        return None

    def _answer(self, visit: Visit) -> None:
        if not self._hold(visit.turn.delay) or visit.turn.drop:
            self._leave(visit)
        elif visit.work and visit.work.events:
            self._stream(visit)
        else:
            self._reply(visit)

    def _leave(self, visit: Visit, *, events_sent: int = 0) -> None:
        """Close the connection on an answer that is not whole."""
        self.server.book.settle(visit, delivered=False, events_sent=events_sent)
        self.close_connection = True

    def _reply(self, visit: Visit) -> None:
        is_cut = visit.work is not None and visit.turn.end == "cut"
        self.server.book.settle(visit, delivered=not is_cut)
        try:
            if visit.work is None:
                self._refuse(visit.turn.status, visit.refusal or f"planned status {visit.turn.status}", visit)
            else:
                self._send(HTTPStatus.OK, visit.work.body, visit, is_cut=is_cut)
        except OSError:
            self._leave(visit)

    def _stream(self, visit: Visit) -> None:
        """Send the events one by one; the log has each of them just before the caller can have it."""
        stream, sent, written = _Stream.of(visit, self._dialect, compress=self._compresses(visit)), 0, 0
        settle = self.server.book.settle
        settle(visit, delivered=None if stream.frames else stream.delivered)
        with contextlib.suppress(OSError):
            self._begin(HTTPStatus.OK, "text/event-stream; charset=utf-8", visit)
            self.send_header("transfer-encoding", "chunked")
            self.end_headers()
            for frame in stream.frames:
                if not self._hold(visit.turn.pace if sent else 0):
                    break
                sent += 1
                is_last = sent == len(stream.frames)
                settle(visit, delivered=stream.delivered if is_last else None, events_sent=sent)
                self.wfile.write(frame)
                written += 1
            self._end(stream, visit)
        settle(visit, delivered=bool(stream.delivered) and written == len(stream.frames), events_sent=sent)

    def _end(self, stream: _Stream, visit: Visit) -> None:
        if not stream.frames:
            self.wfile.write(stream.tail)
        if visit.turn.end == "silence":
            self._hold(None)

    def _hold(self, seconds: float | None) -> bool:
        """Hold the answer back, with None for good; False as soon as the caller, or the stub itself, is gone."""
        with selectors.DefaultSelector() as selector:
            selector.register(self.connection, selectors.EVENT_READ)
            selector.register(self.server.stopped, selectors.EVENT_READ)
            return not selector.select(seconds)

    @property
    def _dialect(self) -> Dialect:
        return DIALECTS.get(self.path.partition("?")[0], OTHERWISE)

    def _compresses(self, visit: Visit | None) -> bool:
        return bool(visit and visit.turn.gzip and "gzip" in self.headers.get("accept-encoding", ""))

    def _refuse(self, status: int, message: str, visit: Visit | None = None) -> None:
        self._send(status, self._dialect.refusal(status, message), visit)

    def _send(self, status: int, body: Json, visit: Visit | None = None, *, is_cut: bool = False) -> None:
        content = json.dumps(body).encode()
        if self._compresses(visit):
            content = gzip.compress(content, mtime=0)
        self._begin(status, "application/json", visit)
        self.send_header("content-length", str(len(content)))
        self.end_headers()
        self.wfile.write(content[: len(content) // 2] if is_cut else content)

    def _begin(self, status: int, content_type: str, visit: Visit | None) -> None:
        """Send what the head of every answer has."""
        self.send_response(status)
        self.send_header("content-type", content_type)
        self.send_header("connection", "close")
        if self._compresses(visit):
            self.send_header("content-encoding", "gzip")
        if visit:
            self.send_header(self._dialect.request_id, f"req_{visit.n}")
            if visit.work is None and visit.turn.retry_after is not None:
                self.send_header("retry-after", visit.turn.retry_after)


class _Packer(Protocol):
    """What zlib makes, which has no public name."""

    def compress(self, data: bytes, /) -> bytes: ...
    def flush(self, mode: int = ..., /) -> bytes: ...


@dataclass(frozen=True, slots=True)
class _Stream:
    """The chunks of a streamed answer, as far as they are sent."""

    frames: list[bytes]  # one for each event, which can be read as soon as it is there
    tail: bytes  # what ends the body, unless it has no end; the last frame has it too
    delivered: bool | None  # once all are sent: whether the end mark is among them; None: the caller waits for it

    @classmethod
    def of(cls, visit: Visit, dialect: Dialect, *, compress: bool) -> Self:
        events, is_whole = _planned(visit, dialect)
        end = visit.turn.end
        packer = zlib.compressobj(wbits=GZIP_WINDOW) if compress else None
        frames = [_chunk(_packed(text.encode(), packer)) for text in events]
        tail = b"" if end in {"cut", "silence"} else (_chunk(packer.flush()) if packer else b"") + END
        if frames:
            frames[-1] += tail
        return cls(frames, tail, None if end == "silence" and not is_whole else is_whole)


def _planned(visit: Visit, dialect: Dialect) -> tuple[list[str], bool]:
    """Return the events of a stream that are sent, and whether its end mark is among them."""
    events = list(visit.work.events) if visit.work else []
    count = visit.turn.events
    if count is None or count >= len(events):
        return events, True
    sent = events[:count]
    return (([*sent, dialect.broken(sent)] if visit.turn.end == "error event" else sent), False)


def _packed(content: bytes, packer: _Packer | None) -> bytes:
    return packer.compress(content) + packer.flush(zlib.Z_SYNC_FLUSH) if packer else content


def _chunk(content: bytes) -> bytes:
    return f"{len(content):x}\r\n".encode() + content + b"\r\n"
