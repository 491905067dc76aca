"""The runs that this process drives: taking them, driving them, letting go of them.

A run is taken once here, whoever asks: two callers get the same task. Those who wait for it do so through a shield, so
that leaving does not end the run.
"""

import asyncio
from collections.abc import Sequence
from typing import Any

import msgspec

from counterfoil.core.clock import SECOND
from counterfoil.core.events import Record
from counterfoil.core.scrub import Scrubber
from counterfoil.core.state import Status
from counterfoil.engine.definitions import Workflow
from counterfoil.engine.driver import Driver, Resume, Surroundings
from counterfoil.engine.liveness import Lease, is_dead
from counterfoil.engine.prices import Prices
from counterfoil.engine.resources import Resources
from counterfoil.engine.system import System
from counterfoil.errors import IllegalTransitionError, RunNotFoundError, RunOwnedError
from counterfoil.store import Head, Store

GRACE_SECONDS = 5.0
"""What steps under way get to end when their process stops."""

CUT_SECONDS = 1.0
"""What a body gets to end after it was cut, at the least."""


class _Drive(msgspec.Struct, frozen=True):
    driver: Driver
    task: asyncio.Task[Any]


class Drives:
    """The runs driven here, and the lease that covers them."""

    def __init__(
        self, store: Store, system: System, scrubber: Scrubber, *, release: str, resources: Resources, prices: Prices
    ) -> None:
        self._store, self._system, self._scrubber, self._release = store, system, scrubber, release
        self._resources, self._prices = resources, prices
        self._lease: Lease | None = None
        self._leasing, self._taking = asyncio.Lock(), asyncio.Lock()
        self._drives: dict[str, _Drive] = {}

    def get(self, run: str) -> asyncio.Task[Any] | None:
        """The task that drives this run here, if it is driven here."""
        drive = self._drives.get(run)
        return drive.task if drive else None

    async def lease(self) -> Lease:
        """This process as a worker; enlisted when the first run needs it."""
        async with self._leasing:
            if self._lease is None:
                lease = Lease(self._store, self._system)
                await lease.begin()
                self._lease = lease
        return self._lease

    async def take_up(self, run: str, declared: Workflow, resume: Resume | None) -> asyncio.Task[Any] | None:
        """Drive a run that stands still; None if it has come to its end, or to its pause and nobody resumes it.

        Raises RunOwnedError while another process that may live drives it, RunNotFoundError.
        """
        async with self._taking:  # so that two callers here get the same task
            if run in self._drives:
                return self._drives[run].task
            head = await self._store.head(run)
            if head is None:
                raise RunNotFoundError(run=run, store=self._store.name)
            if head.status.is_final or (head.status is Status.PAUSED and resume is None):
                return None
            try:
                taken = await self._taken(head)
            except IllegalTransitionError:  # another process was quicker
                return None
            return self.launch(taken, declared, None, resume=resume if taken.status is Status.PAUSED else None)

    def launch(
        self, head: Head, declared: Workflow, records: Sequence[Record] | None, *, resume: Resume | None = None
    ) -> asyncio.Task[Any]:
        """Drive a run that this process owns. Without `records` they are read from the store."""
        driver = Driver(self._around(), declared, head)

        async def driven() -> Any:
            try:
                return await driver.drive(records or await self._store.read(head.run), resume=resume)
            finally:
                del self._drives[head.run]

        task = asyncio.Task(driven(), name=f"counterfoil {head.run}")  # begins after this, on any loop
        task.add_done_callback(lambda done: done.cancelled() or done.exception())  # its caller may have left
        self._drives[head.run] = _Drive(driver, task)
        return task

    async def stop(self, why: str, *, grace: float) -> None:
        """Leave every run resumable; those who wait for one get RunStoppedError."""
        drives = list(self._drives.values())
        for drive in drives:
            drive.driver.stop(why)
        late = await _ended([drive.task for drive in drives], grace)
        for drive in drives:
            if drive.task in late:
                drive.driver.cut()
        endless = await _ended(late, max(grace, CUT_SECONDS))
        for drive in drives:
            if drive.task in endless:
                drive.driver.abandon()
        await _ended(endless, CUT_SECONDS)

    async def close(self, why: str, *, grace: float) -> None:
        """Stop, close what the steps have used, and be no worker any more."""
        await self.stop(why, grace=grace)
        await self._resources.close(grace=grace)
        if self._lease:
            await self._lease.end()

    async def _taken(self, head: Head) -> Head:
        """Make this process the run's owner. Raises RunOwnedError while the present one may live."""
        lease = await self.lease()
        dead: set[str] = set()
        if head.owner and head.owner != lease.worker:
            worker = await self._store.worker(head.owner)
            now = self._system.now()
            if worker and is_dead(self._store.locks, worker, self._system.host):
                dead.add(worker.id)
            elif worker and worker.until > now:
                raise RunOwnedError(run=head.run, owner=worker.id, seconds_left=(worker.until - now) / SECOND)
        return await self._store.take(head.run, lease.worker, now=self._system.now(), dead=dead)

    def _around(self) -> Surroundings:
        lease = self._lease
        assert lease is not None, "a run is owned by a lease"  # noqa: S101 - by the order of calls
        return Surroundings(
            store=self._store,
            system=self._system,
            scrubber=self._scrubber,
            prices=self._prices,
            release=self._release,
            worker=lease.worker,
            resources=self._resources,
            stretch=lambda: lease.stretch,
        )


async def _ended(tasks: Sequence[asyncio.Task[Any]], seconds: float) -> Sequence[asyncio.Task[Any]]:
    """Wait for tasks; those that have not ended by then."""
    return list((await asyncio.wait(tasks, timeout=seconds))[1]) if tasks else []
