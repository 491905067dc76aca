"""The two agents are the same program but for the one line that is under test."""

import difflib
from pathlib import Path

from counterfoil import lab
from counterfoil.lab.scenarios import FATES, SCENARIOS

FOLDER = Path(lab.__file__).parent


def changed_lines(mark):
    naive, journaled = (
        (FOLDER / name).read_text(encoding="utf-8").splitlines() for name in ("naive.py", "journaled.py")
    )
    diff = difflib.ndiff(naive, journaled)
    return [line[2:].strip() for line in diff if line.startswith(mark)]


def test_naive_and_journaled_differ_in_exactly_one_line():
    assert changed_lines("-") == ["decision = world.ask(history)"]
    assert changed_lines("+") == ["decision = await ctx.model(world.paid_ask, history)"]


def test_each_scenario_has_a_title_of_its_own():
    assert len({scenario.title for scenario in SCENARIOS}) == len(SCENARIOS)


def test_each_fate_names_a_scenario_that_shows_it():
    killed = {scenario.name for scenario in SCENARIOS if scenario.kill}

    for fate in FATES:
        assert fate.shown_by == "every kill" or any(n in fate.shown_by for n in killed)
