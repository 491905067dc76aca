"""FC-86: a key that a request carries is nowhere in the store, the log, the command line or an error.

Replay still works. The key is not declared. The stub's model answers with it, an exception's text holds it, and so does
what is logged.
"""

import asyncio
import hashlib
import logging
import traceback

import httpx
import openai
import pytest
from click.testing import CliRunner
from tests.integration import asking
from tests.integration.asking import PATH
from tests.integration.http_libraries import MODULES

import counterfoil
from counterfoil import Context, Retry, RunPausedError, workflow
from counterfoil.cli.console import shown
from counterfoil.cli.main import cli
from counterfoil.core.keys import provider_key
from counterfoil.core.scrub import LEARNED_MAX, Scrubber
from counterfoil.stores.memory import MemoryStore
from counterfoil.testing.stubs import StubModel

pytestmark = [pytest.mark.anyio, pytest.mark.sdk]
KEY = "sk-live-0123456789abcdef"
LONG = f"your key is {KEY}, " + "blah " * 4000
BODY = {"json": asking.body()}
CARRIERS = [
    pytest.param({"headers": {"Authorization": f"Bearer {KEY}"}}, id="bearer"),
    pytest.param({"headers": {"Authorization": KEY}}, id="bare authorization"),
    pytest.param({"headers": {"X-Api-Key": KEY}}, id="anthropic"),
    pytest.param({"headers": {"api-key": KEY}}, id="azure"),
    pytest.param({"headers": {"x-goog-api-key": KEY}}, id="gemini"),
    pytest.param({"headers": {"Proxy-Authorization": f"Basic {KEY}"}}, id="proxy"),
    pytest.param({"params": {"key": KEY}}, id="in the address"),
    pytest.param({"json": {"client_secret": KEY}}, id="in a request for a token"),
    pytest.param({"data": {"client_secret": KEY}}, id="in a form"),
]


@pytest.fixture
def stub():
    with StubModel(script=[{"role": "assistant", "content": LONG}]) as stub:
        asking.STUB = stub
        yield stub


async def ask() -> str:
    async with openai.AsyncOpenAI(base_url=f"{asking.STUB.url}/v1", api_key=KEY, max_retries=0) as client:
        made = await client.chat.completions.create(**asking.body())
        return made.choices[0].message.content


async def ask_in_vain() -> None:
    raise ValueError(f"{await ask()} was refused", {"key": KEY})


@workflow(name="test_send_secrets.leaks")
async def leaks(ctx: Context) -> str:
    text = await ctx.model(ask)
    ctx.log(f"said: {text} {KEY}")
    try:
        await ctx.model(ask_in_vain)
    except ValueError as error:
        ctx.log(str(error.args), level="error")
    kept = await ctx.artifact(text.encode(), "text/plain")
    return await ctx.step(str.upper, text) if kept.size_bytes < 10 else text


@pytest.fixture
async def leaked(stub, tmp_path, caplog):
    """The folder of a store in which a run has met the key everywhere, and what it returned."""
    caplog.set_level(logging.INFO, logger="counterfoil")
    async with counterfoil.open(f"sqlite:///{tmp_path / 'runs.db'}") as journal:
        result = await journal.run(leaks, id="r")
        yield tmp_path, result, journal


async def test_no_file_of_the_store_holds_a_key_that_was_only_sent(leaked):
    folder, result, _ = leaked
    files = {path.name: path.read_bytes() for path in folder.rglob("*") if path.is_file()}

    assert {"runs.db", "runs.db-wal"} < files.keys()
    assert len(files) > 3  # artifacts
    assert [name for name, content in files.items() if KEY.encode() in content] == []
    assert result == LONG.replace(KEY, "[secret authorization]")


async def test_no_line_of_the_log_holds_it(leaked, caplog):
    records = caplog.get_records("setup")  # the run is a fixture
    ours = [record.getMessage() for record in records if record.name.startswith("counterfoil")]

    assert len(ours) >= 2
    assert [line for line in ours if KEY in line] == []


@pytest.mark.parametrize(
    "command", [["show", "r"], ["events", "r"], ["--json", "show", "r"], ["--json", "events", "r"]]
)
async def test_the_command_line_does_not_show_it(leaked, command):
    folder, _, journal = leaked
    await journal.close()
    store = f"sqlite:///{folder / 'runs.db'}"
    shown = await asyncio.to_thread(CliRunner().invoke, cli, [*command, "--store", store])

    assert shown.exit_code == 0
    assert KEY not in shown.output
    assert "[secret authorization]" in shown.output


async def test_a_replay_that_has_sent_nothing_yet_ends_the_same_after_every_crash(stub, crashes):
    stub.configure(script=[{"role": "assistant", "content": f"your key is {KEY}"}])
    store = MemoryStore()
    async with counterfoil.open(store) as journal:
        result = await journal.run(leaks, id="r")
        ends = await crashes(leaks, store)

    assert ends == ["your key is [secret authorization]"] * len(ends)
    assert result == ends[0]


async def test_a_step_that_fails_by_it_pauses_without_it(memory_desk, stub):
    @workflow
    async def agent(ctx: Context) -> None:
        await ctx.model(ask_in_vain)

    async with memory_desk.open() as journal:
        with pytest.raises(RunPausedError) as caught:
            await journal.run(agent, id="r")

    said = (
        "".join(traceback.format_exception_only(caught.value)) + str(caught.value.facts) + str(caught.value.__cause__)
    )
    assert KEY not in said
    assert "[secret authorization]" in said


