"""What a step takes by `use(provider)`: entered once, at the first live need, never by a replay (J8), and closed."""

import asyncio
import contextvars
import functools
import logging
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any

import pytest

import counterfoil
from counterfoil import Context, Retry, RunPausedError, RunStoppedError, bind, model, step, this_step, use, workflow
from counterfoil.errors import DeclarationError, NotInRunError, ResourceNotGivenError

pytestmark = pytest.mark.anyio

LOG: list[str] = []
"""What was entered, used and closed, in this order."""


@pytest.fixture(autouse=True)
def log() -> list[str]:
    LOG.clear()
    return LOG


async def pool() -> AsyncIterator[str]:
    LOG.append("enter pool")
    yield "pool"
    LOG.append("close pool")


def plain() -> str:
    LOG.append("enter plain")
    return "plain"


async def awaited() -> str:
    LOG.append("enter awaited")
    return "awaited"


def generated() -> Iterator[str]:
    LOG.append("enter generated")
    yield "generated"
    LOG.append("close generated")


async_context = asynccontextmanager(pool)
context = contextmanager(generated)


class Settings:
    async def pool(self) -> AsyncIterator[str]:
        LOG.append("enter pool")
        yield "pool"
        LOG.append("close pool")


def saving(provider: Callable[[], Any], name: str = "save", *, is_plain: bool = False) -> Any:
    """A step that takes what this provider gives."""

    async def save(x: int, *, db: str = use(provider)) -> str:
        return f"{db} {x}"

    def save_plainly(x: int, *, db: str = use(provider)) -> str:
        return f"{db} {x}"

    return step(name=name)(save_plainly if is_plain else save)


def asking(*steps: Any) -> Any:
    """A workflow that makes these steps one after the other."""

    @workflow
    async def asked(ctx: Context) -> list[str]:
        return [await ctx.step(each, number) for number, each in enumerate(steps)]

    return asked


KINDS = [
    (pool, ["enter pool", "close pool"]),
    (plain, ["enter plain"]),
    (awaited, ["enter awaited"]),
    (generated, ["enter generated", "close generated"]),
    (async_context, ["enter pool", "close pool"]),
    (context, ["enter generated", "close generated"]),
    (Settings().pool, ["enter pool", "close pool"]),
    (functools.partial(plain), ["enter plain"]),
]


@pytest.mark.parametrize("is_plain", [False, True], ids=["async step", "plain step"])
@pytest.mark.parametrize(("provider", "seen"), KINDS, ids=range(len(KINDS)))
async def test_every_kind_of_provider_is_entered_once_and_closed_with_the_journal(desk, provider, seen, is_plain):
    save = saving(provider, is_plain=is_plain)
    async with desk.open() as journal:
        given = await journal.run(asking(save, save))
        before = list(LOG)
    value = seen[0].removeprefix("enter ")
    assert (given, before, LOG) == ([f"{value} 0", f"{value} 1"], seen[:1], seen)


async def test_branches_that_need_it_at_the_same_time_enter_it_once(journal):
    free = asyncio.Event()

    async def slow() -> str:
        LOG.append("enter")
        await free.wait()
        return "slow"

    one, other = saving(slow), saving(slow, is_plain=True)

    @workflow
    async def both(ctx: Context) -> list[str]:
        asyncio.get_running_loop().call_soon(free.set)
        return await asyncio.gather(ctx.step(one, 1), ctx.step(other, 2), ctx.step(one, 3))

    assert (await journal.run(both), LOG) == (["slow 1", "slow 2", "slow 3"], ["enter"])


async def test_it_is_no_input_and_the_record_says_where_it_came_from(journal):
    await journal.run(asking(saving(pool)), id="r")
    body = (await journal.events("r"))[2].body
    assert (bytes(body.input), body.opaque) == (b'{"x":0}', {"db": "use(pool)"})


async def test_a_step_that_is_only_replayed_has_nothing_entered_for_it(desk, calls):
    fail = calls.function("fail", ValueError("no"), 1)

    @workflow
    async def two(ctx: Context) -> list[str]:
        first = await ctx.step(saving(pool), 0)
        await ctx.step(fail)
        return [first, await ctx.step(saving(awaited), 1)]

    async with desk.open() as journal:
        with pytest.raises(RunPausedError):
            await journal.run(two, id="r")
        LOG.clear()
    async with desk.open() as journal:
        assert await journal.resume("r", two) == ["pool 0", "awaited 1"]
    assert LOG == ["close pool", "enter awaited"]


