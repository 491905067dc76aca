"""`list`, `show`, `events`, `head`: what they show, that they change nothing, and that programs can read it."""

import json
import os
import subprocess
import sys
from unittest import mock

import pytest

LOOKING = [("list",), ("show", "bought"), ("events", "bought"), ("head", "bought"), ("verify",), ("resume", "bought")]
RUN_KEYS = {
    "run", "number", "workflow", "state", "reason", "tags", "seq", "hash", "epoch", "owner", "created", "updated",
    "totals",
}  # fmt: skip
EVENT_KEYS = [
    "run", "seq", "type", "time", "step", "attempt", "try", "epoch", "incarnation", "contract", "schema", "reference",
    "hash", "body",
]  # fmt: skip


def ids(ended):
    return [each["run"] for each in ended.objects]


@pytest.mark.parametrize(
    ("words", "found"),
    [
        ((), ["unpaid", "refused", "bought"]),
        (("--state", "paused"), ["unpaid"]),
        (("--state", "failed", "--state", "completed"), ["refused", "bought"]),
        (("--workflow", "buy"), ["bought"]),
        (("--tag", "who=ann"), ["refused", "bought"]),
        (("--tag", "who=ann", "--tag", "day=1"), ["bought"]),
        (("--tag", "who=eve"), []),
    ],
)
def test_list_filters(kept, words, found):
    assert ids(kept.look("list", "--json", *words)) == found


def test_list_pages_by_number(kept):
    first = kept.look("list", "--json", "--limit", "2")
    rest = kept.look("list", "--json", "--limit", "2", "--before", str(first.objects[-1]["number"]))
    assert (ids(first), ids(rest)) == (["unpaid", "refused"], ["bought"])
    assert kept.look("list", "--limit", "2").err == "older ones: --before 2\n"


def test_list_has_stable_keys_and_exact_times(kept):
    run = kept.look("list", "--json", "--workflow", "buy").object
    assert run.keys() == RUN_KEYS
    last = kept.events("bought")[-1]
    assert (run["seq"], run["hash"]) == (last.seq, last.hash.hex())
    assert run["updated"].endswith("Z")
    assert len(run["updated"]) == len("2026-11-30T12:00:00.000000Z")


def test_list_is_a_plain_table_without_colours(kept):
    out = kept.look("list", "--state", "paused").out
    assert "\x1b" not in out
    titles, _, row = out.splitlines()
    assert titles.split() == ["number", "run", "workflow", "state", "events", "created", "updated", "tags"]
    assert row.split()[:6] == ["3", "unpaid", "settle", "paused:", "step_failed", "7"]


def test_a_long_id_is_never_cut(folder):
    long = "x" * 200
    folder("run", folder.shop("buy"), "--id", long, "--input", '{"item": "pear"}')
    assert long in folder.look("list").out.split()
    assert ["run", long] in [line.split() for line in folder.look("show", long).out.splitlines()]


def test_events_prints_every_event_with_its_envelope_and_body(kept):
    found = kept.look("events", "bought", "--json").objects
    recorded = kept.events("bought")
    assert [list(each) for each in found] == [EVENT_KEYS] * len(recorded)
    assert [(each["seq"], each["type"], each["hash"]) for each in found] == [
        (event.seq, event.type, event.hash.hex()) for event in recorded
    ]
    assert found[0]["body"] == {
        "workflow": "buy",
        "input": {"item": "pear", "count": 1},
        "version": recorded[0].body.version,
        "tags": {"who": "ann", "day": "1"},
    }
    assert found[-1]["body"] == {
        "result": {"$": "of", "t": "shop:Order", "v": {"item": "pear", "cents": 20}},
        "annotated": True,
    }


def test_events_is_a_table_for_people(kept):
    rows = [line.split() for line in kept.look("events", "bought").out.splitlines()[2:]]
    assert [(row[0], row[3]) for row in rows] == [(str(e.seq), e.type) for e in kept.events("bought")]


def test_head_prints_what_expect_takes(kept):
    last = kept.events("bought")[-1]
    assert kept.look("head", "bought").out == f"{last.seq}:{last.hash.hex()}\n"
    assert kept.look("head", "bought", "--json").object == {"run": "bought", "seq": last.seq, "hash": last.hash.hex()}


def test_show_is_the_timeline_by_index(kept):
    lines = [line.split() for line in kept.look("show", "bought").out.splitlines()]
    start = next(i for i, line in enumerate(lines) if line[:1] == ["index"])
    assert lines[start] == ["index", "step", "kind", "name", "what", "try", "attempt", "duration", "notes"]
    assert [line[:7] for line in lines[start + 2 : start + 6]] == [
        ["0", "buy", "started"],
        ["1", "0", "tool", "price", "intended", "1", "1"],
        ["2", "0", "tool", "price", "succeeded", "1", "1"],
        ["3", "completed", "1"],
    ]
    assert lines[-1] == ["result", '{"item":"pear","cents":20}']


