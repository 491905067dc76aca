"""Declared secrets are replaced by their names in all that is written."""

import dataclasses
import enum
import json
from collections import Counter, OrderedDict, deque
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from ipaddress import ip_address
from pathlib import PurePosixPath
from urllib.parse import quote, quote_plus
from uuid import UUID

import msgspec
import pydantic
import pytest

from counterfoil.core import codec
from counterfoil.core.codec import Secret
from counterfoil.core.scrub import SECRET_CHARACTERS_MIN, Scrubber
from counterfoil.errors import SecretError

SECRETS = [
    "hunter2",
    'quo"ted\\1',
    "line\nbreak\ttab",
    "pässwörd",
    "\U0001f511keys\U0001f511",
    "s p a c e",
    "[secret X]x",
]


def scrubbed(value: object, *secrets: str) -> object:
    scrubber = Scrubber({f"K{number}": secret for number, secret in enumerate(secrets)})
    raw = scrubber.raw(codec.encode(value, where="it").raw)
    return codec.decode(raw, None, annotated=False, where="it")


@pytest.mark.parametrize("secret", SECRETS, ids=ascii)
@pytest.mark.parametrize("around", ["{}", "a {} b", "{0}{0}", '"{}"', "\\{}\n", "é{}"])
def test_a_secret_is_replaced_wherever_it_stands(secret, around):
    text = around.format(secret)
    replaced = around.format("[secret K0]")
    assert scrubbed({"a": [text], text: None}, secret) == {"a": [replaced], replaced: None}
    assert Scrubber({"K0": secret}).text(text) == replaced


@pytest.mark.parametrize("secret", SECRETS, ids=ascii)
def test_bytes_without_a_secret_are_the_very_same_object(secret):
    raw = b'{"a": 1.0,  "b":"\\u0041"}'
    assert Scrubber({"K": secret}).raw(raw) is raw


@pytest.mark.parametrize("text", ["\n12345", "\\n12345", "a\n12345b"])
def test_an_escape_is_not_taken_for_part_of_a_secret(text):
    assert scrubbed(text, "n12345") == text.replace("n12345", "[secret K0]")


def test_a_newline_before_digits_is_left_alone():
    assert scrubbed("\n12345", "n12345") == "\n12345"


def test_a_secret_that_contains_another_leaves_no_rest():
    assert scrubbed("token=abcdef-long-tail", "abcdef", "abcdef-long-tail") == "token=[secret K1]"


def test_a_secret_in_text_with_a_lone_surrogate_is_replaced():
    raw = Scrubber({"K0": "hunter2"}).raw(codec.encode("x\ud800hunter2", where="it").raw)
    assert b"hunter2".hex().encode() not in raw
    assert codec.decode(raw, None, annotated=False, where="it") == "x\ud800[secret K0]"


def test_a_secret_that_is_no_unicode_is_replaced():
    assert scrubbed(["a \udcff\udcfe raw b", "c"], "\udcff\udcfe raw") == ["a [secret K0] b", "c"]


def test_a_secret_in_a_dictionary_with_our_mark_is_replaced():
    value = {"$": "hunter2", "hunter2": 1, "b": {"$": "str", "v": "zz"}, "c": {"$": "dict", "v": ["hunter2"]}}
    assert scrubbed(value, "hunter2") == {
        "$": "[secret K0]",
        "[secret K0]": 1,
        "b": {"$": "str", "v": "zz"},
        "c": {"$": "dict", "v": ["[secret K0]"]},
    }


@pytest.mark.parametrize("value", [1e16, -0.0, 2**53 + 1, 0.1, 123456, None, True, [], {"a": {}}], ids=repr)
def test_what_stands_beside_a_secret_is_unchanged(value):
    assert repr(scrubbed([value, "123456"], "123456")) == repr([value, "[secret K0]"])


@pytest.mark.parametrize("secret", ["", "a", "x" * (SECRET_CHARACTERS_MIN - 1)])
def test_a_value_too_short_to_be_told_from_text_is_refused(secret):
    with pytest.raises(SecretError) as caught:
        Scrubber({"API_KEY": secret})
    assert (caught.value.facts["name"], caught.value.code) == ("API_KEY", "secret_invalid")


def test_a_secret_declared_twice_is_replaced_once():
    scrubber = Scrubber({"K": "hunter2"})
    scrubber.add("K", "hunter2")
    assert scrubber.text("hunter2") == "[secret K]"


def test_a_secret_declared_later_is_replaced_from_then_on():
    scrubber = Scrubber()
    before = scrubber.raw(b'"hunter2"')
    scrubber.add("K", "hunter2")
    assert (before, scrubber.raw(b'"hunter2"')) == (b'"hunter2"', b'"[secret K]"')


def test_the_result_is_json():
    raw = Scrubber({"K": 'a"b\\c\nd'}).raw(msgspec.json.encode(['x a"b\\c\nd y']))
    assert msgspec.json.decode(raw) == ["x [secret K] y"]


@pytest.mark.parametrize("secret", SECRETS, ids=ascii)
@pytest.mark.parametrize(
    "spell", [repr, ascii, lambda text: msgspec.json.encode(text).decode()], ids=["repr", "ascii", "json"]
)
def test_a_secret_that_was_quoted_once_more_is_replaced(secret, spell):
    quoted = spell("a " + secret)
    assert scrubbed(quoted, secret) == quoted[0] + "a [secret K0]" + quoted[-1]


