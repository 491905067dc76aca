"""All requests pass through one method, which is replaced once; a client that a step itself imports is covered too."""

import subprocess
import sys
import types

import pytest
from tests.integration.http_libraries import LIBRARIES, MODULES

from counterfoil.engine import seam

LATE = """
import sys
import counterfoil
from counterfoil import Context, workflow

assert not {"httpx", "httpx2", "openai"} & sys.modules.keys()

def ask() -> int:
    import MODULE
    answers = MODULE.MockTransport(lambda request: MODULE.Response(200, json=dict(request.headers)))
    with MODULE.Client(transport=answers) as client:
        return len(client.post("http://stub/v1", json={}).json()["idempotency-key"])

@workflow
async def agent(ctx: Context) -> int:
    return await ctx.model(ask)

print(counterfoil.run_sync(agent, store="memory://"))
"""
CLASSES = [(module, kind) for module in LIBRARIES for kind in (module.Client, module.AsyncClient)]


@pytest.mark.parametrize("module", MODULES)
def test_a_module_that_is_first_imported_in_a_step_is_covered_in_it(module):
    done = subprocess.run(
        [sys.executable, "-c", LATE.replace("MODULE", module.__name__)],
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    assert done.stdout.split() == [str(len("cf-") + 32)]


@pytest.mark.parametrize(("module", "kind"), CLASSES)
def test_the_modules_have_the_one_method_that_all_requests_come_to(module, kind):
    assert callable(kind._send_single_request)


@pytest.mark.parametrize(("module", "kind"), CLASSES)
def test_it_is_replaced_only_once(module, kind):
    seam.cover()
    before = kind._send_single_request
    seam.cover()

    assert kind._send_single_request is before
    assert not hasattr(before.__wrapped__, "__wrapped__")


def test_where_a_release_has_no_such_method_the_public_one_is_replaced(monkeypatch):
    monkeypatch.setattr(seam, "_covered", set(seam._covered))
    kinds = {name: type(name, (), {"send": lambda self, request: "sent"}) for name in ("Client", "AsyncClient")}
    streams = {name: type(name, (), {}) for name in ("SyncByteStream", "AsyncByteStream", "Response")}
    seam._cover("other", types.SimpleNamespace(**kinds, **streams))

    assert kinds["Client"].send.__wrapped__(None, None) == "sent"
    assert kinds["Client"]().send("request") == "sent"  # outside of a step it does nothing
