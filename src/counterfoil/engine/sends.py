"""The account of one try of a model step: each request that left, under which key, and what came of it.

Law: the first request of a try is the intent's; each further one is on disk as `step_dispatched` before its bytes leave
(J4), and is refused where that can't be. A try that is over lets nothing leave any more.
"""

import asyncio
import contextvars
import hashlib
import threading
from collections.abc import Awaitable, Callable, Coroutine
from concurrent.futures import CancelledError, Future
from contextvars import ContextVar
from typing import Any

import msgspec

from counterfoil.core import codec
from counterfoil.core.answer import answer_of
from counterfoil.core.events import StepDispatched
from counterfoil.core.parts import NONE, Send, Value
from counterfoil.core.scrub import Scrubber
from counterfoil.engine.tee import Body
from counterfoil.errors import CounterfoilError, SendRefusedError

ANSWERED = range(200, 300)
SDK_CHARACTERS_MAX = 100
UNKNOWN_BODY = "unread"
_OVER = (
    "its step is over",
    "Await in the step's function all that it starts; start what lives longer outside of steps.",
)
_BLOCKS = (
    "a plain client blocks the event loop here, which has to write down each request after the first",
    "Make the step's function a plain `def`, which runs in a thread, or use the client's async form.",
)
_LEFT = "Nothing is to be done here; the run is taken up again, and the request made then."


class Outgoing(msgspec.Struct, frozen=True, kw_only=True):
    """A request that is about to leave."""

    method: str
    url: str  # without query, fragment and credentials
    path: str
    body: Body | bytes  # what is known of it only as it leaves, or all of it
    likeness: str | None = None  # of a body that is not held whole: what it has in common with the same one sent again
    boundary: str = ""  # of a multipart body: drawn anew by the client at each try
    own_key: str | None = None  # that the caller gave
    is_retry: bool = False  # by the client's own word
    sdk: str | None = None
    secrets: dict[str, str] = {}

    def digest(self) -> str:
        """SHA-256 of the body."""
        return self.body.digest if isinstance(self.body, Body) else hashlib.sha256(self.body).hexdigest()

    def identity(self) -> tuple[str, str, str]:
        """What makes two requests the same one, sent again."""
        if isinstance(self.body, Body):
            return self.method, self.path, self.likeness or UNKNOWN_BODY
        body = self.body.replace(self.boundary.encode(), b"") if self.boundary else self.body
        return self.method, self.path, hashlib.sha256(body).hexdigest()


class Sent:
    """One request of a try."""

    def __init__(self, number: int, out: Outgoing, identity: tuple[str, str, str]) -> None:
        self.number, self.out, self.identity, self.is_repeat = number, out, identity, False
        self.key: str | None = out.own_key
        self.status: int | None = None
        self.error: str | None = None
        self.body: Body | None = None
        self._settled: Send | None = None

    @property
    def is_unanswered(self) -> bool:
        """Whether it has ended without a good answer, so that the same request may be made again."""
        if self.error or (self.body and self.body.error):
            return True
        return self.status is not None and self.status not in ANSWERED

    @property
    def fate(self) -> str | None:
        """What is known to have come of it, in short."""
        if self.status is None:
            return self.error
        return f"HTTP {self.status}" if not (self.body and self.body.error) else self.body.error

    @property
    def is_answered(self) -> bool:
        """Whether it has ended with a good answer."""
        return self.is_over and not self.is_unanswered

    @property
    def is_over(self) -> bool:
        """Whether nothing more can come of it."""
        return bool(self._settled or self.error is not None or (self.body and self.body.is_over))

    def settle(self, held: bytes, scrubber: Scrubber) -> Send:
        """As it is recorded. Its bytes are let go if nothing more can come of it."""
        if self._settled:
            return self._settled
        made = self._record(held, scrubber)
        if self.is_over:
            self.error, self.body, self._settled = made.error, None, made
            self.out = msgspec.structs.replace(self.out, body=b"")
        return made

    def _record(self, held: bytes, scrubber: Scrubber) -> Send:
        out, body = self.out, self.body
        content = out.body if isinstance(out.body, bytes) else b""
        made = Send(
            url=out.url,
            key=self.key,
            request_digest=out.digest(),
            request_bytes=out.body.size if isinstance(out.body, Body) else len(content),
            request=_kept_request(content, held),
            status=self.status,
            error=self.error or (body.error if body else None) or None,
            sdk=out.sdk,
        )
        if body is None:
            return made
        came = body.content
        told = scrubber.content(came)
        return msgspec.structs.replace(
            made,
            response_digest=body.digest if told == came else hashlib.sha256(told).hexdigest(),
            response_bytes=body.size if told == came else len(told),
            undecoded=body.is_undecoded,
            partial=not body.is_whole,
            streamed=body.is_streamed,
            answer=answer_of(out.url, content, told, streamed=body.is_streamed),
        )


