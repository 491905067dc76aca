"""A wrapped plain client in an async body: each call is a step, and the loop goes on meanwhile (J2, J6, J8)."""

import asyncio
import sys
from contextvars import ContextVar

import pytest
from tests.integration.wrapping import FORMS, HERE, KEY

import counterfoil
from counterfoil import Context, RunPausedError, RunStoppedError, step, workflow
from counterfoil.engine import bridge
from counterfoil.testing.stubs import StubModel

pytestmark = [pytest.mark.anyio, pytest.mark.sdk]
WHO: ContextVar[str] = ContextVar("who", default="nobody")


@pytest.fixture
def stub():
    with StubModel(script=["final"], vary=True) as running:
        yield running


@pytest.fixture(params=FORMS)
def form(request, stub):
    form = HERE.form = FORMS[request.param]
    with counterfoil.wrap(form.plain_client(base_url=stub.url + form.base, api_key=KEY)) as HERE.client:
        yield form


@pytest.fixture
def chat(stub):
    form = HERE.form = FORMS["chat"]
    with counterfoil.wrap(form.plain_client(base_url=stub.url + form.base, api_key=KEY)) as HERE.client:
        yield form


def ask() -> str:
    """Plain code between the body and the client."""
    answer = HERE.form.ask(HERE.client)
    HERE.seen.append(answer)
    return HERE.form.text(answer)


@workflow(name="test_wrap_plain.asks")
async def asks(ctx: Context) -> str:
    text = ask()
    if HERE.crashes:
        sys.exit(1)
    return text


async def asks_twice(order: list[str], name: str) -> list[str]:
    order.append(name)
    first = ask()
    order.append(name)
    await asyncio.sleep(0)
    return [first, ask()]


@workflow(name="test_wrap_plain.asks_in_branches")
async def asks_in_branches(ctx: Context) -> list[object]:
    order: list[str] = []
    async with asyncio.TaskGroup() as group:
        branches = [group.create_task(asks_twice(order, name)) for name in "abc"]
    if HERE.crashes:
        sys.exit(1)
    return [[branch.result() for branch in branches], order]


async def crashed_and_resumed(desk, of):
    HERE.seen, HERE.crashes = [], True
    async with desk.open() as journal:
        with pytest.raises(RunStoppedError):
            await journal.run(of, id="r")
        first, HERE.seen, HERE.crashes = HERE.seen, [], False
        return await journal.run(of, id="r"), first, await journal.events("r")


async def test_a_call_is_made_once_and_its_answer_is_the_clients_own_class_live_as_on_replay(form, stub, memory_desk):
    result, (live,), events = await crashed_and_resumed(memory_desk, asks)
    assert result == "Take an umbrella. (wording 1)"
    assert (type(HERE.seen[0]), HERE.seen) == (type(live), [live])
    assert len(stub.log) == 1
    assert [event.type for event in events if event.step] == ["step_intended", "step_succeeded"]


async def test_three_branches_with_a_plain_client_work_and_replay(chat, stub, memory_desk, types_of):
    (texts, order), first, events = await crashed_and_resumed(memory_desk, asks_in_branches)
    assert len(stub.log) == 6
    assert sorted(order[:3]) == ["a", "b", "c"]
    assert HERE.seen == first
    assert types_of(events).count("step_succeeded") == 6
    assert sorted(text for pair in texts for text in pair) == [
        f"Take an umbrella. (wording {number})" for number in range(1, 7)
    ]


@workflow(name="test_wrap_plain.quick")
async def quick(ctx: Context) -> str:
    await ctx.sleep(0)
    return "quick"


async def test_another_run_of_the_same_loop_ends_while_a_call_is_held_back(chat, stub, memory_desk):
    stub.configure(script=["final"], delays=[30.0])
    async with memory_desk.open() as journal:
        held = asyncio.ensure_future(journal.run(asks, id="held"))
        await asyncio.to_thread(stub.wait_for, len)
        assert await journal.run(quick, id="quick") == "quick"
        assert [call.delivered for call in stub.log] == [None]
        await journal.stop("enough", grace=0)
        with pytest.raises(RunStoppedError):
            await held


async def asks_as(name: str) -> str:
    WHO.set(name)
    ask()
    return WHO.get()


@workflow(name="test_wrap_plain.with_variables")
async def with_variables(ctx: Context) -> list[str]:
    WHO.set("body")
    names = await asyncio.gather(asks_as("a"), asks_as("b"))
    ask()
    return [*names, WHO.get()]


async def test_each_branch_keeps_its_context_variables_over_a_call(chat, memory_desk):
    async with memory_desk.open() as journal:
        assert await journal.run(with_variables, id="r") == ["a", "b", "body"]
    assert WHO.get() == "nobody"


@workflow(name="test_wrap_plain.cancels")
async def cancels(ctx: Context) -> list[str]:
    seen: list[str] = []

    async def waits() -> None:
        try:
            ask()
        except asyncio.CancelledError:
            seen.append("cancelled in plain code")
            raise

    branch = asyncio.create_task(waits())
    await ctx.step(seen_by_the_server)
    branch.cancel()
    await asyncio.gather(branch, return_exceptions=True)
    return seen


