"""A plain function past its time, in processes that are killed. Loaded by the fork server."""

import threading
from pathlib import Path

import counterfoil
from counterfoil import Context, Retry, step, workflow
from counterfoil.stores.sqlite import SqliteStore
from counterfoil.testing.crash import KillingStore, Tally

LIMIT_SECONDS = 0.03
RUN = "slow"


class Outside:
    """Where the function has its effect, and whether it ever comes back."""

    tally: Tally
    is_stuck: bool


outside = Outside()


@step(timeout=LIMIT_SECONDS, retry=Retry(tries=3, first_seconds=0))
def slow() -> str:
    outside.tally.mark("begun")
    if outside.is_stuck:
        threading.Event().wait()
    return "came back"


@workflow(name="overdue")
async def overdue(ctx: Context) -> str:
    return await ctx.step(slow)


async def ask(path: str, tally: str, how: dict) -> str:
    """Run it, or take it up where it stands."""
    outside.tally, outside.is_stuck = Tally(tally), how["stuck"]
    store = KillingStore(SqliteStore(Path(path)), after=how.get("after"))
    async with counterfoil.open(store) as journal:
        return await journal.run(overdue, id=RUN)


async def types(path: str) -> list[str]:
    """The types of the events that are recorded."""
    async with counterfoil.open(SqliteStore(Path(path))) as journal:
        return [event.type for event in await journal.events(RUN)]
