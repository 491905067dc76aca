"""What is new in an input is all that is kept of it, and what is read back is what was written (J1, J5)."""

import tracemalloc

import msgspec
import pytest

from counterfoil.core import codec
from counterfoil.core.events import Envelope, Event, StepIntended, StepSucceeded
from counterfoil.core.parts import Send, Shared
from counterfoil.core.replay import Difference
from counterfoil.core.sharing import KEPT_BYTES_MAX, Inputs, Piece, Place, WholeEvents, put_together, share
from counterfoil.core.state import RunState
from counterfoil.errors import JournalUnreadableError

LONG = "x" * 1000


def conversation(count: int, text: str = LONG) -> bytes:
    return msgspec.json.encode({"messages": [f"{number}: {text}" for number in range(count)], "tools": ["a", "b"]})


def chain(length: int, step: bytes = b"0123456789") -> Piece:
    """An input that grew so often at its end."""
    piece = Piece(Place(0), "0", "f", middle=b"[]")
    for seq in range(1, length):
        shared = Shared(base=seq - 1, head=piece.size - 1, tail=1)
        piece = Piece(Place(seq), "0", "f", middle=step, base=piece, shared=shared)
    return piece


def intended(seq: int, value: bytes, shared: Shared | None = None, step: str | None = None) -> Event:
    body = StepIntended(kind="model", name="f", input=msgspec.Raw(value), digest="d", shared=shared)
    return Event(Envelope(run="r", seq=seq, type=body.type, step=step or str(seq)), body, b"")


def answered(seq: int, *sends: Send) -> Event:
    body = StepSucceeded(result=msgspec.Raw(b"1"), sends=sends)
    return Event(Envelope(run="r", seq=seq, type=body.type, step="0"), body, b"")


def again(base: bytes, found: tuple[int, int, str]) -> bytes:
    head, tail, middle = found
    return base[:head] + middle.encode() + base[len(base) - tail :]


# --- two inputs ---


def test_of_a_grown_conversation_only_the_new_message_is_stored():
    base, whole = conversation(5), conversation(6)
    found = share(base, whole)
    assert again(base, found) == whole
    assert found[2] == f',"5: {LONG}"'


def test_of_the_same_input_nothing_is_stored():
    assert share(conversation(5), conversation(5)) == (len(conversation(5)), 0, "")


def test_a_shorter_input_is_a_part_of_a_longer_one():
    assert again(conversation(6), share(conversation(6), conversation(5))) == conversation(5)


@pytest.mark.parametrize(
    ("base", "whole"),
    [
        (b"", b""),
        (b'"short"', b'"short"'),
        (conversation(1), b'["another"]'),
        (b'"' + b"a" * 200 + b'"', b'"' + b"a" * 200 + b'b"'),
        (b"\xff" * 900, b"\xff" * 900 + b"\xfe" + b"\xff" * 9),
    ],
    ids=["empty", "short", "another", "little saved", "no text"],
)
def test_what_saves_too_little_or_is_no_text_is_stored_whole(base, whole):
    assert share(base, whole) is None


@pytest.mark.parametrize("pair", ["éè", "€₭", "😀😁", "é€", "ab"])
def test_a_character_is_never_cut(pair):
    base, whole = (f'"{LONG}{letter}{LONG}"'.encode() for letter in pair)
    head, tail, middle = share(base, whole)
    assert (again(base, (head, tail, middle)), middle) == (whole, pair[1])


def test_what_begins_and_ends_alike_is_not_shared_twice():
    base, whole = f'"{LONG}"'.encode(), f'"{LONG}{LONG}"'.encode()
    head, tail, middle = share(base, whole)
    assert head + tail <= len(base)
    assert again(base, (head, tail, middle)) == whole


# --- chains ---


@pytest.mark.parametrize("length", [1, 2, 10, 20_000])
def test_a_long_chain_is_put_together_at_once(length):
    assert bytes(chain(length)) == b"[" + b"0123456789" * (length - 1) + b"]"


def test_a_chain_is_followed_no_further_than_what_is_known():
    piece = chain(10)
    assert put_together(piece, {Place(8): b"(" + b"-" * 80 + b")"}) == b"(" + b"-" * 80 + b"0123456789)"


def test_pieces_in_the_middle_of_others_come_out_in_their_order():
    first = Piece(Place(0), "0", "f", middle=b"abcdef")
    second = Piece(Place(1), "0", "f", middle=b"123", base=first, shared=Shared(base=0, head=2, tail=3))
    third = Piece(Place(2), "0", "f", middle=b"-", base=second, shared=Shared(base=1, head=4, tail=4))
    fourth = Piece(Place(3), "0", "f", middle=b"", base=third, shared=Shared(base=2, head=1, tail=2))
    assert list(map(bytes, (second, third, fourth))) == [b"ab123def", b"ab12-3def", b"aef"]


def test_a_state_keeps_of_a_conversation_what_is_new_in_each_input():
    inputs, base = Inputs("r"), conversation(1)
    inputs.take(intended(0, base))
    tracemalloc.start()
    for seq in range(1, 300):
        whole = conversation(seq + 1)
        head, tail, middle = share(base, whole)
        (piece,) = inputs.take(
            intended(seq, msgspec.json.encode(middle), Shared(base=seq - 1, head=head, tail=tail)),
        )
        base = inputs.whole(piece)
    kept, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert base == conversation(300)
    assert kept < KEPT_BYTES_MAX + 4 * len(base)  # 300 whole ones would be 150 times as long


# --- what may not be shared ---


BASE = conversation(2)


