"""A stand-in for the outside world: a model and its tools over real HTTP, every call counted.

The model speaks OpenAI chat completions at POST /v1/chat/completions, tools answer at
POST /tools/NAME. A plan says, call by call, what is answered, how late, and what goes wrong.
A call is counted when it arrives, so killing the caller never loses one. The stub knows
nothing of runs and journals: it is the independent witness their counts are checked against.
It has no clock and draws nothing at random: the same plan and calls give the same log.
"""

from __future__ import annotations

import hashlib
import json
import selectors
import socket
import threading
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, Literal, Self, TypeAlias, TypedDict, TypeVar, Unpack, cast

Json: TypeAlias = Any  # a decoded JSON value, at the edge
Kind: TypeAlias = Literal["model", "tool"]
Drop: TypeAlias = Literal["before", "after"] | None
Answer: TypeAlias = str | dict[str, Json]
T = TypeVar("T")

CREATED = 1_764_460_800  # "created" of every completion: the stub has no clock
MODEL = "stub-model"


class Plan(TypedDict, total=False):
    """What the stub does; each list is read call by call, from the first call of its kind."""

    script: Sequence[Answer]  # "tool", "final", a chat message, or a whole completion
    vary: bool  # every answer differs from every other in its wording
    delays: Sequence[float]  # seconds an answer of the model is held back
    drops: Sequence[Drop]  # close the connection before or after the work, unanswered
    statuses: Sequence[int]  # 200, or the error returned in place of the work
    tool_delays: Sequence[float]
    tool_drops: Sequence[Drop]
    tool_statuses: Sequence[int]
    tool_results: dict[str, Json]  # what each tool returns, by its name


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """One request that arrived, whether or not its caller lived to see the answer."""

    n: int  # number among the calls of its kind, from 1
    kind: Kind
    name: str  # the model asked for, or the tool
    process: str | None  # request header x-lab-process
    attempt: str | None  # request header x-lab-attempt
    prompt_digest: str | None  # first 12 hex digits over the messages; None for a tool
    options: dict[str, Json]  # decoding parameters; for a tool, its arguments
    status: int
    answer: str | None  # in short; None when the work was not done
    delivered: bool | None  # False: the caller was gone or dropped; None: still held back
    repeat_of: int | None  # first earlier call that did this same work


@dataclass(frozen=True, slots=True)
class _Turn:
    """What the plan says about one call."""

    delay: float
    drop: Drop
    status: int

    @property
    def does_work(self) -> bool:
        return self.status == HTTPStatus.OK and self.drop != "before"


class StubModel:
    """A model and tool server for tests; a context manager, its address is `url`."""

    def __init__(self, *, port: int = 0, **plan: Unpack[Plan]) -> None:
        self._book = _Book(plan)
        self._port = port
        self._server: _Server | None = None

    def __enter__(self) -> Self:
        self._server = _Server(self._book, self._port)
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,))
        self._thread.start()
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        server, self._server = self._running(), None
        server.close()
        self._thread.join()

    @property
    def url(self) -> str:
        """Base address, without a path; an OpenAI client takes `url + "/v1"`."""
        return f"http://127.0.0.1:{self._running().server_port}"

    @property
    def log(self) -> tuple[Call, ...]:
        """Every call so far, in order of arrival."""
        return self._book.log()

    def configure(self, **plan: Unpack[Plan]) -> None:
        """Replace the plan and begin a new log: a plan counts calls from the first one."""
        self._book.configure(plan)

    def wait_for(self, fact: Callable[[tuple[Call, ...]], T], *, timeout: float = 10.0) -> T:
        """Return the first truthy value of `fact(log)`, looked at whenever the log changes.

        Raises TimeoutError, which shows the log, when the fact does not come true in time.
        """
        return self._book.wait_for(fact, timeout)

    def _running(self) -> _Server:
        if self._server is None:
            raise RuntimeError("the stub is not running: use it as `with StubModel() as stub:`")
        return self._server


class _Book:
    """The plan and the log, shared by the threads that answer and the one that watches."""

    def __init__(self, plan: Plan) -> None:
        self._changed = threading.Condition()
        self._plan = _checked(plan)
        self._calls: list[Call] = []

    def log(self) -> tuple[Call, ...]:
        with self._changed:
            return tuple(self._calls)

    def configure(self, plan: Plan) -> None:
        checked = _checked(plan)
        with self._changed:
            self._plan, self._calls = checked, []
            self._changed.notify_all()

    def wait_for(self, fact: Callable[[tuple[Call, ...]], T], timeout: float) -> T:
        with self._changed:
            found = self._changed.wait_for(lambda: fact(tuple(self._calls)), timeout)
            if not found:
                seen = "\n".join(map(str, self._calls)) or "no call"
                raise TimeoutError(f"not seen within {timeout} s; the log:\n{seen}")
            return found

    def arrive(self, request: _Request) -> _Visit:
        """Count the call and decide its whole fate, before anything can go wrong."""
        with self._changed:
            n = 1 + sum(call.kind == request.kind for call in self._calls)
            turn = _turn(self._plan, request.kind, n)
            work = request.work(self._plan, n) if turn.does_work else None
            self._calls.append(request.call(n, turn, work, log=self._calls))
            self._changed.notify_all()
            return _Visit(self._calls, len(self._calls) - 1, turn, work)

    def settle(self, visit: _Visit, *, delivered: bool) -> None:
        with self._changed:
            call = visit.calls[visit.index]
            visit.calls[visit.index] = replace(call, delivered=delivered)
            self._changed.notify_all()


