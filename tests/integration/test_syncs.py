"""What a run costs in syncs: the count that decides speed, and the only one here that has no noise.

A step is one sync: its intent rides with its outcome. A model call is two: its intent is on disk before the call.
"""

import asyncio
import runpy
from pathlib import Path

import pytest

import counterfoil
from counterfoil import Context
from counterfoil.engine import liveness

counted_syncs = runpy.run_path(str(Path(__file__).with_name("sync_counter.py")))["counted_syncs"]

RUN = 2
"""The constant of a run: one sync when it is recorded, one with its result."""


async def look(number: int) -> str:
    return "x" * 180


@counterfoil.workflow(name="syncs_steps")
async def steps(ctx: Context, count: int) -> int:
    for number in range(count):
        await ctx.step(look, number)
    return count


@counterfoil.workflow(name="syncs_models")
async def models(ctx: Context, count: int) -> int:
    for number in range(count):
        await ctx.model(look, number)
    return count


@counterfoil.workflow(name="syncs_agent")
async def agent(ctx: Context) -> str:
    await ctx.model(look, 1)
    ctx.now()
    ctx.random()
    await ctx.step(look, 2)
    await ctx.sleep(0.001)
    return await ctx.model(look, 3)


@pytest.fixture
def syncs_of(tmp_path, monkeypatch):
    """A function that gives the syncs of some work with a journal that is open and has driven a run before."""
    monkeypatch.setattr(liveness, "LEASE_SECONDS", 3600.0)  # no renewal falls into a slow test

    async def count(work) -> int:
        with counted_syncs() as counter:
            async with counterfoil.open(f"sqlite:///{tmp_path / 'syncs.db'}") as journal:
                await journal.run(steps, 1)
                before = counter.count
                await work(journal)
                return counter.count - before

    return lambda work: asyncio.run(count(work))


@pytest.mark.parametrize("count", [0, 1, 20])
def test_a_step_is_one_sync(syncs_of, count):
    assert syncs_of(lambda journal: journal.run(steps, count)) == RUN + count


@pytest.mark.parametrize("count", [1, 20])
def test_a_model_call_is_two_syncs(syncs_of, count):
    assert syncs_of(lambda journal: journal.run(models, count)) == RUN + 2 * count


def test_an_agent_pays_for_what_it_does(syncs_of):
    model_calls, reads_before_a_step, step, timer = 2 * 2, 1, 1, 2
    assert syncs_of(lambda journal: journal.run(agent)) == RUN + model_calls + reads_before_a_step + step + timer


def test_a_finished_run_is_handed_over_without_a_sync(syncs_of):
    async def again(journal):
        await journal.run(models, 3, id="once")
        await journal.run(models, 3, id="once")

    assert syncs_of(again) == RUN + 2 * 3


def test_what_is_recorded_is_replayed_without_a_sync(syncs_of):
    recorded = asyncio.Event()

    @counterfoil.workflow(name="syncs_waits")
    async def waits(ctx: Context) -> int:
        for number in range(10):
            await ctx.step(look, number)
        recorded.set()
        return await asyncio.Event().wait()

    async def stop_and_replay(journal):
        for _ in range(2):
            recorded.clear()
            run = asyncio.create_task(journal.run(waits, id="again"))
            await recorded.wait()
            await journal.stop("a test")
            with pytest.raises(counterfoil.RunStoppedError):
                await run

    start, stop, take, attempt = 1, 1, 1, 1
    assert syncs_of(stop_and_replay) == (start + 10 + stop) + (take + attempt + stop)


def test_runs_at_once_share_their_syncs(syncs_of):
    def together(journal):
        return asyncio.gather(*(journal.run(steps, 10) for _ in range(10)))

    alone = RUN + 10
    assert syncs_of(together) <= 2.5 * alone  # 1.0 in step; when one falls behind it catches up
