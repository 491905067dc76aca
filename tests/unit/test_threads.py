"""What a plain function does in its thread reaches whoever waits, whatever it raises."""

import asyncio

import pytest

from counterfoil.engine.threads import Threads

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend():
    return "asyncio"


class Closed(Exception):  # noqa: N818
    """It raises whatever it is asked, even for its class."""

    def __getattribute__(self, name):
        raise RuntimeError(name)


async def raised_by(kind):
    def fail():
        raise kind

    running = Threads().run(fail)
    await asyncio.wait({running}, timeout=5)
    return type(running.exception())


@pytest.mark.parametrize(("kind", "seen"), [(Closed, Closed), (KeyError, KeyError), (StopIteration, RuntimeError)])
async def test_an_exception_that_answers_nothing_reaches_the_waiter_too(kind, seen):
    assert await raised_by(kind) is seen
