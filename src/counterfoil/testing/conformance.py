"""The promises of a store, as tests: what passes them is a store, and `counterfoil.store.Store` says no more.

    class TestMyStore(StoreConformance):
        @pytest.fixture
        def make_store(self, tmp_path):
            return lambda: MyStore(tmp_path)  # not yet open

They run under pytest with the plugin of anyio; `pytest.register_assert_rewrite("counterfoil.testing.conformance")` in
a conftest.py makes it explain what failed. Not here: what a kind of store promises beyond the port, such as that
journals outlive the process. Records are linked as real ones are, but a store must not look into them.
"""

import asyncio
from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from counterfoil.artifacts import digest_of
from counterfoil.core import events, integrity
from counterfoil.core.clock import SECOND
from counterfoil.core.events import ArtifactStored, Envelope
from counterfoil.core.state import Status
from counterfoil.errors import (
    IllegalTransitionError,
    RunNotFoundError,
    RunOwnedError,
    StaleEpochError,
    StoreClosedError,
)
from counterfoil.store import Head, Query, Store, Stray, Timer
from counterfoil.testing.given import (
    CONTENT,
    FAR,
    LATER,
    NOW,
    OTHER,
    RUN,
    STALE,
    WORKER,
    Given,
    after,
    called,
    chunk,
    everything,
    large,
    message,
    moved,
    new_run,
    record,
    record_of,
    tried,
)
from counterfoil.testing.streaming import Streaming

__all__ = [
    "CONTENT", "NOW", "OTHER", "RUN", "WORKER", "StoreConformance", "after", "called", "chunk", "everything", "large",
    "message", "moved", "new_run", "record", "record_of", "tried",
]  # fmt: skip

replace = msgspec.structs.replace


class _Starting(Given):
    async def test_a_started_run_is_there_with_its_first_event(self, store: Store) -> None:
        new = new_run(tags={"team": "a"})
        head, is_new = await store.start(new)
        assert is_new
        assert head == Head(
            run=RUN, number=head.number, workflow="greet", status=Status.PENDING, reason=None, tags={"team": "a"},
            epoch=1, owner="worker", seq=0, hash=new.record.hash, created=NOW, updated=NOW,
        )  # fmt: skip
        assert (await store.head(RUN), await store.read(RUN)) == (head, [new.record])

    async def test_a_run_started_for_anyone_has_no_owner_and_epoch_0(self, store: Store) -> None:
        head, _ = await store.start(new_run(owner=None))
        assert (head.owner, head.epoch) == (None, 0)

    async def test_starting_an_id_in_use_changes_nothing(self, store: Store, head: Head) -> None:
        before = await everything(store)
        another = new_run(workflow="another", tags={"a": "b"}, record=record(0, b"x" * 32), now=LATER, owner="thief")
        assert await store.start(another) == (head, False)
        assert await everything(store) == before

    async def test_of_many_starts_with_one_id_one_makes_the_run(self, store: Store) -> None:
        started = await asyncio.gather(*(store.start(new_run(owner=f"w{n}")) for n in range(10)))
        assert [is_new for _, is_new in started].count(True) == 1
        assert {head.owner for head, _ in started} == {"w0"}
        assert len(await store.read(RUN)) == 1

    async def test_runs_are_numbered_as_they_are_made(self, store: Store) -> None:
        heads = [(await store.start(new_run(name)))[0] for name in ("b", "c", "a")]
        assert [head.number for head in heads] == sorted({head.number for head in heads})

    async def test_an_unknown_run_is_none_and_empty(self, store: Store) -> None:
        assert (await store.head(RUN), await store.read(RUN), await store.inbox(RUN)) == (None, [], [])


