"""Every request of a model step is in the journal: what left, under which key, and what came of it (J4, FC-03).

Clients are the real ones, against the stub model over real HTTP, which is the witness of what left. Keys are told apart
from each other, never spelled.
"""

import asyncio
import contextlib

import httpx
import pytest
from tests.integration import asking
from tests.integration.asking import dispatched, sends_of
from tests.integration.http_libraries import LIBRARIES, MODULES

import counterfoil
from counterfoil import Context, Retry, RunPausedError, this_step, workflow
from counterfoil.cli.describe import Teller
from counterfoil.engine.queries import timeline
from counterfoil.stores.memory import MemoryStore
from counterfoil.testing.stubs import StubModel

pytestmark = [pytest.mark.anyio, pytest.mark.sdk]
HELD = 60.0
QUICK = [0.01] * 5
UNANSWERED = {"delays": [HELD]}
"""The model does the work, and holds its answer back past the client's time."""


@pytest.fixture(params=["async", "in a thread"])
def is_async(request):
    return request.param == "async"


@pytest.fixture
def stub():
    with StubModel(script=["final"]) as stub:
        asking.STUB = stub
        yield stub


def asks(function, *args, retry=None):
    """A workflow of one model call."""

    async def agent(ctx: Context) -> object:
        return await ctx.with_options(retry=retry, name="ask").model(function, *args)

    return workflow(agent)


@pytest.mark.parametrize("module", MODULES)
async def test_each_request_of_a_try_is_in_the_journal(journal, types_of, stub, module, is_async):
    await journal.run(asks(asking.raw(module, stub.url, is_async=is_async), 3), id="r")

    events = await journal.events("r")
    sends = sends_of(events)
    assert types_of(events)[2:-1] == ["step_intended", "step_dispatched", "step_dispatched", "step_succeeded"]
    assert [(each.number, each.before) for each in dispatched(events)] == [(2, "HTTP 200"), (3, "HTTP 200")]
    assert [(each.key, each.status, each.error) for each in sends] == [(call.key, 200, None) for call in stub.log]
    assert len({each.key for each in sends}) == 3  # each was answered, so each is a request of its own


async def test_repeats_of_the_client_itself_are_in_the_journal_under_one_key(journal, stub, is_async):
    stub.configure(script=["final"], statuses=[503, 429], retry_afters=QUICK)
    await journal.run(asks(asking.sdk(stub.url, is_async=is_async)), id="r")

    events = await journal.events("r")
    assert [call.retry_count for call in stub.log] == [0, 1, 2]
    assert [each.before for each in dispatched(events)] == ["HTTP 503", "HTTP 429"]
    assert [each.status for each in sends_of(events)] == [503, 429, 200]
    assert {call.key for call in stub.log} == {each.key for each in sends_of(events)}
    assert len({call.key for call in stub.log}) == 1


async def test_whoever_looks_or_watches_is_told_of_a_further_request(journal, stub):
    stub.configure(script=["final"], statuses=[503], retry_afters=QUICK)
    await journal.run(asks(asking.sdk(stub.url, is_async=True)), id="r")

    events, said = await journal.events("r"), "request 2 of try 1, after: HTTP 503"
    assert [entry.notes for entry in timeline(events)] == [(), (said,), (), ()]
    assert f"step 0  model ask  {said}" in map(Teller().line, events)


async def test_a_request_that_landed_and_timed_out_is_repeated_under_its_key(journal, stub, is_async):
    stub.configure(script=["final"], honours_keys=True, **UNANSWERED)
    await journal.run(asks(asking.sdk(stub.url, is_async=is_async, timeout=0.5, max_retries=1)), id="r")

    events = await journal.events("r")
    assert [call.billed for call in stub.log] == [True, False]
    assert [(each.number, each.before) for each in dispatched(events)] == [(2, "ReadTimeout")]
    assert [(each.status, each.error) for each in sends_of(events)] == [(None, "ReadTimeout"), (200, None)]
    assert len({each.key for each in sends_of(events)}) == 1


async def test_a_durable_repeat_has_the_key_of_the_first_try(desk, stub, is_async):
    stub.configure(script=["final"], statuses=[503])
    function = asking.sdk(stub.url, is_async=is_async, max_retries=0)
    async with desk.open() as journal:
        await journal.run(asks(function, retry=Retry(first_seconds=0)), id="r")
        events = await journal.events("r")

    assert dispatched(events) == []
    assert [[each.status for each in event.body.sends] for event in events if getattr(event.body, "sends", ())] == [
        [503],
        [200],
    ]
    assert len({call.key for call in stub.log}) == 1


