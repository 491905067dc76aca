"""A coroutine driven in a greenlet: to the loop and to whoever looks into it, it is the coroutine it was."""

import asyncio
import inspect
from contextvars import ContextVar

import pytest

from counterfoil.engine import bridge, unsafe

WHO: ContextVar[str] = ContextVar("who", default="nobody")


@pytest.fixture(autouse=True)
def wanted():
    bridge.want()


async def gives(value: object) -> object:
    await asyncio.sleep(0)
    return value


async def raises(error: Exception) -> object:
    await asyncio.sleep(0)
    raise error


def waits(awaitable: object) -> object:
    """Plain code, some calls deep."""
    return bridge.waiter()(awaitable)


def run(coroutine):
    async def main():
        return await asyncio.get_running_loop().create_task(bridge.driven(coroutine))

    return asyncio.run(main())


async def both_ways() -> list[object]:
    return [await gives(1), waits(gives(2)), await gives(3), waits(gives(4))]


def test_plain_code_waits_between_awaits():
    assert run(both_ways()) == [1, 2, 3, 4]


async def catches() -> str:
    try:
        waits(raises(ValueError("no")))
    except ValueError as error:
        return f"caught {error}"
    return "nothing"


def test_what_is_raised_in_the_task_is_raised_in_the_plain_code():
    assert run(catches()) == "caught no"


async def raises_while_another_is_met() -> BaseException | None:
    try:
        try:
            raise KeyError("first")
        except KeyError:
            waits(raises(ValueError("no")))
    except ValueError as error:
        return error.__context__
    return None


def test_an_exception_keeps_the_context_that_it_was_raised_in():
    assert run(raises_while_another_is_met()) is None


async def sets(name: str) -> list[str]:
    WHO.set(name)
    waits(gives(None))
    seen = [WHO.get()]
    waits(sets_too(name))
    return [*seen, WHO.get()]


async def sets_too(name: str) -> None:
    WHO.set(f"{name}, set while it was awaited")


def test_context_variables_are_those_of_the_task():
    async def main() -> list[list[str]]:
        return await asyncio.gather(*(asyncio.create_task(bridge.driven(sets(name))) for name in "ab"))

    assert asyncio.run(main()) == [[name, f"{name}, set while it was awaited"] for name in "ab"]
    assert WHO.get() == "nobody"


async def forever_in_plain_code(ended: list[str]) -> None:
    try:
        waits(asyncio.get_running_loop().create_future())
    finally:
        ended.append("left")


def test_a_cancelled_task_is_left_from_inside_the_plain_code():
    async def main(ended: list[str]) -> bool:
        task = asyncio.create_task(bridge.driven(forever_in_plain_code(ended)))
        await asyncio.sleep(0)
        task.cancel()
        await asyncio.wait({task})
        return task.cancelled()

    ended: list[str] = []
    assert (asyncio.run(main(ended)), ended) == (True, ["left"])


def test_a_coroutine_closed_while_plain_code_waits_is_left_too():
    async def main(ended: list[str]) -> None:
        driven = bridge.driven(forever_in_plain_code(ended))
        driven.send(None)
        driven.close()

    ended: list[str] = []
    asyncio.run(main(ended))
    assert ended == ["left"]


def test_one_that_never_began_is_closed_without_a_warning():
    bridge.driven(both_ways()).close()


def test_a_task_cancelled_before_it_begins_leaves_nothing_behind():
    async def main() -> bool:
        task = asyncio.create_task(bridge.driven(both_ways()))
        task.cancel()
        await asyncio.wait({task})
        return task.cancelled()

    assert asyncio.run(main())


async def parked() -> None:
    waits(asyncio.get_running_loop().create_future())  # the line that is looked for


async def parked_below() -> None:
    await parked()


async def awaits() -> None:
    await asyncio.get_running_loop().create_future()


@pytest.mark.parametrize(("coroutine", "place"), [(parked, parked), (parked_below, parked), (awaits, awaits)])
def test_the_line_at_which_it_waits_is_found(coroutine, place):
    async def main() -> str | None:
        task = asyncio.create_task(bridge.driven(coroutine()))
        await asyncio.sleep(0)
        found = unsafe.place_of(task)
        task.cancel()
        return found

    line = waits.__code__.co_firstlineno + 2 if place is parked else place.__code__.co_firstlineno + 1
    assert asyncio.run(main()) == f"{__file__}:{line}"


def test_what_a_task_says_of_itself_is_of_the_coroutine():
    async def main() -> str:
        task = asyncio.create_task(bridge.driven(awaits()))
        await asyncio.sleep(0)
        text = repr(task)
        task.cancel()
        return text

    assert "coro=<awaits() running at" in asyncio.run(main())


def test_what_a_task_says_of_its_progress_is_of_the_coroutine():
    async def main():
        task = asyncio.get_running_loop().create_task(bridge.driven(gives(1)))
        before = inspect.getcoroutinestate(task.get_coro())
        await asyncio.sleep(0)
        return before, inspect.getcoroutinestate(task.get_coro()), await task

    assert asyncio.run(main()) == (inspect.CORO_CREATED, inspect.CORO_SUSPENDED, 1)


def test_elsewhere_plain_code_can_not_wait():
    assert bridge.waiter() is None