class _Taking(Given):
    async def test_taking_gives_the_next_epoch_and_changes_nothing_else(self, store: Store) -> None:
        head, _ = await store.start(new_run(owner=None))
        taken = await store.take(RUN, "worker", now=LATER)
        assert taken == replace(head, epoch=1, owner="worker")
        assert (await store.head(RUN), len(await store.read(RUN))) == (taken, 1)

    async def test_a_run_is_not_taken_while_its_owners_lease_runs(self, store: Store, head: Head) -> None:
        before = await everything(store)
        refused = await tried(store.take(RUN, "another", now=WORKER.until - SECOND, dead={"somebody"}))
        assert (type(refused), refused.facts) == (RunOwnedError, {"run": RUN, "owner": "worker", "seconds_left": 1.0})
        assert await everything(store) == before

    async def test_a_run_is_taken_once_the_lease_has_lapsed(self, store: Store, head: Head) -> None:
        taken = await store.take(RUN, "another", now=WORKER.until)
        assert taken == replace(head, epoch=2, owner="another")

    async def test_a_run_is_taken_from_a_dead_owner_at_once(self, store: Store, head: Head) -> None:
        taken = await store.take(RUN, "another", now=NOW, dead={"worker"})
        assert taken == replace(head, epoch=2, owner="another")

    async def test_a_run_is_taken_from_an_owner_that_was_discharged(self, store: Store, head: Head) -> None:
        await store.discharge("worker")
        assert (await store.take(RUN, "another", now=NOW)).owner == "another"

    async def test_an_owner_that_was_never_enlisted_holds_nothing(self, store: Store) -> None:
        await store.start(new_run(owner="ghost"))
        assert (await store.take(RUN, "another", now=NOW)).owner == "another"

    async def test_an_owner_may_take_its_own_run_again(self, store: Store, head: Head) -> None:
        assert await store.take(RUN, "worker", now=NOW) == replace(head, epoch=2)

    async def test_of_two_takers_one_gets_the_run(self, store: Store, head: Head) -> None:
        await store.discharge("worker")
        for name in ("a", "b"):
            await store.enlist(replace(WORKER, id=name))
        first, second = await asyncio.gather(*(tried(store.take(RUN, name, now=NOW)) for name in ("a", "b")))
        assert (first, type(second)) == (replace(head, epoch=2, owner="a"), RunOwnedError)

    @pytest.mark.parametrize("status", [Status.COMPLETED, Status.FAILED])
    async def test_a_run_that_has_ended_is_not_taken(self, store: Store, head: Head, status: Status) -> None:
        await store.append(after(head, status=status, release=True))
        before = await everything(store)
        assert type(await tried(store.take(RUN, "another", now=NOW))) is IllegalTransitionError
        assert await everything(store) == before

    async def test_taking_an_unknown_run_is_an_error(self, store: Store) -> None:
        assert type(await tried(store.take(RUN, "another", now=NOW))) is RunNotFoundError


