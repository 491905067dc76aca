"""A wrapped client's call in a body is one model step; its answer comes back typed, live as on replay (J2, J6, J8)."""

from types import SimpleNamespace

import openai
import pytest

import counterfoil
from counterfoil import Context, workflow
from counterfoil.testing.stubs import StubModel

pytestmark = pytest.mark.anyio
KEY = "sk-0123456789abcdef"
QUESTION = [{"role": "user", "content": "Do I need an umbrella in Paris?"}]
AT = SimpleNamespace(client=None)


@pytest.fixture
def stub():
    with StubModel(script=["final"]) as running:
        yield running


@pytest.fixture
async def client(stub):
    async with counterfoil.wrap(openai.AsyncOpenAI(base_url=f"{stub.url}/v1", api_key=KEY)) as wrapped:
        AT.client = wrapped
        yield wrapped


@workflow(name="test_wrap_async.asks")
async def asks(ctx: Context, tail: int = 0) -> str:
    answer = await AT.client.chat.completions.create(model="m", messages=QUESTION)
    await ctx.step(print, *([""] * tail))
    assert type(answer) is openai.types.chat.ChatCompletion
    return f"{answer.id}: {answer.choices[0].message.content}"


async def test_a_call_is_recorded_once_and_its_answer_has_the_clients_type(client, stub, memory_desk, types_of):
    async with memory_desk.open() as journal:
        assert await journal.run(asks, id="r") == "chatcmpl-1: Take an umbrella."
        events = await journal.events("r")
    assert types_of(events)[2:4] == ["step_intended", "step_succeeded"]
    assert len(stub.log) == 1
