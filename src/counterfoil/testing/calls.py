"""The log of the stub model: every request that arrived, counted before anything can go wrong with it.

Arrival decides the whole fate of a call under one lock, so the order of arrival is the only thing that a log depends
on besides the plan. Nothing here knows of sockets.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

from counterfoil.testing.dialects import Api, Dialect, Json, canonical, prompt_digest, summary
from counterfoil.testing.plans import Kind, Plan, Turn, body_of, checked, turn_of

T = TypeVar("T")

REFUSED = 400


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """One request that arrived, whether or not its caller lived to see the answer."""

    n: int  # number among the calls of its kind, from 1
    kind: Kind
    api: Api | None  # the protocol spoken; None for a tool
    name: str  # the model asked for, or the tool
    process: str | None  # request header x-lab-process
    attempt: str | None  # request header x-lab-attempt
    key: str | None  # request header idempotency-key
    retry_count: int  # request header x-stainless-retry-count: repeats by the provider's own client
    prompt_digest: str | None  # first 12 hex digits over the messages; None for a tool
    options: dict[str, Json]  # decoding parameters; for a tool, its arguments
    streamed: bool
    status: int
    answer: str | None  # in short; None when the work was not done
    billed: bool  # the work was done for this call, and is paid for
    delivered: bool | None  # False: the caller was gone, or the answer broken off; None: still under way
    events_sent: int  # of a stream, so far
    repeat_of: int | None  # first earlier call that did this same work


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """One request to the model or to a tool, read from the wire."""

    dialect: Dialect | None  # None for a tool
    name: str
    body: dict[str, Json]
    headers: Mapping[str, str]

    @property
    def kind(self) -> Kind:
        """What is asked."""
        return "model" if self.dialect else "tool"

    @property
    def streamed(self) -> bool:
        """Whether the answer is wanted event by event."""
        return bool(self.dialect and self.body.get("stream"))

    @property
    def key(self) -> str | None:
        """The key by which a repeat of this request can be known."""
        return self.headers.get("idempotency-key")

    @property
    def address(self) -> tuple[str, str | None]:
        """Where a key is known: each protocol and each tool has its own."""
        return (self.dialect.api if self.dialect else f"tool {self.name}"), self.key

    def work(self, plan: Plan, place: int) -> Work:
        """Do what is asked; raise ValueError when the script has a body of another protocol."""
        if not self.dialect:
            result = plan.get("tool_results", {}).get(self.name, {"ok": True, **self.body})
            return Work(self.body, result, canonical(result), ())
        body = body_of(plan, self.dialect, request=self.body, place=place)
        events = self.dialect.events(body, self.body) if self.streamed else ()
        return Work(self.body, body, summary(self.dialect.said(body)), tuple(events))

    def call(self, n: int, turn: Turn, work: Work | None) -> Call:
        """Return the call for the log, of which nothing has been answered yet."""
        dialect = self.dialect
        return Call(
            n=n,
            kind=self.kind,
            api=dialect.api if dialect else None,
            name=self.name,
            process=self.headers.get("x-lab-process"),
            attempt=self.headers.get("x-lab-attempt"),
            key=self.key,
            retry_count=int(self.headers.get("x-stainless-retry-count") or 0),
            prompt_digest=prompt_digest(dialect.history(self.body)) if dialect else None,
            options=dialect.options(self.body) if dialect else self.body,
            streamed=self.streamed,
            status=turn.status,
            answer=work.summary if work else None,
            billed=work is not None,
            delivered=None,
            events_sent=0,
            repeat_of=None,
        )


@dataclass(frozen=True, slots=True)
class Work:
    """What the model or tool did."""

    asked: dict[str, Json]
    body: Json
    summary: str
    events: Sequence[str]  # of a stream; the last one is its end mark


@dataclass(frozen=True, slots=True)
class Visit:
    """A counted call on its way to its answer; it keeps the log in which it was counted."""

    calls: list[Call]
    index: int
    turn: Turn
    work: Work | None
    refusal: str | None  # why a request that was understood is not answered

    @property
    def n(self) -> int:
        """The call's number."""
        return self.calls[self.index].n


