"""Canonical JSON: the published vectors of RFC 8785, and what a digest does not depend on."""

import pytest
import rfc8785

from counterfoil.core.canonical import canonical, digest

NUMBERS = [
    (0.0, b"0"),
    (-0.0, b"0"),
    (5e-324, b"5e-324"),
    (-5e-324, b"-5e-324"),
    (1.7976931348623157e308, b"1.7976931348623157e+308"),
    (9007199254740992.0, b"9007199254740992"),
    (295147905179352830000.0, b"295147905179352830000"),
    (9.999999999999997e22, b"9.999999999999997e+22"),
    (1e23, b"1e+23"),
    (999999999999999900000.0, b"999999999999999900000"),
    (1e21, b"1e+21"),
    (9.999999999999997e-7, b"9.999999999999997e-7"),
    (0.000001, b"0.000001"),
    (333333333.33333329, b"333333333.3333333"),
    (1424953923781206.2, b"1424953923781206.2"),
]  # RFC 8785, appendix B


@pytest.mark.parametrize(("number", "text"), NUMBERS)
def test_numbers_are_spelled_as_in_appendix_b(number, text):
    assert canonical(number) == text


def test_the_sample_of_section_3_2_2_gives_its_published_bytes():
    sample = {
        "numbers": [333333333.33333329, 1e30, 4.50, 2e-3, 0.000000000000000000000000001],
        "string": "\u20ac$\u000f\u000aA'\u0042\u0022\u005c\\\"/",
        "literals": [None, True, False],
    }
    expected = (
        '{"literals":[null,true,false],"numbers":[333333333.3333333,1e+30,4.5,0.002,1e-27],'
        '"string":"€$\\u000f\\nA\'B\\"\\\\\\\\\\"/"}'
    )
    assert canonical(sample) == expected.encode()


def test_keys_are_sorted_by_utf16_units_as_in_section_3_2_3():
    keys = ["\u20ac", "\r", "\ufb33", "1", "\U0001f600", "\u0080", "\u00f6"]
    order = ["\r", "1", "\u0080", "\u00f6", "\u20ac", "\U0001f600", "\ufb33"]
    text = canonical(dict.fromkeys(keys, 0)).decode()
    assert [text.index(f'"{key}"' if key != "\r" else '"\\r"') for key in order] == sorted(
        text.index(f'"{key}"' if key != "\r" else '"\\r"') for key in order
    )


@pytest.mark.parametrize(
    ("text", "spelled"),
    [
        ("\x00", b'"\\u0000"'),
        ("\x08\t\n\x0c\r", b'"\\b\\t\\n\\f\\r"'),
        ("\x1f", b'"\\u001f"'),
        ("\x7f", b'"\x7f"'),
        ('"\\/', b'"\\"\\\\/"'),
        ("\u2028é", '"\u2028é"'.encode()),
        ("", b'""'),
    ],
)
def test_text_is_escaped_only_where_json_demands_it(text, spelled):
    assert canonical(text) == spelled


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ({"a": 1, "b": [2]}, {"b": [2], "a": 1}),
        ({"x": 3}, {"x": 3.0}),
        ({"\ufb33": 1, "\U0001f600": 2}, {"\U0001f600": 2, "\ufb33": 1}),
    ],
)
def test_key_order_and_spelling_do_not_change_a_digest(one, other):
    assert digest(one) == digest(other)


@pytest.mark.parametrize(("one", "other"), [([1, 2], [2, 1]), (None, "null"), (1, "1"), ({}, []), (0, False)])
def test_different_values_have_different_digests(one, other):
    assert digest(one) != digest(other)


def test_a_digest_is_the_sha256_of_the_bytes():
    assert digest({}) == "44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a"


@pytest.mark.parametrize(
    "value",
    [
        float("nan"),
        float("inf"),
        -float("inf"),
        2**53,
        -(2**53),
        10**400,
        "\ud800",
        [{"a": 2**53}],
        object(),
        {"a": 1j},
    ],
    ids=range(10),
)
def test_what_rfc_8785_has_no_form_for_is_refused_as_the_reference_does(value):
    with pytest.raises(rfc8785.CanonicalizationError):
        canonical(value)


def test_a_key_with_a_lone_surrogate_is_refused():
    with pytest.raises(UnicodeEncodeError):
        canonical({"\ud800": 1})


def test_the_value_itself_is_left_as_it_is():
    value = {"b": [0.5, {"a": -0.0}], "\U0001f600": {"\ufb33": 1e21}}
    canonical(value)
    assert value == {"b": [0.5, {"a": -0.0}], "\U0001f600": {"\ufb33": 1e21}}