class Try(msgspec.Struct, frozen=True, kw_only=True):
    """What the account of a try has to know of it."""

    name: str  # of the step
    input: bytes  # recorded with the intent: what stands there is not kept again
    key_of: Callable[[tuple[str, ...]], str]
    write: Callable[[StepDispatched], Awaitable[None]]
    """Puts the event on disk; on the run's loop. Raises CounterfoilError where it can't."""


class Sends:
    """All requests of one try, from whatever thread or loop they are made."""

    def __init__(self, of: Try, scrubber: Scrubber) -> None:
        self._of, self._scrubber = of, scrubber
        self._loop = asyncio.get_running_loop()
        self._lock = threading.Lock()
        self._count, self._is_closed = 0, False
        self.refusal: SendRefusedError | None = None
        """Set when a request other than a repeat was refused for what the step's code does: that is why it failed."""
        self._sent: list[Sent] = []
        self._last: dict[tuple[str, str, str], list[Sent]] = {}  # the last one for each logical request

    def begin(self, out: Outgoing) -> Sent:
        """Take a request down, and give it its key. Raises SendRefusedError when the try is over."""
        for name, value in out.secrets.items():
            self._scrubber.learn(name, value)
        with self._lock:
            if self._is_closed:
                raise self._refused(out, *_OVER)
            for earlier in self._sent:
                if earlier.is_over:
                    earlier.settle(self._of.input, self._scrubber.outcomes)
            self._count += 1
            # a key is the same after a crash, when what was learned from requests is not known yet
            identity = _without_secrets(out, self._scrubber).identity()
            sent = Sent(self._count, _without_secrets(out, self._scrubber.outcomes), identity)
            occurrence = self._occurrence(sent)
            if sent.key is None and out.method == "POST":
                sent.key = self._of.key_of((*identity, str(occurrence)))
            self._sent.append(sent)
            return sent

    async def written(self, sent: Sent) -> None:
        """Return when the request may leave: all that has to be on disk is. Raises SendRefusedError."""
        if sent.number == 1:
            return
        running = asyncio._get_running_loop()  # noqa: SLF001 - None on a loop that is not asyncio's
        if running is self._loop:
            await self._write(sent)
        elif running is None:
            self.written_meanwhile(sent)
        else:
            await asyncio.wrap_future(self._hand_over(sent))

    def written_meanwhile(self, sent: Sent) -> None:
        """As `written`, in a thread that may wait."""
        if sent.number == 1:
            return
        if asyncio._get_running_loop() is self._loop:  # noqa: SLF001 - None where there is none
            error = self._refused(sent.out, *_BLOCKS, is_repeat=sent.is_repeat)
            self.refusal = None if sent.is_repeat else error
            raise error
        try:
            self._hand_over(sent).result()
        except CancelledError:
            raise self._refused(sent.out, *_OVER) from None

    def failed(self, sent: Sent, error: BaseException) -> None:
        """No response came. One that was refused has never left."""
        sent.error = type(error).__name__
        if isinstance(error, SendRefusedError):
            with self._lock:
                self._sent.remove(sent)

    def close(self) -> None:
        """The try is over."""
        with self._lock:
            self._is_closed = True

    def listed(self) -> tuple[Send, ...]:
        """What left, in order, and what came of it so far."""
        with self._lock:
            return tuple(each.settle(self._of.input, self._scrubber.outcomes) for each in self._sent)

    def _occurrence(self, sent: Sent) -> int:
        """Which logical request this is among equal ones, from 1: an earlier one sent again, or another one."""
        last = self._last.setdefault(sent.identity, [])
        again = _repeated(last, sent)
        if again is None:
            last.append(sent)
            return len(last)
        last[again], sent.is_repeat = sent, True
        return again + 1

    async def _write(self, sent: Sent) -> None:
        """On the run's loop."""
        if self._is_closed:
            raise self._refused(sent.out, *_OVER)
        before = next((each.fate for each in self._sent if each.number == sent.number - 1), None)
        digest = sent.out.digest() if isinstance(sent.out.body, bytes) else None
        event = StepDispatched(number=sent.number, url=sent.out.url, request_digest=digest, before=before)
        try:
            await self._of.write(event)
        except CounterfoilError as error:
            raise self._refused(sent.out, f"it can't be written down: {error}", _LEFT) from error

    def _hand_over(self, sent: Sent) -> "Future[None]":
        writing: Coroutine[Any, Any, None] = self._write(sent)
        try:  # in no context: the loop must not take this for code of the step
            return contextvars.Context().run(asyncio.run_coroutine_threadsafe, writing, self._loop)
        except RuntimeError:
            writing.close()
            raise self._refused(sent.out, *_OVER) from None

    def _refused(self, out: Outgoing, why: str, fix: str, *, is_repeat: bool = False) -> SendRefusedError:
        return SendRefusedError(step=self._of.name, url=out.url, why=why, fix=fix, is_repeat=is_repeat)