async def test_after_a_crash_the_next_live_step_enters_it_anew(memory_desk, crashes):
    uses = asking(saving(pool), saving(plain))
    async with memory_desk.open() as journal:
        await journal.run(uses, id="r")
        LOG.clear()
        assert await crashes(uses, journal.store) == [["pool 0", "plain 1"]] * 6
    assert (LOG.count("enter pool"), LOG.count("close pool"), LOG.count("enter plain")) == (3, 4, 5)


async def test_a_given_value_stands_in_for_a_provider_and_is_not_closed(desk):
    async with desk.open(overrides={pool: "fake", plain: "never used"}) as journal:
        assert await journal.run(asking(saving(pool), saving(awaited))) == ["fake 0", "awaited 1"]
    assert LOG == ["enter awaited"]


async def test_resources_are_closed_in_the_reverse_order_of_entering(desk):
    async with desk.open() as journal:
        await journal.run(asking(saving(generated), saving(pool)))
    assert LOG == ["enter generated", "enter pool", "close pool", "close generated"]


async def cursor(*, db: str = use(pool), size: int = 3) -> AsyncIterator[str]:
    LOG.append("enter cursor")
    yield f"cursor of {db}, {size}"
    LOG.append("close cursor")


async def test_a_provider_may_use_another_one_which_is_closed_after_it(desk):
    async with desk.open() as journal:
        assert await journal.run(asking(saving(cursor))) == ["cursor of pool, 3 0"]
    assert LOG == ["enter pool", "enter cursor", "close cursor", "close pool"]


async def test_a_provider_is_given_the_value_that_stands_in_for_another_one(desk):
    async with desk.open(overrides={pool: "fake"}) as journal:
        assert await journal.run(asking(saving(cursor))) == ["cursor of fake, 3 0"]


async def test_two_journals_have_one_each(memory_desk):
    save = saving(pool)
    async with memory_desk.open() as one, counterfoil.open("memory://") as other:
        await one.run(asking(save))
        await other.run(asking(save))
    assert LOG == ["enter pool"] * 2 + ["close pool"] * 2


def test_run_sync_closes_what_its_run_has_used():
    assert counterfoil.run_sync(asking(saving(pool)), store="memory://") == ["pool 0"]
    assert LOG == ["enter pool", "close pool"]


# --- every way to call ---


class Desk:
    async def save(self, x: int, *, db: str = use(pool)) -> str:
        return f"{db} {x}"

    @step
    def save_declared(self, x: int, db: str = use(pool)) -> str:
        return f"{db} {x}"


@step
async def save(x: int, *, db: str = use(pool)) -> str:
    return f"{db} {x}"


@model
async def ask(x: int, db: str = use(pool)) -> str:
    return f"{db} {x}"


async def undeclared(x: int, *, db: str = use(pool)) -> str:
    return f"{db} {x}"


def undeclared_plain(x: int, *, db: str = use(pool)) -> str:
    return f"{db} {x}"


WAYS: list[Callable[[Context], Any]] = [
    lambda _: save(1),
    lambda _: ask(1),
    lambda ctx: ctx.step(save, 1),
    lambda ctx: ctx.model(ask, x=1),
    lambda ctx: ctx.model(undeclared, 1),
    lambda ctx: ctx.model(undeclared_plain, 1),
    lambda ctx: ctx.step(undeclared_plain, 1),
    lambda ctx: ctx.step(bind(save, 1)),
    lambda ctx: ctx.step(functools.partial(save, 1)),
    lambda ctx: ctx.step(functools.partial(undeclared, x=1)),
    lambda ctx: ctx.step(Desk().save, 1),
    lambda ctx: ctx.step(Desk().save_declared, 1),
    lambda ctx: ctx.step(functools.partial(Desk().save, 1)),
    lambda ctx: ctx.step(bind(Desk().save, 1)),
    lambda ctx: ctx.with_options(timeout=9, opaque=("db",)).step(undeclared_plain, 1),
]


@pytest.mark.parametrize("way", WAYS, ids=range(len(WAYS)))
async def test_however_it_is_called_a_step_gets_it(journal, way):
    @workflow
    async def called(ctx: Context) -> str:
        return await way(ctx)

    assert await journal.run(called, id="r") == "pool 1"
    body = (await journal.events("r"))[2].body
    assert (bytes(body.input), body.opaque["db"]) == (b'{"x":1}', "use(pool)")


