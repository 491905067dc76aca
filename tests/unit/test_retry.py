"""Which failures are tried again, and when the next try is due."""

import http.client
import urllib.error

import httpx
import pytest

from counterfoil.core.clock import SECOND
from counterfoil.core.retry import DEFAULT, NEVER, Retry, http_status, is_transient, next_try


class StatusError(Exception):
    """As the clients of model vendors raise it."""

    def __init__(self, status_code: object) -> None:
        super().__init__(f"status {status_code}")
        self.status_code = status_code


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
    *map(StatusError, (408, 409, 429, 500, 502, 503, 529, 599)),
]
FINAL = [
    ValueError(),
    KeyError("x"),
    FileNotFoundError(),
    PermissionError(),
    OSError(28, "disk full"),
    RuntimeError("connection"),
    *map(StatusError, (400, 401, 403, 404, 422, 600, 200, "503", None, True)),
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


def test_a_final_failure_has_no_next_try():
    assert next_try(DEFAULT, ValueError(), tried=1, first=0, now=0) is None


@pytest.mark.parametrize(("now", "due"), [(9 * SECOND, 10 * SECOND), (9 * SECOND + 1, None)])
def test_no_try_starts_after_the_total_time(now, due):
    policy = Retry(first_seconds=1, total_seconds=10)
    assert next_try(policy, TimeoutError(), tried=1, first=0, now=now) == due


@pytest.mark.parametrize(
    "wrong", [{"tries": 0}, {"first_seconds": -1}, {"factor": 0.5}, {"cap_seconds": -0.1}], ids=str
)
def test_a_policy_that_makes_no_sense_is_refused(wrong):
    with pytest.raises(ValueError, match="tries must be 1 or more"):
        Retry(**wrong)
