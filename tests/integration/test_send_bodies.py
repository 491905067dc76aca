"""What comes back is noted without a change of what the client sees: streams, early ends, compression, broken bodies.

The stub's own log says how much it sent.
"""

import gzip
import hashlib
import zlib

import httpx
import openai
import pytest
from tests.integration import asking
from tests.integration.asking import PATH, sends_of
from tests.integration.http_libraries import MODULES

from counterfoil import Context, Retry, RunPausedError, StreamCutError, workflow
from counterfoil.engine.tee import KEPT_BYTES_MAX
from counterfoil.testing.stubs import StubModel

pytestmark = [pytest.mark.anyio, pytest.mark.sdk]
NOW, ONCE = Retry(first_seconds=0), Retry(tries=1)
STREAMED = {**asking.body(), "stream": True}
TEXT = "Take an umbrella."


@pytest.fixture(params=["async", "in a thread"])
def is_async(request):
    return request.param == "async"


@pytest.fixture
def stub():
    with StubModel(script=["final"]) as stub:
        asking.STUB = stub
        yield stub


def asks(function, **options):
    async def agent(ctx: Context) -> object:
        return await ctx.with_options(name="ask", **options).model(function)

    return workflow(agent)


def streaming(*, is_async, stop_after=None):
    """Joins the text of a streamed answer; with `stop_after` the reader leaves after so many chunks."""

    def ask() -> str:
        with openai.OpenAI(base_url=f"{asking.STUB.url}/v1", api_key="sk-test-0123456789", max_retries=0) as client:
            text, count = "", 0
            with client.chat.completions.create(**STREAMED) as stream:
                for chunk in stream:
                    text += chunk.choices[0].delta.content or ""
                    count += 1
                    if count == stop_after:
                        break
            return text

    async def ask_async() -> str:
        options = {"base_url": f"{asking.STUB.url}/v1", "api_key": "sk-test-0123456789", "max_retries": 0}
        async with openai.AsyncOpenAI(**options) as client:
            text, count = "", 0
            async with await client.chat.completions.create(**STREAMED) as stream:
                async for chunk in stream:
                    text += chunk.choices[0].delta.content or ""
                    count += 1
                    if count == stop_after:
                        break
            return text

    return ask_async if is_async else ask


@pytest.mark.parametrize("is_packed", [False, True], ids=["plain", "gzip"])
async def test_a_streamed_answer_is_whole_at_its_end_mark(journal, stub, is_async, is_packed):
    stub.configure(script=["final"], gzip=is_packed)
    assert await journal.run(asks(streaming(is_async=is_async)), id="r") == TEXT

    (send,) = sends_of(await journal.events("r"))
    assert (send.streamed, send.partial, send.undecoded, send.error) == (True, False, False, None)
    assert (send.answer.finish, send.answer.model) == ("stop", "m")


@pytest.mark.parametrize("is_packed", [False, True], ids=["plain", "gzip"])
async def test_a_stream_without_its_end_mark_is_a_failed_try(journal, stub, types_of, is_async, is_packed):
    stub.configure(script=["final"], clean_cuts=[2], gzip=is_packed)
    assert await journal.run(asks(streaming(is_async=is_async), retry=NOW), id="r") == TEXT

    events = await journal.events("r")
    cut, whole = sends_of(events)
    assert types_of(events)[2:-1] == ["step_intended", "retry_set", "step_intended", "step_succeeded"]
    assert (cut.status, cut.error, cut.partial) == (200, "StreamCutError", True)
    assert (whole.status, whole.error, whole.partial) == (200, None, False)
    assert cut.key == whole.key
    assert len(stub.log) == 2


async def test_a_stream_that_is_always_cut_is_told_by_name(journal, stub, is_async):
    stub.configure(script=["final"], clean_cuts=[1])
    with pytest.raises(RunPausedError) as caught:
        await journal.run(asks(streaming(is_async=is_async), retry=ONCE), id="r")

    assert type(caught.value.__cause__) is StreamCutError
    assert "ended after 1 events without its end mark" in str(caught.value)


async def test_a_reader_that_leaves_by_itself_is_no_cut(journal, stub, is_async):
    stub.configure(script=["final"], paces=[0.01])
    await journal.run(asks(streaming(is_async=is_async, stop_after=1)), id="r")

    (send,) = sends_of(await journal.events("r"))
    assert (send.status, send.error, send.partial, send.streamed) == (200, None, True, True)
    assert len(stub.log) == 1


async def test_a_stream_that_says_itself_that_it_failed_is_no_cut(journal, stub, is_async):
    stub.configure(script=["final"], error_events=[1])
    with pytest.raises(RunPausedError, match="APIError"):
        await journal.run(asks(streaming(is_async=is_async), retry=ONCE), id="r")

    (send,) = sends_of(await journal.events("r"))
    assert (send.status, send.error) == (200, None)


async def test_a_connection_that_breaks_in_a_body_is_the_clients_own_error(journal, stub, is_async):
    stub.configure(script=["final"], cuts=[1])
    with pytest.raises(RunPausedError):
        await journal.run(asks(streaming(is_async=is_async), retry=ONCE), id="r")

    (send,) = sends_of(await journal.events("r"))
    assert (send.status, send.error, send.partial) == (200, "RemoteProtocolError", True)


