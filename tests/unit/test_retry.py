"""Which failures are tried again, and when the next try is due."""

import errno
import http
import http.client
import urllib.error

import httpx
import pytest

from counterfoil.core.clock import SECOND
from counterfoil.core.retry import DEFAULT, NEVER, Retry, http_status, is_over, is_transient, next_try


class StatusError(Exception):
    """As the clients of model vendors raise it."""

    def __init__(self, status_code: object) -> None:
        super().__init__(f"status {status_code}")
        self.status_code = status_code


class AnsweredError(Exception):
    """As requests and httpx raise it: the status is on the response."""

    def __init__(self, status: object, **attributes: object) -> None:
        super().__init__(f"answered {status}")
        self.response = type("Response", (), {"status_code": status})()
        vars(self).update(attributes)


class AiohttpError(Exception):
    def __init__(self, status: int) -> None:
        super().__init__(f"status {status}")
        self.status = status


def named(*names: str) -> Exception:
    """An exception of a class of this name, and of those it derives from, as a client library has it."""
    kind: type[Exception] = Exception
    for name in names:
        kind = type(name, (kind,), {})
    return kind("x")


def caused(error: Exception, cause: Exception) -> Exception:
    error.__cause__ = cause
    return error


def status_error(status: int) -> httpx.HTTPStatusError:
    request = httpx.Request("GET", "http://x")
    return httpx.HTTPStatusError("x", request=request, response=httpx.Response(status, request=request))


TRANSIENT = [
    ConnectionError(),
    ConnectionResetError(),
    BrokenPipeError(),
    TimeoutError(),
    http.client.RemoteDisconnected(),
    http.client.IncompleteRead(b""),
    urllib.error.URLError("refused"),
    httpx.ConnectError("refused"),
    httpx.ReadTimeout("late"),
    httpx.RemoteProtocolError("cut"),
    httpx.PoolTimeout("late"),
    OSError(errno.ENETUNREACH, "Network is unreachable"),
    OSError(errno.EHOSTUNREACH, "No route to host"),
    named("RequestException", "ConnectionError"),
    named("RequestException", "Timeout", "ReadTimeout"),
    named("ClientError", "ClientConnectionError", "ServerDisconnectedError"),
    named("APIError", "APIConnectionError", "APITimeoutError"),
    *map(StatusError, (408, 409, 429, 500, 502, 503, 529, 599, http.HTTPStatus.LOOP_DETECTED)),
    *map(AnsweredError, (408, 429, 503)),
    *map(AiohttpError, (408, 429, 503)),
    status_error(503),
    caused(StatusError(504), ValueError("x")),
]
FINAL = [
    ValueError(),
    KeyError("x"),
    FileNotFoundError(),
    PermissionError(),
    OSError(28, "disk full"),
    RuntimeError("connection"),
    httpx.UnsupportedProtocol("no scheme"),
    httpx.LocalProtocolError("wrong"),
    *map(StatusError, (400, 401, 402, 403, 404, 405, 410, 413, 422, 600, 200, "503", None, True)),
    *map(AnsweredError, (400, 401, 403, 404, 422)),
    *map(AiohttpError, (400, 401, 403, 404, 422)),
    status_error(404),
    caused(ValueError("wrapped"), ConnectionError("inner")),
    caused(StatusError(451), StatusError(503)),
    urllib.error.HTTPError("http://x", 404, "gone", {}, None),  # ty: ignore[invalid-argument-type]
]


@pytest.mark.parametrize("error", TRANSIENT, ids=repr)
def test_a_failure_that_may_pass_by_itself_is_transient(error):
    assert is_transient(error)


@pytest.mark.parametrize("error", FINAL, ids=repr)
def test_any_other_failure_is_final(error):
    assert not is_transient(error)


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (StatusError(429), 429),
        (urllib.error.HTTPError("http://x", 503, "busy", {}, None), 503),
        (StatusError(http.HTTPStatus.BAD_GATEWAY), 502),
        (AnsweredError(503), 503),
        (AnsweredError(504, code=215), 504),
        (AnsweredError(503, status_code=400), 400),
        (AiohttpError(503), 503),
        (StatusError("429"), None),
        (StatusError(7), None),
        (ValueError(), None),
        (SystemExit(404), 404),
    ],
    ids=repr,
)
def test_the_status_is_read_where_clients_put_it(error, status):
    assert http_status(error) == status


@pytest.mark.parametrize(("tried", "wait"), [(1, 0.5), (2, 1.0), (3, 2.0), (4, 4.0)])
def test_waits_grow_by_the_factor(tried, wait):
    assert next_try(DEFAULT, TimeoutError(), tried=tried, first=0, now=100) == 100 + wait * SECOND


def test_a_wait_is_never_longer_than_the_cap():
    policy = Retry(tries=1000, cap_seconds=3)
    assert next_try(policy, TimeoutError(), tried=900, first=0, now=0) == 3 * SECOND


def test_a_policy_for_ever_does_not_overflow():
    policy = Retry(tries=10**9, cap_seconds=60)
    assert next_try(policy, TimeoutError(), tried=5000, first=0, now=0) == 60 * SECOND


@pytest.mark.parametrize(("policy", "tried"), [(DEFAULT, 5), (DEFAULT, 6), (NEVER, 1), (Retry(tries=2), 2)])
def test_no_try_follows_the_last_one(policy, tried):
    assert next_try(policy, TimeoutError(), tried=tried, first=0, now=0) is None


class Mute(Exception):  # noqa: N818
    @property
    def code(self) -> int:
        raise RuntimeError("no code")


