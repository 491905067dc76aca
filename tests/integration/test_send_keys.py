"""Which requests of a model step share a key: the same one sent again and no other, whatever its body is made of."""

import asyncio
import io

import httpx
import pytest
from tests.integration import asking
from tests.integration.asking import sends_of
from tests.integration.http_libraries import MODULES

import counterfoil
from counterfoil import Context, workflow
from counterfoil.stores.memory import MemoryStore
from counterfoil.testing.stubs import StubModel

pytestmark = pytest.mark.anyio
RETRIED = {"x-stainless-retry-count": "1"}
"""By this the clients of openai and anthropic say that they send a request again."""


@pytest.fixture
def stub():
    with StubModel() as stub:
        asking.STUB = stub
        yield stub


def as_bytes(content: bytes) -> dict[str, object]:
    return {"files": {"file": ("a.wav", content)}}


def as_file(content: bytes) -> dict[str, object]:
    return {"files": {"file": ("a.wav", io.BytesIO(content))}}


def as_pieces(content: bytes) -> dict[str, object]:
    async def pieces():
        yield content

    return {"content": pieces(), "headers": {"content-length": str(len(content))}}


def uploads(module, *bodies: dict[str, object]):
    """A workflow whose one model call posts these bodies one after the other."""

    async def upload() -> list[int]:
        async with module.AsyncClient() as client:
            url = f"{asking.STUB.url}{asking.PATH}"
            return [(await client.post(url, **body)).status_code for body in bodies]

    async def agent(ctx: Context) -> list[int]:
        return await ctx.model(upload)

    return workflow(agent)


async def refused(journal) -> int:
    """How many keys the two requests of the run had, both of which the stub has refused: it reads JSON only."""
    sends = sends_of(await journal.events("r"))
    assert [each.status for each in sends] == [400, 400]
    return len({each.key for each in sends})


@pytest.mark.filterwarnings("ignore::counterfoil.ClosureWarning")
@pytest.mark.parametrize("form", [as_bytes, as_file, as_pieces])
@pytest.mark.parametrize("module", MODULES)
async def test_another_upload_after_one_that_failed_has_another_key(journal, stub, module, form):
    await journal.run(uploads(module, form(b"one"), form(b"two")), id="r")

    assert await refused(journal) == 2


@pytest.mark.filterwarnings("ignore::counterfoil.ClosureWarning")
@pytest.mark.parametrize("form", [as_bytes, as_file])
@pytest.mark.parametrize("module", MODULES)
async def test_the_same_upload_after_it_failed_has_its_key(journal, stub, module, form):
    await journal.run(uploads(module, form(b"one"), form(b"one")), id="r")

    assert await refused(journal) == 1


@pytest.mark.filterwarnings("ignore::counterfoil.ClosureWarning")
@pytest.mark.parametrize("module", MODULES)
async def test_of_a_body_that_nobody_can_read_twice_the_client_says_that_it_is_a_repeat(journal, stub, module):
    again = as_pieces(b"one")
    again["headers"] |= RETRIED
    await journal.run(uploads(module, as_pieces(b"one"), again), id="r")

    assert await refused(journal) == 1


async def test_uploads_at_the_same_time_keep_their_keys_whichever_is_first(stub, crashed, monkeypatch):
    async def upload_all() -> None:
        async with httpx.AsyncClient() as client:
            url = f"{asking.STUB.url}{asking.PATH}"
            await asyncio.gather(*(client.post(url, files={"file": each.encode()}) for each in asking.QUESTIONS))

    @workflow
    async def agent(ctx: Context) -> None:
        await ctx.model(upload_all)

    monkeypatch.setattr(asking, "QUESTIONS", ("1", "22", "333"))
    store = MemoryStore()
    async with counterfoil.open(store) as journal:
        await journal.run(agent, id="r")
        first, records = await journal.events("r"), await store.read("r")
    monkeypatch.setattr(asking, "QUESTIONS", asking.QUESTIONS[::-1])
    async with counterfoil.open(await crashed(records, 3)) as journal:
        await journal.run(agent, id="r")
        again = await journal.events("r")

    keys, keys_again = ({each.request_bytes: each.key for each in sends_of(events)} for events in (first, again))
    assert keys == keys_again
    assert len(set(keys.values())) == 3


@pytest.mark.parametrize("module", MODULES)
async def test_where_a_redirect_makes_a_get_of_a_post_the_key_is_not_sent_on(journal, module):
    seen: list[tuple[str, bool]] = []

    def answer(request):
        seen.append((request.method, "idempotency-key" in request.headers))
        moved = request.method == "POST"
        return module.Response(303 if moved else 200, headers={"location": "/other"} if moved else {})

    asking.REQUEST = module.AsyncClient(transport=module.MockTransport(answer), follow_redirects=True)

    async def ask() -> int:
        async with asking.REQUEST as client:
            return (await client.post("http://model.example/v1", json={})).status_code

    @workflow
    async def agent(ctx: Context) -> int:
        return await ctx.model(ask)

    await journal.run(agent, id="r")

    assert seen == [("POST", True), ("GET", False)]
    assert [each.key is None for each in sends_of(await journal.events("r"))] == [False, True]
