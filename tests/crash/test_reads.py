"""J3: the world sees one value of each recorded read, wherever the process dies.

A draw, an id and a time are handed to a call. If the call could begin before they are on disk, a kill would let the
next attempt draw anew and tell the world something else.
"""

import pytest

STORE_CALLS = 9
POINTS = [
    pytest.param({"kill_at": {when: number}}, id=f"{when}_store_call_{number}")
    for number in range(1, STORE_CALLS + 1)
    for when in ("before", "after")
] + [pytest.param({"deaths": ["in call 1"]}, id="in_the_call")]


@pytest.mark.parametrize("kind", ["model", "tool"])
@pytest.mark.parametrize("point", POINTS)
def test_the_world_sees_one_value_of_each_read(place, point, kind):
    assert place.start("tell", point | {"kind": kind}).is_killed
    place.start("tell", {"kind": kind}).result()
    assert len(place.calls) == 1
