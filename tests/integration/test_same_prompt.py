"""FC-20: the same prompt five times, with five different answers: each call has its own, by its position (J2).

The real client asks a stub over HTTP. After a crash that left three answers on record, three are not asked for again
and two are.
"""

import asyncio

import openai
import pytest

import counterfoil
from counterfoil import Context, model, workflow
from counterfoil.core.events import StepSucceeded, read
from counterfoil.core.state import fold
from counterfoil.stores.memory import MemoryStore
from counterfoil.testing.stubs import StubModel

pytestmark = [pytest.mark.anyio, pytest.mark.sdk]

PROMPT = "Is it raining? Answer yes or no."


@model(opaque=("client",))
async def vote(client: openai.AsyncOpenAI, prompt: str) -> str | None:
    """One answer of the model."""
    reply = await client.chat.completions.create(model="m", messages=[{"role": "user", "content": prompt}])
    return reply.choices[0].message.content


CLIENTS: list[openai.AsyncOpenAI] = []


@workflow(name="test_same_prompt.in_a_row")
async def in_a_row(ctx: Context) -> list[str | None]:
    return [await ctx.model(vote, CLIENTS[-1], PROMPT) for _ in range(5)]


@workflow(name="test_same_prompt.in_parallel")
async def in_parallel(ctx: Context) -> list[str | None]:
    return await asyncio.gather(*(ctx.model(vote, CLIENTS[-1], PROMPT) for _ in range(5)))


@workflow(name="test_same_prompt.in_a_group")
async def in_a_group(ctx: Context) -> list[str | None]:
    async with asyncio.TaskGroup() as group:
        votes = [group.create_task(vote(CLIENTS[-1], PROMPT)) for _ in range(5)]
    return [each.result() for each in votes]


@pytest.fixture
async def stub():
    """A model that words each answer in another way, and the client that asks it."""
    with StubModel(script=["final"], vary=True, delays=[0.02, 0.01, 0, 0.015, 0.005]) as stub:
        async with openai.AsyncOpenAI(base_url=f"{stub.url}/v1", api_key="none", max_retries=0) as client:
            CLIENTS.append(client)
            yield stub
            CLIENTS.clear()


@pytest.fixture(params=[in_a_row, in_parallel, in_a_group], ids=lambda each: each.__name__)
def five(request):
    """The workflow that asks."""
    return request.param


async def run(five, store):
    """The five answers, and the record."""
    async with counterfoil.open(store) as journal:
        return await journal.run(five, id="r"), await journal.store.read("r")


def third_answer(records) -> int:
    """How many events there are once three answers are on record."""
    answered = [n for n, each in enumerate(records, 1) if isinstance(read(each, "r").body, StepSucceeded)]
    return answered[2]


async def test_five_answers_to_the_same_prompt_replay_without_a_call(five, stub, crashed):
    answers, records = await run(five, MemoryStore())
    again, _ = await run(five, await crashed(records, len(records) - 1))
    assert again == answers
    assert (len(set(answers)), len(stub.log)) == (5, 5)
    assert len({call.prompt_digest for call in stub.log}) == 1


async def test_after_the_third_answer_two_are_asked_for_and_three_are_where_they_were(five, stub, crashed):
    first, records = await run(five, MemoryStore())
    count = third_answer(records)
    recorded = fold("r", [read(each, "r") for each in records[:count]]).order
    places = {int(key.split("/")[0]) for key in recorded}
    second, _ = await run(five, await crashed(records, count))
    assert {place: second[place] for place in places} == {place: first[place] for place in places}
    assert (len(places), len(stub.log), len({*first, *second})) == (3, 5 + 2, 7)
