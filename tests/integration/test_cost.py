"""What a run's model calls came to, told by its row and by its events: real clients against the stub, real HTTP."""

import httpx
import openai
import pytest

from counterfoil import Answer, Context, Retry, RunPausedError, model, step, workflow, wrap
from counterfoil.core.tally import Lost, Sum, Totals, totals_of
from counterfoil.testing.stubs import StubModel

pytestmark = [pytest.mark.anyio, pytest.mark.sdk]
QUESTION = [{"role": "user", "content": "Do I need an umbrella?"}]
USAGE = {"prompt_tokens": 1200, "completion_tokens": 80}
CALL = Sum(calls=1, input_tokens=1200, output_tokens=80, cost_usd=1.28)


def price_list_7(answer: Answer) -> float:
    """A tenth of a cent a token."""
    return (answer.input_tokens + answer.output_tokens) / 1000


@pytest.fixture
async def priced(desk):
    async with desk.open(prices=price_list_7) as journal:
        yield journal


def client(url, **options):
    return openai.AsyncOpenAI(**{"base_url": f"{url}/v1", "api_key": "no key", "max_retries": 0} | options)


def agent(asking, **asked):
    """A workflow that asks a wrapped client once, and a plain step."""
    count = step(len, name="count")

    @workflow
    async def consult(ctx: Context) -> int:
        answer = await asking.chat.completions.create(model="m", messages=QUESTION, **asked)
        return await ctx.step(count, answer.choices[0].message.content)

    return consult


async def told(journal, run="r"):
    """What the run's row says, which is what its events say."""
    totals = (await journal.get(run)).totals
    assert totals == totals_of((await journal.events(run)).stored)
    return totals


async def test_an_answer_is_priced_by_the_table_that_the_journal_was_given(priced):
    with StubModel(script=["final"], usages=[USAGE]) as stub:
        await priced.run(agent(wrap(client(stub.url))), id="r")
    (send,) = (await priced.events("r"))[3].body.sends
    assert (send.answer.cost_usd, send.answer.prices) == (1.28, "price_list_7")
    assert await told(priced) == Totals(requests=1, spent=CALL, prices=("price_list_7",))


async def test_the_list_of_runs_knows_what_each_spent(priced):
    with StubModel(script=["final"], usages=[USAGE] * 2) as stub:
        for run in ("a", "b"):
            await priced.run(agent(wrap(client(stub.url))), id=run)
    assert [(run.id, run.totals.spent) for run in await priced.list()] == [("b", CALL), ("a", CALL)]


async def test_a_run_of_plain_steps_has_no_totals(priced):
    @workflow
    async def plain(ctx: Context) -> int:
        return await ctx.step(step(len, name="count"), "abc")

    await priced.run(plain, id="r")
    assert ((await priced.head("r")).totals, await told(priced)) == (b"", Totals())


async def test_the_cost_shows_both_requests_of_a_client_that_gave_up_one_and_sent_another(priced):
    """FC-03: the first was served, and its answer came too late."""
    with StubModel(script=["final"], usages=[USAGE] * 2, delays=[60]) as stub:
        impatient = wrap(client(stub.url, max_retries=1, timeout=0.5), worst_cost_usd=2.0)
        await priced.run(agent(impatient), id="r")
        assert len(stub.log) == 2
    lost = Lost(calls=1, worst_cost_usd=2.0)
    assert await told(priced) == Totals(requests=2, spent=CALL, lost=lost, prices=("price_list_7",))


async def test_tries_that_were_refused_are_not_spent(priced):
    with StubModel(script=["final"], usages=[USAGE] * 3, statuses=[503, 429], retry_afters=["0.001"] * 2) as stub:
        await priced.run(agent(wrap(client(stub.url, max_retries=2))), id="r")
        assert len(stub.log) == 3
    assert await told(priced) == Totals(requests=3, spent=CALL, prices=("price_list_7",))


async def test_an_answer_whose_result_can_not_be_kept_is_spent(priced):
    with StubModel(script=["final"], usages=[USAGE]) as stub:
        url = f"{stub.url}/v1/chat/completions"

        @model
        async def ask() -> object:
            async with httpx.AsyncClient() as http:
                return await http.post(url, json={"model": "m", "messages": QUESTION})

        @workflow
        async def careless(ctx: Context) -> None:
            await ctx.model(ask)

        with pytest.raises(RunPausedError):
            await priced.run(careless, id="r")
    assert (await told(priced)).spent == CALL


async def test_a_resumed_run_saves_what_is_on_record_and_its_row_goes_on_from_there(priced, calls):
    mend = calls.function("mend", ValueError("broken"), 1)
    with StubModel(script=["final"], usages=[USAGE] * 2) as stub:
        asking = wrap(client(stub.url))

        @workflow
        async def consult(ctx: Context) -> None:
            await asking.chat.completions.create(model="m", messages=QUESTION)
            await ctx.step(mend)
            await asking.chat.completions.create(model="m", messages=QUESTION)

        with pytest.raises(RunPausedError):
            await priced.run(consult, id="r")
        await priced.resume("r", consult)
        assert len(stub.log) == 2
    both = Sum(calls=2, input_tokens=2400, output_tokens=160, cost_usd=2.56)
    assert await told(priced) == Totals(requests=2, spent=both, saved=CALL, prices=("price_list_7",))


async def test_without_a_price_tokens_are_counted_all_the_same(desk):
    with StubModel(script=["final"], usages=[USAGE]) as stub:
        async with desk.open(prices=lambda answer: None) as journal:
            await journal.run(agent(wrap(client(stub.url))), id="r")
            assert await told(journal) == Totals(requests=1, spent=Sum(1, 1200, 80, cost_usd=None, unpriced=1))


async def test_a_table_that_fails_does_not_fail_the_run(desk):
    def broken(answer: Answer) -> float:
        raise ZeroDivisionError

    with StubModel(script=["final"], usages=[USAGE]) as stub:
        async with desk.open(prices=broken) as journal:
            assert await journal.run(agent(wrap(client(stub.url))), id="r")
            assert (await told(journal)).spent.cost_usd is None


def streaming(url):
    @model(retry=Retry(tries=2, first_seconds=0.001), worst_cost_usd=2.0)
    async def ask() -> str:
        asked = {"messages": QUESTION, "stream": True, "stream_options": {"include_usage": True}}
        async with client(url) as asking:
            return "".join(
                [str(chunk.usage) async for chunk in await asking.chat.completions.create(model="m", **asked)]
            )

    @workflow
    async def consult(ctx: Context) -> str:
        return await ctx.model(ask)

    return consult


@pytest.mark.parametrize("cut", ["cuts", "clean_cuts"])
async def test_a_stream_that_broke_is_lost_and_the_whole_one_after_it_is_spent(priced, cut):
    with StubModel(script=["final"], usages=[USAGE] * 2, **{cut: [2]}) as stub:
        await priced.run(streaming(stub.url), id="r")
        assert len(stub.log) == 2
    lost = Lost(calls=1, worst_cost_usd=2.0)
    assert await told(priced) == Totals(requests=2, spent=CALL, lost=lost, prices=("price_list_7",))
