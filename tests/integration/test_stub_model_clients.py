"""The stub model speaks as the real providers: their own clients, sync and async, are the judges of all it says."""

import anthropic
import openai
import pytest
from tests.integration.model_clients import CHAT, PROTOCOLS, Said, asking

from counterfoil.testing.stubs import StubModel, billed, tool_call, tool_calls

pytestmark = [pytest.mark.sdk, pytest.mark.anyio]

WORDS = "Two words  and\n\nmore: höhe 日本."
ASKS = tool_calls(tool_call("look", place="Paris, the capital"), tool_call("look", place="Oslo"), content=WORDS)
TEXT = {"chat.completions": '{"place":"Paris, the capital"}', "responses": '{"place":"Paris, the capital"}'}
ENDINGS = {"chat.completions": "tool_calls", "responses": "completed", "messages": "tool_use"}
SDK_ERRORS = (openai.APIError, anthropic.APIError)
NOT_WHOLE = "Connection error|peer closed connection"


@pytest.fixture(params=PROTOCOLS, ids=lambda each: each.api)
def protocol(request):
    return request.param


@pytest.fixture(params=[False, True], ids=["as-it-is", "gzip"])
def gzip(request):
    return request.param


def told(client, protocol):
    """What a helper for streams makes of one."""
    with protocol.stream(client) as stream:
        return protocol.read(getattr(stream, protocol.final)())


def heard(stream, protocol):
    """The text, piece by piece."""
    return [text for each in stream if (text := protocol.pieces(each))]


def test_text_calls_of_tools_usage_and_ending_are_read(protocol, gzip):
    with asking(protocol, script=[ASKS], gzip=gzip) as (stub, client):
        said = protocol.read(protocol.ask(client))
    paris = TEXT.get(protocol.api, {"place": "Paris, the capital"})
    assert (said.text, said.calls[0], said.ending) == (WORDS, ("call_look_1", "look", paris), ENDINGS[protocol.api])
    assert [call_id for call_id, _, _ in said.calls] == ["call_look_1", "call_look_2"]
    assert said.tokens > 0
    assert [(c.api, c.streamed, c.delivered, c.events_sent) for c in stub.log] == [(protocol.api, False, True, 0)]


def test_a_stream_comes_to_the_same_as_a_plain_answer(protocol, gzip):
    with asking(protocol, script=[ASKS], gzip=gzip) as (stub, client):
        plain, streamed = protocol.read(protocol.ask(client)), told(client, protocol)
    assert streamed == plain
    assert [(c.streamed, c.billed, c.delivered, c.repeat_of) for c in stub.log] == [
        (False, True, True, None),
        (True, True, True, 1),
    ]


async def test_an_async_client_reads_the_same(protocol, gzip):
    with StubModel(script=[ASKS], gzip=gzip) as stub:
        async with protocol.async_of(stub) as client:
            plain = protocol.read(await protocol.ask(client))
            async with protocol.stream(client) as stream:
                streamed = protocol.read(await getattr(stream, protocol.final)())
    assert plain == streamed == Said(WORDS, plain.calls, ENDINGS[protocol.api], plain.tokens)
    assert len(plain.calls) == billed(stub.log) == 2


async def test_text_is_streamed_word_by_word(protocol):
    with StubModel(script=[{"role": "assistant", "content": "One two  three"}]) as stub:
        async with protocol.async_of(stub) as client:
            stream = await protocol.ask(client, stream=True)
            assert [text async for each in stream if (text := protocol.pieces(each))] == ["One ", "two  ", "three"]


def test_a_usage_of_the_plan_is_laid_over_the_answers(protocol):
    names = ["prompt_tokens", "completion_tokens"] if protocol is CHAT else ["input_tokens", "output_tokens"]
    with asking(protocol, usages=[dict(zip(names, [1000, 234], strict=True))]) as (_stub, client):
        said = [protocol.read(protocol.ask(client)).tokens for _ in range(2)]
    assert said[0] == 1234 > said[1]


def test_a_stream_that_is_cut_raises_in_the_client(protocol, gzip):
    with asking(protocol, script=["final"], cuts=[4], gzip=gzip) as (stub, client):
        with pytest.raises(Exception, match=NOT_WHOLE):
            heard(protocol.ask(client, stream=True), protocol)
        log = stub.log
    assert [(c.billed, c.delivered, c.events_sent) for c in log] == [(True, False, 4)]


def test_a_plain_answer_that_is_cut_raises_in_the_client(protocol, gzip):
    with asking(protocol, script=["final"], cuts=[1], gzip=gzip) as (stub, client):
        with pytest.raises(SDK_ERRORS, match="Connection error"):
            protocol.ask(client)
        log = stub.log
    assert [(c.billed, c.delivered, c.events_sent) for c in log] == [(True, False, 0)]


