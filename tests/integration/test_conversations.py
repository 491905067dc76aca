"""FC-57: model calls over a growing conversation. The store grows by what is new, and nothing is lost by that.

Growth is counted in bytes. A base that was altered is found by name, and never used unseen.
"""

import asyncio
import hashlib
import random
from pathlib import Path

import httpx
import msgspec
import pytest

import counterfoil
from counterfoil import Context, InputMismatchError, Retry, RunPausedError, workflow
from counterfoil.cli.main import cli
from counterfoil.core import integrity
from counterfoil.core.events import StepIntended, encode
from counterfoil.errors import JournalUnreadableError
from counterfoil.stores.memory import MemoryStore
from counterfoil.testing.stubs import StubModel

pytestmark = pytest.mark.anyio
WORDS = [word * length for word in "aeiouäλ" for length in range(1, 9)] + ['"quoted"', "\n"]
ROLES = {"tool": "tool"}
CALLS = {"converse": 0, "look_up": 0}


def text(seed: int, size: int) -> str:
    """So many characters of words, as a model or a tool would give them."""
    words = random.Random(seed).choices(WORDS, k=size)
    return " ".join(words)[:size]


FIRST_WORDS = encode(text(0, 20))[1:-1]


async def converse(messages: list[dict[str, str]], size: int) -> str:
    CALLS["converse"] += 1
    return text(len(messages), size)


async def look_up(number: int, size: int) -> str:
    CALLS["look_up"] += 1
    return text(-number, size)


