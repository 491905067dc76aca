"""What a run came to, as the commands tell it: a real client, killed in a call whose answer is lost, and resumed."""

import re
from pathlib import Path

import pytest
from tests.e2e.conftest import Folder

from counterfoil.testing.stubs import StubModel

PAYER = Path(__file__).parent / "agents" / "payer.py"
USAGE = {"prompt_tokens": 1200, "completion_tokens": 80}
PRICED, UNPRICED = "gpt-4o-2024-08-06", "a model of nobody's"


@pytest.fixture(scope="module")
def paid(tmp_path_factory: pytest.TempPathFactory) -> Folder:
    """A folder with one run of each model; each asked five times: refused, answered, killed in, and answered."""
    folder = Folder(tmp_path_factory.mktemp("paid"))
    for run, model in (("priced", PRICED), ("unpriced", UNPRICED)):
        plan = {"statuses": [503], "retry_afters": ["0.001"], "delays": [0, 0, 60], "usages": [USAGE] * 4}
        with StubModel(script=["final"], **plan) as stub:
            folder.environment["STUB"] = stub.url
            command = ("run", f"{PAYER}:pay", "--id", run, "--input", f'{{"model": "{model}"}}')
            live = folder.start(*command)
            stub.wait_for(lambda log: len(log) == 3)
            live.kill()  # the second call's intent is on disk, its answer lost
            assert folder(*command).code == 0
            assert len(stub.log) == 4
    return folder


def test_figures_are_exact(paid):
    priced, unpriced = (paid.look("show", run, "--json").object["totals"] for run in ("priced", "unpriced"))
    call = {"calls": 1, "input_tokens": 1200, "output_tokens": 80, "cost_usd": 0.0038, "unpriced": 0}
    assert {**priced, "prices": [name.split()[0] for name in priced["prices"]]} == {
        "requests": 4,
        "spent": {**call, "calls": 2, "input_tokens": 2400, "output_tokens": 160, "cost_usd": 0.0076},
        "lost": {"calls": 1, "worst_cost_usd": 0.02},
        "saved": call,
        "prices": ["genai-prices"],
    }
    assert unpriced["spent"] == {
        **call,
        "calls": 2,
        "input_tokens": 2400,
        "output_tokens": 160,
        "cost_usd": None,
        "unpriced": 2,
    }


def test_the_list_has_the_figures_of_each_run_without_reading_its_journal(paid):
    rows = [run["totals"] for run in paid.look("list", "--json").objects]
    assert rows == [paid.look("show", run, "--json").object["totals"] for run in ("unpriced", "priced")]


def test_show_has_a_line_of_what_was_spent_lost_and_saved(paid):
    (version,) = paid.look("show", "priced", "--json").object["totals"]["prices"]
    lines = {run: _line(paid.look("show", run).out, "spent") for run in ("priced", "unpriced")}
    assert lines == {
        "priced": f"$0.0076 (2 calls in 4 requests, 2,400 in, 160 out; prices: {version}) · "
        "lost 1 call, at most $0.02 · saved by replay $0.0038 (1 call)",
        "unpriced": "no price (2 calls in 4 requests, 2,400 in, 160 out) · "
        "lost 1 call, at most $0.02 · saved by replay no price (1 call)",
    }


def test_show_has_each_answers_model_tokens_and_cost_and_the_requests_of_a_client_that_asked_again(paid):
    out = paid.look("show", "priced").out
    assert out.count(f"{PRICED}, 1,200 in, 80 out, $0.0038, stop\n") == 2
    assert out.count("2 sends: HTTP 503, HTTP 200\n") == 1


def test_list_has_columns_of_tokens_and_money(paid):
    titles, _, *rows = (re.split(r"  +", line) for line in paid.look("list").out.splitlines())
    assert titles[5:7] == ["tokens in + out", "spent"]
    assert [row[5:7] for row in rows] == [["2,400 + 160", "no price"], ["2,400 + 160", "$0.0076"]]


def test_a_run_that_asked_no_model_has_no_such_columns_and_no_such_line(kept):
    assert "spent" not in kept.look("list").out + kept.look("show", "refused").out


def _line(out: str, name: str) -> str:
    (line,) = (line for line in out.splitlines() if line.startswith(f"{name} "))
    return line.removeprefix(name).strip()