class Book:
    """The plan and the log, shared by the threads that answer and the one that watches."""

    def __init__(self, plan: Plan) -> None:
        self._changed = threading.Condition()
        self._begin(checked(plan))

    def log(self) -> tuple[Call, ...]:
        """Return every call so far."""
        with self._changed:
            return tuple(self._calls)

    def configure(self, plan: Plan) -> None:
        """Begin a new log under this plan; raise ValueError, and change nothing, when it means nothing."""
        new = checked(plan)
        with self._changed:
            self._begin(new)
            self._changed.notify_all()

    def _begin(self, plan: Plan) -> None:
        self._plan = plan
        self._calls: list[Call] = []
        self._keyed: dict[tuple[str, str | None], Work] = {}

    def wait_for(self, fact: Callable[[tuple[Call, ...]], T], timeout: float) -> T:
        """Return the first truthy value of `fact(log)`; raise TimeoutError when there is none in time."""
        with self._changed:
            found = self._changed.wait_for(lambda: fact(tuple(self._calls)), timeout)
            if not found:
                seen = "\n".join(map(str, self._calls)) or "no call"
                raise TimeoutError(f"not seen within {timeout} s; the log:\n{seen}")
            return found

    def arrive(self, request: Request) -> Visit:
        """Count the call and decide its whole fate, before anything can go wrong."""
        with self._changed:
            of_kind = [call for call in self._calls if call.kind == request.kind]
            turn, refusal = self._turn(request, len(of_kind) + 1)
            known = self._known(request) if turn.does_work else None
            work = known or (self._work(request, of_kind) if turn.does_work else None)
            call = replace(request.call(len(of_kind) + 1, turn, work), billed=work is not None and not known)
            self._calls.append(replace(call, repeat_of=_repeat_of(call, self._calls) if work else None))
            self._changed.notify_all()
            return Visit(self._calls, len(self._calls) - 1, turn, work, refusal)

    def _turn(self, request: Request, n: int) -> tuple[Turn, str | None]:
        """Return what the plan says of the call, unless it is one to be refused, and why it is."""
        turn = turn_of(self._plan, request.kind, n)
        refusal = self._refusal(request) if turn.does_work else None
        return (replace(turn, status=REFUSED) if refusal else turn), refusal

    def _refusal(self, request: Request) -> str | None:
        known = self._known(request)
        if known and known.asked != request.body:
            return f"idempotency key {request.key!r} was used before, with another request"
        if request.dialect and self._plan.get("strict"):
            return request.dialect.unpaired(request.body)
        return None

    def _known(self, request: Request) -> Work | None:
        """Return the work done under the request's key, also when its answer is still under way."""
        return self._keyed.get(request.address) if request.key and self._plan.get("honours_keys") else None

    def _work(self, request: Request, of_kind: Sequence[Call]) -> Work:
        repeats = sum(call.answer is not None and not call.billed for call in of_kind)
        work = request.work(self._plan, len(of_kind) + 1 - repeats)
        self._keyed[request.address] = work
        return work

    def settle(self, visit: Visit, *, delivered: bool | None, events_sent: int = 0) -> None:
        """Note how far the answer has come."""
        with self._changed:
            call = visit.calls[visit.index]
            visit.calls[visit.index] = replace(call, delivered=delivered, events_sent=events_sent)
            self._changed.notify_all()


def _repeat_of(call: Call, log: Sequence[Call]) -> int | None:
    """Number of the first earlier call that did the same work: what is paid for again, or known by its key."""
    for earlier in log:
        if earlier.answer is not None and _asks(earlier) == _asks(call):
            return earlier.n
    return None


def _asks(call: Call) -> tuple[Json, ...]:
    asked = call.prompt_digest if call.kind == "model" else canonical(call.options)
    return call.kind, call.api, call.name, asked
