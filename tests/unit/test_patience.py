"""How long the other side asked us to wait, wherever its client keeps that, and whatever it says."""

import email.message
from datetime import timedelta

import httpx
import pytest

from counterfoil.core.clock import SECOND
from counterfoil.core.patience import stated_seconds

NOW = 1_767_225_600 * SECOND  # 2026-01-01T00:00:00Z


class Busy(Exception):  # noqa: N818
    """An exception with these attributes."""

    def __repr__(self) -> str:
        shown = getattr(getattr(self, "response", None), "headers", "")
        return f"{vars(self)!a} {shown}"

    def __init__(self, **attributes: object) -> None:
        super().__init__("busy")
        vars(self).update(attributes)


def answered(**headers: str) -> Busy:
    names = {name.replace("_", "-"): value for name, value in headers.items()}
    return Busy(response=httpx.Response(429, headers=names))


class Mail(email.message.Message):
    def __repr__(self) -> str:
        return f"Mail({self.items()})"


def mail(value: str) -> Mail:
    message = Mail()
    message["Retry-After"] = value
    return message


@pytest.mark.parametrize(
    ("error", "seconds"),
    [
        (answered(retry_after="7"), 7),
        (answered(retry_after="0"), 0),
        (answered(retry_after="1.5"), 1.5),
        (answered(retry_after=" 20 "), 20),
        (answered(retry_after_ms="250"), 0.25),
        (answered(retry_after_ms="250", retry_after="9"), 0.25),
        (answered(retry_after_ms="soon", retry_after="9"), 9),
        (answered(retry_after="Thu, 01 Jan 2026 00:01:30 GMT"), 90),
        (answered(retry_after="Thursday, 01-Jan-26 00:01:30 GMT"), 90),
        (answered(retry_after="Thu, 01 Jan 2026 01:01:30 +0100"), 90),
        (answered(retry_after="Thu, 01 Jan 2026 00:01:30 -0000"), 90),
        (Busy(response=Busy(headers={"Retry-After": "7"})), 7),
        (Busy(headers={"RETRY-AFTER": "7"}), 7),
        (Busy(headers=mail("7")), 7),
        (Busy(retry_after=7), 7),
        (Busy(retry_after=0.5), 0.5),
        (Busy(retry_after="7"), 7),
        (Busy(retry_after=timedelta(minutes=2)), 120),
        (Busy(response=httpx.Response(429), retry_after=3), 3),
        (answered(retry_after="31622400"), 31_622_400),
    ],
    ids=repr,
)
def test_the_stated_time_is_found(error, seconds):
    assert stated_seconds(error, NOW) == seconds


class Mute(Exception):  # noqa: N818
    @property
    def response(self) -> object:
        raise RuntimeError("no response")

    @property
    def retry_after(self) -> object:
        raise RuntimeError("no time")


NONSENSE = ["-5", "nan", "inf", "-inf", "soon", "", "1e30", "9" * 5000, "7 s", "Thu, 99 Foo 2026", "1" * 100 + "e9"]
DATES = [
    "Wed, 31 Dec 2025 23:59:59 GMT",
    "Fri, 01 Jan 10000 00:00:00 GMT",
    "Fri, 31 Dec 9999 23:59:59 GMT",
    "Thu, 01 Jan 0000 00:00:00 GMT",
    "Thu, 01 Jan 2026 00:01:30 +9999",
]


@pytest.mark.parametrize("value", [*NONSENSE, *DATES], ids=lambda value: value[:30])
def test_what_makes_no_sense_is_as_if_nothing_had_been_said(value):
    assert stated_seconds(answered(retry_after=value), NOW) is None


@pytest.mark.parametrize("value", [True, None, b"7", [7], float("nan"), -1, 1e30, timedelta(days=-1)], ids=ascii)
def test_a_time_of_an_odd_kind_is_as_if_nothing_had_been_said(value):
    assert stated_seconds(Busy(retry_after=value), NOW) is None


@pytest.mark.parametrize("error", [ValueError("x"), Mute("x"), Busy(headers=7), Busy(response="text")], ids=ascii)
def test_an_exception_that_states_no_time_has_none(error):
    assert stated_seconds(error, NOW) is None
