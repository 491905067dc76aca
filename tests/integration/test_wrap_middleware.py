"""A client whose middleware answers in place of the server: there is no response to keep (J6). Newer clients only."""

import anthropic
import pytest
from tests.integration.wrapping import FORMS, HERE, KEY

import counterfoil
from counterfoil import Context, RunPausedError, workflow
from counterfoil.testing.stubs import StubModel

pytestmark = pytest.mark.anyio


@pytest.fixture
def stub():
    with StubModel(script=["final"]) as running:
        yield running


@workflow(name="test_wrap_middleware.asks")
async def asks(ctx: Context) -> str:
    return FORMS["messages"].text(await FORMS["messages"].ask(HERE.client))


async def passes_on(request, call_next):
    return await call_next(request)


async def gives_its_own(request, call_next):
    return {"id": "from a cache"}


async def test_a_middleware_that_passes_on_is_passed_once(stub, memory_desk):
    client = anthropic.AsyncAnthropic(base_url=stub.url, api_key=KEY, middleware=[passes_on])
    async with counterfoil.wrap(client) as HERE.client, memory_desk.open() as journal:
        assert await journal.run(asks, id="r") == "Take an umbrella."
    assert len(stub.log) == 1


async def test_an_answer_that_a_middleware_makes_up_is_refused(stub, memory_desk):
    client = anthropic.AsyncAnthropic(base_url=stub.url, api_key=KEY, middleware=[gives_its_own])
    async with counterfoil.wrap(client) as HERE.client, memory_desk.open() as journal:
        with pytest.raises(RunPausedError, match="a middleware of the client gave it"):
            await journal.run(asks, id="r")
    assert stub.log == ()
