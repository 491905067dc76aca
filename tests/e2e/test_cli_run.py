"""`run` and `resume`: what they print, and with which code they end (J2: what is recorded is not obtained twice)."""

import json
import os
import pty
import subprocess

import pytest

ITEM = ("--input", '{"item": "pear"}')


def test_run_tells_the_id_then_the_progress_then_prints_the_recorded_result(folder):
    ended = folder("run", folder.shop("buy"), "--id", "b-1", *ITEM)
    assert (ended.code, ended.out) == (0, '{\n  "item": "pear",\n  "cents": 20\n}\n')
    first, second = ended.err.splitlines()
    assert (first, second.rsplit("  ", 1)[0]) == ("run b-1", "step 0  tool price")


def test_the_same_command_again_prints_the_same_and_calls_nothing(folder):
    first = folder("run", folder.shop("buy"), "--id", "b-1", *ITEM)
    again = folder("run", folder.shop("buy"), "--id", "b-1", *ITEM)
    assert (again.code, again.out, again.err) == (0, first.out, "run b-1\n")
    assert folder.calls == {"price": 1}


def test_with_json_both_outputs_are_json_lines(folder):
    ended = folder("run", folder.shop("buy"), "--id", "b-1", *ITEM, "--json")
    assert (ended.code, ended.object, ended.said) == (0, {"item": "pear", "cents": 20}, [{"run": "b-1"}])


def test_quiet_tells_only_the_id(folder):
    assert folder("run", folder.shop("buy"), "--id", "b-1", *ITEM, "--quiet").err == "run b-1\n"


def test_without_an_id_a_new_one_is_told_and_names_the_run(folder):
    (told,) = folder("run", folder.shop("buy"), *ITEM, "--json").said
    assert folder.look("head", told["run"], "--json").object["run"] == told["run"]


@pytest.mark.parametrize("given", ["-", "@order.json", '{"item": "pear", "count": 2}'])
def test_input_is_text_or_a_file_or_standard_input(folder, given):
    text = '{"item": "pear", "count": 2}'
    (folder.path / "order.json").write_text(text)
    ended = folder("run", folder.shop("buy"), "--input", given, "--json", stdin=text)
    assert (ended.code, ended.object) == (0, {"item": "pear", "cents": 40})


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        ('{"thing": "pear"}', ("input_invalid", "(item: str, count: int = 1)")),
        ('{"item": 5}', ("input_invalid", "Expected `str`, got `int`")),
        ("{}", ("input_invalid", "'item'")),
        ("[1]", ("input_unreadable", "it is not a JSON object")),
        ("{item: pear}", ("input_unreadable", "it is not JSON")),
        ('{"item": NaN}', ("input_unreadable", "NaN is not a JSON value")),
        ("@absent.json", ("input_unreadable", "No such file")),
    ],
)
def test_input_that_does_not_fit_is_refused_and_nothing_is_recorded(folder, given, problem):
    code, words = problem
    ended = folder("run", folder.shop("buy"), "--id", "b-1", "--input", given)
    assert (ended.code, ended.out) == (64, "")
    assert f"error[{code}]" in ended.err
    assert words in ended.err
    assert folder.events("b-1") == []


def test_a_failed_run_names_the_exception_without_a_traceback(folder):
    ended = folder("run", folder.shop("refuse"), "--id", "r-1", *ITEM, "--quiet")
    assert (ended.code, ended.out) == (1, "")
    assert ended.err.splitlines() == [
        "run r-1",
        "error[run_failed]: run 'r-1' failed: ValueError: pear is sold out",
        "hint: The record is final. Start the work again under a new id once the cause is mended.",
    ]


def test_the_traceback_of_a_failed_run_is_shown_when_asked_for_also_later(folder):
    folder("run", folder.shop("refuse"), "--id", "r-1", *ITEM)
    later = folder("resume", "r-1", "--traceback")
    assert later.code == 1
    assert 'raise ValueError(f"{item} is sold out")' in later.err


def test_another_input_under_the_same_id_is_a_conflict_and_changes_nothing(folder):
    folder("run", folder.shop("buy"), "--id", "b-1", *ITEM)
    before = folder.events("b-1")
    ended = folder("run", folder.shop("buy"), "--id", "b-1", "--input", '{"item": "plum"}', "--json")
    assert (ended.code, ended.said[-1]["error"]["code"]) == (5, "run_conflict")
    assert (folder.events("b-1"), folder.calls) == (before, {"price": 1})


