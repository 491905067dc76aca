"""FC-03: a client's own repeat is on disk before it leaves, so a kill leaves no request uncounted (J4).

The stub does the work, and holds its answers back: the first request times out at the client, which repeats it by
itself, and the process is killed in that second one. So 2 requests before the kill, and 1 after it, all under one key.
"""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import counterfoil
from counterfoil.testing.stubs import StubModel, billed

HELD = 60.0
AGENT = Path(__file__).with_name("asker.py")


@pytest.fixture
def agent(tmp_path):
    """Starts a process that drives the run."""

    def begin(stub):
        store = f"sqlite:///{tmp_path / 'runs.db'}"
        command = [sys.executable, "-m", "counterfoil", "run", f"{AGENT}:asker", "--id", "r", "--store", store]
        given = ["--input", json.dumps({"question": "Is it raining?"})]
        return subprocess.Popen([*command, *given], env={**os.environ, "STUB": stub.url}, stderr=subprocess.DEVNULL)

    return begin


@pytest.mark.anyio
@pytest.mark.sdk
async def test_a_kill_in_a_clients_own_repeat_leaves_both_requests_on_record_and_a_third_under_their_key(
    agent, tmp_path
):
    with StubModel(script=["final"], delays=[HELD, HELD], honours_keys=True) as stub:
        first = agent(stub)
        stub.wait_for(lambda log: len(log) == 2, timeout=60)
        first.send_signal(signal.SIGKILL)
        first.wait()
        assert agent(stub).wait(60) == 0
        log = stub.log
    async with counterfoil.open(f"sqlite:///{tmp_path / 'runs.db'}") as journal:
        events = await journal.events("r")

    (unknown,) = (event.body for event in events if event.type == "outcome_unknown")
    assert unknown.calls == 2
    assert [event.body.before for event in events if event.type == "step_dispatched"] == ["ReadTimeout"]
    assert (len(log), len({call.key for call in log}), billed(log)) == (3, 1, 1)
