"""The stub model on the wire: one connection, one request, so that a caller's death shows as its closed end.

A connection kept open would hide that, and a pooled one could fail by chance as the stub leaves; so each answer says
`connection: close`. What is answered is decided elsewhere; here it is sent, held back, or broken off.
"""

from __future__ import annotations

import gzip
import json
import selectors
import socket
import zlib
from collections.abc import Sequence
from dataclasses import asdict
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

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
        events, is_whole = _planned(visit, self._dialect)
        frames, tail = _frames(events, compress=self._compresses(visit), ends=visit.turn.end != "cut")
        settle, sent = self.server.book.settle, 0
        settle(visit, delivered=None if frames else False)
        try:
            self._begin(HTTPStatus.OK, "text/event-stream; charset=utf-8", visit)
            self.send_header("transfer-encoding", "chunked")
            self.end_headers()
            for frame in frames:
                if not self._hold(visit.turn.pace if sent else 0):
                    return self._leave(visit, events_sent=sent)
                is_last = sent + 1 == len(frames)
                settle(visit, delivered=is_whole if is_last else None, events_sent=sent + 1)
                self.wfile.write(frame + tail if is_last else frame)
                sent += 1
            if not frames:
                self.wfile.write(tail)
        except OSError:
            self._leave(visit, events_sent=sent)

    def _hold(self, seconds: float) -> bool:
        """Hold the answer back; False as soon as the caller, or the stub itself, is gone."""
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


def _planned(visit: Visit, dialect: Dialect) -> tuple[list[str], bool]:
    """Return the events of a stream that are sent, and whether its end mark is among them."""
    events = list(visit.work.events) if visit.work else []
    count = visit.turn.events
    if count is None or count >= len(events):
        return events, True
    sent = events[:count]
    return (([*sent, dialect.broken(sent)] if visit.turn.end == "error event" else sent), False)


def _frames(events: Sequence[str], *, compress: bool, ends: bool) -> tuple[list[bytes], bytes]:
    """Return a chunk for each event, readable as soon as it is there, and what ends the body, if it has an end."""
    packer = zlib.compressobj(wbits=GZIP_WINDOW) if compress else None
    chunks = [text.encode() for text in events]
    if not packer:
        return [_chunk(each) for each in chunks], END if ends else b""
    frames = [_chunk(packer.compress(each) + packer.flush(zlib.Z_SYNC_FLUSH)) for each in chunks]
    return frames, _chunk(packer.flush()) + END if ends else b""


def _chunk(content: bytes) -> bytes:
    return f"{len(content):x}\r\n".encode() + content + b"\r\n"