current_sends: ContextVar[Sends | None] = ContextVar("counterfoil_sends", default=None)
"""The account of the try that this code belongs to; None outside of model steps."""


def _without_secrets(out: Outgoing, scrubber: Scrubber) -> Outgoing:
    """As it is told of: a digest or a key made with a secret lets who reads the record test guesses of it."""
    body = scrubber.content(out.body) if isinstance(out.body, bytes) else out.body
    sdk = scrubber.text(out.sdk)[:SDK_CHARACTERS_MAX] if out.sdk else None
    return msgspec.structs.replace(out, body=body, sdk=sdk)


def _repeated(last: list[Sent], sent: Sent) -> int | None:
    """Which one of these equal requests is sent again by this one.

    Where nothing is known of a body, an equal one may be another: so it is a repeat only if the client says so, and
    there is only one that it can mean. With one key on two bodies, the second one would get the first one's answer.
    """
    if sent.identity[2] == UNKNOWN_BODY:
        open_ones = [n for n, earlier in enumerate(last) if not earlier.is_answered]
        return open_ones[0] if sent.out.is_retry and len(open_ones) == 1 else None
    again = next((n for n, earlier in enumerate(last) if earlier.is_unanswered), None)
    return len(last) - 1 if again is None and sent.out.is_retry and last else again


def _kept_request(content: bytes, held: bytes) -> Value:
    """A request's JSON, unless the step's input holds it already. Whole: what it shares with others is not sought."""
    try:
        asked = msgspec.json.decode(content)
        if not isinstance(asked, dict | list) or _holds(msgspec.json.decode(held), asked):
            return NONE
        return Value(codec.encode(asked, where="a request").raw if b'"$"' in content else content)
    except (msgspec.DecodeError, RecursionError, CounterfoilError):
        return NONE


def _holds(value: Any, asked: Any) -> bool:
    """Whether the input is this value, or has it as an argument or as the body in an argument."""
    parts = [value, *(value.values() if isinstance(value, dict) else ())]
    return any(part == asked or (isinstance(part, dict) and part.get("body") == asked) for part in parts)
