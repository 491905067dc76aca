"""Canonical bytes are those of RFC 8785, and every JSON value comes back exactly as it was (J6)."""

import math
from typing import Any

import rfc8785
from hypothesis import given
from hypothesis import strategies as st

from counterfoil.core import codec
from counterfoil.core.canonical import canonical
from counterfoil.core.replay import differences
from counterfoil.core.scrub import Scrubber

SAFE = st.integers(-(2**53) + 1, 2**53 - 1)
ANY_TEXT = st.text(st.characters())  # lone surrogates included
GOOD_TEXT = st.text(st.characters(exclude_categories=["Cs"]))
NUMBERS = st.integers() | st.floats()


def nested(leaves: Any, keys: Any) -> Any:
    return st.recursive(
        leaves, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(keys, inner, max_size=4), max_leaves=15
    )


FINITE = st.floats(allow_nan=False, allow_infinity=False)
POWERS = st.builds(
    lambda digits, exponent: float(f"{digits}e{exponent}"), st.integers(-999, 999), st.integers(-330, 305)
)
ORDERED_OTHERWISE = st.text(st.sampled_from("az\ud7ff\ue000\ufb33\uffff\U00010000\U0001f600\U0010ffff"), max_size=3)
STRICT = nested(st.none() | st.booleans() | SAFE | FINITE | POWERS | GOOD_TEXT, GOOD_TEXT | ORDERED_OTHERWISE)
KEYS = ANY_TEXT | st.sampled_from(["$", "v", "", "a/b", "~"])
VALUES = nested(st.none() | st.booleans() | NUMBERS | ANY_TEXT | GOOD_TEXT, KEYS)


def shape(value: Any) -> Any:
    """The value, with what == does not tell apart told apart: 1 and True, 0.0 and -0.0, nan, the order of keys."""
    if isinstance(value, dict):
        return ["dict", [[key, shape(item)] for key, item in value.items()]]
    if isinstance(value, list):
        return ["list", [shape(item) for item in value]]
    return [type(value).__name__, repr(value)]


def shuffled(value: Any) -> Any:
    """The same value with the keys of every dictionary in the other order."""
    if isinstance(value, dict):
        return {key: shuffled(value[key]) for key in reversed(value)}
    return [shuffled(item) for item in value] if isinstance(value, list) else value


@given(STRICT)
def test_canonical_bytes_are_those_of_the_reference(value):
    assert canonical(value) == rfc8785.dumps(value)


@given(FINITE | POWERS | st.integers(0, 2**100).map(float))
def test_a_float_of_any_size_is_spelled_as_the_reference_does(number):
    assert canonical([number, -number]) == rfc8785.dumps([number, -number])


@given(st.dictionaries(ORDERED_OTHERWISE, FINITE | st.none(), max_size=6))
def test_keys_beyond_the_bmp_are_ordered_as_the_reference_does(value):
    assert canonical(value) == rfc8785.dumps(value)


@given(VALUES)
def test_a_value_comes_back_exactly(value):
    encoded, back = codec.record(value, Any, where="it")
    assert shape(back) == shape(value)
    assert not encoded.annotated
    assert shape(codec.decode(encoded.raw, None, annotated=False, where="it")) == shape(value)


@given(VALUES)
def test_what_came_back_is_written_as_before(value):
    encoded, back = codec.record(value, Any, where="it")
    assert codec.encode(back, where="it").raw == encoded.raw


@given(VALUES)
def test_the_order_of_keys_does_not_change_the_digest(value):
    one, other = (codec.encode(each, where="it").raw for each in (value, shuffled(value)))
    assert codec.input_digest(one) == codec.input_digest(other)


@given(VALUES, VALUES)
def test_two_inputs_differ_in_digest_exactly_when_a_place_differs(one, other):
    first, second = (codec.encode(each, where="it").raw for each in (one, other))
    assert (codec.input_digest(first) != codec.input_digest(second)) == bool(differences(first, second))


@given(st.text(st.characters(exclude_categories=["Cs"]), min_size=6), ANY_TEXT, ANY_TEXT)
def test_no_secret_is_left_in_what_is_written(secret, before, after):
    raw = codec.encode([f"{before}{secret}{after}", {"k": secret}], where="it").raw
    back = codec.decode(Scrubber({"NAME": secret}).raw(raw), None, annotated=False, where="it")
    assert back == [f"{before}{secret}{after}".replace(secret, "[secret NAME]"), {"k": "[secret NAME]"}]


@given(VALUES)
def test_what_holds_no_secret_is_left_as_it_was(value):
    encoded = codec.encode(["a secret here", value], where="it").raw
    scrubbed = Scrubber({"NAME": "a secret here"}).raw(encoded)
    back = codec.decode(scrubbed, None, annotated=False, where="it")
    assert shape(back) == shape(["[secret NAME]", value])


@given(st.floats())
def test_every_float_comes_back_to_the_bit(number):
    back = codec.record(number, float, where="it")[1]
    assert (math.isnan(back) and math.isnan(number)) or (back, math.copysign(1, back)) == (
        number, math.copysign(1, number),
    )  # fmt: skip