async def seen_by_the_server() -> None:
    await asyncio.to_thread(HERE.stub.wait_for, len)


async def test_a_cancelled_branch_is_left_from_inside_the_plain_call(chat, stub, memory_desk, types_of):
    stub.configure(script=["final"], delays=[30.0])
    HERE.stub = stub
    async with memory_desk.open() as journal:
        assert await journal.run(cancels, id="r") == ["cancelled in plain code"]
        assert types_of(await journal.events("r"))[-2:] == ["step_cancelled", "run_completed"]


@step
def asks_in_a_step() -> str:
    return ask()


@workflow(name="test_wrap_plain.in_a_step")
async def in_a_step(ctx: Context) -> str:
    return await ctx.step(asks_in_a_step)


async def test_inside_the_thread_of_a_plain_step_the_call_is_the_clients_own(chat, stub, memory_desk, types_of):
    async with memory_desk.open() as journal:
        assert await journal.run(in_a_step, id="r") == "Take an umbrella. (wording 1)"
        assert types_of(await journal.events("r")).count("step_intended") == 1


@workflow(name="test_wrap_plain.in_a_thread")
async def in_a_thread(ctx: Context) -> str:
    return await asyncio.to_thread(ask)


async def test_from_a_thread_of_the_body_it_is_refused_before_anything_is_sent(chat, stub, memory_desk):
    async with memory_desk.open() as journal:
        with pytest.raises(RunPausedError, match="from a thread or a task that no task of the workflow has made"):
            await journal.run(in_a_thread, id="r")
    assert stub.log == ()


async def test_without_the_package_that_waiting_needs_the_first_call_says_what_to_do(
    chat, stub, memory_desk, monkeypatch
):
    monkeypatch.setattr(bridge._bridges, "greenlet", None)
    async with memory_desk.open() as journal:
        with pytest.raises(RunPausedError, match="needs the package greenlet") as caught:
            await journal.run(asks, id="r")
    assert stub.log == ()
    assert "counterfoil[sync]" in caught.value.facts["next"]


class Asks:
    question = "first"


def plainly(question: str) -> None:
    HERE.client.chat.completions.create(model="m", messages=[{"role": "user", "content": question}])


@workflow(name="test_wrap_plain.asks_another")
async def asks_another(ctx: Context) -> None:
    plainly(Asks.question)
    plainly("second")


async def test_a_mismatch_names_the_users_line_and_not_the_clients(chat, stub, memory_desk):
    stub.configure(statuses=[200, 401])
    Asks.question = "first"
    async with memory_desk.open() as journal:
        with pytest.raises(RunPausedError, match="step_failed"):
            await journal.run(asks_another, id="r")
        Asks.question = "another"
        with pytest.raises(RunPausedError, match="input_mismatch") as caught:
            await journal.resume("r", asks_another)
    assert f"{__file__}:{plainly.__code__.co_firstlineno + 1}" in f"{caught.value.__cause__} {caught.value.facts}"
    assert len(stub.log) == 2


@workflow(name="test_wrap_plain.sleeps")
async def sleeps(ctx: Context) -> None:
    await asyncio.gather(asyncio.create_task(waits_in_plain_code()), asyncio.sleep(1))


async def waits_in_plain_code() -> None:
    ask()


async def test_an_unsafe_construct_is_still_refused_where_it_stands(chat, stub, memory_desk):
    async with memory_desk.open() as journal:
        with pytest.raises(RunPausedError, match=r"asyncio\.sleep") as caught:
            await journal.run(sleeps, id="r")
    assert f"{__file__}:{sleeps.__code__.co_firstlineno + 2}" in str(caught.value)


@workflow(name="test_wrap_plain.leaves_a_branch")
async def leaves_a_branch(ctx: Context) -> None:
    HERE.task = asyncio.create_task(waits_in_plain_code())


async def test_a_branch_left_behind_in_plain_code_is_named(chat, stub, memory_desk):
    async with memory_desk.open() as journal:
        with pytest.raises(RunPausedError, match="waits_in_plain_code"):
            await journal.run(leaves_a_branch, id="r")


@workflow(name="test_wrap_plain.wraps")
async def wraps(ctx: Context, url: str) -> str:
    with counterfoil.wrap(FORMS["chat"].plain_client(base_url=url, api_key=KEY)) as HERE.client:
        return ask()


async def test_a_plain_client_that_is_the_first_to_be_wrapped_must_be_before_the_run(stub, memory_desk):
    HERE.form = FORMS["chat"]
    async with memory_desk.open() as journal:
        with pytest.raises(RunPausedError, match="wrapped while the run was under way") as caught:
            await journal.run(wraps, f"{stub.url}/v1", id="r")
    assert "at module level" in caught.value.facts["next"]
    assert stub.log == ()