@pytest.mark.parametrize("module", MODULES)
@pytest.mark.parametrize("carrier", CARRIERS)
async def test_whatever_part_of_a_request_carries_the_key_it_is_taken_out(memory_desk, stub, module, carrier):
    async def send() -> str:
        async with module.AsyncClient() as client:
            made = await client.post(f"{asking.STUB.url}{PATH}", **{**BODY, **carrier})
            return f"{made.request.url} {made.request.headers} {KEY}"

    @workflow
    async def agent(ctx: Context) -> str:
        return await ctx.model(send)

    async with memory_desk.open() as journal:
        result = await journal.run(agent, id="r")
        events = await journal.events("r")

    assert KEY not in result
    assert [event.seq for event in events if KEY in str(event.body)] == []


async def test_an_address_in_a_clients_own_error_holds_no_key(memory_desk, stub):
    stub.configure(statuses=[400])

    async def send() -> None:
        async with httpx.AsyncClient() as client:
            made = await client.post(f"{asking.STUB.url}{PATH}?key={KEY}", json=asking.body())
            made.raise_for_status()

    @workflow
    async def agent(ctx: Context) -> None:
        await ctx.with_options(retry=Retry(tries=1)).model(send)

    async with memory_desk.open() as journal:
        with pytest.raises(RunPausedError, match=r"key=\[secret key\]"):
            await journal.run(agent, id="r")


def test_a_key_that_was_learned_is_taken_out_of_outcomes_and_not_of_what_a_replay_compares():
    scrubber = Scrubber()
    scrubber.learn("authorization", KEY)

    assert scrubber.text(KEY) == KEY
    assert scrubber.outcomes.text(KEY) == "[secret authorization]"


def test_of_keys_that_change_with_every_request_the_last_ones_are_known():
    scrubber = Scrubber({"DECLARED": "declared-1"})
    for number in range(LEARNED_MAX + 1):
        scrubber.learn("authorization", f"token-{number:04}-x")

    known = scrubber.outcomes
    assert known.text("token-0000-x") == "token-0000-x"
    assert known.text("token-0001-x token-0256-x declared-1") == (
        "[secret authorization] [secret authorization] [secret DECLARED]"
    )


@pytest.mark.parametrize(
    "key",
    [
        KEY,
        "sk-ant-api03-abcdefghijkl1234",
        "AKIAIOSFODNN7EXAMPLE",
        "ghp_0123456789abcdefghijABCDEFGHIJ012345",
        "github_pat_11AAAAAAA0abcdefghijkl_xyz",
        "AIzaSyA0123456789abcdefghijklmnopqrstuv",
        "xoxb-0123456789-abcdef",
        "hf_0123456789abcdefghijABCDEFGHIJ0123",
    ],
)
def test_what_looks_like_a_key_is_masked_for_a_person(key):
    assert shown(f"it is {key}, see") == f"it is {key[:4]}[masked: looks like a key], see"


@pytest.mark.parametrize("text", ["sk-learn is a package", "task-0123456789abcdefghij", "ghp_short", "AKIA"])
def test_what_only_begins_like_a_key_is_shown(text):
    assert shown(text) == text


# --- what is told of requests and responses that hold one ---

PIN = "pin-4711"


@pytest.fixture
async def told(memory_desk, stub, monkeypatch):
    """What is told of a request with a short secret and a cut parameter in it, and of its response, which echoes it."""
    monkeypatch.setenv("PIN", PIN)
    stub.configure(script=[{"role": "assistant", "content": f"not {PIN}"}])

    async def send() -> str:
        async with httpx.AsyncClient(headers={"User-Agent": "x" * 95 + PIN, "Authorization": KEY}) as client:
            body = asking.body() | {"user": PIN, "metadata": {"note": "x" * 180 + KEY + "y" * 400}}
            return (await client.post(f"{asking.STUB.url}{PATH}", json=body)).text

    @workflow
    async def agent(ctx: Context) -> str:
        return await ctx.model(send)

    async with memory_desk.open(secrets=["PIN"]) as journal:
        result = await journal.run(agent, id="r")
        events = await journal.events("r")
    return events[-2].body.sends[0], result, events[0].hash


def sha256(text: bytes) -> str:
    return hashlib.sha256(text).hexdigest()


async def test_a_digest_is_of_what_was_kept_so_that_nobody_can_test_guesses_of_a_short_secret_with_it(told):
    send, result, _ = told
    assert (b"[secret PIN]" in bytes(send.request), "[secret PIN]" in result) == (True, True)
    assert (send.request_digest, send.request_bytes) == (sha256(bytes(send.request)), len(send.request))
    assert (send.response_digest, send.response_bytes) == (sha256(result.encode()), len(result))


async def test_nor_can_one_with_the_key_of_the_request_which_does_not_hang_on_what_was_learned_either(told):
    send, _, root = told
    as_declared = bytes(send.request).replace(b"[secret authorization]", KEY.encode())
    assert send.key == provider_key(root, "r", 1, step="0", request=("POST", PATH, sha256(as_declared), "1"))


async def test_of_a_secret_that_is_cut_off_no_piece_is_kept(told):
    send, _, _ = told
    assert KEY[:8] not in str(send.answer.parameters)
    assert send.sdk == "x" * 95 + "[secr"
