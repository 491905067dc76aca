"""What new code can mend pauses the run; what must not be repeated blindly is on disk before it is called (J4)."""

import asyncio
from typing import Literal

import pytest

import counterfoil
from counterfoil import Context, Journal, RunPausedError, Secret, reveal

JOURNALS: list[Journal] = []


async def seen(run: str) -> list[str]:
    """What is on disk while the step runs."""
    return [event.type for event in await JOURNALS[-1].events(run)]


@counterfoil.workflow
async def send_at_most_once(ctx: Context, policy: Literal["pause", "raise"]) -> list[str]:
    return await ctx.with_options(on_unknown=policy).step(seen, ctx.run_id)


@counterfoil.workflow
async def return_an_object(ctx: Context) -> object:
    return object()


@counterfoil.workflow
async def reveal_in_the_body(ctx: Context) -> str:
    return reveal(Secret("ANY_NAME"))


@counterfoil.workflow
async def read_the_clock_in_a_thread(ctx: Context) -> str:
    return (await asyncio.to_thread(ctx.now)).isoformat()


async def ended(workflow, *args) -> object:
    async with counterfoil.open("memory://") as journal:
        JOURNALS.append(journal)
        try:
            return await journal.run(workflow, *args)
        except RunPausedError as paused:
            return paused.reason


@pytest.mark.parametrize("policy", ["pause", "raise"])
def test_a_step_that_is_not_repeated_when_its_outcome_is_lost_is_on_disk_before_it_is_called(policy):
    assert asyncio.run(ended(send_at_most_once, policy))[-1] == "step_intended"


def test_a_secret_revealed_in_the_body_pauses_the_run(monkeypatch):
    monkeypatch.setenv("ANY_NAME", "a long enough value")
    assert asyncio.run(ended(reveal_in_the_body)) == "secret_invalid"


def test_a_workflow_result_that_cannot_be_recorded_pauses_the_run():
    assert asyncio.run(ended(return_an_object)) == "not_storable"


def test_a_context_call_from_a_thread_pauses_the_run():
    assert asyncio.run(ended(read_the_clock_in_a_thread)) == "concurrent_call"
