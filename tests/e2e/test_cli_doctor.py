"""`doctor`: what it says of lost artifacts, what needs them, and what a crash left behind (J10)."""

import json

import pytest

LONG = "x" * 20_000
WHAT = ("--input", json.dumps({"item": LONG}))
KEPT = 5
"""Artifacts of the two runs below, which begin with the same step: that one they have in common."""


@pytest.fixture
def stocked(folder):
    """A folder with a run that has ended and one that is paused, both with an item too large for the journal."""
    folder("run", folder.shop("buy"), "--id", "bought", *WHAT)
    folder("run", folder.shop("ship"), "--id", "unpaid", *WHAT)
    return folder


def lost(folder):
    return folder.look("doctor", "--json").object["losses"]


def files(folder):
    return sorted(path for path in (folder.path / "counterfoil.db-artifacts").rglob("*") if path.is_file())


def test_a_whole_store_is_said_to_be_whole(stocked):
    ended = stocked.look("doctor")
    count, size = len(files(stocked)), sum(path.stat().st_size for path in files(stocked))
    assert (ended.code, ended.out) == (0, f"{count} artifacts, {size} bytes: 0 missing or altered\n")
    assert count == KEPT


def test_a_store_without_artifacts_is_whole(kept):
    ended = kept.look("doctor")
    assert (ended.code, ended.out) == (0, "0 artifacts, 0 bytes: 0 missing or altered\n")


def test_what_is_lost_is_named_with_what_needs_it_and_what_for(stocked):
    for path in files(stocked):
        path.unlink()
    ended = stocked.look("doctor", "--json")
    needs = {(each["run"], each["seq"], each["step"], each["state"], each["needed_for"]) for each in lost(stocked)}
    assert (ended.code, ended.object["whole"], {each["problem"] for each in lost(stocked)}) == (9, False, {"missing"})
    assert needs == {
        ("bought", 0, None, "completed", "history"), ("bought", 2, "0", "completed", "history"),
        ("bought", 4, None, "completed", "outcome"), ("unpaid", 0, None, "paused", "replay"),
        ("unpaid", 2, "0", "paused", "replay"), ("unpaid", 4, "1", "paused", "replay"),
    }  # fmt: skip


def test_a_person_is_told_what_a_loss_means(stocked):
    for path in files(stocked):
        path.write_bytes(b"altered")
    said = stocked.look("doctor").out
    assert "5 missing or altered" in said
    assert "    unpaid, event 2, step 0: paused; it can't go on until the artifact is restored\n" in said
    assert "    bought, event 4: completed; how it ended can't be told until the artifact is restored\n" in said
    assert "    bought, event 0: completed; its outcome is there, its history has a gap\n" in said


def test_what_belongs_to_no_event_is_counted_and_harmless(stocked):
    stray = files(stocked)[0].with_name("left by a crash")
    stray.write_bytes(b"12345")
    ended = stocked.look("doctor")
    assert (ended.code, ended.out.splitlines()[-1]) == (0, "1 file that no event names, 5 bytes: harmless")
    assert stray.exists()


@pytest.mark.parametrize(
    "words", [("show",), ("events",), ("events", "--json"), ("verify",), ("resume",)], ids=" ".join
)
def test_a_run_that_lost_an_artifact_is_an_error_without_a_traceback(stocked, words):
    for path in files(stocked):
        path.unlink()
    command, *options = words
    target = [stocked.shop("ship")] if command == "resume" else []
    ended = stocked(command, "unpaid", *target, *options)
    assert (ended.code, "missing" in ended.err + ended.out) == (9, True)
    assert "Traceback" not in ended.err + ended.out


def test_the_list_and_the_runs_that_lost_nothing_are_untouched(stocked):
    stocked("run", stocked.shop("buy"), "--id", "small", "--input", '{"item": "pear"}')
    for path in files(stocked):
        path.unlink()
    assert [each["run"] for each in stocked.look("list", "--json").objects] == ["small", "unpaid", "bought"]
    assert (stocked.look("show", "small").code, stocked.look("verify", "small").code) == (0, 2)
