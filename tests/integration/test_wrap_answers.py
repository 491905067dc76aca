"""What a wrapped client gives beside plain answers: raw responses, parsed models, pages, bytes (J2, J6, J8)."""

import hashlib
import io
import sys
from datetime import UTC, datetime

import anthropic
import msgspec
import openai
import pydantic
import pytest
from tests.integration.wrapping import HERE, KEY, QUESTION, Answers

import counterfoil
from counterfoil import Context, RunPausedError, RunStoppedError, workflow
from counterfoil.testing.stubs import StubModel

pytestmark = [pytest.mark.anyio, pytest.mark.sdk]
SOUND = b"\xff\xfb\x90 no text"
EMBEDDINGS = {"object": "list", "model": "e", "data": [{"object": "embedding", "index": 0, "embedding": [0.5, -1.0]}]}
FILE = {"id": "file-1", "object": "file", "bytes": 5, "created_at": 1, "filename": "a.jsonl", "purpose": "batch"}


LINES = b'{"custom_id":"a","result":{"type":"canceled"}}\n{"custom_id":"b","result":{"type":"expired"}}\n'
COUNTS = {"processing": 0, "succeeded": 0, "errored": 0, "canceled": 1, "expired": 1}
BATCH = {"id": "b", "type": "message_batch", "processing_status": "ended", "request_counts": COUNTS}


def job(name: str) -> dict[str, object]:
    return {"id": name, "object": "fine_tuning.job", "model": "m", "status": "running", "created_at": 1}


def page(*names: str, more: bool) -> dict[str, object]:
    return {"object": "list", "data": [job(name) for name in names], "has_more": more}


ANSWERS = {
    "GET /v1/models": {"object": "list", "data": [{"id": "m", "object": "model", "created": 1, "owned_by": "us"}]},
    "GET /v1/fine_tuning/jobs?limit=2": page("a", "b", more=True),
    "GET /v1/fine_tuning/jobs?limit=2&after=b": page("c", more=False),
    "POST /v1/embeddings": EMBEDDINGS | {"usage": {"prompt_tokens": 1, "total_tokens": 1}},
    "POST /v1/files": FILE,
    "POST /v1/audio/speech": SOUND,
    "DELETE /v1/files/file-1": {"id": "file-1", "object": "file", "deleted": True},
    "POST /v1/own": {"ok": True},
    "POST /v1/own?a=1&b=2": {"ok": True},
}


class Weather(pydantic.BaseModel):
    rain: bool
    city: str


@pytest.fixture
def stub():
    with StubModel(script=[{"role": "assistant", "content": '{"rain": true, "city": "Oslo"}'}]) as running:
        yield running


@pytest.fixture
def server():
    with Answers(ANSWERS) as running:
        yield running


@pytest.fixture
async def client(server):
    async with counterfoil.wrap(openai.AsyncOpenAI(base_url=f"{server.url}/v1", api_key=KEY)) as HERE.client:
        yield HERE.client


@pytest.fixture
async def chat(stub):
    async with counterfoil.wrap(openai.AsyncOpenAI(base_url=f"{stub.url}/v1", api_key=KEY)) as HERE.client:
        yield HERE.client


@pytest.fixture
def plain_chat(stub):
    with counterfoil.wrap(openai.OpenAI(base_url=f"{stub.url}/v1", api_key=KEY)) as HERE.client:
        yield HERE.client


async def raw(client):
    response = await client.chat.completions.with_raw_response.create(model="m", messages=QUESTION)
    return [response.status_code, response.headers["x-request-id"], response.parse(), response.http_request.method]


async def streaming_response(client):
    async with client.chat.completions.with_streaming_response.create(model="m", messages=QUESTION) as response:
        return [b"".join([part async for part in response.iter_bytes()]), await response.parse()]


async def parsed_chat(client):
    answer = await client.chat.completions.parse(model="m", messages=QUESTION, response_format=Weather)
    return answer.choices[0].message.parsed


async def parsed_response(client):
    answer = await client.responses.parse(model="m", input="Rain?", text_format=Weather)
    return answer.output_parsed


async def other_options(client):
    return (
        await client.with_options(timeout=5, max_retries=0).copy().chat.completions.create(model="m", messages=QUESTION)
    )


async def models(client):
    return (await client.models.list()).data


async def pages(client):
    return [job async for job in client.fine_tuning.jobs.list(limit=2)]


async def embeddings(client):
    return await client.embeddings.create(model="e", input="rain")


async def speech(client):
    return (await client.audio.speech.create(model="s", voice="alloy", input="rain")).content


async def upload(client):
    return await client.files.create(file=("a.jsonl", io.BytesIO(b"lines")), purpose="batch")


async def deletion(client):
    return await client.files.delete("file-1")


async def own_path(client):
    return await client.post("/own", body={"when": datetime(2026, 1, 2, tzinfo=UTC)}, cast_to=dict[str, bool])


CHAT = [raw, streaming_response, parsed_chat, parsed_response, other_options]
OTHER = {
    models: ["GET /v1/models"],
    pages: ["GET /v1/fine_tuning/jobs?limit=2", "GET /v1/fine_tuning/jobs?limit=2&after=b"],
    embeddings: ["POST /v1/embeddings"],
    speech: ["POST /v1/audio/speech"],
    upload: ["POST /v1/files"],
    deletion: ["DELETE /v1/files/file-1"],
    own_path: ["POST /v1/own"],
}


@workflow(name="test_wrap_answers.calls")
async def calls(ctx: Context) -> None:
    HERE.seen.append(await HERE.call(HERE.client))
    if HERE.crashes:
        sys.exit(1)


