"""Declared secrets are replaced by their names in all that is written."""

import msgspec
import pytest

from counterfoil.core import codec
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
