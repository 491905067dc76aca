"""A stand-in for the outside world: a model and its tools over real HTTP, every call counted.

The model speaks OpenAI chat completions (POST /v1/chat/completions) and responses (POST /v1/responses) and Anthropic
messages (POST /v1/messages), plain and streamed; tools answer at POST /tools/NAME. A plan says, call by call, what is
answered, how late, and what goes wrong. A call is counted when it arrives, so killing the caller never loses one. The
stub knows nothing of runs and journals: it is the independent witness their counts are checked against. It has no
clock and draws nothing at random: the same plan and calls give the same log.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from types import TracebackType
from typing import Self, TypeVar, Unpack

from counterfoil.testing.calls import Book, Call
from counterfoil.testing.dialects import Api, prompt_digest
from counterfoil.testing.plans import Answer, Drop, Kind, Plan, tool_call, tool_calls
from counterfoil.testing.server import Server

__all__ = [
    "Answer",
    "Api",
    "Call",
    "Drop",
    "Kind",
    "Plan",
    "StubModel",
    "billed",
    "prompt_digest",
    "tool_call",
    "tool_calls",
]

T = TypeVar("T")


class StubModel:
    """A model and tool server for tests; a context manager, its address is `url`."""

    def __init__(self, *, port: int = 0, **plan: Unpack[Plan]) -> None:
        self._book = Book(plan)
        self._port = port
        self._server: Server | None = None

    def __enter__(self) -> Self:
        self._server = Server(self._book, self._port)
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
        """Base address, without a path; an OpenAI client takes `url + "/v1"`, an Anthropic one takes it as it is."""
        return f"http://127.0.0.1:{self._running().server_port}"

    @property
    def log(self) -> tuple[Call, ...]:
        """Every call so far, in order of arrival."""
        return self._book.log()

    def configure(self, **plan: Unpack[Plan]) -> None:
        """Replace the plan and begin a new log: a plan counts calls from the first one, and keys are forgotten."""
        self._book.configure(plan)

    def wait_for(self, fact: Callable[[tuple[Call, ...]], T], *, timeout: float = 30.0) -> T:
        """Return the first truthy value of `fact(log)`, looked at whenever the log changes.

        Raises TimeoutError, which shows the log, when the fact does not come true in time.
        """
        return self._book.wait_for(fact, timeout)

    def _running(self) -> Server:
        if self._server is None:
            raise RuntimeError("the stub is not running: use it as `with StubModel() as stub:`")
        return self._server


def billed(log: Iterable[Call]) -> int:
    """How many calls of a log were paid for."""
    return sum(call.billed for call in log)