async def twice(desk, call):
    """What the call gave live and on the replay after a crash, and the run's events."""
    HERE.call, HERE.seen, HERE.crashes = call, [], True
    async with desk.open() as journal:
        with pytest.raises(RunStoppedError):
            await journal.run(calls, id="r")
        HERE.crashes = False
        await journal.run(calls, id="r")
        return HERE.seen, await journal.events("r")


def bare(value):
    """Without what ties a page or a response to its client."""
    return repr(value)


@pytest.mark.parametrize("call", CHAT)
async def test_an_answer_in_another_form_is_the_same_on_replay_and_asked_for_once(chat, stub, memory_desk, call):
    (live, replayed), events = await twice(memory_desk, call)
    assert bare(replayed) == bare(live)
    assert len(stub.log) == 1
    assert [event.type for event in events if event.step] == ["step_intended", "step_succeeded"]


@pytest.mark.parametrize("call", OTHER)
async def test_every_request_of_a_client_is_a_step_so_a_replay_sends_none(client, server, memory_desk, call):
    (live, replayed), events = await twice(memory_desk, call)
    assert bare(replayed) == bare(live)
    assert server.asked == OTHER[call]
    assert len([event for event in events if event.type == "step_intended"]) == len(OTHER[call])


async def test_a_structured_answer_is_made_by_the_class_of_today(chat, memory_desk):
    seen, _ = await twice(memory_desk, parsed_chat)
    assert seen == [Weather(rain=True, city="Oslo")] * 2


def plain_raw(client):
    return client.chat.completions.with_raw_response.create(model="m", messages=QUESTION).parse()


def plain_parsed(client):
    answer = client.chat.completions.parse(model="m", messages=QUESTION, response_format=Weather)
    return answer.choices[0].message.parsed


def plain_streaming_response(client):
    with client.chat.completions.with_streaming_response.create(model="m", messages=QUESTION) as response:
        return [response.read(), response.parse()]


@workflow(name="test_wrap_answers.plainly")
async def plainly(ctx: Context) -> None:
    HERE.seen.append(HERE.call(HERE.client))
    if HERE.crashes:
        sys.exit(1)


@pytest.mark.parametrize("call", [plain_raw, plain_parsed, plain_streaming_response])
async def test_a_plain_client_gives_other_forms_too(plain_chat, stub, memory_desk, call):
    HERE.call, HERE.seen, HERE.crashes = call, [], True
    async with memory_desk.open() as journal:
        with pytest.raises(RunStoppedError):
            await journal.run(plainly, id="r")
        HERE.crashes = False
        await journal.run(plainly, id="r")
    assert bare(HERE.seen[1]) == bare(HERE.seen[0])
    assert len(stub.log) == 1


async def test_an_uploaded_file_is_input_by_its_digest_and_is_sent(client, server, memory_desk):
    _, events = await twice(memory_desk, upload)
    asked = msgspec.json.decode(bytes(events[2].body.input))
    digest = hashlib.sha256(b"lines").hexdigest()
    assert asked["content"] == [
        {"field": "file", "filename": "a.jsonl", "type": None, "bytes": 5, "sha256": digest},
    ]
    assert asked["body"] == {"purpose": "batch"}
    assert b"lines" in server.bodies[0]


async def test_a_value_that_is_no_json_is_input_as_the_client_writes_it(client, server, memory_desk):
    _, events = await twice(memory_desk, own_path)
    asked = msgspec.json.decode(bytes(events[2].body.input))
    assert (events[2].body.name, asked["body"]) == ("own", msgspec.json.decode(server.bodies[0]))


async def with_a_query(client):
    return await client.post("/own?a=1", options={"params": {"b": 2}}, cast_to=dict[str, bool])


async def test_a_query_is_input_wherever_it_stood(client, server, memory_desk):
    _, events = await twice(memory_desk, with_a_query)
    asked = msgspec.json.decode(bytes(events[2].body.input))
    assert (events[2].body.name, asked["path"], asked["query"]) == ("own", "/own", {"a": "1", "b": 2})
    assert server.asked == ["POST /v1/own?a=1&b=2"]


async def bytes_bit_by_bit(client):
    async def bits():
        yield b"x"

    return await client.post("/own", content=bits(), cast_to=dict[str, bool])


async def test_bytes_that_come_bit_by_bit_are_refused_before_anything_is_sent(client, server, memory_desk):
    HERE.call, HERE.crashes = bytes_bit_by_bit, False
    async with memory_desk.open() as journal:
        with pytest.raises(RunPausedError, match="it can be read only while it is sent"):
            await journal.run(calls, id="r")
    assert server.asked == []


# --- lines of JSON, which are no stream of events ---


async def results(client):
    return [each async for each in await client.messages.batches.results("b")]


async def results_plainly(client):
    return list(client.messages.batches.results("b"))


@pytest.mark.parametrize(
    ("kind", "call"), [(anthropic.AsyncAnthropic, results), (anthropic.Anthropic, results_plainly)]
)
async def test_the_lines_of_a_batch_are_a_whole_answer(server, memory_desk, kind, call):
    paths = "GET /v1/messages/batches/b", "GET /v1/messages/batches/b/results"
    batch = BATCH | {"results_url": f"{server.url}/v1/messages/batches/b/results"}
    server.answers = dict(zip(paths, (batch, LINES), strict=True))
    HERE.client = counterfoil.wrap(kind(base_url=server.url, api_key=KEY))
    (live, replayed), _ = await twice(memory_desk, call)
    assert [each.custom_id for each in live] == ["a", "b"]
    assert (replayed, server.asked) == (live, list(paths))