class _Appending(Given):
    async def test_appended_events_are_read_as_they_were_written(self, store: Store, head: Head) -> None:
        append = after(head, 3)
        await store.append(append)
        assert await store.read(RUN) == [record(0), *append.records]
        assert await store.head(RUN) == moved(head, append)

    async def test_totals_stay_in_the_runs_row_until_an_append_brings_others(self, store: Store, head: Head) -> None:
        first = after(head, totals=b'{"requests":1}')
        await store.append(first)
        await store.append(then := after(moved(head, first)))
        kept = moved(head, then, totals=b'{"requests":1}')
        assert (await store.head(RUN), await store.heads(Query())) == (kept, [kept])
        await store.append(last := after(kept, totals=b"\xff"))
        assert await store.head(RUN) == moved(kept, last, totals=b"\xff")

    async def test_a_record_whose_body_is_gone_is_kept_as_it_is(self, store: Store, head: Head) -> None:
        bare = replace(record(1, head.hash), body=None, salt=None)
        await store.append(after(head, records=[bare]))
        assert (await store.read(RUN))[1] == bare

    @pytest.mark.parametrize("change", [{"epoch": 0}, {"epoch": 2}, {"expected": -1}, {"expected": 1}], ids=str)
    async def test_another_epoch_or_revision_is_refused(self, store: Store, head: Head, change: dict[str, int]) -> None:
        before = await everything(store)
        stale = after(head, **change)
        refused = await tried(store.append(stale))
        facts = {"run": RUN, "epoch": stale.epoch, "revision": stale.expected}
        assert (type(refused), refused.facts) == (StaleEpochError, facts)
        assert await everything(store) == before

    async def test_a_refused_append_leaves_no_trace_of_any_part(self, store: Store, head: Head) -> None:
        await store.send(message())
        await store.append(following := after(head, timer_set=Timer("1", LATER)))
        before = await everything(store)
        stale = after(moved(head, following), timer_cleared=Timer("1", LATER), reason="why", **STALE)
        assert type(await tried(store.append(stale))) is StaleEpochError
        assert await everything(store) == before

    async def test_the_same_append_twice_is_kept_once(self, store: Store, head: Head) -> None:
        append = after(head)
        outcomes = await asyncio.gather(*map(tried, (store.append(append), store.append(append))))
        assert (outcomes[0], type(outcomes[1])) == (None, StaleEpochError)
        assert await store.read(RUN) == [record(0), *append.records]

    async def test_a_replaced_owner_is_refused_and_the_new_one_is_not(self, store: Store, head: Head) -> None:
        taken = await store.take(RUN, "another", now=NOW, dead={"worker"})
        assert type(await tried(store.append(after(head)))) is StaleEpochError
        await store.append(after(taken))
        assert await store.head(RUN) == moved(taken, after(taken))

    async def test_an_append_to_an_unknown_run_is_an_error(self, store: Store, head: Head) -> None:
        assert type(await tried(store.append(after(head, run="unknown")))) is RunNotFoundError

    async def test_stale_appends_are_refused_alone_among_many(self, store: Store) -> None:
        heads = [(await store.start(new_run(f"run {n}")))[0] for n in range(40)]
        stale = heads[::3]
        appends = [after(head, 2, **(STALE if head in stale else {})) for head in heads]
        outcomes = await asyncio.gather(*(tried(store.append(append)) for append in appends))
        assert [type(each) for each in outcomes[::3]] == [StaleEpochError] * len(stale)
        assert outcomes.count(None) == len(heads) - len(stale)
        kept = [head if head in stale else moved(head, after(head, 2)) for head in heads]
        assert [await store.head(head.run) for head in heads] == kept

    async def test_appends_are_accepted_in_the_order_of_the_calls(self, store: Store, head: Head) -> None:
        appends = [after(head)]
        for _ in range(20):
            appends.append(after(moved(head, appends[-1])))
        written = [store.append(append) for append in appends]
        await written[-1]
        assert [await tried(each) for each in written] == [None] * 21
        assert await store.read(RUN) == [record(0), *(each for append in appends for each in append.records)]

    async def test_what_follows_a_refused_append_is_refused(self, store: Store, head: Head) -> None:
        first = after(head, epoch=9)
        written = [store.append(first), store.append(after(moved(head, first)))]
        assert [type(await tried(each)) for each in written] == [StaleEpochError] * 2
        assert await store.head(RUN) == head

    async def test_a_cancelled_waiter_does_not_cancel_the_append(self, store: Store, head: Head) -> None:
        append = after(head)
        waiter = asyncio.ensure_future(tried(store.append(append)))
        await asyncio.sleep(0)
        waiter.cancel()
        await asyncio.wait([waiter])
        await store.append(following := after(moved(head, append)))
        assert await store.read(RUN) == [record(0), *append.records, *following.records]


