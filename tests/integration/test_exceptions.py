"""An exception is the same live and on every replay, and readable where its library is not. J2, J6; FC-37, FC-49."""

import asyncio
import json
import os
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import httpx
import openai
import pytest

from counterfoil import Context, RecordedError, Retry, RunFailedError, RunPausedError, register, workflow
from counterfoil.core import registry
from counterfoil.core.clock import SECOND
from counterfoil.core.events import RetrySet
from counterfoil.testing.clock import START

pytestmark = pytest.mark.anyio
HERE = Path(__file__).parent


# --- in this process: live, and by a second journal ---


class DeclinedError(Exception):
    def __init__(self, *, code: int) -> None:
        super().__init__(f"declined: {code}")
        self.number = code


class SlottedError(Exception):
    __slots__ = ("number",)

    def __init__(self, number: int) -> None:
        super().__init__("slotted")
        self.number = number

    @property
    def doubled(self) -> int:
        return 2 * self.number


class LockedError(Exception):
    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.lock, self.number = threading.Lock(), 3


def noted(error: Exception) -> Exception:
    error.add_note("row 7")
    return error


def shown(error: BaseException) -> tuple[object, ...]:
    extra = [getattr(error, name, None) for name in ("number", "doubled", "errno", "filename", "__notes__")]
    plain = {name: value for name, value in vars(error).items() if name != "lock"}
    return type(error), error.args, str(error), plain, extra


async def passes(desk, calls, outcome, *, caught=Exception):
    """What the workflow's code saw of a step's exception: live, and on a replay by another journal."""
    bad, end = calls.function("bad", outcome), calls.function("end", ValueError("stop"), "end")
    seen: list[BaseException] = []

    @workflow
    async def catching(ctx: Context) -> object:
        try:
            await ctx.with_options(retry=Retry(tries=1)).step(bad)
        except caught as error:
            seen.append(error)
        return await ctx.step(end)

    async with desk.open() as journal:
        with pytest.raises(RunPausedError, match="stop"):
            await journal.run(catching, id="r")
    async with desk.open() as journal:
        assert await journal.resume("r") == "end"
    assert calls == {"bad": 1, "end": 2}
    live, replayed = seen
    return live, replayed


@pytest.mark.parametrize(
    "error",
    [
        DeclinedError(code=51),
        SlottedError(5),
        LockedError("held"),
        noted(KeyError("k")),
        FileNotFoundError(2, "No such file or directory", "/nowhere"),
        json.JSONDecodeError("bad", "{", 1),
        subprocess.CalledProcessError(1, ["false"], "out", "err"),
    ],
    ids=lambda error: type(error).__name__,
)
async def test_an_exception_is_caught_by_its_class_live_and_on_replay(memory_desk, calls, error):
    live, replayed = await passes(memory_desk, calls, error, caught=type(error))
    assert [shown(live), shown(replayed)] == [shown(error)] * 2
    assert not hasattr(live, "lock")


async def test_an_exception_that_can_not_come_back_is_the_same_stand_in_live_and_on_replay(memory_desk, calls):
    class LocalError(Exception):
        """No name leads to it."""

    error = LocalError("odd")
    error.status = "declined"
    live, replayed = await passes(memory_desk, calls, error, caught=RecordedError)
    kept = live.type.rpartition(".")[2], live.message, live.attributes
    assert (live.facts, kept) == (replayed.facts, ("LocalError", "odd", {"status": "declined"}))


async def test_a_registered_class_is_caught_by_its_class_wherever_it_was_defined(memory_desk, calls, monkeypatch):
    monkeypatch.setattr(registry, "_types", {})
    monkeypatch.setattr(registry, "_names", {})

    @register
    class LocalError(Exception):
        pass

    live, replayed = await passes(memory_desk, calls, LocalError("x"), caught=LocalError)
    assert [type(live), type(replayed)] == [LocalError, LocalError]


