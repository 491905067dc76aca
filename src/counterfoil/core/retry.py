"""When a failed try is worth another one, and when that is due.

Only failures that may pass by themselves are tried again: a lost connection, a timeout, and the HTTP statuses 408,
409, 429 and 5xx. Every other exception is raised in the workflow's body at the first try.
"""

import msgspec

from counterfoil.core.clock import Instant, after

TRANSIENT_STATUSES = frozenset({408, 409, 429})
SERVER_ERRORS = range(500, 600)
HTTP_STATUSES = range(100, 600)

_TRANSIENT_NAMES = frozenset(
    {
        "TransportError",
        "APIConnectionError",
        "URLError",
        "RemoteDisconnected",
        "IncompleteRead",
        "ClientConnectionError",
    }
)
"""Classes of client libraries that mean a lost connection but derive from no builtin that says so."""


class Retry(msgspec.Struct, frozen=True, kw_only=True):
    """How often a step is tried, and how long to wait in between.

    `tries` counts the first one. Waits grow from `first_seconds` by `factor` up to `cap_seconds`. `total_seconds`
    bounds the time from the first try to the start of the last one.
    """

    tries: int = 5
    first_seconds: float = 0.5
    factor: float = 2.0
    cap_seconds: float = 30.0
    total_seconds: float | None = None

    def __post_init__(self) -> None:
        if self.tries < 1 or self.first_seconds < 0 or self.factor < 1 or self.cap_seconds < 0:
            msg = "tries must be 1 or more, factor 1 or more, and no wait below 0 seconds"
            raise ValueError(msg)


DEFAULT = Retry()
NEVER = Retry(tries=1)


def is_transient(error: BaseException) -> bool:
    """Whether the same call may well succeed a little later."""
    status = http_status(error)
    if status is not None:
        return status in TRANSIENT_STATUSES or status in SERVER_ERRORS
    if isinstance(error, ConnectionError | TimeoutError):
        return True
    return any(kind.__name__ in _TRANSIENT_NAMES for kind in type(error).__mro__)


def http_status(error: BaseException) -> int | None:
    """The HTTP status an exception carries, as the common clients name it."""
    for name in ("status_code", "code"):
        try:
            status = getattr(error, name, None)
        except Exception:  # noqa: BLE001 - a foreign property may raise anything
            status = None
        if type(status) is int and status in HTTP_STATUSES:
            return status
    return None


def next_try(policy: Retry, error: BaseException, *, tried: int, first: Instant, now: Instant) -> Instant | None:
    """When the next try is due after `tried` tries, or None if this failure is final."""
    if tried >= policy.tries or not is_transient(error):
        return None
    due = after(now, _wait(policy, tried))
    if policy.total_seconds is not None and due > after(first, policy.total_seconds):
        return None
    return due


def is_over(policy: Retry, *, first: Instant, now: Instant) -> bool:
    """Whether the time that the policy allows since the first try has passed, with or without a process."""
    return policy.total_seconds is not None and now > after(first, policy.total_seconds)


def _wait(policy: Retry, tried: int) -> float:
    try:
        return min(policy.cap_seconds, policy.first_seconds * policy.factor ** (tried - 1))
    except OverflowError:  # a policy without an end, after a thousand tries
        return policy.cap_seconds