class _Keeping(Given):
    async def test_an_artifact_is_there_once_its_event_is(self, store: Store, head: Head) -> None:
        await store.append(append := large(head, CONTENT))
        assert await store.artifact(digest_of(CONTENT)) == CONTENT
        assert await store.read(RUN) == [record(0), *append.records]  # as they were written: nothing is filled in

    async def test_an_artifact_of_a_first_event_is_there_once_the_run_is(self, store: Store) -> None:
        first = record_of(CONTENT, 0)
        await store.start(new_run(record=first, artifacts={digest_of(CONTENT): CONTENT}))
        assert (await store.artifact(digest_of(CONTENT)), await store.read(RUN)) == (CONTENT, [first])

    @pytest.mark.parametrize("content", [b"", b"\0", b"x" * 100_000, bytes(range(256)) * 5_000], ids=len)
    async def test_any_bytes_are_kept_as_they_are(self, store: Store, head: Head, content: bytes) -> None:
        await store.append(large(head, content))
        assert await store.artifact(digest_of(content)) == content

    async def test_an_unknown_artifact_is_none(self, store: Store) -> None:
        assert [await store.artifact(digest) for digest in ("", "../runs", digest_of(CONTENT))] == [None] * 3

    async def test_the_same_content_twice_is_one_artifact(self, store: Store, head: Head) -> None:
        other, _ = await store.start(new_run(OTHER))
        await asyncio.gather(*(store.append(large(each, CONTENT, CONTENT)) for each in (head, other)))
        assert [stray.size_bytes for stray in await store.strays(set())] == [len(CONTENT)]

    async def test_many_artifacts_of_many_runs_are_told_apart(self, store: Store) -> None:
        heads = [(await store.start(new_run(f"run {n}")))[0] for n in range(20)]
        contents = {head.run: [f"{head.run} {n}".encode() for n in range(3)] for head in heads}
        await asyncio.gather(*(store.append(large(head, *contents[head.run])) for head in heads))
        wanted = [each for contents_ in contents.values() for each in contents_]
        assert [await store.artifact(digest_of(each)) for each in wanted] == wanted

    async def test_a_refused_append_leaves_no_event_that_names_an_artifact(self, store: Store, head: Head) -> None:
        before = await everything(store)
        assert type(await tried(store.append(large(head, CONTENT, epoch=9)))) is StaleEpochError
        assert (await everything(store), await store.references()) == (before, [])

    async def test_a_start_of_an_id_in_use_keeps_no_artifact(self, store: Store, head: Head) -> None:
        again = new_run(record=record_of(CONTENT, 0), artifacts={digest_of(CONTENT): CONTENT})
        assert await store.start(again) == (head, False)
        assert (await store.artifact(digest_of(CONTENT)), await store.strays(set())) == (None, [])

    async def test_appends_keep_their_order_around_a_large_one(self, store: Store, head: Head) -> None:
        appends = [large(head, CONTENT)]
        for number in range(6):
            last = moved(head, appends[-1])
            appends.append(large(last, b"%d" % number) if number % 2 else after(last))
        await asyncio.gather(*map(store.append, appends))
        assert await store.read(RUN) == [record(0), *(each for append in appends for each in append.records)]

    async def test_a_cancelled_waiter_does_not_cancel_a_large_append(self, store: Store, head: Head) -> None:
        append = large(head, CONTENT)
        waiter = asyncio.ensure_future(tried(store.append(append)))
        await asyncio.sleep(0)
        waiter.cancel()
        await asyncio.wait([waiter])
        await store.append(after(moved(head, append)))
        assert await store.artifact(digest_of(CONTENT)) == CONTENT

    async def test_events_that_name_an_artifact_are_listed_in_order(self, store: Store, head: Head) -> None:
        other, _ = await store.start(new_run(OTHER, record=record_of(b"0", 0)))
        stored = ArtifactStored(digest=digest_of(b"1"), size_bytes=1, media_type="text/plain")
        envelope = events.encode(Envelope(run=OTHER, seq=1, type=stored.type, step="0"))
        kept = integrity.seal(1, envelope, events.encode(stored), salt=bytes(32), previous=other.hash)
        await store.append(after(other, records=[kept], artifacts={stored.digest: b"1"}))
        await store.append(small := after(head))
        await store.append(append := large(moved(head, small), CONTENT, b"2"))
        named = [(RUN, each) for each in append.records]
        assert await store.references() == [*named, (OTHER, record_of(b"0", 0)), (OTHER, kept)]

    async def test_an_envelope_that_only_speaks_of_artifacts_names_none(self, store: Store, head: Head) -> None:
        run = '"reference":{"type":"artifact_stored"'
        envelope = events.encode(Envelope(run=run, seq=1, type="step_intended", step=run))
        named = integrity.seal(1, envelope, events.encode({"type": "artifact_stored"}), salt=b"", previous=head.hash)
        await store.append(after(head, records=[named]))
        assert await store.references() == []

    async def test_what_no_event_names_is_a_stray(self, store: Store, head: Head) -> None:
        await store.append(large(head, CONTENT, b"other"))
        assert await store.strays({digest_of(CONTENT), digest_of(b"other")}) == []
        (stray,) = await store.strays({digest_of(CONTENT)})
        assert stray == Stray(stray.name, len(b"other"))