@pytest.mark.parametrize("secret", SECRETS, ids=ascii)
@pytest.mark.parametrize(
    "spell",
    [
        json.dumps,
        lambda text: json.dumps(json.dumps(text)),
        lambda text: repr(json.dumps(text)),
        lambda text: repr(text.encode()),
        lambda text: f'"{quote(text)}"',
        lambda text: f'"{quote(text, safe="")}"',
        lambda text: f'"{quote_plus(text)}"',
    ],
    ids=["json", "json in json", "json in a literal", "bytes", "path", "query", "form"],
)
def test_a_secret_as_other_text_spells_it_is_replaced(secret, spell):
    assert scrubbed(spell(secret), secret) == spell("hunter2").replace("hunter2", "[secret K0]")


SECRET = "hunter2"


@dataclasses.dataclass
class Login:
    name: object
    rest: object = None


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (b"a hunter2 b", b"a [secret K0] b"),
        (bytearray(b"\xffhunter2"), bytearray(b"\xff[secret K0]")),
        ((b"hunter2", ["hunter2"]), (b"[secret K0]", ["[secret K0]"])),
        ({"hunter2", "a", "z"}, {"[secret K0]", "a", "z"}),
        ({"hunter2", "[secret K0]"}, {"[secret K0]"}),
        (frozenset({b"hunter2"}), frozenset({b"[secret K0]"})),
        ({1: "hunter2", b"hunter2": 2, ("hunter2",): 3}, {1: "[secret K0]", b"[secret K0]": 2, ("[secret K0]",): 3}),
        ({1: 1, "hunter2": 2, "[secret K0]": 3}, {1: 1, "[secret K0]": 3}),
        ({"\ud800 hunter2": 1}, {"\ud800 [secret K0]": 1}),
        (OrderedDict(hunter2=b"hunter2"), OrderedDict({"[secret K0]": b"[secret K0]"})),
        (Counter(["hunter2"]), Counter(["[secret K0]"])),
        (deque([b"hunter2"], 3), deque([b"[secret K0]"], 3)),
        (PurePosixPath("/hunter2/a"), PurePosixPath("/[secret K0]/a")),
        ([b"other", b""], [b"other", b""]),
    ],
    ids=range(14),
)
def test_a_secret_is_replaced_in_every_form_that_holds_text(value, expected):
    assert scrubbed(value, SECRET) == expected


def test_a_set_with_a_secret_is_written_in_the_order_of_what_is_left():
    first, second = (
        Scrubber({"K": secret}).raw(codec.encode({secret, "[b", "[t"}, where="it").raw)
        for secret in ("aaaaaa", "zzzzzz")
    )
    assert first == second


@pytest.mark.parametrize("value", [b"\xfe\xff", {b"a": bytearray(b"b")}], ids=ascii)
def test_bytes_values_without_a_secret_are_the_very_same_bytes(value):
    raw = codec.encode(value, where="it").raw
    assert Scrubber({"K": SECRET}).raw(raw) is raw


@pytest.mark.parametrize(
    ("value", "secret"),
    [
        (2**60 + 123456, str(2**60 + 123456)),
        (Decimal("1234567.5"), "1234567"),
        (datetime(2026, 1, 1, tzinfo=UTC), "2026-01-01"),
        (UUID(int=2**127), "80000000-0000"),
        (timedelta(days=123456), "123456"),
        (Secret("PASSWORD"), "PASSWORD"),
        (ip_address("10.20.30.40"), "10.20.30"),
    ],
    ids=repr,
)
def test_what_is_no_text_is_left_readable(value, secret):
    assert scrubbed([value, secret], secret) == [value, "[secret K0]"]


def test_what_an_instance_holds_is_scrubbed_and_the_names_of_its_class_are_not():
    value = Login(b"hunter2", {"rest": Login("hunter2", {"$": "hunter2"}), 5: "hunter2"})
    raw = codec.record(value, Login, where="it")[0].raw
    clean = Scrubber({"K": SECRET}).raw(raw)
    assert codec.decode(clean, Login, annotated=True, where="it") == Login(
        b"[secret K]", {"rest": Login("[secret K]", {"$": "[secret K]"}), 5: "[secret K]"}
    )


class Credential(enum.Enum):
    PASSWORD = "password"


class CredentialName(pydantic.BaseModel):
    password: object
    model_config = pydantic.ConfigDict(extra="allow")


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (CredentialName(password="my password"), CredentialName(password="my [secret K]")),
        (CredentialName(password=1, password2=2), CredentialName(password=1, **{"[secret K]2": 2})),
        ([Credential.PASSWORD, "password"], [Credential.PASSWORD, "[secret K]"]),
    ],
    ids=range(3),
)
def test_a_secret_that_is_also_a_name_in_the_code_does_not_make_a_record_unreadable(value, expected):
    raw = Scrubber({"K": "password"}).raw(codec.record(value, list[Credential] | CredentialName, where="it")[0].raw)
    back = codec.decode(raw, Credential | CredentialName, annotated=True, where="it")
    assert repr(back) == repr(expected)