BY_HAND: list[Callable[[Context], Any]] = [
    lambda _: save(1, db="mine"),
    lambda _: ask(1, "mine"),
    lambda ctx: ctx.step(undeclared_plain, 1, db="mine"),
    lambda ctx: ctx.step(functools.partial(undeclared, db="mine"), 1),
]


@pytest.mark.parametrize("way", BY_HAND, ids=range(len(BY_HAND)))
async def test_what_is_given_by_hand_is_used_and_is_no_input_either(journal, way):
    @workflow
    async def called(ctx: Context) -> str:
        return await way(ctx)

    assert (await journal.run(called, id="r"), LOG) == ("mine 1", [])
    body = (await journal.events("r"))[2].body
    assert (bytes(body.input), body.opaque) == (b'{"x":1}', {"db": "str"})


async def test_another_provider_may_be_given_by_hand(journal):
    @workflow
    async def called(ctx: Context) -> str:
        return await ctx.step(save, 1, db=use(plain))

    assert (await journal.run(called, id="r"), LOG) == ("plain 1", ["enter plain"])
    assert (await journal.events("r"))[2].body.opaque == {"db": "use(plain)"}


async def test_a_step_that_takes_one_more_fits_the_record_of_before(journal):
    async def before(x: int) -> str:
        return f"before {x}"

    await journal.run(asking(step(name="save")(before)), id="r")
    assert (await journal.run(asking(saving(pool)), id="r"), LOG) == (["before 0"], [])


# --- outside a run ---


async def test_outside_a_run_it_is_an_argument_like_any_other():
    assert (await save(1, db="mine"), undeclared_plain(1, db="mine")) == ("mine 1", "mine 1")


TOUCHES: list[Callable[[Any], Any]] = [
    lambda db: db.execute("select 1"),
    lambda db: db._private,
    lambda db: db(),
    lambda db: db["key"],
    lambda db: "key" in db,
    list,
    len,
    lambda db: f"{db}",
    lambda db: db or "other",
    lambda db: db + 1,
    lambda db: hasattr(db, "execute"),
    lambda db: setattr(db, "name", 1),
    lambda db: db.__enter__(),
]


@pytest.mark.parametrize("touch", TOUCHES, ids=range(len(TOUCHES)))
def test_one_that_was_not_given_says_so_when_it_is_touched(touch):
    with pytest.raises(ResourceNotGivenError) as caught:
        touch(use(pool))
    assert (caught.value.code, caught.value.facts) == ("resource_not_given", {"provider": "pool"})
    assert caught.value.hint.startswith("Hand it over as an argument")


async def test_one_that_is_awaited_or_entered_says_so_too():
    with pytest.raises(ResourceNotGivenError):
        await use(awaited)  # type: ignore[misc]
    with pytest.raises(ResourceNotGivenError):
        async with use(async_context):  # type: ignore[attr-defined]
            pass


def test_the_signature_shows_the_provider():
    assert str(counterfoil.engine.calls.Form(save).signature) == "(x: int, *, db: str = use(pool)) -> str"


async def test_a_body_that_touches_it_pauses_its_run(journal):
    @workflow
    async def direct(ctx: Context) -> str:
        return undeclared_plain(1)

    with pytest.raises(RunPausedError) as caught:
        await journal.run(direct, id="r")
    assert (caught.value.facts["reason"], type(caught.value.__cause__)) == ("resource_not_given", ResourceNotGivenError)


async def outer(x: int, *, db: str = use(pool)) -> str:
    return await save(x, db=db)


async def test_inside_a_step_it_is_handed_on(journal):
    assert await journal.run(asking(outer)) == ["pool 0"]


# --- declarations ---


@pytest.mark.parametrize("given", [3, "pool", [plain]])
def test_what_is_no_function_is_no_provider(given):
    with pytest.raises(DeclarationError, match="is no function"):
        use(given)


def test_a_parameter_without_a_keyword_can_not_take_one():
    with pytest.raises(DeclarationError, match="db can't be given by name"):

        @step
        def save(db: str = use(pool), /) -> None: ...


def test_a_workflow_takes_none():
    with pytest.raises(DeclarationError, match="takes no use"):

        @workflow
        async def taking(ctx: Context, *, db: str = use(pool)) -> None: ...


# --- providers that misbehave ---