@pytest.mark.parametrize(
    ("plan", "calls"),
    [
        pytest.param({"delays": [HELD]}, 2, id="both may count"),
        pytest.param({"statuses": [503], "retry_afters": QUICK}, 1, id="the first was refused"),
    ],
)
async def test_after_a_crash_the_requests_of_the_lost_try_are_counted_and_the_repeat_has_their_key(
    stub, is_async, crashed, plan, calls
):
    agent = asks(asking.sdk(stub.url, is_async=is_async, timeout=0.5))
    stub.configure(script=["final"], **plan)
    store = MemoryStore()
    async with counterfoil.open(store) as journal:
        await journal.run(agent, id="r")
        records = await store.read("r")
    before = stub.log
    stub.configure(script=["final"])

    async with counterfoil.open(await crashed(records, 4)) as journal:  # died after step_dispatched
        await journal.run(agent, id="r")
        events = await journal.events("r")

    assert [event.body.calls for event in events if event.type == "outcome_unknown"] == [calls]
    assert len(before) == 2
    assert [call.key for call in stub.log] == [before[0].key]


@pytest.mark.parametrize("module", MODULES)
async def test_requests_at_the_same_time_keep_their_keys_whichever_is_first(stub, crashed, module, monkeypatch):
    agent = asks(asking.together(module, stub.url))
    store = MemoryStore()
    async with counterfoil.open(store) as journal:
        await journal.run(agent, id="r")
        first, records = await journal.events("r"), await store.read("r")
    monkeypatch.setattr(asking, "QUESTIONS", asking.QUESTIONS[::-1])
    async with counterfoil.open(await crashed(records, 3)) as journal:
        await journal.run(agent, id="r")
        again = await journal.events("r")

    keys, keys_again = ({each.request_digest: each.key for each in sends_of(events)} for events in (first, again))
    assert keys == keys_again
    assert len(set(keys.values())) == 3
    assert [each.number for each in dispatched(first)] == [each.number for each in dispatched(again)] == [2, 3]


@pytest.mark.parametrize("module", MODULES)
async def test_equal_requests_at_the_same_time_are_not_taken_for_repeats(journal, stub, module, monkeypatch):
    monkeypatch.setattr(asking, "QUESTIONS", ("a", "a"))
    await journal.run(asks(asking.together(module, stub.url)), id="r")

    assert len({call.key for call in stub.log}) == 2


@pytest.mark.parametrize("name", ["Idempotency-Key", "idempotency-key", "IDEMPOTENCY-KEY"])
@pytest.mark.parametrize("module", MODULES)
async def test_a_key_of_the_callers_own_is_left_alone(journal, stub, module, name):
    async def ask() -> int:
        async with module.AsyncClient(headers={name: "mine"}) as client:
            return (await client.post(f"{asking.STUB.url}{asking.PATH}", json=asking.body())).status_code

    await journal.run(asks(ask), id="r")

    assert [call.key for call in stub.log] == ["mine"]
    assert [each.key for each in sends_of(await journal.events("r"))] == ["mine"]


@pytest.mark.parametrize("module", MODULES)
async def test_a_request_object_sent_in_two_steps_has_two_keys(journal, stub, module):
    asking.REQUEST = module.Request("POST", f"{stub.url}{asking.PATH}", json=asking.body())

    async def ask() -> int:
        async with module.AsyncClient() as client:
            return (await client.send(asking.REQUEST)).status_code

    @workflow
    async def agent(ctx: Context) -> list[int]:
        return [await ctx.model(ask), await ctx.model(ask)]

    await journal.run(agent, id="r")

    assert len({call.key for call in stub.log}) == 2


async def test_other_runs_have_other_keys_and_so_has_a_run_of_the_same_id_elsewhere(stub):
    agent = asks(asking.raw(httpx, stub.url, is_async=True))
    for run in ("r", "s"):
        async with counterfoil.open(MemoryStore()) as journal:
            await journal.run(agent, id=run)
    async with counterfoil.open(MemoryStore()) as journal:
        await journal.run(agent, id="r")

    assert len({call.key for call in stub.log}) == 3


async def test_the_provider_key_of_a_step_is_the_same_on_every_try_and_another_one_in_every_step(desk, is_async):
    keys = {}

    def note(name: str) -> None:
        step = this_step()
        keys.setdefault(name, []).append(step.provider_key)
        if step.try_number == 1:
            raise ConnectionError

    async def note_async(name: str) -> None:
        note(name)

    @workflow
    async def agent(ctx: Context) -> None:
        quick = ctx.with_options(retry=Retry(first_seconds=0))
        await quick.model(note_async if is_async else note, "model")
        await quick.step(note_async if is_async else note, "plain")

    async with desk.open() as journal:
        await journal.run(agent, id="r")

    assert {name: len(set(each)) for name, each in keys.items()} == {"model": 1, "plain": 1}
    assert {name: len(each) for name, each in keys.items()} == {"model": 2, "plain": 2}
    assert keys["model"] != keys["plain"]