@pytest.mark.parametrize(
    ("value", "shared", "problem"),
    [
        (b'""', Shared(base=1, head=9, tail=9), "event 1, in which the rest"),
        (b'""', Shared(base=2, head=9, tail=9), "event 2, in which the rest"),
        (b'""', Shared(base=9, head=9, tail=9), "event 9, in which the rest"),
        (b'""', Shared(base=-1, head=9, tail=9), "event -1, in which the rest"),
        (b'""', Shared(base=0, part=1, head=9, tail=9), "event 0, in which the rest"),
        (b'""', Shared(base=0, head=-1, tail=9), "more of its input"),
        (b'""', Shared(base=0, head=9, tail=-1), "more of its input"),
        (b'""', Shared(base=0, head=len(BASE), tail=1), "more of its input"),
        (b"5", Shared(base=0, head=9, tail=9), "what is new in its input"),
        (b'"\\ud800"', Shared(base=0, head=9, tail=9), "what is new in its input"),
    ],
    ids=["outcome", "itself", "later", "none", "request", "head", "tail", "overlap", "number", "no text"],
)
def test_a_reference_to_no_earlier_input_is_an_error_that_names_it(value, shared, problem):
    inputs = Inputs("r")
    inputs.take(intended(0, BASE))
    with pytest.raises(JournalUnreadableError) as caught:
        inputs.check(intended(2, value, shared))
    assert (caught.value.facts["seq"], caught.value.facts["type"]) == (2, "step_intended")
    assert problem in caught.value.facts["problem"]


def test_an_input_whose_rest_is_not_there_changes_nothing(begun):
    state, before = begun.state, begun.state
    with pytest.raises(JournalUnreadableError, match="event 1"):
        state.apply(intended(2, b'""', Shared(base=1, head=9, tail=9)))
    assert (state, state.inputs.order) == (before, [])


# --- what people read ---


def test_events_are_read_whole_one_at_a_time():
    head, tail, middle = share(BASE, conversation(3))
    second = intended(1, msgspec.json.encode(middle), Shared(base=0, head=head, tail=tail))
    found = WholeEvents("r", [intended(0, BASE), second])
    assert [bytes(event.body.input) for event in found] == [BASE, conversation(3)]
    assert (found[-1].body.shared, found[1:], len(found)) == (None, [found[1]], 2)
    assert (found == list(found), found == WholeEvents("r", found.stored), found == []) == (True, True, False)


def test_a_request_shares_the_input_of_its_step_or_an_earlier_request():
    first = Send(
        request=msgspec.Raw(msgspec.json.encode(',"n":1}')), request_shared=Shared(base=0, head=len(BASE) - 1, tail=0)
    )
    second = Send(request=msgspec.Raw(b'"2}"'), request_shared=Shared(base=1, part=1, head=len(BASE) + 5, tail=0))
    found = WholeEvents("r", [intended(0, BASE), answered(1, first, Send(url="u"), second)])
    sends = found[1].body.sends
    assert [bytes(send.request) for send in sends] == [BASE[:-1] + b',"n":1}', b"null", BASE[:-1] + b',"n":12}']
    assert [send.request_shared for send in sends] == [None] * 3


def test_a_request_whose_rest_is_gone_is_left_as_it_is_stored():
    send = Send(request=msgspec.Raw(b'"new"'), request_shared=Shared(base=7, head=9, tail=0))
    assert WholeEvents("r", [intended(0, BASE), answered(1, send)])[1].body.sends == (send,)


# --- replay ---


@pytest.fixture
def grown(begun):
    """A recorded call whose input is a piece, and the state with it."""
    raws = [codec.encode({"messages": [LONG] * count}, where="it").raw for count in (3, 4)]
    head, tail, middle = share(*raws)
    whole = begun.intended("0", "f", {"messages": [LONG] * 3}).succeeded("0")
    shared = Shared(base=2, head=head, tail=tail)
    body = StepIntended(
        kind="tool", name="f", input=msgspec.Raw(msgspec.json.encode(middle)),
        digest=codec.input_digest(raws[1]), shared=shared,
    )  # fmt: skip
    return whole.add(body, step="1", try_number=1).succeeded("1")


def test_a_replay_asks_for_the_whole_input(grown, ask):
    cursor = grown.cursor
    asked = [ask("0", value={"messages": [LONG] * 3}), ask("1", value={"messages": [LONG] * 4})]
    assert [bytes(cursor.ask(each).value) for each in asked] == [b"1", b"1"]
    assert isinstance(grown.state.steps["1"].input, Piece)


def test_another_input_differs_from_the_whole_one(grown, ask):
    cursor = grown.cursor
    cursor.ask(ask("0", value={"messages": [LONG] * 3}))
    found = cursor.ask(ask("1", value={"messages": [LONG] * 3 + ["other"]}))
    shown = f'"{LONG}'[:300] + "..."
    assert found.differences == (Difference("/messages/3", shown, '"other"'),)


def test_a_state_of_its_own_has_inputs_of_its_own():
    assert RunState(run="a").inputs is not RunState(run="a").inputs


@pytest.mark.parametrize("head", [pytest.param(3, id="no JSON"), pytest.param(6, id="half a character")])
def test_what_is_no_value_when_it_is_put_together_is_refused_by_name(head):
    shared = Shared(base=0, head=head, tail=5)
    base = intended(0, msgspec.json.encode(["xyzé" + LONG]))
    send = Send(request=msgspec.Raw(b'"a\\"b"'), request_shared=shared)
    events = WholeEvents("r", [base, intended(1, b'"a\\"b"', shared), answered(2, send)])
    with pytest.raises(JournalUnreadableError, match=r"event 1 .*no value when it is put together"):
        events[1]
    assert events[2].body.sends == (send,)