class _Settling(Given):
    async def test_an_append_moves_the_status_and_says_why_and_when(self, store: Store, head: Head) -> None:
        append = after(head, status=Status.PAUSED, reason="crash_limit")
        await store.append(append)
        paused = moved(head, append, status=Status.PAUSED, reason="crash_limit", updated=LATER)
        assert await store.head(RUN) == paused
        await store.append(following := after(paused, status=Status.RUNNING, now=FAR))
        assert await store.head(RUN) == moved(paused, following, status=Status.RUNNING, reason=None, updated=FAR)

    async def test_an_append_that_moves_no_status_leaves_its_time(self, store: Store, head: Head) -> None:
        await store.append(append := after(head, reason="not said without a status"))
        assert await store.head(RUN) == moved(head, append)

    async def test_a_released_run_is_free_for_anyone(self, store: Store, head: Head) -> None:
        await store.append(append := after(head, status=Status.SUSPENDED, release=True))
        released = moved(head, append, status=Status.SUSPENDED, owner=None, updated=LATER)
        assert await store.head(RUN) == released
        assert await store.take(RUN, "another", now=NOW) == replace(released, epoch=2, owner="another")

    async def test_all_parts_of_an_append_are_kept_together(self, store: Store, head: Head) -> None:
        await store.send(message())
        await store.put_chunks(RUN, [chunk(0)], epoch=1)
        parts: dict[str, Any] = {"status": Status.RUNNING, "timer_set": Timer("1", LATER), "taken": ("m",)}
        await store.append(append := after(head, 2, streams_held=[chunk(0).stream], **parts))
        kept: tuple[Any, ...] = (
            moved(head, append, status=Status.RUNNING, updated=LATER),
            [record(0), *append.records],
            [],
            [],
        )
        assert await everything(store) == ([kept], [], [(RUN, Timer("1", LATER))], WORKER)

    async def test_timers_are_listed_when_due_in_due_order(self, store: Store, head: Head) -> None:
        other, _ = await store.start(new_run(OTHER))
        await store.append(last := after(head, timer_set=Timer("1", NOW + 3)))
        await store.append(after(moved(head, last), timer_set=Timer("2", NOW + 1)))
        await store.append(after(other, timer_set=Timer("1", NOW + 2)))
        due = [(RUN, Timer("2", NOW + 1)), (OTHER, Timer("1", NOW + 2)), (RUN, Timer("1", NOW + 3))]
        assert [await store.timers(due_until=NOW + n) for n in range(4)] == [due[:n] for n in range(4)]

    async def test_a_timer_is_cleared_by_its_step_and_due_time(self, store: Store, head: Head) -> None:
        timer, last = Timer("1", NOW), head
        parts: list[dict[str, Any]] = [{"timer_set": timer}, {"timer_set": timer}, {"timer_cleared": Timer("1", FAR)}]
        for each in parts:
            await store.append(append := after(last, **each))
            last = moved(last, append)
            assert await store.timers(due_until=FAR) == [(RUN, timer)]
        await store.append(after(last, timer_cleared=timer))
        assert await store.timers(due_until=FAR) == []


class _Sending(Given):
    async def test_messages_wait_in_the_order_they_came(self, store: Store, head: Head) -> None:
        await store.start(new_run(OTHER))
        sent = [message("b"), message("c", OTHER), message("a", time=NOW - 1)]
        assert [await store.send(each) for each in sent] == [True] * 3
        assert (await store.inbox(RUN), await store.inbox(OTHER)) == ([sent[0], sent[2]], [sent[1]])

    async def test_the_same_id_twice_is_one_message(self, store: Store, head: Head) -> None:
        first = message()
        again = [first, message(body=b"another"), message(kind="another")]
        assert [await store.send(each) for each in (first, *again)] == [True, False, False, False]
        assert await store.inbox(RUN) == [first]

    async def test_a_message_that_was_taken_in_never_comes_back(self, store: Store, head: Head) -> None:
        await store.send(message())
        await store.append(after(head, taken=("m",)))
        assert (await store.send(message()), await store.inbox(RUN)) == (False, [])

    async def test_a_run_takes_in_only_messages_that_it_has(self, store: Store, head: Head) -> None:
        await store.start(new_run(OTHER))
        await store.send(message("theirs", OTHER))
        await store.append(after(head, taken=("theirs", "to come")))
        assert await store.send(message("to come"))
        assert (await store.inbox(OTHER), await store.inbox(RUN)) == ([message("theirs", OTHER)], [message("to come")])

    async def test_a_message_to_an_unknown_run_is_an_error(self, store: Store) -> None:
        assert type(await tried(store.send(message()))) is RunNotFoundError


