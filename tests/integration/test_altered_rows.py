"""FC-54, what a store must do: rows altered by hand are found by digest and named, and nothing in them is ever run.

The forger has the whole file. Who only alters a row is found by the chain; who makes the chain anew is refused where
the row says what this release does not know; and whatever a row names, reading it calls nothing.
"""

import asyncio
import contextlib
import pickle
from pathlib import Path

import apsw
import msgspec
import pytest

import counterfoil
from counterfoil import Context, RecordedError, RunPausedError, RunStoppedError, workflow
from counterfoil.cli.main import cli
from counterfoil.cli.outcomes import exit_of
from counterfoil.core import integrity
from counterfoil.core.events import Record
from counterfoil.errors import CounterfoilError
from counterfoil.testing.clock import ManualSystem

pytestmark = pytest.mark.anyio
SMALL, LARGE, OTHER_LARGE = 3, 5, 7
"""Positions of the results that are altered."""

MARKER = "was_run"


class Payload:
    """Pickled, it calls something when it is read."""

    def __reduce__(self):
        return Path(MARKER).touch, ()


def was_run() -> bool:
    return Path(MARKER).exists()


async def make(size: int) -> str:
    return "x" * size


@workflow(name="altered")
async def work(ctx: Context) -> str:
    told = "all is well"
    for size in (5, 20_000, 30_000):
        try:
            await ctx.step(make, size)
        except RecordedError as error:
            told = str(error)
    await ctx.sleep(60)
    return told


