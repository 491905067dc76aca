"""A request that can't be written down first is never sent (J4, J7), and a step whose client stands still says why.

The stub counts what arrives, so a request that was not sent is not in its log.
"""

import asyncio
import threading

import httpx
import openai
import pytest
from tests.integration import asking
from tests.integration.asking import PATH, dispatched, sends_of
from tests.integration.http_libraries import MODULES

import counterfoil
from counterfoil import Context, Retry, RunPausedError, RunStoppedError, workflow
from counterfoil.errors import SendRefusedError
from counterfoil.stores.memory import MemoryStore
from counterfoil.testing.stubs import StubModel

pytestmark = [pytest.mark.anyio, pytest.mark.sdk]
NOW = Retry(first_seconds=0)
FREE, TRIED = threading.Event(), threading.Event()
REFUSED: list[BaseException] = []


@pytest.fixture(autouse=True)
def begin():
    FREE.clear()
    TRIED.clear()
    REFUSED.clear()


@pytest.fixture
def stub():
    with StubModel(script=["final"]) as stub:
        asking.STUB = stub
        yield stub


def asks(function, **options):
    async def agent(ctx: Context) -> object:
        return await ctx.with_options(name="ask", **options).model(function)

    return workflow(agent)


def post(module) -> int:
    with module.Client() as client:
        return client.post(f"{asking.STUB.url}{PATH}", json=asking.body()).status_code


def tries(module) -> None:
    """Sends a request when it is let through, and keeps what it is refused with."""
    FREE.wait(10)
    try:
        post(module)
    except SendRefusedError as error:
        REFUSED.append(error)
    finally:
        TRIED.set()


@pytest.mark.parametrize("module", MODULES)
async def test_a_function_past_its_time_sends_nothing_more(journal, stub, module):
    def ask() -> None:
        tries(module)

    with pytest.raises(RunPausedError):
        await journal.run(asks(ask, timeout=0.05, retry=Retry(tries=1)), id="r")
    FREE.set()
    await asyncio.to_thread(TRIED.wait, 10)

    assert stub.log == ()
    assert [error.why for error in REFUSED] == ["its step is over"]


@pytest.mark.parametrize("module", MODULES)
async def test_a_task_that_outlives_its_step_sends_nothing_more(journal, stub, module):
    async def later() -> None:
        await asyncio.to_thread(tries, module)

    async def ask() -> None:
        asking.REQUEST = asyncio.ensure_future(later())

    await journal.run(asks(ask), id="r")
    FREE.set()
    await asking.REQUEST

    assert stub.log == ()
    assert [error.why for error in REFUSED] == ["its step is over"]


@pytest.mark.parametrize("module", MODULES)
async def test_a_run_that_another_owner_has_taken_sends_nothing_more(stub, module):
    store = MemoryStore()

    def ask() -> int:
        post(module)
        TRIED.set()
        FREE.wait(10)
        return post(module)

    async with counterfoil.open(store) as journal:
        run = asyncio.ensure_future(journal.run(asks(ask), id="r"))
        await asyncio.to_thread(TRIED.wait, 10)
        await store.take("r", "another", now=0, dead={(await store.head("r")).owner})
        FREE.set()
        with pytest.raises(RunStoppedError):
            await run
        events = await journal.events("r")

    assert len(stub.log) == 1
    assert dispatched(events) == []


@pytest.mark.parametrize("module", MODULES)
async def test_a_plain_client_on_the_loop_may_send_once_and_is_told_how_to_send_more(journal, stub, module):
    async def ask() -> int:
        post(module)
        return post(module)

    with pytest.raises(RunPausedError, match="a plain client blocks the event loop here"):
        await journal.run(asks(ask, retry=NOW), id="r")

    assert len(stub.log) == len(sends_of(await journal.events("r"))) == 1


async def test_where_a_client_may_not_repeat_a_request_the_step_is_tried_again(journal, stub, types_of):
    stub.configure(script=["final"], statuses=[503], retry_afters=[0.01])

    async def ask() -> str:
        with openai.OpenAI(base_url=f"{asking.STUB.url}/v1", api_key="sk-test-0123456789") as client:
            return client.chat.completions.create(**asking.body()).choices[0].message.content

    await journal.run(asks(ask, retry=NOW), id="r")

    events = await journal.events("r")
    assert types_of(events)[2:-1] == ["step_intended", "retry_set", "step_intended", "step_succeeded"]
    assert [each.status for each in sends_of(events)] == [call.status for call in stub.log] == [503, 200]
    assert len({call.key for call in stub.log}) == 1


async def test_a_client_that_makes_a_lost_connection_of_a_refusal_does_not_make_the_step_be_tried_again(journal, stub):
    async def ask() -> int:
        post(httpx)
        try:
            return post(httpx)
        except SendRefusedError as error:
            raise ConnectionError from error

    with pytest.raises(RunPausedError, match="a plain client blocks the event loop here"):
        await journal.run(asks(ask, retry=NOW), id="r")

    assert len(stub.log) == 1


@pytest.mark.parametrize("module", MODULES)
async def test_a_client_on_a_loop_of_its_own_in_the_steps_thread_is_counted(journal, stub, module):
    async def twice() -> list[int]:
        async with module.AsyncClient() as client:
            return [(await client.post(f"{asking.STUB.url}{PATH}", json=asking.body())).status_code for _ in range(2)]

    def ask() -> list[int]:
        return asyncio.run(twice())

    assert await journal.run(asks(ask), id="r") == [200, 200]

    events = await journal.events("r")
    assert len(stub.log) == len(sends_of(events)) == 2
    assert [each.number for each in dispatched(events)] == [2]


@pytest.mark.parametrize("module", MODULES)
async def test_requests_of_several_threads_are_counted(journal, stub, module):
    async def ask() -> list[int]:
        return await asyncio.gather(*(asyncio.to_thread(post, module) for _ in range(4)))

    assert await journal.run(asks(ask), id="r") == [200] * 4

    events = await journal.events("r")
    assert len(stub.log) == len(sends_of(events)) == 4
    assert sorted(each.number for each in dispatched(events)) == [2, 3, 4]
    assert {each.key for each in sends_of(events)} == {call.key for call in stub.log}
