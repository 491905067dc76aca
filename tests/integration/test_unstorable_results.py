"""A step that ran and whose result can't be kept is a final, named failure, and is never run again for it (FC-53)."""

import pytest

from counterfoil import Context, Retry, RunPausedError, workflow
from counterfoil.errors import NotStorableError, ResultNotStorableError

pytestmark = pytest.mark.anyio

MADE: list[str] = []


@pytest.fixture(autouse=True)
def _none_made():
    MADE.clear()


async def makes_an_object() -> object:
    MADE.append("made")
    return object()


@workflow
async def unguarded(ctx: Context) -> object:
    return await ctx.with_options(retry=Retry(tries=5)).step(makes_an_object)


@workflow
async def guarded(ctx: Context) -> str:
    try:
        await ctx.step(makes_an_object)
    except NotStorableError as error:
        return f"{type(error).__name__} {error.type}"
    return "kept"


async def test_an_unstorable_result_pauses_the_run_by_name_and_is_never_made_again(desk, types_of):
    for _ in range(3):
        async with desk.open() as journal:
            with pytest.raises(RunPausedError, match=r"result_not_storable.*the step ran, but") as caught:
                await journal.resume("r", unguarded) if MADE else await journal.run(unguarded, id="r")
            assert type(caught.value.__cause__) is ResultNotStorableError
    assert MADE == ["made"]


@workflow
async def insistent(ctx: Context) -> object:
    return await ctx.with_options(retry=Retry(retry_on=(Exception,))).step(makes_an_object)


async def test_a_policy_that_tries_again_on_everything_does_not_make_it_again(desk):
    async with desk.open() as journal:
        with pytest.raises(RunPausedError, match="result_not_storable"):
            await journal.run(insistent, id="r")
    assert MADE == ["made"]


async def test_code_that_catches_it_goes_on_the_same_live_and_on_replay(desk):
    async with desk.open() as journal:
        assert await journal.run(guarded, id="r") == "ResultNotStorableError object"
        records = await journal.store.read("r")
    assert [record.seq for record in records] == list(range(5))
    assert MADE == ["made"]


async def test_a_paused_run_is_ended_by_code_that_catches_it(desk):
    behaviour = [unguarded]

    @workflow(name="mended")
    async def mended(ctx: Context) -> object:
        return await behaviour[0](ctx)

    async with desk.open() as journal:
        with pytest.raises(RunPausedError, match="result_not_storable"):
            await journal.run(mended, id="r")
        behaviour[0] = guarded
        assert await journal.resume("r") == "ResultNotStorableError object"
    assert MADE == ["made"]
