"""What is kept of the HTTP response on an exception, and what code that catches the exception may ask of it."""

import httpx
import openai
import pytest

from counterfoil.core.failure import rebuild, to_record
from counterfoil.core.response import HEADERS_MAX, TEXT_BYTES_MAX, Headers, RecordedResponse

REQUEST = httpx.Request("POST", "http://x/y", headers={"authorization": "Bearer key"})


def failed(**answer) -> httpx.HTTPStatusError:
    response = httpx.Response(**{"status_code": 429, "request": REQUEST} | answer)
    return httpx.HTTPStatusError("busy", request=REQUEST, response=response)


def test_status_headers_and_text_are_kept():
    record = to_record(failed(headers={"Retry-After": "7"}, content=b'{"a": 1}'))
    kept = rebuild(record).response
    assert kept == RecordedResponse(429, Headers({"retry-after": "7", "content-length": "8"}), '{"a": 1}')
    assert (kept.headers["RETRY-AFTER"], kept.headers.get("Retry-After"), "Retry-After" in kept.headers) == (
        "7", "7", True,
    )  # fmt: skip
    assert (kept.json(), kept.headers.get("none"), kept.headers.get("none", 3)) == ({"a": 1}, None, 3)


def test_the_request_with_its_key_is_left_out_and_named():
    record = to_record(failed())
    assert (record.left_out, b"Bearer" in bytes(record.attributes)) == ({"_request": "httpx.Request"}, False)


def test_a_body_that_was_never_read_is_not_asked_for():
    def network():
        raise AssertionError("read")
        yield b""

    assert rebuild(to_record(failed(content=network()))).response.text is None


@pytest.mark.parametrize(
    "headers", [{"set-cookie": "session=1"}, {"x": "y" * 5000}, {b"x": b"\xff"}], ids=lambda headers: repr(headers)[:20]
)
def test_cookies_and_headers_that_are_long_or_odd_are_not_kept(headers):
    assert rebuild(to_record(failed(headers=headers))).response.headers == {}


def test_a_long_text_and_many_headers_are_not_kept_whole():
    many = {f"h{number}": "x" for number in range(3 * HEADERS_MAX)}
    kept = rebuild(to_record(failed(headers=many, content=b"x" * (TEXT_BYTES_MAX + 1)))).response
    assert (kept.text, len(kept.headers)) == (None, HEADERS_MAX)


def test_what_came_back_is_recorded_as_before():
    first = to_record(failed(content=b"text"))
    second = to_record(rebuild(first))
    assert (second.response, second.left_out) == (first.response, {})


@pytest.mark.sdk
def test_the_error_of_a_models_client_keeps_what_its_users_ask_for():
    imported = openai.APIStatusError.__init__.__globals__
    http = imported.get("httpx2") or imported["httpx"]  # which of them, hangs on the client's age
    headers = {"x-request-id": "req_1", "retry-after": "3"}
    response = http.Response(429, headers=headers, request=http.Request("POST", "http://x"), json={})
    error = openai.RateLimitError("slow", response=response, body={"code": "busy", "param": None, "type": "t"})
    back = rebuild(to_record(error))
    assert type(back) is openai.RateLimitError
    assert (back.status_code, back.request_id, back.code, back.param, back.type, back.body, str(back)) == (
        429, "req_1", "busy", None, "t", {"code": "busy", "param": None, "type": "t"}, "slow",
    )  # fmt: skip
    assert back.response.headers["retry-after"] == "3"


class Answered(Exception):  # noqa: N818
    def __init__(self, response: object) -> None:
        super().__init__("x")
        self.response = response


class Odd:
    @property
    def status_code(self) -> int:
        raise RuntimeError("no status")


class Half:
    status_code = 500
    headers = 7


@pytest.mark.parametrize("response", [object(), Odd(), Half(), Half], ids=lambda each: type(each).__name__)
def test_what_is_no_response_is_left_out_and_named(response):
    record = to_record(Answered(response))
    assert (record.response, list(record.left_out)) == (None, ["response"])


@pytest.mark.parametrize("response", [None, "text", {"Error": {"Code": "Throttled"}}], ids=ascii)
def test_a_response_that_is_a_plain_value_is_kept_as_it_is(response):
    record = to_record(Answered(response))
    assert (record.response, rebuild(record).response) == (None, response)
