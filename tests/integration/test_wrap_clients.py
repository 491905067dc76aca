"""Which clients can be wrapped, what a wrapped one is, and what of it never gets into the record (J3, J6, J10)."""

import asyncio
import json

import anthropic
import httpx
import msgspec
import openai
import pytest
from tests.integration.wrapping import FORMS, HERE, KEY, QUESTION, Answers

import counterfoil
from counterfoil import Context, Retry, RunPausedError, model, workflow
from counterfoil.errors import DeclarationError
from counterfoil.testing.stubs import StubModel

pytestmark = [pytest.mark.anyio, pytest.mark.sdk]
AZURE = {"api_key": KEY, "api_version": "1", "azure_endpoint": "http://127.0.0.1:1"}
MESSAGE = {
    "id": "msg_1", "type": "message", "role": "assistant", "model": "m", "stop_reason": "end_turn",
    "content": [{"type": "text", "text": "hi"}], "usage": {"input_tokens": 1, "output_tokens": 1},
}  # fmt: skip

BETA = {
    "POST /v1/messages": MESSAGE,
    "POST /v1/messages?beta=true": MESSAGE,  # older clients
    "POST /v1/messages/count_tokens": {"input_tokens": 5},
}


@pytest.fixture
def stub():
    with StubModel(script=["final"]) as running:
        yield running


@pytest.fixture
async def client(stub):
    HERE.form = FORMS["chat"]
    async with counterfoil.wrap(openai.AsyncOpenAI(base_url=f"{stub.url}/v1", api_key=KEY)) as HERE.client:
        yield HERE.client


@pytest.mark.parametrize("thing", [object, httpx.AsyncClient, openai.AsyncOpenAI, "client", None], ids=repr)
def test_what_is_no_client_of_that_make_is_refused_with_the_other_form(thing):
    with pytest.raises(DeclarationError, match="no client that can be wrapped") as caught:
        counterfoil.wrap(thing)
    assert "ctx.model(function, ...)" in caught.value.hint


@pytest.mark.parametrize("name", ["returns", "opaque", "retries"])
def test_an_option_that_is_none_of_a_client_is_refused(name):
    with pytest.raises(DeclarationError, match=name):
        counterfoil.wrap(openai.AsyncOpenAI(api_key=KEY), **{name: None})


@pytest.mark.parametrize(
    "made",
    [
        openai.AsyncOpenAI(api_key=KEY), openai.OpenAI(api_key=KEY), openai.AsyncAzureOpenAI(**AZURE),
        anthropic.AsyncAnthropic(api_key=KEY), anthropic.Anthropic(api_key=KEY),
    ],
    ids=lambda client: type(client).__name__,
)  # fmt: skip
def test_a_wrapped_client_is_one_of_its_class_shares_its_connections_and_leaves_the_first_as_it_was(made):
    before = type(made)
    wrapped = counterfoil.wrap(made)
    assert isinstance(wrapped, before)
    assert (type(wrapped).__name__, type(wrapped).__module__) == (before.__name__, before.__module__)
    assert type(made) is before
    assert wrapped._client is made._client
    assert type(wrapped.with_options(max_retries=7)) is type(wrapped)


class OfTenant(openai.AsyncOpenAI):
    def __init__(self, tenant: str) -> None:
        super().__init__(api_key=KEY)


def test_a_client_of_ones_own_class_that_can_not_be_copied_is_refused_with_why():
    with pytest.raises(DeclarationError, match=r"wrap\(OfTenant\): it can't be copied: .*__init__"):
        counterfoil.wrap(OfTenant("acme"))


def test_wrapping_twice_is_wrapping_once():
    once = counterfoil.wrap(openai.AsyncOpenAI(api_key=KEY), retry=Retry(tries=2))
    again = counterfoil.wrap(once, timeout=9)
    assert counterfoil.wrap(once) is once
    assert type(again).__mro__[1] is openai.AsyncOpenAI
    options = type(again).__counterfoil_wrapped__
    assert (options.retry, options.timeout) == (Retry(tries=2), 9)


@workflow(name="test_wrap_clients.asks")
async def asks(ctx: Context) -> str:
    return HERE.form.text(await HERE.form.ask(HERE.client))


@workflow(name="test_wrap_clients.through_the_context")
async def through_the_context(ctx: Context) -> str:
    create = HERE.client.chat.completions.create
    return HERE.form.text(await ctx.model(create, model="m", messages=QUESTION, temperature=0))


async def test_its_method_given_to_ctx_model_is_one_step_and_the_same_record(client, stub, memory_desk, recorded):
    async with memory_desk.open() as journal:
        assert await journal.run(asks, id="direct") == "Take an umbrella."
        assert await journal.run(through_the_context, id="given") == "Take an umbrella."
        direct, given = [recorded(await journal.events(run))[2:] for run in ("direct", "given")]
    assert [kind["type"] for kind, _ in given] == ["step_intended", "step_succeeded", "run_completed"]
    assert given[0] == direct[0]
    assert len(stub.log) == 2