@pytest.mark.parametrize("module", MODULES)
async def test_a_body_that_is_read_bit_by_bit_is_the_same(journal, stub, module, is_async):
    url = f"{stub.url}{PATH}"

    def ask() -> str:
        with module.Client() as client, client.stream("POST", url, json=STREAMED) as response:
            return "".join(response.iter_text())

    async def ask_async() -> str:
        async with module.AsyncClient() as client, client.stream("POST", url, json=STREAMED) as response:
            return "".join([piece async for piece in response.aiter_text()])

    inside = await journal.run(asks(ask_async if is_async else ask), id="r")
    stub.configure(script=["final"])
    outside = await ask_async()

    (send,) = sends_of(await journal.events("r"))
    assert inside == outside
    assert send.response_digest == hashlib.sha256(outside.encode()).hexdigest()
    assert send.response_bytes == len(outside)


# --- bodies of other servers, by a transport of the client's own kind ---


class Answers(httpx.BaseTransport):
    """Answers with one body, in two pieces."""

    def __init__(self, content: bytes, headers: dict[str, str]) -> None:
        self.content, self.headers = content, headers

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        return httpx.Response(200, headers=self.headers, stream=Pieces(self.content))


class Pieces(httpx.SyncByteStream):
    def __init__(self, content: bytes) -> None:
        self.content = content

    def __iter__(self):
        yield self.content[:10]
        yield self.content[10:]


PLAIN = b'{"a": "' + b"x" * 1000 + b'"}'
RAW_DEFLATE = zlib.compress(PLAIN)[2:-4]
ANSWERS = [
    pytest.param(PLAIN, {}, id="plain"),
    pytest.param(gzip.compress(PLAIN), {"content-encoding": "gzip"}, id="gzip"),
    pytest.param(zlib.compress(PLAIN), {"content-encoding": "deflate"}, id="deflate"),
    pytest.param(RAW_DEFLATE, {"content-encoding": "deflate"}, id="deflate without header"),
    pytest.param(PLAIN, {"content-encoding": "unheard-of"}, id="passed on as it is by the client"),
    pytest.param(gzip.compress(gzip.compress(PLAIN)), {"content-encoding": "gzip, gzip"}, id="packed twice"),
]


def get() -> bytes:
    with httpx.Client(transport=asking.REQUEST) as client:
        return client.get("http://stub/file").content


@pytest.mark.parametrize(("content", "headers"), ANSWERS)
async def test_the_digest_is_that_of_the_decoded_body(memory_desk, content, headers):
    asking.REQUEST = Answers(content, headers)
    async with memory_desk.open() as journal:
        got = await journal.run(asks(get), id="r")
        (send,) = sends_of(await journal.events("r"))

    assert got == PLAIN
    assert (send.response_digest, send.response_bytes) == (hashlib.sha256(PLAIN).hexdigest(), len(PLAIN))
    assert (send.undecoded, send.partial, send.key) == (False, False, None)


async def test_a_body_that_can_not_be_decoded_is_kept_as_it_came(memory_desk):
    asking.REQUEST = Answers(b"this is no gzip, whatever its header says", {"content-encoding": "gzip"})
    async with memory_desk.open() as journal:
        with pytest.raises(RunPausedError, match="DecodingError"):
            await journal.run(asks(get, retry=ONCE), id="r")
        (send,) = sends_of(await journal.events("r"))

    assert (send.undecoded, send.partial) == (True, True)


async def test_of_a_long_download_only_digest_and_size_are_kept(memory_desk):
    content = b"x" * (KEPT_BYTES_MAX + 1)
    asking.REQUEST = Answers(content, {"content-type": "application/json"})

    def size() -> int:
        return len(get())

    async with memory_desk.open() as journal:
        await journal.run(asks(size), id="r")
        (send,) = sends_of(await journal.events("r"))

    assert (send.response_digest, send.response_bytes) == (hashlib.sha256(content).hexdigest(), len(content))


@pytest.mark.parametrize("module", MODULES)
async def test_a_response_that_a_transport_makes_whole_is_noted(memory_desk, module):
    def ask() -> str:
        transport = module.MockTransport(lambda _: module.Response(200, json={"a": 1}))
        with module.Client(transport=transport) as client:
            return client.post("http://stub/v1/chat/completions", json={}).text

    async with memory_desk.open() as journal:
        got = await journal.run(asks(ask), id="r")
        (send,) = sends_of(await journal.events("r"))

    assert (send.status, send.response_digest) == (200, hashlib.sha256(got.encode()).hexdigest())


@pytest.mark.parametrize("module", MODULES)
async def test_an_unknown_protocol_of_events_has_no_end_mark_to_miss(memory_desk, module):
    def ask() -> str:
        headers = {"content-type": "text/event-stream"}
        transport = module.MockTransport(
            lambda _: module.Response(200, headers=headers, content=iter([b"data: 1\n\n"]))
        )
        with module.Client(transport=transport) as client:
            return client.post("http://stub/search", json={}).text

    async with memory_desk.open() as journal:
        assert await journal.run(asks(ask), id="r") == "data: 1\n\n"


@pytest.mark.parametrize("module", MODULES)
async def test_the_time_that_a_client_tells_is_still_told(memory_desk, stub, module):
    def ask() -> bool:
        with module.Client() as client:
            return client.post(f"{asking.STUB.url}{PATH}", json=asking.body()).elapsed.total_seconds() > 0

    async with memory_desk.open() as journal:
        assert await journal.run(asks(ask), id="r")
