"""Any inputs in a row: what is read back is what was asked, by bytes and by digest, whatever they share (J1)."""

import asyncio

from hypothesis import given
from hypothesis import strategies as st

import counterfoil
from counterfoil import Context, workflow
from counterfoil.core import codec
from counterfoil.core.events import AttemptStarted, RunStarted, StepIntended
from counterfoil.core.integrity import ZERO
from counterfoil.core.scrub import Scrubber
from counterfoil.core.sharing import share
from counterfoil.core.state import RunState, Status
from counterfoil.core.tally import Tally
from counterfoil.engine.prices import Prices
from counterfoil.engine.recorder import Past, Recorder, as_value
from counterfoil.store import Head
from counterfoil.stores.memory import MemoryStore
from counterfoil.testing.clock import ManualSystem

WORDS = st.text('aé€😀"\\\n\x00', min_size=1, max_size=4).map(lambda text: text * 60)
VALUES = st.recursive(st.none() | st.integers(-9, 9) | WORDS, lambda of: st.lists(of) | st.dictionaries(WORDS, of))
CHANGES = st.lists(
    st.tuples(st.sampled_from(["add", "drop", "change", "other"]), st.integers(0, 3), WORDS | VALUES), max_size=12
)
"""What becomes of one of four conversations before it is asked again."""

SECRET = "aaaaaaaaaa"


def asked(changes):
    """The inputs, one for each change."""
    talks = [["a" * 300], ["a" * 300], [], []]
    for what, which, value in changes:
        talk = talks[which]
        if what == "other" or not talk:
            talk[:] = [value]
        elif what == "drop":
            talk.pop(len(talk) // 2)
        else:
            talk[len(talk) - (what == "change") :] = [value]
        yield {"messages": list(talk), "model": "m"}


async def answer(messages, model):
    return 1


@given(st.binary(max_size=40), st.binary(max_size=40), st.binary(max_size=40), st.booleans())
def test_what_two_byte_strings_share_makes_the_second_of_the_first(start, middle, end, is_longer):
    base = start * 20 + end * 20
    whole = start * 20 + middle + end * (20 if is_longer else 19)
    head, tail, between = share(base, whole) or (0, 0, None)
    assert between is None or base[:head] + between.encode() + base[len(base) - tail :] == whole


@given(CHANGES)
def test_inputs_are_read_back_as_they_were_asked(changes):
    inputs = list(asked(changes))

    @workflow(name="test_shared_inputs")
    async def asks(ctx: Context) -> int:
        return sum([await ctx.model(answer, each["messages"], each["model"]) for each in inputs])

    async def run():
        async with counterfoil.open(MemoryStore(), system=ManualSystem()) as journal:
            await journal.run(asks, id="r")
            return await journal.events("r"), await journal.verify("r")

    events, found = asyncio.run(run())
    intents = [event.body for event in events if isinstance(event.body, StepIntended)]
    wanted = [codec.encode(each, where="it").raw for each in inputs]
    assert [bytes(body.input) for body in intents] == wanted
    assert [body.digest for body in intents] == list(map(codec.input_digest, wanted))
    assert found.flaws == ()


HEAD = Head(
    run="r", number=1, workflow="w", status=Status.PENDING, reason=None, tags={}, epoch=1, owner=None, seq=-1,
    hash=ZERO, created=0, updated=0,
)  # fmt: skip


@given(CHANGES, st.integers(0, 12))
def test_a_secret_that_becomes_known_between_two_calls_is_in_none_of_the_later(changes, known_from):
    scrubber, state = Scrubber(), RunState(run="r")
    past = Past(state, Tally())
    recorder = Recorder(MemoryStore(), ManualSystem(), scrubber, head=HEAD, past=past, prices=Prices())
    recorder.note(RunStarted(workflow="w", input=as_value(b"{}")))
    recorder.note(AttemptStarted())
    inputs = [codec.encode(each, where="it").raw for each in asked(changes)]
    for number, raw in enumerate(inputs):
        if number == known_from:
            scrubber.add("KEY", SECRET)
        body = StepIntended(kind="model", name="f", input=as_value(raw), digest=codec.input_digest(raw))
        recorder.note(body, step=str(number))
    wholes = [state.inputs.whole(step.input) for step in state.steps.values()]
    assert wholes == [*inputs[:known_from], *map(scrubber.raw, inputs[known_from:])]
    assert [step.digest for step in state.steps.values()] == list(map(codec.input_digest, wholes))
    assert [record for record in recorder._queued[2 + known_from :] if SECRET.encode() in record.body] == []