def test_a_step_that_fails_pauses_the_run_and_resume_tries_that_step_alone_again(folder):
    paused = folder("run", folder.shop("settle"), "--id", "s-1")
    assert (paused.code, paused.out, folder.calls) == (3, "", {"price": 1, "pay": 1})
    assert f"To go on:\n  counterfoil resume s-1 {folder.shop('settle')}\n" in paused.err
    folder.touch("mended")
    resumed = folder("resume", "s-1", folder.shop("settle"), "--why", "the bank is open")
    assert (resumed.code, resumed.out, folder.calls) == (0, '"paid 20"\n', {"price": 1, "pay": 2})


def test_resume_takes_the_workflow_that_is_recorded_from_a_file_with_several(folder):
    folder("run", folder.shop("settle"), "--id", "s-1")
    folder.touch("mended")
    assert folder("resume", "s-1", folder.shop("settle").removesuffix(":settle")).out == '"paid 20"\n'


def test_resume_of_another_workflow_is_a_conflict(folder):
    folder("run", folder.shop("settle"), "--id", "s-1")
    assert folder("resume", "s-1", folder.shop("buy")).code == 5
    assert folder.calls == {"price": 1, "pay": 1}


def test_resume_without_a_file_says_how(folder):
    folder("run", folder.shop("settle"), "--id", "s-1")
    ended = folder("resume", "s-1")
    assert ended.code == 65
    assert "hint: Import the module that defines it, or name the file: `counterfoil resume s-1 FILE.py`." in ended.err


def test_a_workflow_that_exits_leaves_its_run_resumable(folder):
    ended = folder("run", folder.shop("leave"), "--id", "l-1", "--quiet")
    assert (ended.code, ended.err.splitlines()[1]) == (
        4,
        "error[run_stopped]: run 'l-1' was left where it is: the workflow's code called sys.exit(3)",
    )
    folder.touch("mended")
    assert (folder("run", folder.shop("leave"), "--id", "l-1").out, folder.calls) == ("null\n", {"price": 1})


def test_a_declared_secret_is_not_written(folder):
    folder.environment["SHOP_KEY"] = "pears-and-plums"
    folder("run", folder.shop("buy"), "--secret", "SHOP_KEY", "--input", '{"item": "pears-and-plums"}')
    assert b"pears-and-plums" not in folder.store.read_bytes()


def test_a_secret_that_is_not_set_is_refused(folder):
    assert folder("run", folder.shop("buy"), "--secret", "SHOP_KEY", *ITEM).code == 64


def test_the_tags_are_kept(folder):
    folder("run", folder.shop("buy"), *ITEM, "--tag", "who=ann", "--tag", "note=a=b")
    assert folder.look("list", "--json").object["tags"] == {"who": "ann", "note": "a=b"}


def test_the_stores_url_comes_from_the_option_before_or_after_or_the_environment(folder):
    folder.environment["COUNTERFOIL_STORE"] = "sqlite:///env.db"
    for number, words in enumerate(((), ("--store", "sqlite:///one.db"))):
        folder("run", folder.shop("buy"), "--id", f"b-{number}", *ITEM, *words)
    folder("--store", "sqlite:///two.db", "run", folder.shop("buy"), "--id", "b-2", *ITEM)
    made = {name: folder.look("list", "--json", "--store", f"sqlite:///{name}.db") for name in ("env", "one", "two")}
    assert {name: json.loads(ended.out)["run"] for name, ended in made.items()} == {
        "env": "b-0", "one": "b-1", "two": "b-2",
    }  # fmt: skip


def test_on_a_terminal_a_live_line_says_what_is_under_way(folder):
    folder.touch("hold")
    ours, theirs = pty.openpty()
    command = [*folder.command, "run", folder.shop("reserve"), "--id", "r-1", *ITEM]
    streams = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": theirs}
    with subprocess.Popen(command, cwd=folder.path, env=folder.environment | {"TERM": "xterm"}, **streams) as process:
        os.close(theirs)
        seen = b""
        while b"step 1  tool hold_on" not in seen:
            seen += os.read(ours, 4096)
        folder.remove("hold")
        assert json.loads(process.stdout.read()) == {"item": "pear", "cents": 40}
    assert b"step 0  tool price  " in seen
    os.close(ours)
