"""`verify`: what it finds, and what it says it does not prove (J1).

Every forger here has the whole file and takes the triggers away first.
"""

import sqlite3
from contextlib import closing

import msgspec
import pytest

from counterfoil.core import events, integrity
from counterfoil.core.events import RunCompleted, StepSucceeded

REPLACE = "UPDATE events SET envelope = ?, commitment = ?, salt = ?, body = ?, hash = ? WHERE seq = ?"
PEAR = ("--input", '{"item": "pear"}')


@pytest.fixture
def bought(folder):
    """A folder with one completed run, b-1, and a head that was kept."""
    folder("run", folder.shop("buy"), "--id", "b-1", *PEAR)
    return folder


@pytest.fixture
def forge(bought):
    """Run SQL on the store, against its triggers."""

    def change(sql, *rows):
        with closing(sqlite3.connect(bought.store)) as db, db:
            db.execute("DROP TRIGGER IF EXISTS events_are_kept")
            db.execute("DROP TRIGGER IF EXISTS events_are_fixed")
            db.executemany(sql, rows or [()])

    return change


def rows_of(chain):
    return [(r.envelope, r.commitment, r.salt, r.body, r.hash, r.seq) for r in chain]


def replaced(recorded):
    """A whole chain, good in itself, in which the pear was cheaper."""
    chain, previous = [], integrity.ZERO
    for event in recorded:
        body = event.body
        if isinstance(body, StepSucceeded):
            body = msgspec.structs.replace(body, result=msgspec.Raw(b"1"))
        if isinstance(body, RunCompleted):
            body = msgspec.structs.replace(body, result=msgspec.Raw(b'{"item":"pear","cents":1}'))
        parts = (event.seq, events.encode(event.envelope), events.encode(body))
        chain.append(integrity.seal(*parts, salt=bytes(32), previous=previous))
        previous = chain[-1].hash
    return chain


def test_an_intact_run_is_not_anchored_without_a_head_that_was_kept(bought):
    ended = bought.look("verify", "b-1")
    head = bought.look("head", "b-1").out.strip()
    assert (ended.code, ended.out) == (2, f"b-1: intact; 5 events, head {head}\n")
    assert ended.err.startswith("Not proved: that nobody cut off the end of a journal, or replaced it as a whole")


def test_an_intact_run_is_anchored_by_a_head_that_was_kept(bought):
    head = bought.look("head", "b-1").out.strip()
    ended = bought.look("verify", "b-1", "--expect", head)
    assert (ended.code, ended.out) == (0, f"b-1: intact, anchored; 5 events, head {head}\n")
    assert ended.err.startswith("Not proved: that events after the last one given to --expect")


def test_a_whole_chain_that_was_replaced_is_found_only_by_the_head_that_was_kept(bought, forge):
    kept = bought.look("head", "b-1").out.strip()
    forge(REPLACE, *rows_of(replaced(bought.events("b-1"))))
    forge("UPDATE runs SET head = (SELECT hash FROM events WHERE seq = 4)")
    assert bought.look("events", "b-1", "--json").objects[-1]["body"]["result"] == {"item": "pear", "cents": 1}
    plain = bought.look("verify", "b-1", "--json")
    assert (plain.code, plain.object["intact"], plain.object["anchored"]) == (2, True, False)
    anchored = bought.look("verify", "b-1", "--expect", kept, "--json")
    assert (anchored.code, anchored.object["flaws"]) == (
        9,
        [{"seq": 4, "problem": "is not the event that was anchored"}],
    )


def test_an_end_that_was_cut_off_is_found_by_the_head_that_was_kept(bought, forge):
    kept = bought.look("head", "b-1").out.strip()
    before_last = bought.events("b-1")[-2]
    forge(
        "UPDATE runs SET status = 'running', last_seq = ?, head = ?, head_id = head_id - 1",
        (before_last.seq, before_last.hash),
    )
    assert bought.look("verify", "b-1").code == 2
    ended = bought.look("verify", "b-1", "--expect", kept)
    assert (ended.code, ended.out) == (9, "b-1: damaged; 4 events\n  event 4: was anchored, but is not here\n")


@pytest.mark.parametrize(
    "change",
    [
        ("UPDATE events SET body = x'31' WHERE seq = 3", "event 3: its body is not the one that was committed to"),
        ("UPDATE runs SET head = zeroblob(32)", "event 4: the run's row names another event as its last one"),
        ("UPDATE runs SET status = 'failed'", "event 4: the run's row says failed, its events say completed"),
    ],
)
def test_what_was_changed_is_found(bought, forge, change):
    sql, flaw = change
    forge(sql)
    ended = bought.look("verify")
    assert (ended.code, ended.out) == (9, f"b-1: damaged; 5 events\n  {flaw}\n")


def test_an_illegal_transition_is_found_in_a_chain_that_is_good(bought, forge):
    recorded = bought.events("b-1")
    twice = msgspec.structs.replace(recorded[2], envelope=msgspec.structs.replace(recorded[2].envelope, seq=3))
    forge(REPLACE, *rows_of(replaced([*recorded[:3], twice, recorded[4]])))
    forge("UPDATE runs SET head = (SELECT hash FROM events WHERE seq = 4)")
    ended = bought.look("verify", "b-1", "--json")
    (flaw,) = ended.object["flaws"]
    assert (ended.code, flaw["problem"]) == (
        9,
        "run 'b-1': step_intended is not possible while step 0 is open",
    )


def test_all_runs_are_verified_without_an_id(bought):
    bought("run", bought.shop("buy"), "--id", "b-2", *PEAR)
    ended = bought.look("verify", "--json")
    assert (ended.code, [(each["run"], each["intact"]) for each in ended.objects]) == (
        2,
        [("b-2", True), ("b-1", True)],
    )


def test_expect_needs_an_id(bought):
    head = bought.look("head", "b-1").out.strip()
    assert bought.look("verify", "--expect", head).code == 64


@pytest.mark.parametrize(
    ("sql", "looks"),
    [
        ("UPDATE events SET prev = id WHERE seq = 1", [("verify",), ("verify", "b-1")]),
        ("UPDATE runs SET tags = 'x'", [("verify",), ("list",), ("show", "b-1"), ("head", "b-1")]),
        ("UPDATE runs SET status = 'x'", [("verify",), ("list",), ("show", "b-1"), ("head", "b-1")]),
        ("UPDATE runs SET head_id = 99", [("verify",), ("show", "b-1"), ("events", "b-1")]),
        ("DELETE FROM events", [("verify",), ("show", "b-1"), ("events", "b-1")]),
    ],
)
def test_damage_to_a_run_is_damage_and_no_bug_of_ours(bought, forge, sql, looks):
    forge(sql)
    assert {bought.look(*words).code for words in looks} == {9}
    assert bought("run", bought.shop("buy"), "--id", "b-1", *PEAR).code == 9
