"""The promises of a store about provisional pieces of streamed answers."""

import asyncio
from typing import Any

import pytest

from counterfoil.errors import RunNotFoundError, StaleEpochError
from counterfoil.store import Head, Store, Stream
from counterfoil.testing.given import NOW, OTHER, RUN, Given, after, chunk, everything, moved, new_run, tried


class Streaming(Given):
    """A part of StoreConformance."""

    async def test_chunks_are_read_by_step_try_and_number(self, store: Store, head: Head) -> None:
        first, second = [chunk(n) for n in range(3)], [chunk(n, "0", 2) for n in range(2)]
        await store.put_chunks(RUN, [*second, first[2], chunk(0, "1")], epoch=1)
        await store.put_chunks(RUN, first[:2], epoch=1)
        assert await store.chunks(RUN) == [*first, *second, chunk(0, "1")]

    async def test_chunks_of_one_stream_are_read_after_a_number(self, store: Store, head: Head) -> None:
        await store.put_chunks(RUN, [*map(chunk, range(5)), chunk(4, "0", 2), chunk(4, "1")], epoch=1)
        assert await store.chunks(RUN, stream=Stream("0", 1), after=2) == [chunk(3), chunk(4)]
        assert await store.chunks(RUN, stream=Stream("2", 1)) == []

    @pytest.mark.parametrize("text", ["", "data: æ ☂ 🌧\r\n\r\n", "\0", "x" * 100_000], ids=len)
    async def test_any_text_is_kept_as_it_is(self, store: Store, head: Head, text: str) -> None:
        await store.put_chunks(RUN, [chunk(0, text=text)], epoch=1)
        assert await store.chunks(RUN) == [chunk(0, text=text)]

    async def test_chunks_change_nothing_else(self, store: Store, head: Head) -> None:
        await store.put_chunks(RUN, [chunk(0)], epoch=1)
        assert (await store.head(RUN), len(await store.read(RUN))) == (head, 1)

    async def test_a_chunk_that_is_there_stays_as_it_is(self, store: Store, head: Head) -> None:
        await store.put_chunks(RUN, [chunk(0)], epoch=1)
        await store.put_chunks(RUN, [chunk(0, text="another"), chunk(1)], epoch=1)
        assert await store.chunks(RUN) == [chunk(0), chunk(1)]

    @pytest.mark.parametrize("epoch", [0, 2])
    async def test_chunks_of_another_epoch_are_refused(self, store: Store, head: Head, epoch: int) -> None:
        before = await everything(store)
        refused = await tried(store.put_chunks(RUN, [chunk(0)], epoch=epoch))
        assert (type(refused), refused.facts) == (StaleEpochError, {"run": RUN, "epoch": epoch, "revision": 0})
        assert await everything(store) == before

    async def test_chunks_of_a_replaced_owner_are_refused_alone(self, store: Store, head: Head) -> None:
        await store.start(new_run(OTHER))
        await store.take(RUN, "another", now=NOW, dead={"worker"})
        writes = [store.put_chunks(run, [chunk(0)], epoch=1) for run in (RUN, OTHER)]
        assert [type(await tried(each)) for each in writes] == [StaleEpochError, type(None)]
        assert (await store.chunks(RUN), await store.chunks(OTHER)) == ([], [chunk(0)])

    async def test_chunks_of_an_unknown_run_are_an_error(self, store: Store) -> None:
        assert type(await tried(store.put_chunks(RUN, [chunk(0)], epoch=1))) is RunNotFoundError
        assert await store.chunks(RUN) == []

    async def test_chunks_are_gone_once_events_hold_them_and_no_others_are(self, store: Store, head: Head) -> None:
        await store.start(new_run(OTHER))
        kept = [chunk(0, "0", 1), chunk(0, "1", 2)]
        await store.put_chunks(RUN, [*kept, *(chunk(n, "0", 2) for n in range(3))], epoch=1)
        await store.put_chunks(OTHER, [chunk(0, "0", 2)], epoch=1)
        await store.append(after(head, streams_held=[Stream("0", 2)]))
        assert (await store.chunks(RUN), await store.chunks(OTHER)) == (kept, [chunk(0, "0", 2)])

    async def test_a_refused_append_takes_no_chunks_away(self, store: Store, head: Head) -> None:
        await store.put_chunks(RUN, [chunk(0)], epoch=1)
        stale: dict[str, Any] = {"epoch": 9, "streams_held": [Stream("0", 1)]}
        assert type(await tried(store.append(after(head, **stale)))) is StaleEpochError
        assert await store.chunks(RUN) == [chunk(0)]

    async def test_chunks_are_accepted_in_one_order_with_the_appends(self, store: Store, head: Head) -> None:
        held = after(head, streams_held=[Stream("0", 1)])
        writes = [
            store.put_chunks(RUN, [chunk(0)], epoch=1),
            store.append(held),
            store.put_chunks(RUN, [chunk(1)], epoch=1),
        ]
        await asyncio.gather(*writes)
        assert (await store.head(RUN), await store.chunks(RUN)) == (moved(head, held), [chunk(1)])
