"""Kills and signals, for real: what is recorded is not obtained again, and what is lost is told (J2, J4, J5, J7)."""

import shlex
import signal
from unittest.mock import ANY

import pytest

QUESTION = ("--input", '{"question": "Pears?"}')
PEAR = ("--input", '{"item": "pear"}')
NAP = ("--input", '{"seconds": 1.5}')


def test_a_run_killed_in_a_model_call_goes_on_by_the_same_command_and_tells_of_the_lost_call(folder, stub):
    stub.configure(delays=[60.0], script=["final"])
    command = ("run", folder.shop("consult"), "--id", "c-1", *QUESTION)
    live = folder.start(*command)
    stub.wait_for(lambda log: len(log) == 1)
    live.kill()  # one model call sent, its answer lost
    ended = folder(*command)
    assert (ended.code, folder.calls) == (0, {"price": 1})
    assert [call.kind for call in stub.log] == ["model"] * 3  # the lost one, its repeat, the second question
    assert "step 0  model ask  try 1 of attempt 1: sent, outcome unknown\n" in ended.err
    summary = folder.look("show", "c-1", "--json").object["summary"]
    assert (summary["unknown_calls"], summary["unknown_cost_usd"], summary["attempts"]) == (1, 0.02, 2)


def test_a_run_killed_after_a_recorded_call_is_resumed_from_there_and_nothing_is_called_twice(folder):
    folder.touch("hold")
    live = folder.start("run", folder.shop("reserve"), "--id", "r-1", *PEAR)
    folder.wait_for(lambda: "hold_on" in folder.calls)
    live.kill()  # price recorded; hold_on begun, without an outcome
    folder.remove("hold")
    ended = folder("resume", "r-1", folder.shop("reserve"), "--json")
    assert (ended.code, ended.object) == (0, {"item": "pear", "cents": 40})
    assert folder.calls == {"price": 2, "hold_on": 2}  # price before and after the held step: once each


def test_show_marks_where_replay_ended_and_live_began(folder):
    folder.touch("hold")
    live = folder.start("run", folder.shop("reserve"), "--id", "r-1", *PEAR)
    folder.wait_for(lambda: "hold_on" in folder.calls)
    folder.wait_for(lambda: folder.types("r-1")[-1:] == ["step_intended"])
    live.kill()
    folder.remove("hold")
    folder("resume", "r-1", folder.shop("reserve"))
    rows = [line.split()[:6] for line in folder.look("show", "r-1").out.splitlines()]
    start = rows.index(["0", "reserve", "started"])
    entries = [row for row in rows[start:] if row[:1] == ["--"] or row[:1] < ["9"]]
    assert entries[3:6] == [
        ["3", "1", "tool", "hold_on", "intended", "1"],
        ["--", "attempt", "2:", "replay", "ended,", "live"],
        ["4", "1", "tool", "hold_on", "succeeded", "2"],
    ]
    assert [row for row in rows if row[:1] == ["saved"]] == [["saved", "1", "call", "and", ANY, "s:"]]


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_in_a_pause_leaves_the_run_resumable_by_the_command_that_it_prints(folder, number, code):
    live = folder.start("run", folder.shop("nap"), "--id", "n-1", *NAP)
    folder.wait_for(lambda: "timer_set" in folder.types("n-1"))
    live.send(number)
    ended = live.end()
    assert (ended.code, ended.out, folder.types("n-1")[-1]) == (code, "", "run_suspended")
    assert ended.err.splitlines()[-2] == f"stopped by {number.name}; all that is recorded is kept. To go on:"
    again = folder(*shlex.split(ended.err.splitlines()[-1])[1:])
    assert (again.code, again.out, folder.calls) == (0, "55\n", {"price": 2})


def test_a_step_under_way_may_finish_after_a_signal(folder):
    folder.touch("hold")
    live = folder.start("run", folder.shop("reserve"), "--id", "r-1", *PEAR)
    folder.wait_for(lambda: "hold_on" in folder.calls)
    live.send(signal.SIGINT)
    folder.remove("hold")
    assert live.end().code == 130
    assert folder.types("r-1")[-2:] == ["step_succeeded", "run_suspended"]
    assert folder("resume", "r-1", folder.shop("reserve")).code == 0
    assert folder.calls == {"price": 2, "hold_on": 1}