async def test_a_provider_that_fails_fails_the_try_and_the_next_try_asks_it_again(journal, calls, types_of):
    flaky = calls.function("flaky", ConnectionError("down"), ConnectionError("down"), "up")
    assert await journal.run(asking(saving(flaky)), id="r") == ["up 0"]
    seen = types_of(await journal.events("r"))
    assert (calls["flaky"], seen.count("retry_set"), seen.count("step_succeeded")) == (3, 2, 1)


async def test_branches_that_wait_for_one_that_fails_all_fail(journal, calls):
    broken = calls.function("broken", ValueError("broken"), "mended")

    @workflow
    async def both(ctx: Context) -> list[str]:
        steps = (ctx.step(saving(broken), 1), ctx.step(saving(broken), 2))
        return [str(each) for each in await asyncio.gather(*steps, return_exceptions=True)]

    assert (await journal.run(both), calls["broken"]) == (["broken", "broken"], 1)


async def endless_source() -> AsyncIterator[str]:
    LOG.append("began")
    for _ in ():
        yield "never"


def no_source() -> Iterator[str]:
    yield from ()


def stopping() -> str:
    raise StopIteration


def leaving() -> str:
    raise asyncio.CancelledError


FAILING = [
    (endless_source, "endless_source: it ended without a value"),
    (no_source, "no_source: it ended without a value"),
    (stopping, "coroutine raised StopIteration"),
    (leaving, "asyncio.exceptions.CancelledError: "),
]


@pytest.mark.parametrize(("provider", "text"), FAILING, ids=range(len(FAILING)))
async def test_a_provider_without_a_value_is_a_failure_of_the_step(journal, types_of, provider, text):
    with pytest.raises(RunPausedError) as caught:
        await journal.run(asking(saving(provider)), id="r")
    assert (caught.value.facts["reason"], str(caught.value.__cause__)) == ("step_failed", text)
    assert types_of(await journal.events("r"))[2:] == ["step_intended", "step_failed", "run_paused"]


async def bad_at_closing() -> AsyncIterator[str]:
    yield "bad"
    LOG.append("close bad")
    raise OSError("hunter2-hunter2")


async def twice() -> AsyncIterator[str]:
    try:
        yield "twice"
        yield "again"
    finally:
        LOG.append("close twice")


CLOSINGS = [(bad_at_closing, "bad 1", "close bad", "OSError"), (twice, "twice 1", "close twice", "a second time")]


@pytest.mark.parametrize(("provider", "value", "closed", "text"), CLOSINGS, ids=["raises", "yields twice"])
async def test_what_closing_raises_is_logged_and_hides_nothing(
    memory_desk, monkeypatch, caplog, provider, value, closed, text
):
    monkeypatch.setenv("KEY", "hunter2-hunter2")
    async with memory_desk.open(secrets=["KEY"]) as journal:
        assert await journal.run(asking(saving(pool), saving(provider))) == ["pool 0", value]
    assert [*LOG] == ["enter pool", closed, "close pool"]
    (line,) = caplog.records
    assert (line.name, line.levelno, text in line.message) == ("counterfoil.resources", logging.ERROR, True)
    assert "hunter2" not in line.message


async def test_one_that_does_not_close_is_cut_off(memory_desk, monkeypatch, caplog):
    monkeypatch.setattr("counterfoil.engine.resources.CUT_SECONDS", 0.01)

    async def stuck() -> AsyncIterator[str]:
        yield "stuck"
        try:
            await asyncio.Event().wait()
        finally:
            LOG.append("cut")

    journal = await memory_desk.open()
    await journal.run(asking(saving(stuck)))
    await journal.close(grace=0)
    assert (LOG, [line.message for line in caplog.records]) == (["cut"], ["stuck did not close in time: cut off"])


# --- tasks, cancellation, threads ---

COLOUR: contextvars.ContextVar[str] = contextvars.ContextVar("colour", default="none")


async def looking() -> AsyncIterator[str]:
    async with asyncio.timeout(9), asyncio.TaskGroup() as group:  # these want to be entered and left in one task
        task = group.create_task(asyncio.sleep(0))
        with pytest.raises(NotInRunError):
            this_step()
        yield COLOUR.get()
        await task


async def test_it_lives_in_a_task_of_its_own_with_the_variables_of_who_opened_the_journal(memory_desk):
    save = saving(looking)

    @workflow
    async def coloured(ctx: Context) -> str:
        COLOUR.set("the workflow's")
        return await ctx.step(save, 0)

    COLOUR.set("the opener's")
    async with memory_desk.open() as journal:
        assert await journal.run(coloured) == "the opener's 0"