@workflow(name="test_conversations.agent")
async def agent(ctx: Context, count: int, size: int) -> int:
    """A model that asks for a tool each time. Gives the bytes of the final conversation."""
    messages = [{"role": "system", "content": text(0, 4000)}]
    for number in range(count):
        messages.append({"role": "assistant", "content": await ctx.model(converse, messages, size // 5)})
        messages.append({"role": ROLES["tool"], "content": await ctx.step(look_up, number, size - size // 5)})
    return len(encode({"messages": messages}))


@pytest.fixture(autouse=True)
def no_calls():
    CALLS.update(converse=0, look_up=0)


def bytes_in(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


async def recorded(count=6, size=2000):
    """The records of a finished run; none is so large that it names an artifact."""
    async with counterfoil.open("memory://") as journal:
        await journal.run(agent, count, size, id="r")
        return list(await journal.store.read("r"))


def intents(events):
    return [event.body for event in events if isinstance(event.body, StepIntended) and event.body.kind == "model"]


# --- growth ---


@pytest.mark.parametrize(("size", "times"), [(5000, 3), (1000, 4.25)])
async def test_after_100_calls_the_store_is_a_small_multiple_of_the_conversation(tmp_path, size, times):
    """Each message is there twice, as an outcome and in the next input; with small ones, the rest weighs more."""
    async with counterfoil.open(f"sqlite:///{tmp_path}/runs.db") as journal:
        final = await journal.run(agent, 100, size, id="r")
    assert final > 100 * size
    assert bytes_in(tmp_path) <= times * final


async def test_twice_as_many_calls_take_twice_as_much():
    sizes = []
    for count in (50, 100):
        records = await recorded(count, 1000)
        sizes.append(sum(len(record.body) for record in records))
    assert sizes[1] < 2.1 * sizes[0]


async def test_a_call_that_is_tried_again_stores_its_input_once(calls):
    flaky = calls.function("flaky", ConnectionError("once"), ConnectionError("twice"), 1)

    @workflow
    async def tries_again(ctx: Context) -> int:
        return await ctx.with_options(retry=Retry(first_seconds=0.001)).model(flaky, text(1, 9000))

    async with counterfoil.open("memory://") as journal:
        await journal.run(tries_again, id="r")
        events = await journal.events("r")
    assert [len(body.input) < 9 for body in intents(events.stored)] == [False, True, True]
    assert len({bytes(body.input) for body in intents(events)}) == 1


async def test_of_conversations_at_once_each_is_stored_once():
    async def talk(ctx: Context, who: int) -> int:
        messages = [{"content": text(0, 3000)}, {"content": text(who, 2000)}]
        for _ in range(4):
            messages.append({"content": await ctx.model(converse, messages, 500 + who)})
        return len(messages)

    @workflow
    async def talks(ctx: Context) -> list[int]:
        return await asyncio.gather(*(talk(ctx, who) for who in range(10)))

    async with counterfoil.open("memory://") as journal:
        await journal.run(talks, id="r")
        events = await journal.events("r")
    sizes = sorted(len(body.input) for body in intents(events.stored))
    assert len(sizes) == 40
    assert sizes[29] < 1000  # the three later calls of each of the ten


async def post_twice(url: str, count: int) -> int:
    """A call whose own input is short: what it sends is a conversation."""
    body = {"model": "m", "messages": [{"role": "user", "content": text(each, 2000)} for each in range(count)]}
    async with httpx.AsyncClient() as client:
        return sum([(await client.post(f"{url}/v1/chat/completions", json=body)).status_code for _ in range(2)])


@workflow(name="test_conversations.posts")
async def posts(ctx: Context, url: str) -> list[int]:
    return [await ctx.model(post_twice, url, count) for count in range(1, 5)]


async def test_of_what_is_sent_each_message_is_stored_once_and_the_same_request_never_again():
    with StubModel(script=["final"]) as stub:
        async with counterfoil.open("memory://") as journal:
            await journal.run(posts, stub.url, id="r")
            events = await journal.events("r")
    outcomes = [body for body in (event.body for event in events.stored) if body.type == "step_succeeded"]
    sizes = [[len(send.request) for send in body.sends] for body in outcomes]
    wholes = [send.request for event in events if event.type == "step_succeeded" for send in event.body.sends]
    assert [(first < 3500, second) for first, second in sizes] == [(True, 2)] * 4
    digests = [send.request_digest for body in outcomes for send in body.sends]
    assert [hashlib.sha256(whole).hexdigest() for whole in wholes] == digests
    assert (len(stub.log), len(wholes)) == (8, 8)


# --- reading ---


async def test_events_have_the_whole_input_and_its_digest():
    async with counterfoil.open("memory://") as journal:
        await journal.run(agent, 6, 2000, id="r")
        events, found = await journal.events("r"), await journal.verify("r")
    inputs = [msgspec.json.decode(body.input)["messages"] for body in intents(events)]
    assert [len(each) for each in inputs] == [1, 3, 5, 7, 9, 11]
    assert all(inputs[-1][: len(each)] == each for each in inputs)
    assert [body.shared is None for body in intents(events)] == [True] * 6
    assert [body.shared is None for body in intents(events.stored)] == [True] + [False] * 5
    assert found.flaws == ()


async def test_the_command_line_prints_the_whole_input(tmp_path, capsys):
    async with counterfoil.open(f"sqlite:///{tmp_path}/runs.db") as journal:
        await journal.run(agent, 3, 2000, id="r")
        wanted = [msgspec.json.decode(body.input) for body in intents(await journal.events("r"))]
    words = ["events", "r", "--json", "--store", f"sqlite:///{tmp_path}/runs.db"]
    assert await asyncio.to_thread(cli.main, words, standalone_mode=False) == 0
    bodies = [msgspec.json.decode(line)["body"] for line in capsys.readouterr().out.splitlines()]
    assert [body["input"] for body in bodies if body.get("kind") == "model"] == wanted


# --- replay ---


async def test_a_recorded_conversation_is_replayed_without_a_call(crashed):
    records = await recorded(20)
    left = await crashed(records, len(records) - 1)
    CALLS.update(converse=0, look_up=0)
    async with counterfoil.open(left) as journal:
        assert await journal.run(agent, 20, 2000, id="r") > 40_000
    assert CALLS == {"converse": 0, "look_up": 0}


async def test_after_a_crash_at_any_event_the_rest_shares_what_was_before_it(crashes):
    store = MemoryStore()
    async with counterfoil.open(store) as journal:
        final = await journal.run(agent, 6, 2000, id="r")
        ends = await crashes(counterfoil.bind(agent, 6, 2000), store)
    assert (set(ends), len(ends)) == ({final}, 26)


async def test_code_that_says_something_else_is_told_where(crashed, monkeypatch):
    records = await recorded()
    left = await crashed(records, len(records) - 1)
    monkeypatch.setitem(ROLES, "tool", "function")
    async with counterfoil.open(left) as journal:
        with pytest.raises(RunPausedError) as caught:
            await journal.run(agent, 6, 2000, id="r")
    assert isinstance(caught.value.__cause__, InputMismatchError)
    assert '/messages/2/role: recorded "tool", attempted "function"' in str(caught.value)


# --- damage ---


def resealed(records, change):
    """The records after `change` of the bodies, with the chain made anew: what the chain alone can't find."""
    made, previous = [], integrity.ZERO
    for record in records:
        body = change(record.seq, record.body)
        made.append(integrity.seal(record.seq, record.envelope, body, salt=record.salt, previous=previous))
        previous = made[-1].hash
    return made


def first_message_changed(seq: int, body: bytes) -> bytes:
    """Another first message in the input that all others share, as long as it was."""
    return body.replace(FIRST_WORDS, b"z" * len(FIRST_WORDS), 1) if seq == 2 else body


async def test_a_base_that_was_altered_is_found_by_the_chain(crashed):
    records = await recorded()
    records[2] = msgspec.structs.replace(records[2], body=first_message_changed(2, records[2].body))
    left = await crashed(records, len(records) - 1)
    async with counterfoil.open(left) as journal:
        flaws = (await journal.verify("r")).flaws
        with pytest.raises(counterfoil.CounterfoilError, match="event 2"):
            await journal.run(agent, 6, 2000, id="r")
    assert [(flaw.seq, flaw.problem) for flaw in flaws] == [(2, "its body is not the one that was committed to")]


async def test_a_base_that_was_altered_with_its_chain_is_found_in_all_that_share_it(crashed):
    records = await recorded()
    final = msgspec.json.decode(records[-1].body)["result"]
    left = await crashed(resealed(records, first_message_changed), len(records) - 1)
    async with counterfoil.open(left) as journal:
        flaws = (await journal.verify("r")).flaws
        assert await journal.run(agent, 6, 2000, id="r") == final
    assert [flaw.seq for flaw in flaws] == [2, 6, 10, 14, 18, 22]
    assert {flaw.problem for flaw in flaws} == {"its input, whole, has another digest than it was recorded with"}
    assert CALLS == {"converse": 6, "look_up": 6}  # what the code asks for has the recorded digests


@pytest.mark.parametrize(("base", "event"), [(3, 3), (6, 6), (400, 400)])
async def test_a_reference_to_no_input_is_named_and_nothing_is_called(crashed, base, event):
    def elsewhere(seq, body):
        return body.replace(b'"base":2', b'"base":%d' % base) if seq == 6 else body

    records = await recorded()
    left = await crashed(resealed(records, elsewhere)[:6], 6)
    left._records["r"] += resealed(records, elsewhere)[6:]
    async with counterfoil.open(left) as journal:
        with pytest.raises(JournalUnreadableError, match=f"event {event}, in which the rest of its input"):
            await journal.events("r")


# --- secrets ---


async def test_a_secret_that_was_declared_later_is_in_no_later_input(monkeypatch):
    monkeypatch.setenv("LATE_KEY", "sk-late-and-secret")
    journal = counterfoil.open("memory://")

    @workflow
    async def learns(ctx: Context) -> int:
        messages = [text(1, 3000), "the key is sk-late-and-secret", text(2, 3000)]
        await ctx.model(converse, messages, 10)
        ctx._attempt.scrubber.add("LATE_KEY", "sk-late-and-secret")
        for _ in range(2):
            messages.append(await ctx.model(converse, messages, 1000))
        return len(messages)

    async with journal:
        await journal.run(learns, id="r")
        events, found = await journal.events("r"), await journal.verify("r")
    stored = [bytes(body.input) for body in intents(events.stored)]
    assert [b"sk-late-and-secret" in each for each in stored] == [True, False, False]
    assert [b"[secret LATE_KEY]" in bytes(body.input) for body in intents(events)] == [False, True, True]
    assert [len(each) > 5000 for each in stored] == [True, False, False]
    assert found.flaws == ()
