"""Each scenario is run once, by real processes and real kills; the tests read what came out."""

import pytest

from counterfoil.lab.runner import Pace, run_scenario
from counterfoil.lab.scenarios import SCENARIOS, Moment

SHORT = Pace(pause=0.05, into_call=0.05)
KILLED_IN_PAUSE = Pace(pause=2.0)  # long enough to be killed in, on a busy computer too


@pytest.fixture(scope="session")
def row_of(tmp_path_factory):
    """A function that returns the row of a scenario by its title, and runs it at first use."""
    store = f"sqlite:///{tmp_path_factory.mktemp('lab') / 'lab.db'}"
    scenarios = {scenario.title: scenario for scenario in SCENARIOS}
    rows = {}

    def run_once(title):
        if title not in rows:
            scenario = scenarios[title]
            pace = KILLED_IN_PAUSE if scenario.kill is Moment.IN_PAUSE else SHORT
            rows[title] = run_scenario(scenario, store, pace)
        return rows[title]

    return run_once
