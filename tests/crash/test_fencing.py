"""J7: an owner that was replaced writes nothing more, and what it still learns is kept as evidence.

A paid call hangs in one worker's hands. Another worker takes the run over, because the first one's lease has lapsed or
its process is known to be dead. Then the call ends after all, in a third worker's hands the run goes on.
"""

import asyncio
from pathlib import Path

import msgspec
import pytest

import counterfoil
from counterfoil import Context, RunStoppedError, workflow
from counterfoil.core import events
from counterfoil.core.events import LateReport, OutcomeUnknown, Record, StepSucceeded
from counterfoil.engine import liveness
from counterfoil.store import Head, Message
from counterfoil.stores.sqlite import SqliteStore
from counterfoil.testing.clock import START, ManualSystem

RUN = "trip"
AN_HOUR = 3_600_000_000


class Charge:
    """A paid call that ends when it may. Each one is counted."""

    def __init__(self) -> None:
        self.calls = 0
        self.has_begun, self.may_end = asyncio.Event(), asyncio.Event()

    async def pay(self) -> str:
        self.calls += 1
        receipt = f"receipt {self.calls}"
        self.has_begun.set()
        await self.may_end.wait()
        return receipt


class Story(msgspec.Struct):
    """What there was when the run had been taken over, when the late outcome was refused, and at the end."""

    taken: tuple[Head, list[Record]]
    refused: tuple[Head, list[Record]]
    inbox: list[Message]
    result: str
    calls: int
    events: list[events.Event]
    inbox_at_the_end: list[Message]


@pytest.fixture(params=["lapsed", "dead"])
def story(tmp_path, request) -> Story:
    return asyncio.run(told(tmp_path / "runs.db", has_lapsed=request.param == "lapsed"))


async def told(path: Path, *, has_lapsed: bool) -> Story:
    charge = Charge()

    @workflow(name=f"replaced_owner_{has_lapsed}")
    async def pays(ctx: Context) -> str:
        return await ctx.model(charge.pay)

    async with counterfoil.open(SqliteStore(path), system=ManualSystem()) as journal:
        store, run = journal.store, asyncio.create_task(journal.run(pays, id=RUN))
        await charge.has_begun.wait()
        owner = (await store.head(RUN)).owner
        moment, dead = (START + AN_HOUR, set()) if has_lapsed else (START, {owner})
        taken = await store.take(RUN, "another", now=moment, dead=dead), await store.read(RUN)
        charge.may_end.set()
        with pytest.raises(RunStoppedError):
            await run
        refused, inbox = (await store.head(RUN), await store.read(RUN)), await store.inbox(RUN)

    async with counterfoil.open(SqliteStore(path), system=ManualSystem()) as journal:
        result = await journal.resume(RUN, pays)
        rest = list(await journal.events(RUN)), await journal.store.inbox(RUN)
    return Story(taken, refused, inbox, result, charge.calls, *rest)


class SlowSystem(ManualSystem):
    """Its lease lapses when it is told so."""

    def __init__(self) -> None:
        super().__init__()
        self.seconds = 0.0

    def monotonic(self) -> float:
        return self.seconds


@pytest.mark.parametrize("renew", [liveness.Lease.renew, lambda _: None], ids=["renewed too late", "not renewed"])
def test_an_owner_whose_lease_lapsed_meanwhile_starts_no_effect(tmp_path, renew):
    charge, system = Charge(), SlowSystem()
    journal = counterfoil.open(SqliteStore(tmp_path / "runs.db"), system=system)

    @workflow(name=f"lapsed_{id(renew)}")
    async def rests(ctx: Context) -> str:
        await journal.store.take(RUN, "another", now=START + AN_HOUR)
        system.seconds = 60.0
        await asyncio.to_thread(renew, await journal._drives.lease())
        return await ctx.step(charge.pay)

    async def driven() -> None:
        async with journal:
            await journal.run(rests, id=RUN)

    with pytest.raises(RunStoppedError):
        asyncio.run(driven())
    assert charge.calls == 0


def test_the_late_outcome_changes_nothing(story):
    assert story.refused == story.taken


def test_the_late_outcome_is_kept_in_the_inbox(story):
    assert [(message.kind, message.run) for message in story.inbox] == [("late_report", RUN)]


def test_the_next_owner_takes_the_report_into_the_journal(story):
    [report] = [event.body for event in story.events if isinstance(event.body, LateReport)]
    outcome = msgspec.json.decode(report.report, type=StepSucceeded)
    assert (report.event, report.of_step, report.from_epoch) == ("step_succeeded", "0", 1)
    assert bytes(outcome.result) == b'"receipt 1"'
    assert story.inbox_at_the_end == []


def test_the_next_owner_makes_the_call_again_and_says_so(story):
    assert [event.step for event in story.events if isinstance(event.body, OutcomeUnknown)] == ["0"]
    assert (story.result, story.calls) == ("receipt 2", 2)
