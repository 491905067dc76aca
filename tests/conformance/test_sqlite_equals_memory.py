"""Whatever is asked of the SQLite store, it answers as the memory store does, and holds the same afterwards.

The questions are made up by Hypothesis, in batches: what is in one batch is asked at once, so it shares transactions.
Between batches the file may be closed and opened again.
"""

import asyncio
import functools
import tempfile
from pathlib import Path

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from counterfoil.core.state import Status
from counterfoil.errors import CounterfoilError
from counterfoil.store import Head, Query, Stream, Timer, Worker
from counterfoil.stores.memory import MemoryStore
from counterfoil.stores.sqlite import SqliteStore
from counterfoil.testing.conformance import CONTENT, NOW, after, called, chunk, everything, large, message, new_run

IN_MEMORY = Path("/dev/shm")
RUNS, WORKERS = st.sampled_from(["a", "b", "c"]), st.sampled_from(["v", "w"])
MESSAGES, TAGS = st.sampled_from(["m", "n", "o"]), st.dictionaries(st.sampled_from(["x", "y"]), st.text(max_size=2))
TIMES = st.integers(NOW, NOW + 3)
TIMERS = st.none() | st.builds(Timer, st.sampled_from(["1", "2"]), TIMES)
NOBODY = Head(
    run="", number=0, workflow="", status=Status.PENDING, reason=None, tags={}, epoch=0, owner=None, seq=0,
    hash=bytes(32), created=0, updated=0,
)  # fmt: skip
STEPS = st.sampled_from(["0", "1"])
STREAMS = st.builds(Stream, STEPS, st.integers(1, 2))
CHUNKS = st.lists(st.builds(chunk, st.integers(0, 2), STEPS, st.integers(1, 2), text=st.text(max_size=2)), max_size=3)
QUERIES = [Query(statuses=[status]) for status in Status] + [Query(tags={"x": ""}), Query(before=3, limit=1)]


class Ask(msgspec.Struct, frozen=True):
    """A call of a store, still without the store."""

    method: str
    args: tuple
    options: dict = {}

    def of(self, store, heads):
        """Make it. What an append does not say, it takes from the run's head as it was before the batch."""
        if self.method not in {"append", "large"}:
            return getattr(store, self.method)(*self.args, **self.options)
        run, count = self.args
        if self.method == "large":
            return store.append(large(heads.get(run, NOBODY), *count, **{"run": run} | self.options))
        return store.append(after(heads.get(run, NOBODY), count, **{"run": run} | self.options))


def ask(method, *args, **options):
    return st.builds(Ask, st.just(method), st.tuples(*args), st.fixed_dictionaries(options))


APPEND_PARTS = {
    "epoch": st.integers(0, 3), "expected": st.integers(-1, 4), "now": TIMES, "status": st.sampled_from(Status),
    "reason": st.none() | st.text(max_size=3), "release": st.booleans(), "timer_set": TIMERS, "timer_cleared": TIMERS,
    "taken": st.lists(MESSAGES, max_size=2), "streams_held": st.lists(STREAMS, max_size=2),
    "totals": st.binary(max_size=2),
}  # fmt: skip
QUESTION = st.one_of(
    ask("start", st.builds(new_run, RUNS, owner=st.none() | WORKERS, tags=TAGS)),
    ask("take", RUNS, WORKERS, now=TIMES, dead=st.frozensets(WORKERS)),
    st.builds(
        Ask, st.just("append"), st.tuples(RUNS, st.integers(1, 3)), st.fixed_dictionaries({}, optional=APPEND_PARTS)
    ),
    st.builds(
        Ask,
        st.just("large"),
        st.tuples(RUNS, st.lists(st.sampled_from([CONTENT, b"", b"other"]), min_size=1, max_size=2)),
        st.fixed_dictionaries({}, optional=APPEND_PARTS),
    ),
    ask("send", st.builds(message, MESSAGES, RUNS, body=st.binary(max_size=3))),
    ask("put_chunks", RUNS, CHUNKS, epoch=st.integers(0, 3)),
    ask("enlist", st.builds(Worker, id=WORKERS, host=st.just("host"), until=TIMES)),
    ask("discharge", WORKERS),
)
BATCHES = st.lists(st.none() | st.lists(QUESTION, min_size=1, max_size=6), max_size=15)


async def answers(store, batch, heads):
    """What the store says to each question, and all it holds then."""
    given = await asyncio.gather(*(called(functools.partial(question.of, store, heads)) for question in batch))
    lists = [await store.heads(query) for query in QUERIES]
    return [told(each) for each in given], await everything(store), lists, [await store.worker(w) for w in "vw"]


def told(answer):
    """An error by its type and facts; they name the store."""
    if isinstance(answer, CounterfoilError):
        return type(answer), {name: fact for name, fact in answer.facts.items() if name != "store"}
    return answer


async def assert_equal_answers(path, batches):
    memory, sqlite = MemoryStore(), SqliteStore(path)
    await sqlite.open()
    for batch in batches:
        if batch is None:
            await sqlite.close()
            await sqlite.open()
        heads = {head.run: head for head in await memory.heads(Query())}
        assert await answers(sqlite, batch or (), heads) == await answers(memory, batch or (), heads)
    await sqlite.close()


@settings(max_examples=150, deadline=None)
@given(BATCHES)
def test_sqlite_answers_as_memory_does(batches):
    with tempfile.TemporaryDirectory(dir=IN_MEMORY if IN_MEMORY.is_dir() else None) as folder:
        asyncio.run(assert_equal_answers(Path(folder) / "runs.db", batches))