async def test_a_group_is_taken_apart_live_and_on_replay(desk, calls):
    bad = calls.function("bad", ExceptionGroup("two", [ValueError("a"), ExceptionGroup("in", [OSError(2, "b")])]))
    end = calls.function("end", ValueError("stop"), "end")
    seen: list[object] = []

    @workflow
    async def catching(ctx: Context) -> object:
        try:
            await ctx.step(bad)
        except* ValueError as part:
            seen.append([shown(each) for each in part.exceptions])
        except* OSError as part:
            seen.append([shown(each) for each in part.exceptions[0].exceptions])
        return await ctx.step(end)

    async with desk.open() as journal:
        with pytest.raises(RunPausedError, match="stop"):
            await journal.run(catching, id="r")
    async with desk.open() as journal:
        assert await journal.resume("r") == "end"
    assert seen == [[shown(ValueError("a"))], [shown(OSError(2, "b"))]] * 2


async def test_a_group_of_one_step_pauses_the_run_at_that_step(journal, calls):
    bad = calls.function("bad", ExceptionGroup("two", [ValueError("a"), OSError(2, "b")]))

    @workflow
    async def fails(ctx: Context) -> None:
        await ctx.step(bad)

    with pytest.raises(RunPausedError, match=r"step_failed.*step 0 .*ExceptionGroup: two"):
        await journal.run(fails, id="r")


async def test_what_is_left_of_a_group_of_one_step_pauses_the_run_at_that_step(journal, calls):
    bad = calls.function("bad", ExceptionGroup("two", [ValueError("a"), OSError(2, "b")]))
    seen: list[str] = []

    @workflow
    async def catches_half(ctx: Context) -> None:
        try:
            await ctx.step(bad)
        except* ValueError as part:
            seen.append(str(part.exceptions[0]))

    with pytest.raises(RunPausedError, match=r"step_failed.*step 0 .*ExceptionGroup: two \(1 sub-exception\)"):
        await journal.run(catches_half, id="r")
    assert seen == ["a"]


# --- exceptions that are messages (FC-37), as agent frameworks have them ---


class ModelRetry(Exception):  # noqa: N818 - as the framework names it
    def __init__(self, message: str) -> None:
        self.message = message
        super().__init__(message)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ModelRetry) and other.message == self.message

    __hash__ = Exception.__hash__


class CallDeferred(Exception):  # noqa: N818
    def __init__(self, metadata: dict[str, object] | None = None) -> None:
        self.metadata = metadata
        super().__init__()


class ApprovalRequired(Exception):  # noqa: N818
    def __init__(self, *, metadata: dict[str, object]) -> None:
        self.metadata = metadata
        super().__init__()


MESSAGES = [
    ModelRetry("ask for a city"),
    CallDeferred({"task": 7, "code": 503}),
    ApprovalRequired(metadata={"who": ["finance"], "cents": 500}),
]


@pytest.mark.parametrize("message", MESSAGES, ids=lambda error: type(error).__name__)
async def test_an_exception_that_is_a_message_passes_through_with_its_data_after_one_try(desk, calls, message):
    bad, end = calls.function("bad", message), calls.function("end", ValueError("stop"), "end")
    seen: list[object] = []

    @workflow
    async def catching(ctx: Context) -> object:
        try:
            await ctx.step(bad)  # with the retries of every step
        except type(message) as error:
            seen.append(shown(error))
        return await ctx.step(end)

    async with desk.open() as journal:
        with pytest.raises(RunPausedError, match="stop"):
            await journal.run(catching, id="r")
    async with desk.open() as journal:
        assert await journal.resume("r") == "end"
    assert (seen, calls) == ([shown(message)] * 2, {"bad": 1, "end": 2})


# --- a model's client against a real server (FC-37) ---


