"""`on_unknown="raise"`: a call that was cut off is not made again; the workflow is told, and decides (J2, J4, J6)."""

import asyncio

import pytest
from tests.integration.outside import OUTSIDE, answer

import counterfoil
from counterfoil import Context, OutcomeUnknownError, Retry, RunPausedError, model, workflow
from counterfoil.stores.memory import MemoryStore

pytestmark = pytest.mark.anyio

HOTELS = ("Ritz", "Savoy", "Astor")
LOST = "the outcome of {} (step {}, try 1) is unknown: the process died while it was under way"


@model(on_unknown="raise", retry=Retry(retry_on=(OutcomeUnknownError,)))
async def book(hotel: str, *beside: str) -> str:
    OUTSIDE.calls[hotel] += 1
    OUTSIDE.begun(hotel).set()
    await OUTSIDE.all_begun(*beside)
    return f"booked {hotel}"


@workflow(name="test_unknown_outcomes.books")
async def books(ctx: Context) -> str:
    try:
        return await book("Ritz")
    except OutcomeUnknownError as error:
        return await ctx.step(answer, str(error))


@workflow(name="test_unknown_outcomes.books_blindly")
async def books_blindly(ctx: Context) -> str:
    return await book("Ritz")


@workflow(name="test_unknown_outcomes.books_three")
async def books_three(ctx: Context) -> list[str]:
    booked = await asyncio.gather(*(book(each, *HOTELS) for each in HOTELS), return_exceptions=True)
    return [str(each) for each in booked]


def told(lost: int) -> list[str]:
    """What the three bookings give when the first of them were lost."""
    booked = [f"booked {hotel}" for hotel in HOTELS]
    return [LOST.format("book", f"{branch}/0") for branch in range(lost)] + booked[lost:]


@pytest.fixture
def lost(crashed):
    """A run of a workflow whose process died with intents on disk and no outcome."""

    async def make(declared, intents):
        store = MemoryStore()
        async with counterfoil.open(store) as journal:
            await journal.run(declared, id="r")
            records = await store.read("r")
        OUTSIDE.forget()
        OUTSIDE.open()
        return await crashed(records, 2 + intents)

    return make


async def test_it_is_raised_with_what_is_known_of_the_call_and_nothing_is_called(lost):
    async with counterfoil.open(await lost(books, 1)) as journal:
        assert await journal.run(books, id="r") == LOST.format("book", "0")
    assert OUTSIDE.calls == {"answer": 1}


async def test_its_facts_name_the_run_the_step_and_the_tries(lost):
    async with counterfoil.open(await lost(books_blindly, 1)) as journal:
        with pytest.raises(RunPausedError) as paused:
            await journal.run(books_blindly, id="r")
    error = paused.value.__cause__
    assert (type(error), error.facts) == (OutcomeUnknownError, {"run": "r", "step": "0", "name": "book", "tries": 1})


async def test_every_replay_raises_the_same_and_calls_nothing_again(lost, crashes):
    store = await lost(books, 1)
    async with counterfoil.open(store) as journal:
        await journal.run(books, id="r")
        assert await crashes(books, store) == ["booked Ritz"] * 2 + [LOST.format("book", "0")] * 6
    assert OUTSIDE.calls == {}  # the last one had all outcomes on record


async def test_uncaught_it_pauses_as_a_failed_step_and_a_resume_makes_the_call_again(lost):
    async with counterfoil.open(await lost(books_blindly, 1)) as journal:
        with pytest.raises(RunPausedError, match=r"step_failed.*try 1: OutcomeUnknownError"):
            await journal.run(books_blindly, id="r")
        assert await journal.resume("r", why="it never arrived") == "booked Ritz"
    assert OUTSIDE.calls == {"Ritz": 1}


async def test_a_call_that_is_lost_again_after_a_resume_is_raised_again(lost, crashed):
    store = await lost(books_blindly, 1)
    async with counterfoil.open(store) as journal:
        await asyncio.gather(journal.run(books_blindly, id="r"), return_exceptions=True)
        await journal.resume("r")
        lost_again = await crashed(await store.read("r"), 10)  # the second try's intent is the last
    async with counterfoil.open(lost_again) as journal:
        with pytest.raises(RunPausedError, match=r"step_failed.*\(step 0, try 2\)"):
            await journal.run(books_blindly, id="r")


async def test_among_branches_each_lost_call_is_raised_in_its_own(lost):
    async with counterfoil.open(await lost(books_three, 2)) as journal:
        assert await journal.run(books_three, id="r") == told(2)
    assert OUTSIDE.calls == {"Astor": 1}


async def test_among_branches_too_every_replay_raises_the_same(lost, crashes):
    store = await lost(books_three, 3)
    async with counterfoil.open(store) as journal:
        assert await journal.run(books_three, id="r") == told(3)
        assert await crashes(books_three, store) == [told(0), told(0), told(1), told(2)] + [told(3)] * 8
    assert OUTSIDE.calls == {}