def test_a_stream_that_ends_without_its_end_mark_looks_whole_to_the_client(protocol, gzip):
    with asking(protocol, script=["final"], clean_cuts=[5], gzip=gzip) as (stub, client):
        text = "".join(heard(protocol.ask(client, stream=True), protocol))
    assert "Take an umbrella.".startswith(text)
    assert [(c.billed, c.delivered, c.events_sent) for c in stub.log] == [(True, False, 5)]


@pytest.mark.parametrize("before", [0, 5])
def test_an_error_in_a_stream_is_raised_as_the_providers_error(protocol, before):
    with asking(protocol, script=["final"], error_events=[before]) as (stub, client):
        with pytest.raises(SDK_ERRORS, match=r"server had an error|error occurred|overloaded_error"):
            heard(protocol.ask(client, stream=True), protocol)
        log = stub.log
    assert [(c.billed, c.delivered, c.events_sent) for c in log] == [(True, False, before + 1)]


@pytest.mark.parametrize(("status", "retry_after"), [(429, "0.01"), (503, 0.01)])
def test_the_client_asks_again_when_the_stub_says(protocol, status, retry_after):
    plan = {"script": ["final"], "statuses": [status, status], "retry_afters": [retry_after, retry_after]}
    with asking(protocol, {"max_retries": 2}, **plan) as (stub, client):
        assert protocol.read(protocol.ask(client)).text == "Take an umbrella."
    assert [(c.status, c.retry_count, c.billed) for c in stub.log] == [
        (status, 0, False),
        (status, 1, False),
        (200, 2, True),
    ]


def test_an_error_has_the_providers_shape_and_header(protocol):
    limited = pytest.raises((openai.RateLimitError, anthropic.RateLimitError))
    with asking(protocol, statuses=[429], retry_afters=[7]) as (_stub, client), limited as caught:
        protocol.ask(client)
    body = caught.value.response.json()
    kind = {"messages": "rate_limit_error"}.get(protocol.api, "requests")
    assert (body["error"]["type"], caught.value.response.headers["retry-after"]) == (kind, "7")
    assert caught.value.request_id == "req_1"


def test_a_known_key_gets_the_same_answer_and_no_second_bill(protocol):
    key = {"extra_headers": {"Idempotency-Key": "k"}}
    with asking(protocol, vary=True, honours_keys=True) as (stub, client):
        answers = [protocol.ask(client, **key), protocol.ask(client, **key), protocol.ask(client)]
    assert answers[0].to_json() == answers[1].to_json() != answers[2].to_json()
    assert [(c.key, c.billed, c.repeat_of) for c in stub.log] == [("k", True, None), ("k", False, 1), (None, True, 1)]


def test_a_key_whose_stream_was_cut_gets_the_whole_stream(protocol):
    key = {"extra_headers": {"Idempotency-Key": "k"}, "stream": True}
    with asking(protocol, script=["final"], honours_keys=True, cuts=[3]) as (stub, client):
        with pytest.raises(Exception, match=NOT_WHOLE):
            heard(protocol.ask(client, **key), protocol)
        assert "".join(heard(protocol.ask(client, **key), protocol)) == "Take an umbrella."
    assert [(c.billed, c.delivered) for c in stub.log] == [(True, False), (False, True)]


def test_a_caller_that_leaves_a_stream_is_seen_to_go(protocol):
    with asking(protocol, script=["final"], stalls=[4]) as (stub, client):
        stream = protocol.ask(client, stream=True)
        next(stream)
        stub.wait_for(lambda log: log[0].events_sent == 4)
        assert stub.log[0].delivered is None
        stream.close()
        stub.wait_for(lambda log: log[0].delivered is False)
    assert [(c.billed, c.events_sent) for c in stub.log] == [(True, 4)]


def test_a_caller_that_leaves_a_slow_stream_is_seen_to_go(protocol):
    with asking(protocol, script=["final"], paces=[60]) as (stub, client):
        stream = protocol.ask(client, stream=True)
        next(stream)
        stream.close()
        stub.wait_for(lambda log: log[0].delivered is False)
    assert [(c.billed, c.events_sent) for c in stub.log] == [(True, 1)]


def test_a_client_reads_a_stream_whose_events_come_slowly(protocol):
    with asking(protocol, script=["final"], paces=[0.001]) as (stub, client):
        assert "".join(heard(protocol.ask(client, stream=True), protocol)) == "Take an umbrella."
    assert stub.log[0].delivered is True


def test_a_whole_body_of_the_protocol_is_streamed_as_it_is(protocol):
    with asking(protocol, script=["final"]) as (stub, client):
        whole = protocol.ask(client).to_dict()
        stub.configure(script=[whole])
        assert told(client, protocol) == protocol.read(protocol.ask(client))
    assert stub.log[0].answer == "Take an umbrella."