@dataclass(frozen=True, slots=True)
class _Visit:
    """A counted call on its way to its answer; it keeps the log in which it was counted."""

    calls: list[Call]
    index: int
    turn: _Turn
    work: _Work | None


@dataclass(frozen=True, slots=True)
class _Work:
    body: Json
    summary: str


@dataclass(frozen=True, slots=True)
class _Request:
    """One request to the model or to a tool, read from the wire."""

    kind: Kind
    name: str
    body: dict[str, Json]
    process: str | None
    attempt: str | None

    def work(self, plan: Plan, n: int) -> _Work:
        if self.kind == "tool":
            result = plan.get("tool_results", {}).get(self.name, {"ok": True, **self.body})
            return _Work(result, _canonical(result))
        completion = _completion(_answer(plan, self.body["messages"], n), self.body, n)
        return _Work(completion, _summary(completion["choices"][0]["message"]))

    def call(self, n: int, turn: _Turn, work: _Work | None, *, log: Sequence[Call]) -> Call:
        is_model = self.kind == "model"
        call = Call(
            n=n,
            kind=self.kind,
            name=self.name,
            process=self.process,
            attempt=self.attempt,
            prompt_digest=prompt_digest(self.body["messages"]) if is_model else None,
            options=_options(self.body) if is_model else self.body,
            status=turn.status,
            answer=work.summary if work else None,
            delivered=None,
            repeat_of=None,
        )
        return replace(call, repeat_of=_repeat_of(call, log) if work else None)


def prompt_digest(messages: Sequence[Json]) -> str:
    """First 12 hex digits of the SHA-256 over the canonical JSON of the messages."""
    return hashlib.sha256(_canonical(messages).encode()).hexdigest()[:12]


def tool_call(name: str, **arguments: Json) -> dict[str, Json]:
    """A script entry: the model asks for this tool."""
    function = {"name": name, "arguments": _canonical(arguments)}
    call = {"id": f"call_{name}", "type": "function", "function": function}
    return {"role": "assistant", "content": None, "tool_calls": [call]}


def _checked(plan: Plan) -> Plan:
    if unknown := sorted(set(plan) - set(Plan.__annotations__)):
        raise ValueError(f"not part of a plan: {', '.join(unknown)}")
    for answer in plan.get("script", ()):
        if not isinstance(answer, dict) and answer not in {"tool", "final"}:
            raise ValueError(f'an answer is "tool", "final" or an object, not {answer!r}')
    for drop in (*plan.get("drops", ()), *plan.get("tool_drops", ())):
        if drop not in {"before", "after", None}:
            raise ValueError(f'a drop is "before", "after" or null, not {drop!r}')
    return plan


def _check_chat(body: Json) -> None:
    if body.get("stream"):
        raise ValueError("the stub does not stream")
    if not body["messages"] or not all(isinstance(m["role"], str) for m in body["messages"]):
        raise ValueError("messages is a list of objects, each with a role")


def _turn(plan: Plan, kind: Kind, n: int) -> _Turn:
    if kind == "model":
        delays, drops = plan.get("delays", ()), plan.get("drops", ())
        statuses = plan.get("statuses", ())
    else:
        delays, drops = plan.get("tool_delays", ()), plan.get("tool_drops", ())
        statuses = plan.get("tool_statuses", ())
    return _Turn(_nth(delays, n, 0.0), _nth(drops, n, None), _nth(statuses, n, 200))


def _nth(values: Sequence[T], n: int, otherwise: T) -> T:
    return values[n - 1] if n <= len(values) else otherwise


def _answer(plan: Plan, messages: list[Json], n: int) -> Answer:
    """The script's answer, its last one for ever; without a script the history decides."""
    if script := plan.get("script", ()):
        answer = script[min(n, len(script)) - 1]
    else:
        answer = "final" if any(m["role"] == "tool" for m in messages) else "tool"
    if isinstance(answer, dict):
        return answer
    wording = f" (wording {n})" if plan.get("vary") else ""
    if answer == "final":
        return {"role": "assistant", "content": f"Take an umbrella.{wording}"}
    message = tool_call("get_weather", city="Paris")
    message["content"] = f"I look at the weather.{wording}" if wording else None
    message["tool_calls"][0]["id"] = f"call_{n if wording else prompt_digest(messages)}"
    return message


