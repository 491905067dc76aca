"""Every request of a model step is in the journal: what left, under which key, and what came of it (J4, FC-03).

Clients are the real ones, against the stub model over real HTTP. Keys are told apart from each other, never spelled.
"""

import httpx
import httpx2
import pytest

from counterfoil import Context, Retry, workflow
from counterfoil.testing.stubs import StubModel

pytestmark = pytest.mark.anyio
QUESTION = [{"role": "user", "content": "Do I need an umbrella?"}]
BODY = {"model": "m", "messages": QUESTION}
ONCE = Retry(tries=1)
MODULES = [pytest.param(httpx, id="httpx"), pytest.param(httpx2, id="httpx2")]


def asking(module, is_async, url):
    """A function that makes a chat call and returns its answer; the calls are made one after the other."""

    def ask(count: int = 1) -> str:
        with module.Client() as client:
            for _ in range(count):
                answer = client.post(f"{url}/v1/chat/completions", json=BODY)
            return answer.text

    async def ask_async(count: int = 1) -> str:
        async with module.AsyncClient() as client:
            for _ in range(count):
                answer = await client.post(f"{url}/v1/chat/completions", json=BODY)
            return answer.text

    return ask_async if is_async else ask


@pytest.fixture(params=["async", "in a thread"])
def is_async(request):
    return request.param == "async"


@pytest.mark.parametrize("module", MODULES)
async def test_each_request_of_a_try_is_in_the_journal(journal, types_of, module, is_async):
    with StubModel(script=["final"]) as stub:
        ask = asking(module, is_async, stub.url)

        @workflow
        async def agent(ctx: Context) -> str:
            return await ctx.model(ask, 3)

        await journal.run(agent, id="r")
        log = stub.log
    events = await journal.events("r")
    sends = events[-2].body.sends
    assert types_of(events)[2:-1] == ["step_intended", "step_dispatched", "step_dispatched", "step_succeeded"]
    assert len(log) == len(sends) == 3
    assert [send.status for send in sends] == [200, 200, 200]
    assert len({send.key for send in sends}) == 3