def test_show_of_a_failed_run_names_the_exception(kept):
    assert kept.look("show", "refused").out.splitlines()[-1].split(maxsplit=1) == [
        "failed",
        "ValueError: kiwi is sold out",
    ]
    error = kept.look("show", "refused", "--json").object["error"]
    assert (error["type"], error["message"]) == ("builtins:ValueError", "kiwi is sold out")


def test_show_of_a_paused_run_says_why_and_what_next(kept):
    pause = kept.look("show", "unpaid", "--json").object["pause"]
    assert (pause["reason"], pause["step"]) == ("step_failed", "1")
    assert "`counterfoil resume unpaid`" in pause["next"]


def test_control_characters_of_a_record_do_not_reach_the_terminal(kept):
    out = kept.look("show", "unpaid").out
    assert "\x1b" not in out
    assert r"ConnectionError: the bank is \x1b[31mclosed\x1b[0m" in out


@pytest.mark.parametrize("words", LOOKING)
def test_looking_makes_no_store(folder, words):
    ended = folder.look(*words)
    assert (ended.code, ended.out, list(folder.path.iterdir())) == (7, "", [])
    assert ended.err.startswith("error[store_missing]: there is no store sqlite:///counterfoil.db\nhint: ")


@pytest.mark.parametrize(("words", "code"), [(("show", "bought"), 0), (("verify",), 2)])
def test_looking_changes_nothing(kept, words, code):
    before = kept.store.read_bytes()
    assert kept(*words).code == code
    assert kept.store.read_bytes() == before
    assert {path.name for path in kept.path.iterdir()} == {"calls", "counterfoil.db"}


@pytest.mark.parametrize("words", [("show", "nobody"), ("resume", "nobody"), ("verify", "nobody")])
def test_a_run_that_is_not_there_is_told(kept, words):
    ended = kept.look(*words, "--json")
    assert (ended.code, ended.out) == (6, "")
    assert ended.said[0]["error"]["code"] == "run_not_found"
    assert ended.said[0]["error"]["facts"] == {"run": "nobody", "store": "sqlite:///counterfoil.db"}


def test_a_foreign_file_is_refused_and_left_as_it_is(folder):
    (folder.path / "notes.db").write_text("not a database, but long enough to be looked at" * 10)
    ended = folder.look("list", "--store", "sqlite:///notes.db")
    assert (ended.code, ended.err.startswith("error[not_a_store]")) == (7, True)
    assert [path.name for path in folder.path.iterdir()] == ["notes.db"]


def test_a_reader_that_goes_away_ends_the_command_quietly(kept):
    read, write = os.pipe()
    os.close(read)
    command = [*kept.command, "events", "bought", "--json"]
    done = subprocess.run(
        command, cwd=kept.path, env=kept.environment, stdout=write, stderr=subprocess.PIPE, check=False
    )
    os.close(write)
    assert (done.returncode, done.stderr) == (141, b"")


@pytest.mark.parametrize(
    "words",
    [("lisst",), ("list", "--limit", "0"), ("list", "--state", "asleep"), ("list", "--tag", "who"), ("show",),
     ("verify", "--expect", "1:00", "bought"), ("list", "--store", "mysql://host/runs")],
)  # fmt: skip
def test_a_wrong_command_line_is_refused(kept, words):
    assert kept.look(*words).code == 64
    ended = kept.look(*words, "--json")
    assert (ended.code, ended.out, list(json.loads(ended.err))) == (64, "", ["error"])


def test_a_bug_of_ours_is_told_without_a_traceback(kept):
    with mock.patch("counterfoil.cli.looking.existing", side_effect=RuntimeError("oh")):
        ended, asked = kept.look("list"), kept.look("list", "--traceback")
    assert (ended.code, ended.err.splitlines()[0]) == (70, "error[internal]: RuntimeError: oh")
    assert ("Traceback" in ended.err, "Traceback" in asked.err) == (False, True)


def test_an_encoding_that_lacks_characters_changes_no_json(folder):
    folder.environment["PYTHONIOENCODING"] = "ascii"
    ended = folder("run", folder.shop("buy"), "--id", "b-1", "--input", '{"item": "péar"}')
    shown = folder("events", "b-1", "--json")
    assert (ended.code, shown.code, shown.objects[0]["body"]["input"]["item"]) == (0, 0, "péar")
    assert folder("show", "b-1").code == 0


@pytest.mark.parametrize("stream", ["stdout", "stderr"])
def test_output_that_cannot_be_written_is_no_bug_of_ours(folder, stream):
    command = [
        sys.executable,
        "-m",
        "counterfoil",
        "run",
        folder.shop("buy"),
        "--input",
        '{"item": "pear"}',
        "--id",
        "b",
    ]
    with open("/dev/full", "w") as full:
        others = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, stream: full}
        done = subprocess.run(command, cwd=folder.path, env=folder.environment, check=False, text=True, **others)
    assert done.returncode == {"stdout": 141, "stderr": 0}[stream]
    assert (done.stderr or "").count("can't be written") == (stream == "stdout")
    assert folder.events("b")[-1].type == "run_completed"