class Slow:
    """A provider that begins and waits to be let through."""

    def __init__(self) -> None:
        self.begun, self.free = asyncio.Event(), asyncio.Event()

    async def enter(self) -> AsyncIterator[str]:
        LOG.append("enter")
        self.begun.set()
        try:
            await self.free.wait()
        except asyncio.CancelledError:
            LOG.append("cut")
            raise
        yield "slow"
        LOG.append("close")


async def test_a_branch_that_is_cancelled_while_it_waits_leaves_the_entering_to_the_others(memory_desk):
    slow = Slow()
    save = saving(slow.enter)

    @workflow
    async def hasty(ctx: Context) -> str:
        cancelled, other = (asyncio.create_task(ctx.step(save, number)) for number in range(2))
        await ctx.step(slow.begun.wait)
        cancelled.cancel()
        await ctx.step(slow.free.set)
        return await other

    async with memory_desk.open() as journal:
        assert await journal.run(hasty) == "slow 1"
    assert LOG == ["enter", "close"]


async def test_a_journal_that_closes_cuts_a_provider_that_is_still_being_entered(memory_desk):
    slow = Slow()
    journal = await memory_desk.open()
    caller = asyncio.create_task(journal.run(asking(saving(slow.enter)), id="r"))
    await slow.begun.wait()
    await journal.close(grace=0)
    with pytest.raises(RunStoppedError):
        await caller
    assert LOG == ["enter", "cut"]


async def test_entering_takes_no_longer_than_the_time_limit_of_the_step(memory_desk):
    slow = Slow()

    @workflow
    async def limited(ctx: Context) -> str:
        return await ctx.with_options(timeout=0.01, retry=Retry(tries=1)).step(saving(slow.enter), 0)

    async with memory_desk.open() as journal:
        with pytest.raises(RunPausedError, match=r"took longer than 0\.01 seconds"):
            await journal.run(limited)


async def hold(gate: Any, *, db: str = use(pool)) -> None:
    try:
        await gate.pass_through()
    finally:
        LOG.append(f"left with {db}")


async def test_a_step_that_is_cut_off_has_it_until_its_end(memory_desk, gate):
    @workflow
    async def held(ctx: Context) -> None:
        await ctx.with_options(opaque=("gate",)).step(hold, gate)

    journal = await memory_desk.open()
    caller = asyncio.create_task(journal.run(held))
    await gate.begun.wait()
    await journal.close(grace=0)
    with pytest.raises(RunStoppedError):
        await caller
    assert LOG == ["enter pool", "left with pool", "close pool"]


FREE, ENDED = threading.Event(), threading.Event()


def linger(*, db: str = use(pool)) -> None:
    FREE.wait(30)
    LOG.append(f"late with {db}")
    ENDED.set()


async def test_a_thread_that_runs_on_keeps_its_value_and_holds_no_closing_up(memory_desk):
    @workflow
    async def overdue(ctx: Context) -> None:
        await ctx.with_options(timeout=0.01, retry=Retry(tries=1)).step(linger)

    async with memory_desk.open() as journal:
        with pytest.raises(RunPausedError):
            await journal.run(overdue)
    FREE.set()
    await asyncio.to_thread(ENDED.wait, 30)
    assert LOG == ["enter pool", "close pool", "late with pool"]


async def test_one_whose_task_a_stranger_has_cancelled_is_entered_anew(memory_desk):
    def task() -> "asyncio.Task[Any]":
        return next(each for each in asyncio.all_tasks() if each.get_name() == "counterfoil generated")

    async with memory_desk.open() as journal:
        await journal.run(asking(saving(generated)))
        cancelled = task()
        cancelled.cancel()
        await asyncio.wait({cancelled})
        assert await journal.run(asking(saving(generated))) == ["generated 0"]
    assert LOG == ["enter generated", "enter generated", "close generated"]


def test_a_loop_that_ends_with_the_journal_open_closes_it_by_its_end():
    async def closing() -> AsyncIterator[str]:
        try:
            yield "it"
        finally:
            LOG.append("closed")

    async def main() -> None:
        journal = await counterfoil.open("memory://")
        await journal.run(asking(saving(closing)))

    asyncio.run(main())
    assert LOG == ["closed"]
