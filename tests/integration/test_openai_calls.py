"""`ctx.model` takes the methods of the real `openai` clients as they are (J2, J6)."""

from collections.abc import AsyncIterator, Iterator
from typing import Any

import openai
import pytest
from openai.types.chat import ChatCompletion

from counterfoil import Context, RunPausedError, workflow
from counterfoil.testing.stubs import StubModel

pytestmark = [pytest.mark.anyio, pytest.mark.sdk]

QUESTION: list[Any] = [{"role": "user", "content": "Do I need an umbrella in Paris?"}]


@pytest.fixture
def stub() -> Iterator[StubModel]:
    with StubModel() as stub:
        yield stub


@pytest.fixture(params=[openai.AsyncOpenAI, openai.OpenAI])
async def client(request: pytest.FixtureRequest, stub: StubModel) -> AsyncIterator[Any]:
    client = request.param(base_url=f"{stub.url}/v1", api_key="none", max_retries=0)
    yield client
    closed = client.close()
    await (closed or ended())


async def ended() -> None: ...


def asking(client: Any, fail: Any) -> Any:
    @workflow
    async def asked(ctx: Context) -> list[Any]:
        create = client.chat.completions.create
        answer = await ctx.model(create, model="m", messages=QUESTION)
        await ctx.step(fail)
        return [
            type(answer) is ChatCompletion,
            type(answer.choices[0].message).__name__,
            answer.id,
            answer.usage.total_tokens,
        ]

    return asked


async def test_the_answer_is_of_the_clients_own_class_live_and_on_replay_and_asked_for_once(
    journal, stub, client, calls
):
    asked = asking(client, calls.function("fail", ValueError("later"), 1))
    with pytest.raises(RunPausedError, match="later"):
        await journal.run(asked, id="r")
    expected = [True, "ChatCompletionMessage", "chatcmpl-1", 22]
    assert (await journal.resume("r", asked), len(stub.log)) == (expected, 1)


async def test_only_what_was_given_is_input_and_what_has_a_plain_default(journal, client, calls):
    await journal.run(asking(client, calls.function("fail", 1)), id="r")
    body = (await journal.events("r"))[2].body
    plain = b'"extra_headers":null,"extra_query":null,"extra_body":null'
    assert (
        bytes(body.input)
        == b'{"messages":[{"role":"user","content":"Do I need an umbrella in Paris?"}],"model":"m",%s}' % plain
    )
    assert body.opaque == {"self": type(client.chat.completions).__name__}