def _completion(answer: Answer, request: dict[str, Json], n: int) -> dict[str, Json]:
    if "choices" in answer:
        return cast("dict[str, Json]", answer)
    message = cast("dict[str, Json]", answer)
    reason = "tool_calls" if message.get("tool_calls") else "stop"
    asked, said = len(_canonical(request["messages"])) // 4, len(_summary(message)) // 4
    return {
        "id": f"chatcmpl-{n}",
        "object": "chat.completion",
        "created": CREATED,
        "model": request.get("model", MODEL),
        "choices": [{"index": 0, "finish_reason": reason, "message": message}],
        "usage": {
            "prompt_tokens": asked,
            "completion_tokens": said,
            "total_tokens": asked + said,
        },
    }


def _summary(message: dict[str, Json]) -> str:
    said = [message["content"]] if message.get("content") else []
    functions = [call["function"] for call in message.get("tool_calls") or ()]
    return " ".join(said + [f"{f['name']}({f['arguments']})" for f in functions])


def _options(body: dict[str, Json]) -> dict[str, Json]:
    return {k: v for k, v in body.items() if k not in {"messages", "model", "tools"}}


def _repeat_of(call: Call, log: Sequence[Call]) -> int | None:
    """Number of the first earlier call that did the same work: what is paid for again."""
    for earlier in log:
        if earlier.answer is not None and _asks(earlier) == _asks(call):
            return earlier.n
    return None


def _asks(call: Call) -> tuple[Json, ...]:
    asked = call.prompt_digest if call.kind == "model" else _canonical(call.options)
    return call.kind, call.name, asked


def _canonical(value: Json) -> str:
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)


class _Server(ThreadingHTTPServer):
    daemon_threads = False  # closing waits for them, so no thread outlives its stub
    request_queue_size = 128

    def __init__(self, book: _Book, port: int) -> None:
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
    """One connection, one request: the caller's death shows as its closed end."""

    protocol_version = "HTTP/1.1"
    timeout = 10  # seconds for a caller to send its request
    server: _Server

    def log_message(self, *_: object) -> None:
        """Stay silent: the log is the stub's, not standard error."""

    def do_GET(self) -> None:
        if self.path == "/log":
            self._send(HTTPStatus.OK, [asdict(call) for call in self.server.book.log()])
        else:
            self._refuse(HTTPStatus.NOT_FOUND, f"no such path: {self.path}")

    def do_POST(self) -> None:
        try:
            request = self._understood(json.loads(self.rfile.read(int(self.headers["content-length"]))))
        except (KeyError, TypeError, ValueError) as error:
            self._refuse(HTTPStatus.BAD_REQUEST, str(error))
        else:
            if request:
                self._answer(request)

    def _understood(self, body: Json) -> _Request | None:
        """The call that was asked for; None when this was no call, and is answered."""
        process, attempt = self.headers["x-lab-process"], self.headers["x-lab-attempt"]
        if self.path == "/config":
            self.server.book.configure(body)
            self._send(HTTPStatus.OK, {})
        elif self.path == "/v1/chat/completions":
            _check_chat(body)
            return _Request("model", body.get("model", MODEL), body, process, attempt)
        elif self.path.startswith("/tools/"):
            return _Request("tool", self.path.removeprefix("/tools/"), dict(body), process, attempt)
        else:
            self._refuse(HTTPStatus.NOT_FOUND, f"no such path: {self.path}")
        return None

    def _answer(self, request: _Request) -> None:
        book = self.server.book
        visit = book.arrive(request)
        if not self._hold(visit.turn.delay) or visit.turn.drop:
            book.settle(visit, delivered=False)
            self.close_connection = True
            return
        book.settle(visit, delivered=True)
        try:
            self._reply(visit)
        except OSError:
            book.settle(visit, delivered=False)

    def _reply(self, visit: _Visit) -> None:
        if visit.work is None:
            self._refuse(visit.turn.status, f"planned status {visit.turn.status}")
        else:
            self._send(HTTPStatus.OK, visit.work.body)

    def _hold(self, seconds: float) -> bool:
        """Hold the answer back; False as soon as the caller, or the stub itself, is gone."""
        with selectors.DefaultSelector() as selector:
            selector.register(self.connection, selectors.EVENT_READ)
            selector.register(self.server.stopped, selectors.EVENT_READ)
            return not selector.select(seconds)

    def _refuse(self, status: int, message: str) -> None:
        error = {"message": message, "type": "stub_error", "code": status}
        self._send(status, {"error": error})

    def _send(self, status: int, body: Json) -> None:
        content = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(content)))
        self.send_header("connection", "close")
        self.end_headers()
        self.wfile.write(content)