@pytest.fixture
def url(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return "sqlite:///runs.db"


@pytest.fixture
async def records(url):
    """The records of a run that waits; the process that drove it was stopped."""
    system = ManualSystem()
    system.hold()
    async with counterfoil.open(url, system=system) as journal:
        run = asyncio.create_task(journal.run(work, id="r"))
        await system.waiting(1)
    with pytest.raises(RunStoppedError):
        await run
    async with counterfoil.open(url) as journal:
        return await journal.store.read("r")


def written(records):
    """Put these records in the place of those that are there, against the triggers."""
    with contextlib.closing(apsw.Connection("runs.db")) as file:
        file.execute("DROP TRIGGER events_are_fixed")
        sql = "UPDATE events SET envelope = ?, commitment = ?, salt = ?, body = ?, hash = ? WHERE seq = ?"
        file.executemany(sql, [(r.envelope, r.commitment, r.salt, r.body, r.hash, r.seq) for r in records])
        file.execute("UPDATE runs SET head = (SELECT hash FROM events WHERE id = head_id)")


def changed(records: list[Record], seq: int, **changes) -> list[Record]:
    return [msgspec.structs.replace(r, **changes) if r.seq == seq else r for r in records]


def chained(records):
    """The same envelopes and bodies, in a chain that is good in itself."""
    chain, previous = [], integrity.ZERO
    for each in records:
        chain.append(integrity.seal(each.seq, each.envelope, each.body, salt=each.salt, previous=previous))
        previous = chain[-1].hash
    return chain


def with_type(record, kind):
    return msgspec.json.encode(msgspec.json.decode(record.envelope) | {"type": kind})


ROWS = {
    "another body": lambda r: (SMALL, {"body": b'{"result":"yyyyy"}'}),
    "a pickle": lambda r: (SMALL, {"body": pickle.dumps(Payload())}),
    "a constructor": lambda r: (SMALL, {"body": b'{"result":{"py/reduce":[{"py/type":"os.system"},["true"]]}}'}),
    "another envelope": lambda r: (SMALL, {"envelope": r[SMALL].envelope.replace(b'"attempt":1', b'"attempt":2')}),
    "an unknown type": lambda r: (SMALL, {"envelope": with_type(r[SMALL], "run_teleported")}),
    "a stub for another artifact": lambda r: (LARGE, {"body": r[OTHER_LARGE].body}),
    "a stub for a small body": lambda r: (SMALL, {"envelope": r[LARGE].envelope, "body": r[LARGE].body}),
    "another commitment": lambda r: (LARGE, {"commitment": r[OTHER_LARGE].commitment}),
    "another hash": lambda r: (LARGE, {"hash": bytes(32)}),
}


@pytest.mark.parametrize("change", ROWS)
async def test_a_row_that_was_altered_is_found_by_digest_and_named(records, url, change):
    seq, changes = ROWS[change](records)
    written(changed(records, seq, **changes))
    async with counterfoil.open(url) as journal:
        with pytest.raises(CounterfoilError) as caught:
            await journal.resume("r")
        found = {flaw.seq for flaw in (await journal.verify("r")).flaws}
    assert (caught.value.code, caught.value.facts["seq"], seq in found) == ("journal_damaged", seq, True)
    assert not was_run()


CHAINS = {
    "an unknown type": (lambda r: {"envelope": with_type(r[SMALL], "run_teleported")}, "journal_unreadable"),
    "a pickle": (lambda r: {"body": pickle.dumps(Payload())}, "journal_unreadable"),
    "a stub that names nothing": (lambda r: {"envelope": r[LARGE].envelope.replace(b'"seq":5', b'"seq":3')},
                                  "journal_unreadable"),
    "a reference to no artifact": (
        lambda r: {"envelope": r[LARGE].envelope.replace(b'"seq":5', b'"seq":3').replace(b'"step":"1"', b'"step":"0"'),
                   "body": b'{"digest":"%s","size_bytes":9}' % (b"0" * 64)}, "artifact_missing"),
}  # fmt: skip


@pytest.mark.parametrize("change", CHAINS)
async def test_a_chain_that_was_made_anew_is_refused_where_it_says_what_nobody_knows(records, url, change):
    changes, code = CHAINS[change]
    written(chained(changed(records, SMALL, **changes(records))))
    async with counterfoil.open(url) as journal:
        with pytest.raises(CounterfoilError) as caught:
            await journal.resume("r")
        verified = await journal.verify("r")
    assert (caught.value.code, caught.value.facts["seq"], verified.is_intact) == (code, SMALL, False)
    assert not was_run()


async def test_a_chain_made_anew_that_no_owner_could_have_written_is_damaged(records, url):
    with_a_step = records[1].envelope.replace(b'"attempt":1', b'"attempt":1,"step":"0"')
    written(chained(changed(records, 1, envelope=with_a_step)))
    async with counterfoil.open(url) as journal:
        with pytest.raises(CounterfoilError) as caught:
            await journal.resume("r")
    assert (caught.value.code, int(exit_of(caught.value))) == ("journal_damaged", 9)


TAGS = [b'{"$":"pickle","v":"gASVAAAA"}', b'{"$":"object","v":{"type":"os:system","args":["touch was_run"]}}']


@pytest.mark.parametrize("value", TAGS, ids=["pickle", "object"])
async def test_an_unknown_form_of_a_value_is_refused_and_nothing_weaker_is_tried(records, url, value):
    written(chained(changed(records, SMALL, body=b'{"result":%s}' % value)))
    async with counterfoil.open(url) as journal:
        with pytest.raises(RunPausedError) as caught:
            await journal.resume("r")
    assert caught.value.reason == "not_readable"
    assert not was_run()


@pytest.mark.parametrize("named", ["os:system", "subprocess:Popen", "builtins:eval", "pathlib:Path.touch"])
async def test_a_recorded_failure_that_names_no_exception_builds_nothing(records, url, named):
    error = {"type": named, "message": "m", "args": ["touch was_run"], "attributes": {"shell": True}}
    body, envelope = msgspec.json.encode({"error": error}), with_type(records[SMALL], "step_failed")
    written(chained(changed(records, SMALL, envelope=envelope, body=body)))
    async with counterfoil.open(url, system=ManualSystem()) as journal:
        told = await journal.resume("r")  # the step's exception, as the workflow caught it
    assert told.endswith(": m")
    assert not was_run()


LOOKS = [["show", "r"], ["events", "r"], ["events", "r", "--json"], ["verify"], ["doctor"], ["list"], ["head", "r"]]


@pytest.mark.parametrize("body", [pickle.dumps(Payload()), *(b'{"result":%s}' % tag for tag in TAGS)],
                         ids=["pickle", "tag", "object"])  # fmt: skip
async def test_looking_at_altered_rows_runs_nothing(records, body):
    written(chained(changed(records, SMALL, body=body)))
    codes = {" ".join(words): await asyncio.to_thread(looked, words) for words in LOOKS}
    assert (codes["list"], codes["head r"], set(codes.values()) <= {0, 2, 9}) == (0, 0, True)
    assert not was_run()


def looked(words):
    """The exit code of a command that looks."""
    try:
        return int(cli.main([*words, "--store", "sqlite:///runs.db"], standalone_mode=False))
    except CounterfoilError as error:
        return int(exit_of(error))


@pytest.mark.usefixtures("url")
def test_the_payload_of_these_tests_does_run_when_it_is_unpickled():
    pickle.loads(pickle.dumps(Payload()))
    assert was_run()
