"""What leaves the journal, what stays, and how it is found again (J1): a body by its size, a content by its digest."""

import asyncio

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from counterfoil.artifacts import BODY_BYTES_MAX, Need, content, digest_of, need_of, read, read_all, seal
from counterfoil.core import events, integrity
from counterfoil.core.events import ArtifactStored, Envelope, RunPaused, Stub
from counterfoil.errors import ArtifactAlteredError, ArtifactMissingError, CounterfoilError, JournalUnreadableError

ENVELOPE = Envelope(run="r", seq=0, type="run_paused", time=5)
FRAME_BYTES = len(events.encode(RunPaused(reason="")))
HEX = "0" * 64


def body_of(size: int) -> RunPaused:
    """A body that is so many bytes long as it is encoded."""
    return RunPaused(reason="x" * (size - FRAME_BYTES))


def sealed(body: RunPaused):
    return seal(ENVELOPE, events.encode(body), salt=bytes(32), previous=integrity.ZERO)


def fetch_from(artifacts):
    async def fetch(digest):
        return artifacts.get(digest)

    return fetch


def done(work):
    return asyncio.run(work)


@pytest.mark.parametrize(("size", "count"), [(16_383, 0), (16_384, 0), (16_385, 1), (100_000, 1)])
def test_a_body_of_more_than_16_kib_leaves_the_journal(size, count):
    record, artifacts = sealed(body_of(size))
    assert (len(artifacts), len(record.body) == size) == (count, count == 0)
    assert BODY_BYTES_MAX == 16_384


def test_the_body_that_stays_names_what_left_by_digest_and_size():
    raw = events.encode(body_of(20_000))
    record, artifacts = sealed(body_of(20_000))
    assert artifacts == {digest_of(raw): raw}
    assert msgspec.json.decode(record.body, type=Stub) == Stub(digest=digest_of(raw), size_bytes=20_000)


def test_the_envelope_says_that_it_left_and_gives_no_digest():
    record, artifacts = sealed(body_of(20_000))
    assert msgspec.json.decode(record.envelope)["reference"] == {"size_bytes": 20_000}
    assert next(iter(artifacts)).encode() not in record.envelope


def test_the_chain_covers_what_stays():
    record, _ = sealed(body_of(20_000))
    swapped = msgspec.structs.replace(record, body=record.body.replace(b'"size_bytes":20000', b'"size_bytes":20001'))
    assert integrity.flaws([record]) == []
    assert [flaw.problem for flaw in integrity.flaws([swapped])] == ["its body is not the one that was committed to"]


@given(st.integers(FRAME_BYTES, 3 * BODY_BYTES_MAX) | st.integers(BODY_BYTES_MAX - 3, BODY_BYTES_MAX + 3))
def test_a_body_of_any_size_is_read_as_it_was_written(size):
    record, artifacts = sealed(body_of(size))
    event = done(read(record, "r", fetch_from(artifacts)))
    assert (event.body, event.hash) == (body_of(size), record.hash)
    assert done(read_all([record], "r", fetch_from(artifacts))) == [event]


def test_a_missing_artifact_is_named_with_what_needs_it():
    record, artifacts = sealed(body_of(20_000))
    (digest,) = artifacts
    with pytest.raises(ArtifactMissingError) as caught:
        done(read(record, "r", fetch_from({})))
    place = {"run": "r", "seq": 0, "step": None}
    assert caught.value.facts == {"where": "run 'r', event 0", "digest": digest, "size_bytes": 20_000, **place}


CHANGES = {"cut": lambda c: c[:-1], "longer": lambda c: c + b" ", "empty": lambda _: b"", "reversed": lambda c: c[::-1]}


@pytest.mark.parametrize("change", CHANGES)
def test_an_altered_artifact_is_never_used(change):
    record, artifacts = sealed(body_of(20_000))
    altered = {digest: CHANGES[change](content) for digest, content in artifacts.items()}
    with pytest.raises(ArtifactAlteredError, match="is not what was stored"):
        done(read(record, "r", fetch_from(altered)))


def test_an_error_tells_as_much_as_is_known_of_the_place():
    needs = [Need(digest=HEX, size_bytes=1), Need(digest=HEX, size_bytes=1, run="r", seq=3, step="2")]
    errors = [error_of(content(need, fetch_from({}))) for need in needs]
    assert [error.where for error in errors] == ["no run in particular", "run 'r', event 3, step 2"]


def error_of(work):
    with pytest.raises(CounterfoilError) as caught:
        done(work)
    return caught.value


def test_a_stored_artifact_is_needed_by_the_event_that_tells_of_it():
    stored = ArtifactStored(digest=HEX, size_bytes=7, media_type="text/plain")
    envelope = msgspec.structs.replace(ENVELOPE, seq=4, type=stored.type, step="2")
    record, _ = seal(envelope, events.encode(stored), salt=bytes(32), previous=integrity.ZERO)
    assert need_of(record, "r") == Need(digest=HEX, size_bytes=7, run="r", seq=4, step="2")


def test_a_small_event_needs_no_artifact():
    assert need_of(sealed(body_of(100)).record, "r") is None


@pytest.mark.parametrize("reader", [need_of, lambda record, run: done(read(record, run, None))])
def test_a_stub_that_names_nothing_is_unreadable(reader):
    broken = msgspec.structs.replace(sealed(body_of(20_000)).record, body=b'{"digest":"0"}')
    with pytest.raises(JournalUnreadableError, match="it names no artifact"):
        reader(broken, "r")