def test_a_failure_that_cannot_tell_its_status_is_final():
    assert next_try(DEFAULT, Mute(), tried=1, first=0, now=0) is None


class Closed(Exception):  # noqa: N818
    """It raises whatever it is asked, even for its class."""

    def __getattribute__(self, name: str) -> object:
        raise RuntimeError(name)


@pytest.mark.parametrize(("kind", "args"), [(Closed, ()), (OSError, ([errno.ENETDOWN], "no number"))])
def test_a_failure_that_can_not_be_asked_is_final(kind, args):
    assert next_try(DEFAULT, kind(*args), tried=1, first=0, now=0) is None


def test_a_final_failure_has_no_next_try():
    assert next_try(DEFAULT, ValueError(), tried=1, first=0, now=0) is None


@pytest.mark.parametrize(("now", "due"), [(9 * SECOND, 10 * SECOND), (9 * SECOND + 1, None)])
def test_no_try_starts_after_the_total_time(now, due):
    policy = Retry(first_seconds=1, total_seconds=10)
    assert next_try(policy, TimeoutError(), tried=1, first=0, now=now) == due


NAN, INF = float("nan"), float("inf")


@pytest.mark.parametrize(
    "wrong",
    [
        {"tries": 0},
        {"first_seconds": -1},
        {"factor": 0.5},
        {"factor": NAN},
        {"cap_seconds": -0.1},
        {"cap_seconds": INF},
        {"first_seconds": NAN},
        {"total_seconds": -1},
        {"total_seconds": NAN},
    ],
    ids=str,
)
def test_a_policy_that_makes_no_sense_is_refused(wrong):
    with pytest.raises(ValueError, match="tries must be 1 or more"):
        Retry(**wrong)


# --- what the caller says ---


class MyError(Exception):
    pass


class MyLateError(MyError, TimeoutError):
    pass


@pytest.mark.parametrize(
    ("policy", "error", "is_tried_again"),
    [
        (Retry(retry_on=(MyError,)), MyError("x"), True),
        (Retry(retry_on=(MyError,)), TimeoutError("x"), True),
        (Retry(retry_on=(MyError,)), ValueError("x"), False),
        (Retry(retry_on=(Exception,)), StatusError(400), True),
        (Retry(never_on=(TimeoutError,)), TimeoutError("x"), False),
        (Retry(never_on=(TimeoutError,)), MyLateError("x"), False),
        (Retry(never_on=(TimeoutError,)), ConnectionError("x"), True),
        (Retry(never_on=(StatusError,)), StatusError(503), False),
        (Retry(never_on=(Exception,), retry_on=(MyError,)), MyError("x"), True),
        (Retry(never_on=(Exception,), retry_on=(MyError,)), TimeoutError("x"), False),
        (Retry(retry_on=(Exception,), never_on=(MyError,)), MyLateError("x"), False),
        (Retry(retry_on=(MyError,), never_on=(MyError,)), MyError("x"), False),
    ],
    ids=repr,
)
def test_a_policy_widens_and_narrows_what_is_tried_again(policy, error, is_tried_again):
    assert (next_try(policy, error, tried=1, first=0, now=0) is not None) == is_tried_again


@pytest.mark.parametrize("kinds", [MyError, [MyError], ("MyError",), (MyError("x"),), (int,)], ids=str)
@pytest.mark.parametrize("field", ["retry_on", "never_on"])
def test_classes_are_given_as_a_tuple_of_exceptions(field, kinds):
    with pytest.raises(ValueError, match="tuples of exception classes"):
        Retry(**{field: kinds})


# --- the time the other side stated ---


def asked(seconds: object, status: int = 429) -> Exception:
    error = StatusError(status)
    error.headers = {"Retry-After": seconds}
    return error


@pytest.mark.parametrize("status", [429, 503, 500])
def test_a_stated_time_is_waited_for_beyond_the_cap(status):
    assert next_try(DEFAULT, asked("7200", status), tried=1, first=0, now=5) == 7200 * SECOND + 5


def test_a_stated_time_that_is_shorter_than_ours_does_not_hurry_us():
    assert next_try(DEFAULT, asked("0.1"), tried=1, first=0, now=0) == 0.5 * SECOND


@pytest.mark.parametrize("value", ["-5", "nan", "soon", "1e30", "Fri, 01 Jan 10000 00:00:00 GMT"])
def test_a_time_that_makes_no_sense_changes_nothing(value):
    assert next_try(DEFAULT, asked(value), tried=1, first=0, now=0) == 0.5 * SECOND


@pytest.mark.parametrize(("stated", "due"), [("60", 60 * SECOND), ("60.1", None)])
def test_a_stated_time_beyond_the_total_time_is_final(stated, due):
    policy = Retry(total_seconds=60)
    assert next_try(policy, asked(stated), tried=1, first=0, now=0) == due


def test_a_stated_time_makes_no_final_failure_worth_another_try():
    assert next_try(DEFAULT, asked("5", 400), tried=1, first=0, now=0) is None


# --- the total time ---


@pytest.mark.parametrize(
    ("policy", "now", "over"),
    [
        (Retry(total_seconds=10), 10 * SECOND + 3, False),
        (Retry(total_seconds=10), 10 * SECOND + 4, True),
        (Retry(total_seconds=0), 3, False),
        (Retry(total_seconds=0), 4, True),
        (DEFAULT, 10**18, False),
    ],
    ids=str,
)
def test_the_total_time_is_over_when_it_has_passed_since_the_first_try(policy, now, over):
    assert is_over(policy, first=3, now=now) == over
