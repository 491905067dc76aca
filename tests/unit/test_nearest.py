"""Of the earlier inputs, the one is shared that saves most, among several conversations too."""

import msgspec
import pytest

from counterfoil.core.events import Envelope, Event, StepIntended, StepSucceeded
from counterfoil.core.nearest import ENDS_MAX, Nearest
from counterfoil.core.parts import Send
from counterfoil.core.sharing import REQUESTS, Inputs, Piece

SYSTEM = "You are of help. " * 200


class Talks:
    """Conversations under way in one run: each call goes on with one of them."""

    def __init__(self) -> None:
        self.inputs = Inputs("r")
        self.nearest = Nearest(self.inputs)
        self.texts: dict[str, list[str]] = {}
        self.seq = 0

    def say(self, who: str, *, step: str | None = None, name: str = "ask") -> Piece:
        """One more message of the conversation, and a call with all of them."""
        said = self.texts.setdefault(who, [SYSTEM])
        said.append(f"{who} says {len(said)} " + who * 900)
        return self.call(msgspec.json.encode({"messages": said}), step or str(self.seq), name)

    def call(self, raw: bytes, step: str, name: str = "ask") -> Piece:
        found = self.nearest.shared(raw, step=step, family=f"model {name}")
        value, shared = found or (msgspec.Raw(raw), None)
        body = StepIntended(kind="model", name=name, input=value, digest="d", shared=shared)
        (piece,) = self.inputs.take(Event(Envelope(run="r", seq=self.seq, type=body.type, step=step), body, b""))
        self.seq += 1
        assert self.inputs.whole(piece) == raw
        return piece


@pytest.fixture
def talks():
    return Talks()


def test_a_conversation_goes_on_from_its_last_call(talks):
    pieces = [talks.say("a") for _ in range(6)]
    assert [piece.base for piece in pieces] == [None, *pieces[:-1]]


@pytest.mark.parametrize("count", [2, 7, ENDS_MAX])
def test_each_of_many_conversations_goes_on_from_its_own_last_call(talks, count):
    rounds = [[talks.say(chr(0x4E00 + who)) for who in range(count)] for _ in range(4)]
    assert [[piece.base for piece in made] for made in rounds[2:]] == [rounds[1], rounds[2]]


def test_a_new_conversation_with_the_same_beginning_shares_it(talks):
    first, other = talks.say("a"), talks.say("b")
    assert (other.base, other.head > len(SYSTEM)) == (first, True)
    assert talks.say("a").base is first


def test_branches_of_a_conversation_share_what_they_have_in_common(talks):
    start = talks.say("a")
    talks.texts["b"] = list(talks.texts["a"])
    one, other = talks.say("a"), talks.say("b")
    assert one.base is start
    assert len(other.middle) < 1100


def test_the_same_branch_is_asked_first_among_equals(talks):
    talks.texts |= {"a": [SYSTEM], "b": [SYSTEM]}
    made = [talks.call(b'{"messages":["%s"]}' % (SYSTEM.encode()), step) for step in ("0/0", "1/0")]
    assert made[1].base is made[0]
    apart = [talks.say("a", step="0/1"), talks.say("b", step="1/1")]
    assert talks.say("b", step="1/2").base is apart[1]


def test_another_try_of_a_step_shares_the_try_before_wholly(talks):
    raw = msgspec.json.encode([SYSTEM])
    first, others = talks.call(raw, "3"), [talks.call(msgspec.json.encode([SYSTEM, n]), f"{4 + n}") for n in range(9)]
    again = talks.call(raw, "3")
    assert (again.base, again.middle, again.head) == (first, b"", len(raw))
    assert others[0].base is first


def test_steps_of_another_name_are_not_looked_at(talks):
    talks.say("a")
    assert talks.say("a", name="judge").base is None


def test_what_is_short_is_neither_shared_nor_kept(talks):
    talks.call(b'"short"', "0")
    assert (talks.call(b'"short"', "0").base, talks.inputs.order) == (None, [])


def test_no_more_conversations_are_followed_than_that(talks):
    for number in range(ENDS_MAX + 5):
        talks.say(chr(0x4E00 + number))
    talks.say("z")
    assert len(talks.nearest._ends["model ask"]) == ENDS_MAX


def test_a_request_shares_the_input_of_its_step(talks):
    piece = talks.say("a", step="0")
    raw = msgspec.json.encode({"model": "m", "messages": talks.texts["a"]})
    value, shared = talks.nearest.shared(raw, step="0", family=REQUESTS)
    assert (shared.base, shared.part) == (piece.place.seq, 0)
    body = StepSucceeded(result=msgspec.Raw(b"1"), sends=(Send(request=value, request_shared=shared),))
    talks.inputs.take(Event(Envelope(run="r", seq=1, type=body.type, step="0"), body, b""))
    _, later = talks.nearest.shared(raw, step="1", family=REQUESTS)
    assert (later.base, later.part, later.head) == (1, 1, len(raw))


def test_with_more_conversations_than_are_followed_each_branch_goes_on_from_its_own_last_call(talks):
    branches = range(2 * ENDS_MAX)
    rounds = [[talks.say(chr(0x4E00 + who), step=f"0/{who}/{turn}") for who in branches] for turn in range(3)]
    assert [[piece.base for piece in made] for made in rounds[1:]] == rounds[:2]
