"""A wrapped client's call in a body is one model step; its answer comes back typed, live as on replay (J2, J4, J6, J8).

Tried with the real clients, over HTTP, and counted by the server.
"""

import asyncio
import sys

import msgspec
import pytest
from tests.integration.wrapping import FORMS, HERE, KEY

import counterfoil
from counterfoil import Context, RunStoppedError, workflow
from counterfoil.testing.stubs import StubModel

pytestmark = [pytest.mark.anyio, pytest.mark.sdk]


@pytest.fixture
def stub():
    with StubModel(script=["final"], vary=True) as running:
        yield running


@pytest.fixture(params=FORMS)
async def form(request, stub):
    form = HERE.form = FORMS[request.param]
    async with counterfoil.wrap(form.async_client(base_url=stub.url + form.base, api_key=KEY)) as HERE.client:
        yield form


@workflow(name="test_wrap_async.asks")
async def asks(ctx: Context) -> str:
    answer = await HERE.form.ask(HERE.client)
    HERE.seen = [answer]
    if HERE.crashes:
        sys.exit(1)
    return HERE.form.text(answer)


@workflow(name="test_wrap_async.asks_thrice")
async def asks_thrice(ctx: Context) -> list[str]:
    answers = await asyncio.gather(*(HERE.form.ask(HERE.client) for _ in range(3)))
    if HERE.crashes:
        sys.exit(1)
    return [HERE.form.text(answer) for answer in answers]


async def crashed_and_resumed(desk, of):
    """What a run ends with whose process leaves at the end of its first attempt, and its events."""
    async with desk.open() as journal:
        HERE.crashes = True
        with pytest.raises(RunStoppedError):
            await journal.run(of, id="r")
        first = HERE.seen
        HERE.crashes = False
        result = await journal.run(of, id="r")
        return result, first, await journal.events("r")


async def test_a_call_is_made_once_and_its_answer_is_the_clients_own_class_live_as_on_replay(form, stub, memory_desk):
    result, (live,), events = await crashed_and_resumed(memory_desk, asks)
    (replayed,) = HERE.seen
    assert result == "Take an umbrella. (wording 1)"
    assert (type(replayed), replayed) == (type(live), live)
    assert type(live).__module__.startswith(("openai.types.", "anthropic.types."))
    assert len(stub.log) == 1
    assert [event.type for event in events if event.step] == ["step_intended", "step_succeeded"]


async def test_the_step_is_named_by_its_path_and_holds_what_was_asked_and_the_answer_as_it_came(form, memory_desk):
    *_, events = await crashed_and_resumed(memory_desk, asks)
    intent, outcome = (event.body for event in events if event.step)
    asked, answer = msgspec.json.decode(bytes(intent.input)), msgspec.json.decode(bytes(outcome.result))
    assert (intent.kind, intent.name, sorted(asked)) == ("model", form.name, ["body", "method", "path", "query"])
    assert (asked["method"], asked["body"]["model"]) == ("post", "m")
    assert (answer["status"], answer["headers"].keys() - {"x-request-id", "request-id"}) == (200, {"content-type"})
    assert msgspec.json.decode(answer["body"])["model"] == "m"


async def test_two_calls_for_the_same_are_two_steps_and_branches_come_back_in_their_order(form, stub, memory_desk):
    result, _, events = await crashed_and_resumed(memory_desk, asks_thrice)
    assert sorted(result) == [f"Take an umbrella. (wording {number})" for number in (1, 2, 3)]
    assert len(stub.log) == 3
    assert [event.step for event in events if event.type == "step_intended"] == ["0/0", "1/0", "2/0"]


async def test_outside_a_run_the_call_is_the_clients_own(form, stub):
    answer = await form.ask(HERE.client)
    assert form.text(answer) == "Take an umbrella. (wording 1)"
    assert len(stub.log) == 1


async def test_the_intent_is_on_disk_before_the_request_arrives(form, stub, memory_desk):
    stub.configure(script=["final"], delays=[30.0])
    async with memory_desk.open() as journal:
        running = asyncio.ensure_future(journal.run(asks, id="r"))
        await asyncio.to_thread(stub.wait_for, len)
        events = await journal.events("r")
        await journal.stop("the test has seen it", grace=0)
        with pytest.raises(RunStoppedError):
            await running
    assert events[-1].type == "step_intended"
