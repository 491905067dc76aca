"""The transactions of a store, each as one operation on the same given runs; and processes that die inside one.

Loaded by the fork server as well as by the tests. The deaths are made by hooks that SQLite offers to whoever opens a
connection; the store knows nothing of them.
"""

import asyncio
from pathlib import Path

import apsw

from counterfoil.core.state import Status
from counterfoil.store import Stream, Timer
from counterfoil.stores.sqlite import SqliteStore
from counterfoil.testing.conformance import CONTENT, NOW, OTHER, RUN, WORKER, after, chunk, large, message, new_run
from counterfoil.testing.crash import kill


async def given(store):
    """A run with an owner, a timer and two messages, and pieces of two streams; another run that is free."""
    await store.enlist(WORKER)
    head, _ = await store.start(new_run())
    await store.append(after(head, timer_set=Timer("1", NOW)))
    await store.put_chunks(RUN, [chunk(0), chunk(1), chunk(0, "0", 2)], epoch=1)
    await store.start(new_run(OTHER, owner=None))
    for name in ("m", "n"):
        await store.send(message(name))


async def start(store):
    await store.start(new_run("new"))


async def take(store):
    await store.take(OTHER, "worker", now=NOW)


async def intend(store):
    await store.append(after(await store.head(RUN)))


async def wait(store):
    timers = {"timer_cleared": Timer("1", NOW), "timer_set": Timer("2", NOW + 1)}
    await store.append(after(await store.head(RUN), 2, status=Status.SUSPENDED, taken=("m", "n"), **timers))


async def keep(store):
    await store.append(large(await store.head(RUN), CONTENT, status=Status.RUNNING))


async def end(store):
    await store.append(after(await store.head(RUN), status=Status.COMPLETED, release=True))


async def provide(store):
    await store.put_chunks(RUN, [chunk(2), chunk(3)], epoch=1)


async def hold(store):
    await store.append(after(await store.head(RUN), streams_held=[Stream("0", 1)]))


async def send(store):
    await store.send(message("new"))


async def batch(store):
    """Appends to two runs that share one transaction, and one among them that is refused."""
    head, other = await store.head(RUN), await store.head(OTHER)
    appends = store.append(after(head)), store.append(after(head)), store.append(after(other))
    await asyncio.gather(*appends, return_exceptions=True)


class Death:
    """Ends the process in the transaction that comes once it is armed: at its n-th change, at its commit, or after."""

    def __init__(self, place: str, number: int) -> None:
        self.place, self.number, self.is_armed = place, number, False
        apsw.connection_hooks.append(self.watch)

    def watch(self, db: apsw.Connection) -> None:
        db.preupdate_hook(lambda _: self.at("change"))
        db.set_commit_hook(lambda: self.at("commit"))
        db.trace_v2(apsw.SQLITE_TRACE_PROFILE, lambda done: self.at(f"{done['sql']} done"))

    def at(self, place: str) -> bool:
        if self.is_armed and place == self.place:
            self.number -= 1
            if self.number == 0:
                kill()
        return False


async def prepare(path: str) -> None:
    """Make a store with the given runs."""
    await _with_store(path, given)


async def perform(path: str, operation: str, where: list) -> None:
    """Do one operation, and die in it."""
    death = Death(*where)

    async def do(store):
        death.is_armed = True
        await globals()[operation](store)
        death.is_armed = False

    await _with_store(path, do)


async def _with_store(path: str, do) -> None:
    store = SqliteStore(Path(path))
    await store.open()
    await do(store)
    await store.close()
