"""Branches in numbers, in each other, beside other runs, and on loops that make tasks in a way of their own (FC-16)."""

import asyncio
import importlib.util
from typing import Any

import pytest
from tests.integration.outside import OUTSIDE, answer, lasts

import counterfoil
from counterfoil import Context, workflow
from counterfoil.core.state import fold

pytestmark = pytest.mark.anyio


class OwnTask(asyncio.Task[Any]):
    """A task of somebody else's kind."""


def own_factory(loop: asyncio.AbstractEventLoop, coroutine: Any, **options: Any) -> asyncio.Task[Any]:
    return OwnTask(coroutine, loop=loop, **options)


FACTORIES = {"own": own_factory} | (
    {"eager": asyncio.eager_task_factory} if hasattr(asyncio, "eager_task_factory") else {}
)


@pytest.fixture(params=FACTORIES)
def factory(request):
    """The factory of the loop for this test."""
    return FACTORIES[request.param]


@pytest.fixture
def on_factory(factory):
    """Runs something on this loop while it makes tasks with this factory."""

    async def run(work: Any) -> Any:
        loop = asyncio.get_running_loop()
        loop.set_task_factory(factory)
        try:
            return await work
        finally:
            assert loop.get_task_factory() is factory
            loop.set_task_factory(None)

    return run


@workflow(name="test_branch_loops.mixed")
async def mixed(ctx: Context) -> list[object]:
    seen: list[object] = []

    async def one(number: int) -> None:
        seen.append(await ctx.step(answer, number))
        seen.append(await ctx.step(answer, list(seen)))

    async def quick() -> None:
        seen.append("quick")

    async with asyncio.TaskGroup() as group:
        for number in range(3):
            group.create_task(one(number))
        group.create_task(quick())
    cut = asyncio.create_task(ctx.step(lasts, "never"))
    await ctx.step(answer)
    cut.cancel()
    (end,) = await asyncio.gather(cut, return_exceptions=True)
    return [*seen, type(end).__name__, await ctx.step(answer, "after")]


async def test_a_loop_with_a_task_factory_gives_what_a_plain_loop_gives(memory_desk, on_factory):
    async with memory_desk.open() as journal:
        plain = await journal.run(mixed, id="plain")
        other = await on_factory(journal.run(mixed, id="other"))
        keys = [sorted(fold(run, await journal.events(run)).steps) for run in ("plain", "other")]
    assert sorted(map(str, other[:4])) == sorted(map(str, plain[:4]))
    assert (other[-2:], keys[0]) == (plain[-2:], keys[1])


async def test_a_run_of_a_loop_with_a_task_factory_goes_on_there_after_a_crash(memory_desk, on_factory, crashes):
    async with memory_desk.open() as journal:
        result = await on_factory(journal.run(mixed, id="r"))
        ends = await on_factory(crashes(mixed, journal.store))
    assert [end for end in ends if "is paused" in end] == []
    assert ends[-1] == result


# --- loops that are not asyncio's ---


class CrossedLoop(asyncio.SelectorEventLoop):
    """One whose `call_at` goes by `call_later`, as that of uvloop does."""

    def call_at(self, when: float, callback: Any, *args: Any, context: Any = None) -> asyncio.TimerHandle:
        return self.call_later(when - self.time(), callback, *args, context=context)

    def call_later(self, delay: float, callback: Any, *args: Any, context: Any = None) -> asyncio.TimerHandle:
        return super().call_at(self.time() + delay, callback, *args, context=context)


LOOPS = {"crossed": CrossedLoop} | (
    {"uvloop": importlib.import_module("uvloop").new_event_loop} if importlib.util.find_spec("uvloop") else {}
)


@workflow(name="test_branch_loops.sleepy")
async def sleepy(ctx: Context) -> None:
    await asyncio.gather(ctx.step(answer), asyncio.sleep(0.001))


@workflow(name="test_branch_loops.limited")
async def limited(ctx: Context) -> None:
    async with asyncio.timeout(1):
        await ctx.step(answer)


@pytest.mark.parametrize("loop", LOOPS)
def test_branches_go_on_and_timers_are_refused_on_a_loop_that_is_not_asyncios(tmp_path, loop):
    async def main() -> list[object]:
        async with counterfoil.open(f"sqlite:///{tmp_path / 'runs.db'}") as journal:
            runs = [journal.run(each, id=each.__name__) for each in (mixed, tree, sleepy, limited)]
            return await asyncio.gather(*runs, return_exceptions=True)

    with asyncio.Runner(loop_factory=LOOPS[loop]) as runner:
        *ended, slept, timed = runner.run(main())
    assert [each[-1] for each in ended] == ["after", "r with 13"]
    assert [each.facts["reason"] for each in (slept, timed)] == ["unsafe_construct"] * 2


