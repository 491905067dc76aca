"""Time limits of a try: what is cut, what runs on, and what a late result is worth (FC-79)."""

import asyncio
import contextlib
import threading
from typing import Any

import pytest

from counterfoil import Context, Retry, RunPausedError, step, workflow
from counterfoil.core.events import LateReport, RunResumed, StepTimedOut
from counterfoil.core.state import StepStatus, fold
from counterfoil.errors import DeclarationError, RunNotFoundError

pytestmark = pytest.mark.anyio

LIMIT_SECONDS = 0.02


class Thread:
    """A plain function that begins, and ends only when it may."""

    def __init__(self) -> None:
        self.begun: list[threading.Event] = []
        self.free = threading.Event()

    def work(self) -> str:
        """The function."""
        self.begun.append(threading.Event())
        number = len(self.begun)
        if number == 1:
            assert self.free.wait(30)
        return f"result {number}"


@pytest.fixture
def thread():
    made = Thread()
    yield made
    made.free.set()


async def seen(journal: Any, kind: type, count: int = 1) -> list[Any]:
    """The run's events of this type, once there are so many."""
    found: list[Any] = []
    while len(found) < count:
        await asyncio.sleep(0.001)  # a fact of another task is waited for
        with contextlib.suppress(RunNotFoundError):
            found = [event for event in await journal.events("r") if isinstance(event.body, kind)]
    return found


async def waiting(journal: Any) -> list[Any]:
    """The run's inbox, once there is something in it."""
    found: list[Any] = []
    while not found:
        await asyncio.sleep(0.001)
        found = await journal.store.inbox("r")
    return found


def one_step(function, **options):
    @workflow
    async def one(ctx: Context) -> Any:
        return await ctx.with_options(**options).step(function)

    return one


async def test_an_async_try_that_takes_too_long_is_cut_and_tried_again(journal):
    made: list[str] = []

    @step(timeout=LIMIT_SECONDS, retry=Retry(tries=2))
    async def slow() -> str:
        made.append("begun")
        if len(made) == 1:
            try:
                await asyncio.Event().wait()
            finally:
                made.append("ended")
        return "quick"

    assert await journal.run(one_step(slow), id="r") == "quick"
    assert made == ["begun", "ended", "begun"]


async def test_a_time_limit_that_is_not_retried_is_the_builtin_error(journal):
    async def slow() -> None:
        await asyncio.Event().wait()

    @workflow
    async def catches(ctx: Context) -> str:
        try:
            await ctx.with_options(timeout=LIMIT_SECONDS, retry=Retry(tries=1)).step(slow)
        except TimeoutError as error:
            return str(error)
        return "no"

    assert await journal.run(catches) == "slow took longer than 0.02 seconds"


async def test_no_second_try_begins_while_a_plain_function_runs_past_its_time(journal, thread, types_of):
    running = asyncio.create_task(
        journal.run(one_step(thread.work, timeout=LIMIT_SECONDS, retry=Retry(tries=2, first_seconds=0)), id="r")
    )
    await seen(journal, StepTimedOut)
    state = fold("r", await journal.events("r"))
    assert (state.steps["0"].status, len(thread.begun)) == (StepStatus.TIMED_OUT, 1)
    assert state.steps["0"].status == "timed out, still running"
    thread.free.set()
    assert await running == "result 2"
    expected = ["step_intended", "step_timed_out", "late_report", "retry_set", "step_intended", "step_succeeded"]
    assert types_of(await journal.events("r"))[2:-1] == expected


async def test_a_late_result_is_refused_but_recorded(journal, thread):
    @workflow
    async def goes_on(ctx: Context) -> str:
        try:
            return await ctx.with_options(timeout=LIMIT_SECONDS, retry=Retry(tries=1)).step(thread.work)
        except TimeoutError:
            thread.free.set()
            await ctx.sleep_until(ctx.now())
            return await ctx.step(until_reported)

    async def until_reported() -> str:
        await seen(journal, LateReport)
        return "without it"

    assert await journal.run(goes_on, id="r") == "without it"
    (late,) = await seen(journal, LateReport)
    assert (late.body.event, late.body.of_step, late.body.of_try) == ("step_succeeded", "0", 1)
    assert bytes(late.body.report) == b'"result 1"'


async def test_what_comes_after_the_end_of_the_run_goes_to_its_inbox(journal, thread):
    with pytest.raises(RunPausedError, match="took longer"):
        await journal.run(one_step(thread.work, timeout=LIMIT_SECONDS, retry=Retry(tries=1)), id="r")
    assert await journal.store.inbox("r") == []
    thread.free.set()
    (message,) = await waiting(journal)
    assert (message.kind, b"result 1" in message.body) == ("late_report", True)
    assert await journal.resume("r") == "result 2"
    reported, resumed = await seen(journal, LateReport), await seen(journal, RunResumed)
    assert reported[0].seq > resumed[0].seq


async def test_a_process_that_dies_while_a_function_runs_on_leaves_an_unknown_outcome(desk, thread, types_of):
    retried = one_step(thread.work, timeout=LIMIT_SECONDS, retry=Retry(tries=3, first_seconds=0))
    journal = await desk.open()
    running = asyncio.create_task(journal.run(retried, id="r"))
    await seen(journal, StepTimedOut)
    await journal.close(grace=0)
    await asyncio.gather(running, return_exceptions=True)
    async with desk.open() as later:
        assert await later.resume("r", retried) == "result 2"
        assert types_of(await later.events("r"))[3:] == [
            "step_timed_out", "run_suspended", "attempt_started", "outcome_unknown", "step_intended", "step_succeeded",
            "run_completed",
        ]  # fmt: skip


async def test_the_whole_time_of_a_step_counts_on_while_no_process_is_there(desk, calls):
    lost = calls.function("lost", ConnectionError("down"))
    patient = one_step(lost, retry=Retry(tries=9, first_seconds=60, cap_seconds=60, total_seconds=100))
    desk.system.hold()
    journal = await desk.open()
    running = asyncio.create_task(journal.run(patient, id="r"))
    await desk.system.waiting(1)
    await journal.close()
    await asyncio.gather(running, return_exceptions=True)
    desk.system.advance(101)
    async with desk.open() as later:
        with pytest.raises(RunPausedError, match=r"step_failed.*down"):
            await later.resume("r", patient)
    assert calls == {"lost": 1}


async def test_a_lost_try_is_not_repeated_past_the_time_that_is_allowed(memory_desk, calls, crashed):
    paid = calls.function("paid", "answer")
    asks = one_step(paid, retry=Retry(total_seconds=100))
    async with memory_desk.open() as journal:
        await journal.run(asks, id="r")
        records = await journal.store.read("r")
    calls.clear()
    store = await crashed(records, 3)
    memory_desk.make_store = lambda: store
    memory_desk.system.advance(101)
    async with memory_desk.open() as journal:
        with pytest.raises(RunPausedError, match="no outcome within the time"):
            await journal.resume("r", asks)
    assert calls == {}


@pytest.mark.parametrize("seconds", [0, -1, float("nan"), float("inf")])
def test_a_time_limit_that_is_no_time_is_refused(seconds):
    with pytest.raises(DeclarationError, match="can't be kept"):

        @step(timeout=seconds)
        def plain() -> None:
            """A step."""