def test_a_second_signal_cuts_the_step_under_way(folder):
    folder.touch("hold")
    live = folder.start("run", folder.shop("reserve"), "--id", "r-1", *PEAR, "--grace", "600")
    folder.wait_for(lambda: "step_intended" in folder.types("r-1")[-1:])
    live.send(signal.SIGINT)
    live.send(signal.SIGTERM)
    assert live.end().code == 130
    folder.remove("hold")
    assert folder("resume", "r-1", folder.shop("reserve")).code == 0
    assert folder.calls == {"price": 2, "hold_on": 2}  # the cut one, and its repeat


def test_a_third_signal_ends_a_process_whose_code_does_not_let_go(folder):
    folder.touch("hold")
    live = folder.start("run", folder.shop("block"), "--id", "b-1")
    folder.wait_for(lambda: "block" in folder.calls)
    live.send(signal.SIGINT)
    live.send(signal.SIGTERM)
    folder.wait_for(lambda: live.process.poll() is not None or live.send(signal.SIGINT))
    assert live.end().code == -signal.SIGINT
    folder.remove("hold")
    assert folder("run", folder.shop("block"), "--id", "b-1").out == '"unblocked"\n'


def test_a_run_that_another_process_drives_is_waited_for_by_run_and_refused_by_resume(folder):
    folder.touch("hold")
    live = folder.start("run", folder.shop("reserve"), "--id", "r-1", *PEAR)
    folder.wait_for(lambda: "hold_on" in folder.calls)
    refused = folder("resume", "r-1", folder.shop("reserve"), "--json")
    assert (refused.code, refused.said[-1]["error"]["code"]) == (8, "run_owned")
    waiting = folder.start("run", folder.shop("reserve"), "--id", "r-1", *PEAR)
    assert waiting.process.stderr.readline() == "run r-1\n"
    folder.remove("hold")
    assert (waiting.end().out, folder.calls) == (live.end().out, {"price": 2, "hold_on": 1})


def test_a_signal_to_one_who_only_waits_leaves_the_run_to_its_driver(folder):
    folder.touch("hold")
    live = folder.start("run", folder.shop("reserve"), "--id", "r-1", *PEAR)
    folder.wait_for(lambda: "hold_on" in folder.calls)
    waiting = folder.start("run", folder.shop("reserve"), "--id", "r-1", *PEAR)
    assert waiting.process.stderr.readline() == "run r-1\n"
    waiting.send(signal.SIGTERM)
    assert waiting.end().code in {143, -signal.SIGTERM}
    folder.remove("hold")
    assert (live.end().code, folder.calls) == (0, {"price": 2, "hold_on": 1})


def test_changed_code_pauses_before_any_call_and_show_has_the_facts(folder, stub):
    stub.configure(delays=[0.0, 60.0], script=["final"])
    live = folder.start("run", folder.shop("consult"), "--id", "c-1", *QUESTION)
    stub.wait_for(lambda log: len(log) == 2)
    live.kill()
    folder.environment["PROMPT"] = "Be verbose."
    ended = folder("run", folder.shop("consult"), "--id", "c-1", *QUESTION)
    assert (ended.code, len(stub.log), folder.calls) == (3, 2, {"price": 1})
    pause = folder.look("show", "c-1", "--json").object["pause"]
    assert (pause["reason"], pause["facts"]["step"], pause["facts"]["differences"]) == (
        "input_mismatch",
        "0",
        [{"pointer": "/prompt", "recorded": '"Be brief. Pears?"', "attempted": '"Be verbose. Pears?"'}],
    )
    shown = folder.look("show", "c-1").out
    assert 'differs    /prompt: recorded "Be brief. Pears?", attempted "Be verbose. Pears?"\n' in shown
