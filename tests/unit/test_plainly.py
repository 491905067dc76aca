"""Recorded values as people and programs read them."""

import dataclasses
import enum
import json
from typing import Any

import pydantic
import pytest

from counterfoil.core import codec
from counterfoil.core.plainly import plainly


class Colour(enum.Enum):
    RED = "red"
    ODD = object()


@dataclasses.dataclass
class Point:
    x: Any


class Model(pydantic.BaseModel):
    name: str
    _kept: int = 0
    model_config = pydantic.ConfigDict(extra="allow")


SHOWN = [
    ({"a": [1, "b", None]}, {"a": [1, "b", None]}),
    (Point({"a": Point((1, {2}))}), {"x": {"a": {"x": [1, [2]]}}}),
    (Model(name="a", more=Point(1)), {"name": "a", "more": {"x": 1}}),
    (Colour.RED, "red"),
    (Colour.ODD, "ODD"),
    ({"$": 2**60}, {"$": 2**60}),
    (10**800, hex(10**800)),
    ({1: b"a"}, [[1, "YQ=="]]),
    ("a\ud800", "a\\ud800"),
    (float("nan"), "nan"),
]


@pytest.mark.parametrize(("value", "shown"), SHOWN, ids=range(len(SHOWN)))
def test_tags_and_names_of_classes_are_taken_off(value, shown):
    raw = codec.record(value, Point | Model | Colour, where="it")[0].raw
    assert json.loads(plainly(raw)) == shown


@pytest.mark.parametrize(
    "raw", [b'{"$":[]}', b'{"$":"str","v":"zz"}', b'{"$":"dict","v":1}', b'{"$"', b'{"$":"str","v":5}'], ids=range(5)
)
def test_what_is_not_ours_is_shown_as_it_is(raw):
    assert plainly(raw) == raw
