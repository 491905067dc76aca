"""The command `lab`: one object a row, a store that stays, and a failure when a count is wrong."""

import dataclasses
import json

import pytest
from click.testing import CliRunner

from counterfoil.cli.main import cli
from counterfoil.lab.command import lab, run_lab
from counterfoil.lab.scenarios import SCENARIOS

FIELDS = {
    "scenario",
    "mode",
    "variant",
    "calls",
    "model_calls",
    "billed_calls",
    "tool_calls",
    "attempts",
    "state",
    "unknown_calls",
}


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """An empty working folder."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


def output_of(*arguments, command=lab):
    result = CliRunner().invoke(command, arguments)
    assert result.exit_code == 0, result.output
    return result.stdout


def test_json_prints_one_object_a_row_and_the_named_scenario_only(folder):
    (line,) = output_of("prompt-changed", "--json").splitlines()

    row = json.loads(line)
    assert row.keys() >= FIELDS
    assert (row["scenario"], row["mode"], row["state"]) == ("prompt-changed", "journaled", "paused")


def test_each_lab_keeps_a_store_of_its_own_and_names_it(folder):
    outputs = [output_of("prompt-changed"), output_of("prompt-changed")]

    for number, output in enumerate(outputs, start=1):
        assert f"--store sqlite:///counterfoil-lab/00{number}.db" in output
        assert (folder / f"counterfoil-lab/00{number}.db").exists()


def test_a_store_given_by_hand_takes_the_same_scenario_twice(folder):
    command = ("prompt-changed", "--json", "--store", "sqlite:///mine.db")
    rows = [json.loads(output_of(*command)), json.loads(output_of(*command))]

    assert [row["run_id"] for row in rows] == ["prompt-changed-journaled", "prompt-changed-journaled-2"]
    assert [row["model_calls"] for row in rows] == [1, 1]


def test_options_before_the_name_of_the_command_count_too_and_the_environment_does_not(folder, monkeypatch):
    monkeypatch.setenv("COUNTERFOIL_STORE", "sqlite:///theirs.db")
    options = ("--json", "--store", "sqlite:///mine.db")
    stores = [json.loads(output_of(*given, command=cli))["store"] for given in (
        (*options, "lab", "prompt-changed"),
        ("--json", "lab", "prompt-changed"),
    )]  # fmt: skip

    assert stores == ["sqlite:///mine.db", "sqlite:///counterfoil-lab/001.db"]


def test_a_wrong_count_fails_and_names_the_row(folder, capsys):
    (scenario,) = (each for each in SCENARIOS if each.name == "prompt-changed")
    wrong = dataclasses.replace(scenario.expected, model_calls=2)
    code = run_lab([dataclasses.replace(scenario, expected=wrong)], "sqlite:///lab.db")

    message = "lab: prompt-changed-journaled: model_calls is 1, expected 2"
    assert (code, capsys.readouterr().err.splitlines()[0]) == (1, message)


def test_an_unknown_scenario_is_refused(folder):
    result = CliRunner().invoke(lab, ["kill-in-space"])

    assert result.exit_code == 2
    assert "kill-in-pause" in result.output
