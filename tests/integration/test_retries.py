"""Failures that may pass by themselves are tried again, durably; all others are raised at the first try."""

import asyncio

import pytest

from counterfoil import Context, Retry, RunPausedError, RunStoppedError, model, workflow
from counterfoil.core.clock import SECOND
from counterfoil.core.events import RetrySet
from counterfoil.testing.clock import START

pytestmark = pytest.mark.anyio


class StatusError(Exception):
    def __init__(self, status_code: int) -> None:
        super().__init__(f"status {status_code}")
        self.status_code = status_code


def one_step(function, **options):
    @workflow
    async def tries(ctx: Context) -> object:
        return await ctx.with_options(**options).step(function)

    return tries


async def test_a_passing_failure_is_tried_again_after_growing_waits(desk, journal, calls):
    flaky = calls.function("flaky", *[ConnectionError("down")] * 3, "up")
    assert await journal.run(one_step(flaky), id="r") == "up"
    assert [due - START for due in desk.system.waits] == [0.5 * SECOND, 1.5 * SECOND, 3.5 * SECOND]
    assert calls == {"flaky": 4}


async def test_every_try_is_on_record_with_its_failure(journal, calls, types_of):
    flaky = calls.function("flaky", StatusError(503), "up")
    await journal.run(one_step(flaky), id="r")
    events = await journal.events("r")
    assert types_of(events)[2:6] == ["step_intended", "retry_set", "step_intended", "step_succeeded"]
    assert [event.envelope.try_number for event in events[2:6]] == [1, 1, 2, 2]
    assert (events[3].body.error.message, events[3].body.due) == ("status 503", START + 0.5 * SECOND)


@pytest.mark.parametrize("status", [408, 409, 429, 500, 503, 529])
async def test_a_status_that_passes_is_tried_five_times(journal, calls, status):
    busy = calls.function("busy", StatusError(status))
    with pytest.raises(RunPausedError, match=f"try 5: StatusError: status {status}"):
        await journal.run(one_step(busy), id="r")
    assert calls == {"busy": 5}


@pytest.mark.parametrize("status", [400, 401, 403, 404, 422])
async def test_a_status_that_stays_is_asked_once(journal, calls, status):
    wrong = calls.function("wrong", StatusError(status))
    with pytest.raises(RunPausedError, match="try 1"):
        await journal.run(one_step(wrong), id="r")
    assert calls == {"wrong": 1}


@pytest.mark.parametrize(("policy", "made"), [(Retry(tries=1), 1), (Retry(tries=3), 3), (Retry(total_seconds=2), 3)])
async def test_the_policy_bounds_the_tries(journal, calls, policy, *, made):
    late = calls.function("late", TimeoutError("late"))
    with pytest.raises(RunPausedError):
        await journal.run(one_step(late, retry=policy), id="r")
    assert calls == {"late": made}


class BusyError(Exception):
    """The caller knows that it passes."""


@pytest.mark.parametrize(
    ("policy", "failure", "made"),
    [
        (Retry(tries=3, retry_on=(BusyError,)), BusyError("x"), 3),
        (Retry(tries=3, never_on=(TimeoutError,)), TimeoutError("x"), 1),
        (Retry(tries=3), BusyError("x"), 1),
    ],
    ids=str,
)
async def test_a_policy_names_classes_that_are_tried_again_and_that_are_not(journal, calls, policy, *, failure, made):
    busy = calls.function("busy", failure)
    with pytest.raises(RunPausedError, match=f"try {made}"):
        await journal.run(one_step(busy, retry=policy), id="r")
    assert calls == {"busy": made}


async def test_a_failure_is_judged_by_itself_and_not_by_its_cause(journal, calls):
    wrapped = ValueError("wrapped")
    wrapped.__cause__ = ConnectionError("inner")
    with pytest.raises(RunPausedError, match="try 1: ValueError"):
        await journal.run(one_step(calls.function("wraps", wrapped)), id="r")
    assert calls == {"wraps": 1}


async def test_a_plain_function_is_tried_again_too(journal):
    made: list[int] = []

    def flaky() -> str:
        made.append(1)
        if len(made) < 3:
            raise ConnectionResetError("cut")
        return "up"

    assert await journal.run(one_step(flaky), id="r") == "up"
    assert len(made) == 3


async def test_a_crash_between_tries_goes_on_counting(memory_desk, calls, crashed):
    flaky = calls.function("flaky", TimeoutError("late"))
    tries = one_step(flaky, retry=Retry(tries=4))
    store = memory_desk.make_store()
    async with memory_desk.open() as journal:
        with pytest.raises(RunPausedError):
            await journal.run(tries, id="r")
    calls.clear()
    records = await _records(store)
    memory_desk.make_store = lambda: half
    half = await crashed(records, 6)  # two tries and their retries are on disk
    async with memory_desk.open() as journal:
        with pytest.raises(RunPausedError, match="try 4"):
            await journal.run(tries, id="r")
    assert calls == {"flaky": 2}