@pytest.mark.parametrize("module", MODULES)
async def test_a_plain_step_and_code_outside_of_runs_are_left_alone(journal, stub, module, is_async):
    ask = asking.raw(module, stub.url, is_async=is_async)

    @workflow
    async def uses_a_tool(ctx: Context) -> None:
        await ctx.step(ask)

    await journal.run(asks(ask), id="covers the module")
    stub.configure(script=["final"])
    await journal.run(uses_a_tool, id="r")
    await (ask() if is_async else asyncio.to_thread(ask))

    assert [call.key for call in stub.log] == [None, None]
    assert sends_of(await journal.events("r")) == []


@pytest.mark.parametrize("module", MODULES)
async def test_an_address_is_kept_without_what_may_be_a_secret(journal, stub, module):
    async def ask() -> int:
        url = asking.STUB.url.replace("://", "://ada:pass-word-1@")
        async with module.AsyncClient() as client:
            made = await client.post(f"{url}{asking.PATH}?key=query-secret-1#part", json=asking.body())
            return made.status_code

    await journal.run(asks(ask), id="r")

    (send,) = sends_of(await journal.events("r"))
    assert send.url == f"{stub.url}{asking.PATH}"


async def test_a_request_that_is_no_argument_is_kept(journal, stub):
    await journal.run(asks(asking.sdk(stub.url, is_async=True), "Is it raining?"), id="r")

    (send,) = sends_of(await journal.events("r"))
    assert b"Is it raining?" in bytes(send.request)
    assert send.sdk.startswith(("OpenAI", "AsyncOpenAI"))
    assert (send.answer.api, send.answer.asked, send.answer.finish) == ("chat.completions", "m", "stop")


async def test_a_request_that_is_an_argument_is_not_kept_twice(journal, stub):
    async def ask(request: dict[str, object]) -> int:
        async with httpx.AsyncClient() as client:
            return (await client.post(f"{asking.STUB.url}{asking.PATH}", json=request)).status_code

    await journal.run(asks(ask, asking.body()), id="r")

    (send,) = sends_of(await journal.events("r"))
    assert bytes(send.request) == b"null"
    assert send.request_bytes == len(httpx.Request("POST", "http://x", json=asking.body()).content)


@pytest.mark.parametrize("module", MODULES)
async def test_what_is_uploaded_in_parts_is_kept_by_digest_and_repeated_under_its_key(journal, stub, module):
    stub.configure(statuses=[503, 503])

    async def upload() -> list[int]:
        made = []
        async with module.AsyncClient() as client:
            for _ in range(2):
                files = {"file": ("a.wav", b"\0" * 1000)}
                made.append((await client.post(f"{asking.STUB.url}{asking.PATH}", files=files)).status_code)
        return made

    assert await journal.run(asks(upload), id="r") == [400, 400]
    first, second = sends_of(await journal.events("r"))
    assert first.key == second.key
    assert first.request_digest != second.request_digest  # the client drew another boundary
    assert first.request_bytes == second.request_bytes > 1000
    assert bytes(first.request) == b"null"


async def test_a_failed_step_lists_what_it_sent(journal, stub):
    stub.configure(statuses=[400])
    with pytest.raises(RunPausedError):
        await journal.run(asks(asking.sdk(stub.url, is_async=True)), id="r")

    events = await journal.events("r")
    assert [[each.status for each in event.body.sends] for event in events if event.type == "step_failed"] == [[400]]


async def test_a_cancelled_step_lists_what_it_sent(journal, stub):
    stub.configure(delays=[HELD])

    async def seen() -> None:
        await asyncio.to_thread(asking.STUB.wait_for, bool)
        raise ZeroDivisionError

    @workflow
    async def agent(ctx: Context) -> None:
        with contextlib.suppress(ExceptionGroup):
            async with asyncio.TaskGroup() as group:
                group.create_task(ctx.model(asking.sdk(stub.url, is_async=True)))
                await ctx.step(seen)

    await journal.run(agent, id="r")
    events = await journal.events("r")
    (cancelled,) = (event.body for event in events if event.type == "step_cancelled")
    assert [(each.status, each.error) for each in cancelled.sends] == [(None, "CancelledError")]


def test_the_modules_have_the_one_method_that_all_requests_come_to():
    classes = [kind for module in LIBRARIES for kind in (module.Client, module.AsyncClient)]
    assert [hasattr(kind, "_send_single_request") for kind in classes] == [True] * len(classes)