class _Listing(Given):
    @pytest.fixture
    async def runs(self, store: Store) -> None:
        """Six runs, a to f, oldest first."""
        for name in "abcdef":
            workflow, tags = "greet" if name in "abc" else "part", {"team": name, "even": str(name in "bdf")}
            head, _ = await store.start(new_run(name, workflow=workflow, tags=tags))
            await store.append(after(head, status=Status.FAILED if name in "af" else Status.RUNNING))

    @pytest.mark.parametrize(
        ("query", "found"),
        [
            (Query(), "fedcba"),
            (Query(limit=2), "fe"),
            (Query(workflow="greet"), "cba"),
            (Query(statuses=[Status.FAILED]), "fa"),
            (Query(statuses=[Status.FAILED, Status.RUNNING]), "fedcba"),
            (Query(statuses=[Status.PAUSED]), ""),
            (Query(tags={"even": "True"}), "fdb"),
            (Query(tags={"even": "True", "team": "d"}), "d"),
            (Query(tags={"even": "true"}), ""),
            (Query(workflow="part", statuses=[Status.RUNNING], tags={"even": "True"}), "d"),
        ],
    )
    @pytest.mark.usefixtures("runs")
    async def test_runs_are_listed_newest_first_as_asked(self, store: Store, query: Query, found: str) -> None:
        heads = await store.heads(query)
        assert [head.run for head in heads] == list(found)
        assert heads == [await store.head(head.run) for head in heads]

    @pytest.mark.usefixtures("runs")
    async def test_pages_give_each_run_once_while_new_ones_come(self, store: Store) -> None:
        seen = await store.heads(Query(limit=2))
        while page := await store.heads(Query(limit=2, before=seen[-1].number)):
            await store.start(new_run(f"new {len(seen)}"))
            seen += page
        assert [head.run for head in seen] == list("fedcba")


class _Working(Given):
    async def test_a_worker_is_known_until_it_is_discharged(self, store: Store) -> None:
        await store.enlist(WORKER)
        assert await store.worker("worker") == WORKER
        await store.discharge("worker")
        assert await store.worker("worker") is None

    async def test_a_lease_is_renewed_from_any_thread(self, store: Store) -> None:
        await store.enlist(WORKER)
        await asyncio.to_thread(store.renew, "worker", FAR)
        assert await store.worker("worker") == replace(WORKER, until=FAR)

    async def test_renewing_makes_no_worker(self, store: Store) -> None:
        await asyncio.to_thread(store.renew, "worker", FAR)
        assert await store.worker("worker") is None

    async def test_enlisting_again_replaces_what_was_known(self, store: Store) -> None:
        await store.enlist(WORKER)
        await store.enlist(elsewhere := replace(WORKER, host="elsewhere", until=FAR))
        assert await store.worker("worker") == elsewhere


class _Closing(Given):
    async def test_closing_finishes_what_was_accepted(self, store: Store, head: Head) -> None:
        written = [store.append(after(head)), store.append(after(head))]
        await store.close()
        assert [type(await tried(each)) for each in written] == [type(None), StaleEpochError]

    async def test_closing_finishes_a_large_append(self, store: Store, head: Head) -> None:
        written = store.append(large(head, CONTENT))
        await store.close()
        await store.open()
        assert (await tried(written), await store.artifact(digest_of(CONTENT))) == (None, CONTENT)

    async def test_a_closed_store_refuses_every_call(self, store: Store, head: Head) -> None:
        await store.close()
        calls: list[Callable[[], Any]] = [
            lambda: store.start(new_run()), lambda: store.take(RUN, "w", now=NOW), lambda: store.append(after(head)),
            lambda: store.head(RUN), lambda: store.read(RUN), lambda: store.heads(Query()),
            lambda: store.put_chunks(RUN, [chunk(0)], epoch=1), lambda: store.chunks(RUN),
            lambda: store.artifact("0"), store.references, lambda: store.strays(set()),
            lambda: store.append(large(head, CONTENT)),
            lambda: store.send(message()), lambda: store.inbox(RUN), lambda: store.timers(due_until=NOW),
            lambda: store.enlist(WORKER), lambda: store.worker("w"), lambda: store.discharge("w"),
            lambda: asyncio.to_thread(store.renew, "w", NOW),
        ]  # fmt: skip
        assert [type(await called(each)) for each in calls] == [StoreClosedError] * len(calls)

    async def test_closing_twice_is_closing_once(self, store: Store) -> None:
        await store.close()
        await store.close()


class StoreConformance(
    _Starting, _Taking, _Appending, Streaming, _Keeping, _Settling, _Sending, _Listing, _Working, _Closing
):
    """All promises. A subclass says by the fixture `make_store` how a store is made."""

    pytestmark = pytest.mark.anyio
