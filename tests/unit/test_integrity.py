"""The chain notices every changed byte, every gap, and with an anchor every cut or replaced end (J1)."""

import hashlib

import msgspec
import pytest

from counterfoil.core.events import Record
from counterfoil.core.integrity import SALT_BYTES, ZERO, Anchor, Flaw, commit, flaws, link, seal

UNLINKED = "its hash does not follow from its envelope and the event before it"
UNCOMMITTED = "its body is not the one that was committed to"


def chain(*bodies: bytes, seed: bytes = b"s") -> list[Record]:
    records: list[Record] = []
    for seq, body in enumerate(bodies):
        previous = records[-1].hash if records else ZERO
        records.append(seal(seq, b"envelope %d" % seq, body, salt=seed * SALT_BYTES, previous=previous))
    return records


def changed(records: list[Record], position: int, **fields: object) -> list[Record]:
    return [msgspec.structs.replace(r, **fields) if r.seq == position else r for r in records]


@pytest.fixture
def good() -> list[Record]:
    return chain(b"a", b"b", b"c")


def test_a_good_chain_has_no_flaw(good):
    assert flaws(good) == []


def test_no_events_are_a_good_chain():
    assert flaws([]) == []


def test_the_hashes_are_the_documented_ones():
    commitment = hashlib.sha256(b"commit-v1" + b"s" * 32 + b"body").digest()
    assert commit(b"s" * 32, b"body") == commitment
    assert link(ZERO, commitment, b"env") == hashlib.sha256(b"event-v1" + bytes(32) + commitment + b"env").digest()


@pytest.mark.parametrize(
    ("field", "value", "found"),
    [
        ("body", b"B", [Flaw(1, UNCOMMITTED)]),
        ("salt", b"t" * SALT_BYTES, [Flaw(1, UNCOMMITTED)]),
        ("envelope", b"envelope 9", [Flaw(1, UNLINKED)]),
        ("commitment", bytes(32), [Flaw(1, UNLINKED), Flaw(1, UNCOMMITTED)]),
        ("hash", bytes(32), [Flaw(1, UNLINKED), Flaw(2, UNLINKED)]),
        ("seq", 7, [Flaw(7, "stands at position 1")]),
    ],
)
def test_a_changed_field_is_found(good, *, field, value, found):
    assert flaws(changed(good, 1, **{field: value})) == found


def test_a_removed_event_is_found(good):
    assert flaws([good[0], good[2]]) == [Flaw(2, "stands at position 1"), Flaw(2, UNLINKED)]


def test_two_swapped_events_are_found(good):
    found = flaws([good[1], good[0], good[2]])
    assert {flaw.seq for flaw in found} == {0, 1, 2}


def test_an_erased_body_leaves_the_chain_good(good):
    assert flaws(changed(good, 1, body=None, salt=None)) == []


def test_a_changed_body_hides_behind_no_missing_salt(good):
    assert flaws(changed(good, 1, body=b"B", salt=None)) == [Flaw(1, UNCOMMITTED)]


def test_a_cut_end_is_found_by_an_anchor_only(good):
    assert flaws(good[:2]) == []
    assert flaws(good[:2], anchors=[Anchor(2, good[2].hash)]) == [Flaw(2, "was anchored, but is not here")]


def test_a_chain_replaced_as_a_whole_is_found_by_an_anchor_only(good):
    other = chain(b"a", b"b", b"x", seed=b"t")
    assert flaws(other) == []
    assert flaws(other, anchors=[Anchor(2, good[2].hash)]) == [Flaw(2, "is not the event that was anchored")]


def test_an_anchor_in_the_middle_holds_while_the_run_goes_on(good):
    assert flaws(good, anchors=[Anchor(1, good[1].hash)]) == []


def test_two_heads_that_were_kept_of_one_event_are_both_compared(good):
    anchors = [Anchor(1, bytes(32)), Anchor(1, good[1].hash)]
    assert flaws(good, anchors=anchors) == [Flaw(1, "is not the event that was anchored")]


@pytest.mark.parametrize("body", [b"yes", b"no"])
def test_a_short_body_can_not_be_guessed_from_its_commitment(body):
    assert commit(b"s" * 32, body) != commit(b"t" * 32, body)