@workflow(name="test_wrap_clients.with_options")
async def with_options(ctx: Context) -> str:
    view = ctx.with_options(name="plan", retry=Retry(tries=1))
    try:
        await view.model(HERE.client.chat.completions.create, model="m", messages=QUESTION)
    except openai.InternalServerError:
        return "one try"
    return "more"


async def test_options_of_one_call_are_those_of_the_view_that_its_method_is_given_to(client, stub, memory_desk):
    stub.configure(statuses=[500])
    HERE.client = client.with_options(max_retries=0)
    async with memory_desk.open() as journal:
        assert await journal.run(with_options, id="r") == "one try"
        assert (await journal.events("r"))[2].body.name == "plan"


@workflow(name="test_wrap_clients.raw_through_a_view")
async def raw_through_a_view(ctx: Context) -> str:
    create = HERE.client.chat.completions.with_raw_response.create
    response = await ctx.with_options(name="plan").model(create, model="m", messages=QUESTION)
    return f"{response.status_code} {HERE.form.text(response.parse())}"


async def test_a_raw_response_can_be_asked_for_through_a_view_too(client, memory_desk):
    async with memory_desk.open() as journal:
        assert await journal.run(raw_through_a_view, id="r") == "200 Take an umbrella."
        assert (await journal.events("r"))[2].body.name == "plan"


@workflow(name="test_wrap_clients.helper_through_a_view")
async def helper_through_a_view(ctx: Context) -> None:
    await ctx.with_options(on_unknown="pause").model(HERE.client.chat.completions.stream, model="m", messages=QUESTION)


async def test_a_helper_that_asks_when_it_is_entered_is_refused_options_that_would_be_lost(client, stub, memory_desk):
    async with memory_desk.open() as journal:
        with pytest.raises(RunPausedError, match="asks for nothing before it is entered"):
            await journal.run(helper_through_a_view, id="r")
    assert stub.log == ()


@model
async def own_function() -> str:
    return HERE.form.text(await HERE.form.ask(HERE.client))


@workflow(name="test_wrap_clients.in_own_function")
async def in_own_function(ctx: Context) -> str:
    return await ctx.model(own_function)


async def test_inside_a_step_of_ones_own_it_is_the_client_as_it_was(client, stub, memory_desk):
    async with memory_desk.open() as journal:
        assert await journal.run(in_own_function, id="r") == "Take an umbrella."
        names = [event.body.name for event in await journal.events("r") if event.type == "step_intended"]
    assert (names, len(stub.log)) == (["own_function"], 1)


@workflow(name="test_wrap_clients.wraps")
async def wraps(ctx: Context, url: str) -> str:
    async with counterfoil.wrap(openai.AsyncOpenAI(base_url=url, api_key=KEY)) as client:
        return HERE.form.text(await HERE.form.ask(client))


async def test_it_may_be_made_in_the_body_too(client, stub, memory_desk, types_of):
    async with memory_desk.open() as journal:
        assert await journal.run(wraps, f"{stub.url}/v1", id="r") == "Take an umbrella."
        assert types_of(await journal.events("r")).count("step_succeeded") == 1


@pytest.mark.parametrize(("key", "shown"), [(KEY, "[secret api_key]"), ("ollama", "ollama"), ("s3cr", "s3cr")])
async def test_a_key_is_kept_out_of_the_record_and_a_placeholder_is_not_taken_for_one(stub, memory_desk, key, shown):
    stub.configure(script=[{"role": "assistant", "content": f"the key is {key}"}])
    HERE.form, HERE.client = FORMS["chat"], counterfoil.wrap(openai.AsyncOpenAI(base_url=f"{stub.url}/v1", api_key=key))
    async with HERE.client, memory_desk.open() as journal:
        assert await journal.run(asks, id="r") == f"the key is {shown}"


async def told(text: str) -> str:
    return text


async def broken() -> None:
    raise ValueError


@workflow(name="test_wrap_clients.keyed_input")
async def keyed_input(ctx: Context) -> str:
    said = await ctx.step(told, f"my key is {KEY}")
    await HERE.client.chat.completions.create(model="m", messages=QUESTION)
    await ctx.step(broken)
    return said


async def test_a_key_in_an_input_before_the_first_call_fits_when_the_run_is_resumed(client, memory_desk):
    async with memory_desk.open() as journal:
        with pytest.raises(RunPausedError) as caught:
            await journal.run(keyed_input, id="r")
        assert caught.value.facts["reason"] == "step_failed"
        with pytest.raises(RunPausedError) as again:
            await journal.resume("r", keyed_input)
    assert again.value.facts["reason"] == "step_failed"


@workflow(name="test_wrap_clients.beta")
async def beta(ctx: Context) -> str:
    answer = await HERE.client.beta.messages.create(model="m", max_tokens=9, messages=QUESTION)
    count = await HERE.client.messages.count_tokens(model="m", messages=QUESTION)
    return f"{answer.content[0].text} {count.input_tokens}"


