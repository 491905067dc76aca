"""Large appends in processes of their own, that die at a file operation. Loaded by the fork server.

The operations are those that `counterfoil.stores.files` asks the system for; they are counted by standing in front of
the functions of the standard library, so the store knows nothing of it.
"""

import asyncio
import fcntl
import functools
import os
import tempfile
from pathlib import Path

from counterfoil.stores.sqlite import SqliteStore
from counterfoil.testing.conformance import CONTENT, RUN, large, new_run
from counterfoil.testing.crash import kill

WATCHED = ((os, "mkdir"), (os, "fchmod"), (os, "write"), (os, "fsync"), (os, "replace"), (os, "unlink"),
           (fcntl, "flock"), (tempfile, "mkstemp"))  # fmt: skip


class Death:
    """Counts file operations, and ends the process before or in the n-th (from 1), or not at all."""

    def __init__(self, when: str, number: int) -> None:
        self.when, self.number = when, number
        self.seen: list[str] = []
        for module, name in WATCHED:
            real = getattr(module, name)
            setattr(module, name, functools.partial(self.arrive, name, real))

    def arrive(self, name, real, *args, **options):
        """An operation is asked for."""
        self.seen.append(name)
        if len(self.seen) == self.number:
            die(name, real, *args, is_begun=self.when == "in")
        return real(*args, **options)


def die(name, real, *args, is_begun):
    """End the process; first do half of a write, or the whole of anything else, if that is begun."""
    try:
        if is_begun and name == "write":
            real(args[0], args[1][: len(args[1]) // 2])
        elif is_begun:
            real(*args)
    finally:
        kill()


async def prepare(path: str) -> None:
    """Make a store with a run."""
    store = await opened(path)
    await store.start(new_run())
    await store.close()


async def keep(path: str, when: str, number: int) -> list[str]:
    """Append an event that names an artifact, and die in it. Gives the file operations that it took."""
    store = await opened(path)
    head = await store.head(RUN)
    death = Death(when, number)
    await store.append(large(head, CONTENT))
    return death.seen


async def keep_many(path: str, run: str, contents: list[str]) -> None:
    """Append an event for each content, one after the other, to a run of its own."""
    store = await opened(path)
    head, _ = await store.start(new_run(run))
    for content in contents:
        await store.append(large(head, content.encode() * 10_000))
        head = await store.head(run)
    await store.close()


async def keep_for_ever(path: str) -> None:
    """Append events with ever new artifacts, many at a time, until somebody kills this."""
    store = await opened(path)
    heads = [(await store.start(new_run(f"run {number}")))[0] for number in range(8)]
    for turn in range(10_000):
        await asyncio.gather(*(store.append(large(head, f"{head.run} {turn} ".encode() * 2_000)) for head in heads))
        heads = [await store.head(head.run) for head in heads]


async def opened(path: str) -> SqliteStore:
    store = SqliteStore(Path(path))
    await store.open()
    return store