class Vendor(ThreadingHTTPServer):
    """Answers with what is planned, the last one for ever, and counts the requests."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Answering)
        self.plan: list[tuple[int, dict[str, str]]] = [(200, {})]
        self.requests = 0

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"

    def next_answer(self) -> tuple[int, dict[str, str]]:
        self.requests += 1
        return self.plan[min(self.requests, len(self.plan)) - 1]


class Answering(BaseHTTPRequestHandler):
    server: Vendor

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["content-length"]))
        status, headers = self.server.next_answer()
        content = json.dumps(COMPLETION if status == 200 else {"error": {"message": "no", "code": "busy"}}).encode()
        headers = {"content-length": str(len(content)), "content-type": "application/json"} | headers
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_: object) -> None:
        """Stay silent."""


COMPLETION = {
    "id": "c", "object": "chat.completion", "created": 1, "model": "m",
    "choices": [{"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": "rain"}}],
}  # fmt: skip


@pytest.fixture
def vendor():
    with Vendor() as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def ask_openai(url: str) -> str | None:
    with openai.OpenAI(base_url=f"{url}/v1", api_key="none", max_retries=0) as client:
        answer = client.chat.completions.create(model="m", messages=[{"role": "user", "content": "Weather?"}])
    return answer.choices[0].message.content


def ask_httpx(url: str) -> str:
    answer = httpx.post(url, json={})
    answer.raise_for_status()
    return str(answer.json()["choices"][0]["message"]["content"])


CLIENTS = pytest.mark.parametrize("ask", [pytest.param(ask_openai, marks=pytest.mark.sdk), ask_httpx])


def asking(ask, vendor, *, seen):
    @workflow
    async def asks(ctx: Context) -> object:
        try:
            return await ctx.model(ask, vendor.url)
        except (openai.APIStatusError, httpx.HTTPStatusError) as error:
            seen.append((type(error), str(error), error.response))
            raise

    return asks


@CLIENTS
@pytest.mark.parametrize("status", [400, 401, 403, 404, 422])
async def test_a_refusal_is_final_after_one_request_and_the_same_on_replay(memory_desk, vendor, ask, *, status):
    vendor.plan = [(status, {})]
    seen: list[object] = []
    for _ in range(2):
        async with memory_desk.open() as journal:
            with pytest.raises(RunPausedError, match="step_failed"):
                await journal.run(asking(ask, vendor, seen=seen), id="r")
    assert (vendor.requests, len(seen), seen[0][2].status_code) == (1, 1, status)


@CLIENTS
@pytest.mark.parametrize("status", [429, 503])
async def test_a_stated_time_is_waited_for_durably(desk, vendor, ask, *, status):
    vendor.plan = [(status, {"retry-after": "40"}), (200, {})]
    async with desk.open() as journal:
        assert await journal.run(asking(ask, vendor, seen=[]), id="r") == "rain"
        due = [event.body.due for event in await journal.events("r") if isinstance(event.body, RetrySet)]
    assert (due, desk.system.waits, vendor.requests) == ([START + 40 * SECOND], [START + 40 * SECOND], 2)


@pytest.mark.sdk
async def test_a_stated_time_survives_the_process(desk, vendor):
    vendor.plan = [(429, {"retry-after": "3600"}), (200, {})]
    asks = asking(ask_openai, vendor, seen=[])
    desk.system.hold()
    async with desk.open() as journal:
        running = asyncio.create_task(journal.run(asks, id="r"))
        await desk.system.waiting(1)
        await journal.close()
        await asyncio.wait([running])
        assert running.exception() is not None
    desk.system.advance(3600)
    async with desk.open() as journal:
        assert await journal.run(asks, id="r") == "rain"
    assert vendor.requests == 2


@pytest.mark.parametrize("stated", ["-1", "nan", "soon", "1e30", "Fri, 31 Dec 9999 23:59:59 GMT"])
@pytest.mark.sdk
async def test_a_stated_time_that_makes_no_sense_is_as_if_none_were_stated(memory_desk, vendor, stated):
    vendor.plan = [(429, {"retry-after": stated}), (200, {})]
    async with memory_desk.open() as journal:
        assert await journal.run(asking(ask_openai, vendor, seen=[]), id="r") == "rain"
    assert memory_desk.system.waits == [START + 0.5 * SECOND]


@pytest.mark.sdk
async def test_a_stated_time_beyond_the_total_is_final(memory_desk, vendor):
    vendor.plan = [(429, {"retry-after": "61"})]

    @workflow
    async def asks(ctx: Context) -> object:
        return await ctx.with_options(retry=Retry(total_seconds=60)).model(ask_openai, vendor.url)

    async with memory_desk.open() as journal:
        with pytest.raises(RunPausedError, match="try 1: RateLimitError"):
            await journal.run(asks, id="r")
    assert vendor.requests == 1


@CLIENTS
async def test_a_server_that_stays_broken_is_asked_to_the_limit_and_its_error_is_whole_on_replay(
    memory_desk, vendor, ask
):
    vendor.plan = [(500, {"x-request-id": "req_7"})]
    seen: list[object] = []
    end_asks = asking(ask, vendor, seen=seen)
    async with memory_desk.open() as journal:
        with pytest.raises(RunPausedError, match="try 5"):
            await journal.run(end_asks, id="r")
    [(_, text, response)] = seen
    assert vendor.requests == 5
    assert ("500" in text, response.status_code, response.headers["X-Request-Id"]) == (True, 500, "req_7")
    assert response.json() == {"error": {"message": "no", "code": "busy"}}


@pytest.mark.sdk
async def test_the_error_of_a_models_client_is_whole_live_and_on_replay(memory_desk, calls, vendor):
    vendor.plan = [(429, {"x-request-id": "req_7"})]
    with pytest.raises(openai.RateLimitError) as raised:
        ask_openai(vendor.url)
    live, replayed = await passes(memory_desk, calls, raised.value, caught=openai.RateLimitError)
    fields = ("message", "status_code", "request_id", "code", "param", "type", "body")
    assert [[getattr(each, name) for name in fields] for each in (live, replayed)] == [
        [str(raised.value), 429, "req_7", "busy", None, None, {"message": "no", "code": "busy"}]
    ] * 2
    assert live.response == replayed.response


@pytest.mark.sdk
async def test_a_client_that_reaches_nobody_is_tried_again_and_caught_by_its_class(memory_desk, calls):
    count = calls.update

    def ask() -> object:
        count(["ask"])
        return ask_openai("http://127.0.0.1:1")

    @workflow
    async def asks(ctx: Context) -> str:
        try:
            await ctx.model(ask)
        except openai.APIConnectionError as error:
            return f"{type(error).__name__}: {error} {error.code}"
        return "no"

    async with memory_desk.open() as journal:
        assert await journal.run(asks, id="r") == "APIConnectionError: Connection error. None"
    assert calls == {"ask": 5}


# --- in processes that have the library, and in others (FC-49) ---


class Processes:
    """Runs the agent in foreign.py in processes of their own, over one store."""

    def __init__(self, store: Path) -> None:
        self.store = f"sqlite:///{store}"

    def ask(self, *command: str, library: bool = True, **environment: str) -> object:
        paths = [str(HERE / "shelf")] if library else []
        done = self._run([str(HERE / "foreign.py"), self.store, *command], paths, **environment)
        return json.loads(done.stdout)

    def show(self) -> subprocess.CompletedProcess[str]:
        return self._run(["-m", "counterfoil", "show", "r", "--store", self.store], [])

    def _run(self, command: list[str], paths: list[str], **environment: str) -> subprocess.CompletedProcess[str]:
        path = os.pathsep.join([str(HERE.parents[1] / "src"), *paths])
        return subprocess.run(
            [sys.executable, *command],
            env=os.environ | {"PYTHONPATH": path} | environment,
            capture_output=True,
            text=True,
            check=True,
            timeout=60,
        )


@pytest.fixture
def processes(tmp_path):
    return Processes(tmp_path / "runs.db")


def seen_as(type_: str, text: str, code: int | str | None, **more: object) -> dict[str, object]:
    return {"type": type_, "text": text, "code": code, "cause": None, "members": []} | more


WAITING = {"code": "run_paused", "reason": "step_failed", "cause": None}
CAUGHT = {
    "keywords": seen_as("KeywordsOnlyError", "51: no funds", 51),
    "holding": seen_as("HoldingError", "connection lost", 7),
    "group": seen_as(
        "BoughtGroup",
        "two (2 sub-exceptions)",
        9,
        members=[seen_as("KeywordsOnlyError", "1: a", 1), seen_as("ValueError", "b", None)],
    ),
}
KINDS = pytest.mark.parametrize("kind", CAUGHT)


@KINDS
async def test_a_foreign_exception_is_caught_by_its_class_in_another_process(processes, kind):
    assert processes.ask("catch", kind)["reason"] == "step_failed"
    assert processes.ask("resume", OPEN="1") == CAUGHT[kind]


@KINDS
async def test_where_its_library_is_not_the_run_can_be_looked_at(processes, kind):
    processes.ask("catch", kind)
    assert processes.ask("look", library=False) == WAITING
    assert f"bought.{CAUGHT[kind]['type']}: {CAUGHT[kind]['text']}" in processes.show().stdout.replace("\n", " ")


@KINDS
async def test_where_its_library_is_not_the_run_pauses_until_it_is_there(processes, kind):
    processes.ask("catch", kind)
    refused = processes.ask("resume", library=False, OPEN="1")
    assert (refused["reason"], refused["cause"]["type"]) == ("exception_unknown", "ExceptionUnknownError")
    assert CAUGHT[kind]["text"] in refused["cause"]["text"]
    assert processes.ask("resume", OPEN="1") == CAUGHT[kind]


FAILED = {
    "keywords": seen_as("RecordedError", "bought.KeywordsOnlyError: 51: no funds", "recorded_error"),
    "holding": seen_as("RecordedError", "bought.HoldingError: connection lost", "recorded_error"),
    "group": seen_as("RecordedError", "bought.BoughtGroup: two (2 sub-exceptions)", "recorded_error"),
    "chained": seen_as(
        "RecordedError",
        "bought.KeywordsOnlyError: 52: outer",
        "recorded_error",
        cause=seen_as("RecordedError", "bought.HoldingError: inner", "recorded_error"),
    ),
}


@pytest.mark.parametrize("kind", FAILED)
async def test_the_status_of_a_run_that_failed_is_readable_where_the_library_is_not(processes, kind):
    live, here = processes.ask("fail", kind), processes.ask("look")
    assert live == here
    assert processes.ask("look", library=False) == {"code": "run_failed", "reason": None, "cause": FAILED[kind]}


async def test_the_cause_of_a_failed_run_has_its_own_chain(journal):
    @workflow
    async def fails(ctx: Context) -> None:
        try:
            raise KeyError("inner")
        except KeyError as inner:
            raise DeclinedError(code=1) from inner

    for _ in range(2):
        with pytest.raises(RunFailedError) as caught:
            await journal.run(fails, id="r")
        error = caught.value.__cause__
        assert [shown(error), shown(error.__cause__)] == [shown(DeclinedError(code=1)), shown(KeyError("inner"))]


class HostileError(Exception):
    """Raises whatever it is asked for."""

    def __getattribute__(self, name: str) -> object:
        raise RuntimeError(name)


@pytest.mark.parametrize("is_async", [True, False])
async def test_an_exception_that_answers_nothing_is_a_failure_of_the_step(desk, is_async):
    async def hostile() -> None:
        raise HostileError

    def hostile_in_a_thread() -> None:
        raise HostileError

    @workflow
    async def catches(ctx: Context) -> str:
        try:
            await ctx.step(hostile if is_async else hostile_in_a_thread)
        except RuntimeError:
            return "another error"
        except Exception:  # noqa: BLE001 - itself, or its stand-in
            return "caught"
        return "nothing"

    for _ in range(2):
        async with desk.open() as journal:
            assert await journal.run(catches, id="r") == "caught"