# --- beside others ---


@workflow(name="test_branch_loops.ordered")
async def ordered(ctx: Context, name: str) -> list[object]:
    seen: list[object] = []

    async def one(number: int) -> None:
        seen.append(await ctx.step(answer, f"{name} {number}"))
        seen.append(len(seen))
        await ctx.step(answer, list(seen))

    await asyncio.gather(*map(one, range(5)))
    return seen


async def test_two_runs_with_branches_on_one_loop_keep_apart(journal):
    left, right = await asyncio.gather(journal.run(ordered, "left", id="1"), journal.run(ordered, "right", id="2"))
    assert [each for each in left if "right" in str(each)] == []
    assert (sorted(left[::2]), sorted(right[::2])) == (
        [f"left {n}" for n in range(5)],
        [f"right {n}" for n in range(5)],
    )


async def nested_run(name: str) -> list[object]:
    return await JOURNALS[-1].run(ordered, name, id=f"inner {name}")


JOURNALS: list[Any] = []


@workflow(name="test_branch_loops.outer")
async def outer(ctx: Context) -> list[object]:
    return await asyncio.gather(*(ctx.step(nested_run, name) for name in ("left", "right")))


async def test_runs_that_steps_start_have_branches_of_their_own(journal):
    JOURNALS.append(journal)
    left, right = await journal.run(outer, id="outer")
    assert (len(left), len(right)) == (10, 10)
    assert sorted(fold("outer", await journal.events("outer")).steps) == ["0/0", "1/0"]
    assert len(fold("inner left", await journal.events("inner left")).steps) == 10


# --- many, and in each other ---


@workflow(name="test_branch_loops.many")
async def many(ctx: Context) -> int:
    async def one(number: int) -> object:
        return await ctx.step(answer, await ctx.step(answer, number))

    return sum(await asyncio.gather(*map(one, range(500))))


async def test_five_hundred_branches(journal):
    assert await journal.run(many, id="r") == sum(range(500))
    assert OUTSIDE.calls == {"answer": 1000}


async def test_five_hundred_branches_replay_without_a_call(memory_desk, crashed):
    async with memory_desk.open() as journal:
        await journal.run(many, id="r")
        records = await journal.store.read("r")
    OUTSIDE.forget()
    memory_desk.make_store = lambda: left
    left = await crashed(records, len(records) - 1)
    async with memory_desk.open() as journal:
        assert (await journal.run(many, id="r"), OUTSIDE.calls) == (sum(range(500)), {})


@workflow(name="test_branch_loops.tree")
async def tree(ctx: Context) -> list[object]:
    seen: list[object] = []

    async def grow(path: str) -> None:
        seen.append(await ctx.step(answer, path))
        if len(path) < 3:
            async with asyncio.TaskGroup() as group:
                for number in range(2):
                    group.create_task(grow(f"{path}{number}"))
        seen.append(await ctx.step(answer, f"{path} with {len(seen)}"))

    await grow("r")
    return seen


async def test_branches_that_make_branches(memory_desk, crashes):
    async with memory_desk.open() as journal:
        result = await journal.run(tree, id="r")
        assert set(fold("r", await journal.events("r")).steps) == {
            *("0", "1", "0/0", "0/1", "1/0", "1/1"),
            *("0/0/0", "0/0/1", "0/1/0", "0/1/1", "1/0/0", "1/0/1", "1/1/0", "1/1/1"),
        }
        ends = await crashes(tree, journal.store)
    assert [end for end in ends if "is paused" in end] == []
    assert ends[-1] == result


@workflow(name="test_branch_loops.deep")
async def deep(ctx: Context) -> list[object]:
    seen: list[object] = []

    async def below(depth: int) -> None:
        inner: Any = ctx.step(answer, depth)
        for _ in range(depth):
            inner = asyncio.gather(inner)
        await inner
        seen.append(depth)
        seen.append(await ctx.step(answer, f"{depth} after {len(seen)}"))

    await asyncio.gather(*map(below, (5, 0, 3)))
    return await ctx.step(answer, seen)


async def test_gathers_directly_in_each_other_keep_the_order(memory_desk, crashes):
    async with memory_desk.open() as journal:
        result = await journal.run(deep, id="r")
        ends = await crashes(deep, journal.store)
    assert [end for end in ends if "is paused" in end] == []
    assert (ends[-1], len(result)) == (result, 6)