async def test_a_crash_in_a_wait_waits_only_for_what_is_left(memory_desk, calls, crashed):
    flaky = calls.function("flaky", TimeoutError("late"), "up")
    tries = one_step(flaky, retry=Retry(first_seconds=20))
    store = memory_desk.make_store()
    async with memory_desk.open() as journal:
        await journal.run(tries, id="r")
    records = await _records(store)
    half = await crashed(records, 4)
    memory_desk.make_store = lambda: half
    memory_desk.system.waits.clear()
    memory_desk.system._now = START + 5 * SECOND
    async with memory_desk.open() as journal:
        assert await journal.run(tries, id="r") == "up"
    assert (memory_desk.system.waits, memory_desk.system.now()) == ([START + 20 * SECOND], START + 20 * SECOND)


async def _records(store):
    await store.open()
    return await store.read("r")


async def test_a_retry_that_was_stopped_goes_on_with_its_due_time(desk, calls):
    flaky = calls.function("flaky", TimeoutError("late"), "up")
    tries = one_step(flaky, retry=Retry(first_seconds=1000))
    desk.system.hold()
    async with desk.open() as journal:
        running = asyncio.create_task(journal.run(tries, id="r"))
        await desk.system.waiting(1)
        await journal.close()
        with pytest.raises(RunStoppedError):
            await running
    desk.system.advance(1000)
    async with desk.open() as journal:
        assert await journal.run(tries, id="r") == "up"
        assert sum(isinstance(event.body, RetrySet) for event in await journal.events("r")) == 1
    assert calls == {"flaky": 2}


# --- unknown outcomes ---


@pytest.mark.parametrize(("policy", "calls_made"), [("repeat", 1), ("pause", 0), ("raise", 0)])
async def test_a_lost_try_is_repeated_or_pauses_or_fails_as_declared(
    memory_desk, calls, crashed, *, policy, calls_made
):
    paid = calls.function("paid", "answer")

    @workflow
    async def asks(ctx: Context) -> object:
        return await ctx.with_options(on_unknown=policy, worst_cost_usd=0.5).model(paid)

    store = memory_desk.make_store()
    async with memory_desk.open() as journal:
        await journal.run(asks, id="r")
    calls.clear()
    lost = await crashed(await _records(store), 3)  # the intent is on disk, its outcome is not
    memory_desk.make_store = lambda: lost
    async with memory_desk.open() as journal:
        outcome = await _outcome(journal, asks)
        unknown = next(event for event in await journal.events("r") if event.type == "outcome_unknown")
    ends = {"repeat": "answer", "pause": "outcome_unknown", "raise": "step_failed"}
    assert (outcome, calls["paid"]) == (ends[policy], calls_made)
    assert (unknown.step, unknown.envelope.try_number, unknown.body.lost_attempt, unknown.body.worst_cost_usd) == (
        "0", 1, 1, 0.5,
    )  # fmt: skip


async def _outcome(journal, declared):
    try:
        return await journal.run(declared, id="r")
    except RunPausedError as paused:
        return paused.facts["reason"]


async def test_a_person_who_resumes_a_lost_try_has_it_made_again(memory_desk, calls, crashed):
    paid = calls.function("paid", "answer")

    @model(on_unknown="pause")
    async def ask() -> object:
        return await paid()

    @workflow
    async def asks(ctx: Context) -> object:
        return await ask()

    store = memory_desk.make_store()
    async with memory_desk.open() as journal:
        await journal.run(asks, id="r")
    lost = await crashed(await _records(store), 3)
    memory_desk.make_store = lambda: lost
    async with memory_desk.open() as journal:
        assert await _outcome(journal, asks) == "outcome_unknown"
        assert await journal.resume("r", why="it never arrived") == "answer"
    assert calls == {"paid": 2}


async def test_a_process_that_dies_three_times_in_one_place_pauses(memory_desk, calls, crashed):
    paid = calls.function("paid", "answer")

    @workflow
    async def asks(ctx: Context) -> object:
        return await ctx.model(paid)

    store = memory_desk.make_store()
    async with memory_desk.open() as journal:
        await journal.run(asks, id="r")
    dead = await crashed(await _records(store), 3)
    for _ in range(2):
        dead = await _died_again(memory_desk, dead, declared=asks, crashed=crashed)
    memory_desk.make_store = lambda: dead
    async with memory_desk.open() as journal:
        assert await _outcome(journal, asks) == "crash_limit"
        made = calls["paid"]
        assert await journal.resume("r") == "answer"
    assert calls["paid"] == made + 1


async def _died_again(desk, dead, *, declared, crashed):
    """Take the run up, and lose the process in the call again."""
    desk.make_store = lambda: dead
    async with desk.open() as journal:
        await journal.run(declared, id="r")
        records = await dead.read("r")
    begun = max(record.seq for record in records if b'"step_intended"' in record.envelope)
    return await crashed(records, begun + 1)