async def test_beta_and_count_tokens_of_anthropic_are_steps(memory_desk):
    with Answers(BETA) as server:
        HERE.client = counterfoil.wrap(anthropic.AsyncAnthropic(base_url=server.url, api_key=KEY))
        async with HERE.client, memory_desk.open() as journal:
            assert await journal.run(beta, id="r") == "hi 5"
            events = [event.body for event in await journal.events("r") if event.type == "step_intended"]
    assert [body.name for body in events] == ["messages", "messages.count_tokens"]


OF_AWS = {"aws_region": "eu-north-1", "aws_access_key": "AKIA0123456789", "aws_secret_key": KEY}


@workflow(name="test_wrap_clients.streams_of_bedrock")
async def streams_of_bedrock(ctx: Context) -> None:
    await HERE.client.messages.create(model="m", max_tokens=9, messages=QUESTION, stream=True)


async def test_a_stream_that_is_no_text_is_refused_before_it_is_asked_for(memory_desk, types_of):
    with Answers({}) as server:
        HERE.client = counterfoil.wrap(anthropic.AsyncAnthropicBedrock(base_url=server.url, **OF_AWS))
        async with HERE.client, memory_desk.open() as journal:
            with pytest.raises(Exception, match="a stream of AsyncAnthropicBedrock"):
                await journal.run(streams_of_bedrock, id="r")
            types = types_of(await journal.events("r"))
    assert "step_intended" not in types


ASKED = anthropic.types.ToolUseBlock(id="call_1", name="get_weather", input={"city": "Oslo"}, type="tool_use")
CONVERSATION = [*QUESTION, {"role": "assistant", "content": [ASKED]}]


@workflow(name="test_wrap_clients.goes_on")
async def goes_on(ctx: Context) -> None:
    await go_on()


async def go_on():
    await HERE.client.messages.create(model="m", max_tokens=9, messages=CONVERSATION)


async def test_the_models_own_objects_leave_as_the_client_writes_them(memory_desk):
    with Answers({"POST /v1/messages": MESSAGE}) as server:
        HERE.client = counterfoil.wrap(anthropic.AsyncAnthropic(base_url=server.url, api_key=KEY))
        async with HERE.client, memory_desk.open() as journal:
            await go_on()
            await journal.run(goes_on, id="r")
    outside, inside = map(json.loads, server.bodies)
    assert inside == outside
    assert inside["messages"][1]["content"] == [ASKED.to_dict()]


class Asks:
    question = "first"


@workflow(name="test_wrap_clients.asks_another")
async def asks_another(ctx: Context) -> None:
    await HERE.client.chat.completions.create(model="m", messages=[{"role": "user", "content": Asks.question}])
    await ctx.step(print, "")
    await HERE.client.chat.completions.create(model="m", messages=QUESTION)


async def test_a_mismatch_names_the_users_line_and_not_the_clients(client, stub, memory_desk):
    stub.configure(statuses=[200, 401])
    async with memory_desk.open() as journal:
        with pytest.raises(RunPausedError):
            await journal.run(asks_another, id="r")
        Asks.question = "another"
        with pytest.raises(RunPausedError, match="input_mismatch") as caught:
            await journal.resume("r", asks_another)
    line = asks_another.__code__.co_firstlineno + 2
    assert f"{__file__}:{line}" in f"{caught.value} {caught.value.__cause__} {caught.value.facts}"
    assert len(stub.log) == 2


@workflow(name="test_wrap_clients.changes_its_messages")
async def changes_its_messages(ctx: Context) -> None:
    messages = [*QUESTION]
    asking = asyncio.create_task(HERE.client.chat.completions.create(model="m", messages=messages))
    other = asyncio.create_task(HERE.client.chat.completions.create(model="m", messages=messages))
    await asyncio.sleep(0)
    messages.append({"role": "user", "content": "too late"})
    await asyncio.gather(asking, other)


async def test_what_is_sent_is_what_is_recorded(client, stub, memory_desk):
    async with memory_desk.open() as journal:
        await journal.run(changes_its_messages, id="r")
        inputs = [event.body for event in await journal.events("r") if event.type == "step_intended"]
    asked = {len(msgspec.json.decode(bytes(body.input))["body"]["messages"]) for body in inputs}
    assert len({call.prompt_digest for call in stub.log}) == len(asked) == 1


async def test_a_client_that_fetches_its_key_fetches_none_on_a_replay(stub, memory_desk):
    fetched = []

    async def fetch() -> str:
        fetched.append(KEY)
        return KEY

    HERE.form = FORMS["chat"]
    HERE.client = counterfoil.wrap(openai.AsyncOpenAI(base_url=f"{stub.url}/v1", api_key=fetch))
    async with HERE.client, memory_desk.open() as journal:
        await journal.run(asks, id="r")
        assert await journal.run(asks, id="r") == "Take an umbrella."
    assert fetched == [KEY]
