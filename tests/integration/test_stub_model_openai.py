"""The stub model speaks as the real API: the `openai` package is the judge."""

import openai
import pytest

from counterfoil.testing.stubs import StubModel

pytestmark = pytest.mark.sdk

QUESTION = [{"role": "user", "content": "Do I need an umbrella in Paris?"}]
ANSWERED = [*QUESTION, {"role": "tool", "tool_call_id": "call_1", "content": "rain"}]


def client_of(stub):
    return openai.OpenAI(base_url=f"{stub.url}/v1", api_key="none", max_retries=0)


def test_a_tool_call_and_a_final_answer_are_read():
    with StubModel() as stub, client_of(stub) as client:
        create = client.chat.completions.create
        first = create(model="m", messages=QUESTION).choices[0]
        last = create(model="m", messages=ANSWERED)

    assert first.finish_reason == "tool_calls"
    assert first.message.tool_calls[0].function.name == "get_weather"
    assert last.choices[0].message.content == "Take an umbrella."
    assert last.usage.total_tokens == last.usage.prompt_tokens + last.usage.completion_tokens


@pytest.mark.parametrize(
    ("status", "error"),
    [(429, openai.RateLimitError), (503, openai.InternalServerError)],
)
def test_a_planned_status_is_the_error_it_stands_for_and_is_counted(status, error):
    with StubModel(statuses=[status]) as stub, client_of(stub) as client:
        with pytest.raises(error):
            client.chat.completions.create(model="m", messages=QUESTION)
        log = stub.log

    assert [(call.status, call.answer, call.delivered) for call in log] == [(status, None, True)]
