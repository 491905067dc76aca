"""When a failed try is worth another one, and when that is due.

Only failures that may pass by themselves are tried again: a lost connection, a timeout, and the HTTP statuses 408,
409, 429 and 5xx. Every other exception is raised in the workflow's body at the first try. An exception is judged by
itself, never by what caused it. How long the other side asked us to wait is in `patience`.
"""

import errno
import math
from typing import Any

import msgspec

from counterfoil.core.clock import Instant, after
from counterfoil.core.patience import stated_seconds
from counterfoil.errors import ResultNotStorableError, SendRefusedError, StreamCutError

TRANSIENT_STATUSES = frozenset({408, 409, 429})
SERVER_ERRORS = range(500, 600)
HTTP_STATUSES = range(100, 600)

_TRANSIENT_NAMES = frozenset(
    {
        "TransportError",  # httpx
        "APIConnectionError",  # openai, anthropic
        "URLError",
        "RemoteDisconnected",
        "IncompleteRead",
        "gaierror",  # of socket: no answer from the name server
        "ClientConnectionError",  # aiohttp
        "ClientPayloadError",
        "ConnectionError",  # requests has its own, and of the next two; redis too
        "Timeout",
        "ChunkedEncodingError",
        "TimeoutError",
    }
)
"""Classes of client libraries that mean a lost connection but derive from no builtin that says so."""

_FINAL_NAMES = frozenset({"UnsupportedProtocol", "LocalProtocolError"})
"""Classes of httpx below TransportError that mean a wrong request."""

_UNREACHABLE = frozenset({errno.ENETDOWN, errno.ENETUNREACH, errno.EHOSTDOWN, errno.EHOSTUNREACH})


class Retry(msgspec.Struct, frozen=True, kw_only=True):
    """How often a step is tried, and how long to wait in between.

    `tries` counts the first one. Waits grow from `first_seconds` by `factor` up to `cap_seconds`; a longer one that the
    other side asks for (`retry-after`) is kept. `total_seconds` bounds the time from the first try to the start of the
    last one. Only failures that may pass by themselves are tried again, and those of the classes in `retry_on`; those
    of the classes in `never_on` are not. Of several classes that fit, the nearest to the exception's own decides.
    """

    tries: int = 5
    first_seconds: float = 0.5
    factor: float = 2.0
    cap_seconds: float = 30.0
    total_seconds: float | None = None
    retry_on: tuple[type[BaseException], ...] = ()
    never_on: tuple[type[BaseException], ...] = ()

    def __post_init__(self) -> None:
        times = (self.first_seconds, self.cap_seconds, self.total_seconds or 0)
        if self.tries < 1 or not self.factor >= 1 or not all(0 <= time < math.inf for time in times):
            msg = "tries must be 1 or more, factor 1 or more, and no wait below 0 seconds or without an end"
            raise ValueError(msg)
        for kinds in (self.retry_on, self.never_on):
            if type(kinds) is not tuple or not all(_is_exception(kind) for kind in kinds):
                msg = "retry_on and never_on must be tuples of exception classes, such as (TimeoutError,)"
                raise ValueError(msg)


DEFAULT = Retry()
NEVER = Retry(tries=1)


def is_worth_another(policy: Retry, error: BaseException) -> bool:
    """Whether the policy lets this failure be tried again, as far as it is the failure that decides.

    No policy lets a step run again that has run, and whose result could not be kept.
    """
    if issubclass(type(error), ResultNotStorableError):
        return False
    for kind in type(error).__mro__:
        if kind in policy.never_on:
            return False
        if kind in policy.retry_on:
            return True
    return is_transient(error)


def is_transient(error: BaseException) -> bool:
    """Whether the same call may well succeed a little later."""
    status = http_status(error)
    if status is not None:
        return status in TRANSIENT_STATUSES or status in SERVER_ERRORS
    own = type(error)  # asked for its class, a foreign exception may raise
    if issubclass(own, ConnectionError | TimeoutError | StreamCutError):
        return True
    if issubclass(own, SendRefusedError):
        return _part(error, "is_repeat") is True
    number = _part(error, "errno")
    if issubclass(own, OSError) and isinstance(number, int) and number in _UNREACHABLE:
        return True
    names = [kind.__name__ for kind in own.__mro__]
    return next((name in _TRANSIENT_NAMES for name in names if name in _TRANSIENT_NAMES | _FINAL_NAMES), False)


def http_status(error: BaseException) -> int | None:
    """The HTTP status an exception carries, as the common clients name it: on itself or on its response."""
    answer = _part(error, "response")
    places = ((error, "status_code"), (error, "status"), (answer, "status_code"), (answer, "status"), (error, "code"))
    for holder, name in places:
        status = _part(holder, name)
        if isinstance(status, int) and status in HTTP_STATUSES:
            return int(status)
    return None


def next_try(policy: Retry, error: BaseException, *, tried: int, first: Instant, now: Instant) -> Instant | None:
    """When the next try is due after `tried` tries, or None if this failure is final.

    Not before the time that the other side stated, and not after the policy's total time from `first`.
    """
    if tried >= policy.tries or not is_worth_another(policy, error):
        return None
    due = after(now, max(_wait(policy, tried), stated_seconds(error, now) or 0))
    return None if is_over(policy, first=first, now=due) else due


def is_over(policy: Retry, *, first: Instant, now: Instant) -> bool:
    """Whether the time that the policy allows since the first try has passed, with or without a process."""
    return policy.total_seconds is not None and now > after(first, policy.total_seconds)


def _wait(policy: Retry, tried: int) -> float:
    try:
        return min(policy.cap_seconds, policy.first_seconds * policy.factor ** (tried - 1))
    except OverflowError:  # a policy without an end, after a thousand tries
        return policy.cap_seconds


def _part(holder: Any, name: str) -> Any:
    try:
        return getattr(holder, name, None)
    except Exception:  # noqa: BLE001 - a foreign property may raise anything
        return None


def _is_exception(kind: Any) -> bool:
    return isinstance(kind, type) and issubclass(kind, BaseException)
