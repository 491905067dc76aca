"""Declared secrets reach neither the store, nor the log, nor the text of an error."""

import asyncio
import logging
import traceback
from pathlib import Path
from typing import Literal

import pydantic
import pytest

import counterfoil
from counterfoil import Context, CounterfoilError, RunFailedError, RunPausedError, Secret, reveal, workflow
from counterfoil.errors import InputInvalidError, SecretError

pytestmark = pytest.mark.anyio
VALUE = 'sk-"live"\n\\tail é42'
LONGER = VALUE + "-and-more"


@pytest.fixture(autouse=True)
def environment(monkeypatch):
    monkeypatch.setenv("API_KEY", VALUE)
    monkeypatch.setenv("API_KEY_2", LONGER)
    monkeypatch.setenv("SHORT", "abc")


@pytest.fixture
def files(tmp_path) -> Path:
    return tmp_path / "runs.db"


class LeakyError(Exception):
    def __init__(self, message: str) -> None:
        super().__init__(message, {"header": VALUE})
        self.request = {"Authorization": f"Bearer {LONGER}"}


async def leaks_everywhere(ctx: Context, text: str) -> str:
    async def gives(header: str) -> dict[str, object]:
        return {"echo": header, VALUE: [VALUE, f"x{LONGER}x"], "broken": f"\ud800{VALUE}", "$": VALUE}

    async def raises() -> None:
        raise LeakyError(f"denied: {VALUE}")

    ctx.log(f"calling with {VALUE}")
    await ctx.step(gives, f"Bearer {VALUE}")
    try:
        await ctx.step(raises)
    except LeakyError as error:
        ctx.log(f"failed: {error} {error.request}", level="error")
    raise LookupError(f"gave up on {VALUE}: {text}")


def needles() -> list[bytes]:
    """The value as it would stand in JSON, in hexadecimal, and as it is."""
    escaped = VALUE.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return [VALUE.encode(), escaped.encode(), VALUE.encode().hex().encode(), "tail é42".encode(), b"-and-more"]


async def test_no_file_of_the_store_holds_a_secret(files, caplog):
    caplog.set_level(logging.DEBUG)
    leaky = workflow(leaks_everywhere)
    url = f"sqlite:///{files}"
    async with counterfoil.open(url, secrets=["API_KEY", "API_KEY_2"]) as journal:
        with pytest.raises(RunFailedError) as caught:
            await journal.run(leaky, f"the key is {VALUE}", id="r", tags={"who": "ada"})
        written = {path.name: path.read_bytes() for path in files.parent.iterdir() if path.is_file()}
    found = [(name, needle) for name, data in written.items() for needle in needles() if needle in data]
    assert "runs.db-wal" in written
    assert found == []
    shown = "".join(traceback.format_exception(caught.value)).split("LookupError: gave up on")[-1]
    assert VALUE not in f"{caught.value} {caught.value.hint} {caught.value.facts} {caught.value.__cause__} {shown}"
    assert [record.getMessage() for record in caplog.records if VALUE in record.getMessage()] == []


async def test_what_the_code_gets_has_the_name_in_place_of_the_value(memory_desk):
    async def gives(header: str) -> str:
        return f"{header} {LONGER}"

    @workflow
    async def echo(ctx: Context) -> str:
        return await ctx.step(gives, "Bearer " + VALUE)

    async with memory_desk.open(secrets=["API_KEY", "API_KEY_2"]) as journal:
        assert await journal.run(echo, id="r") == "Bearer [secret API_KEY] [secret API_KEY_2]"
        assert b"[secret API_KEY]" in bytes((await journal.events("r"))[2].body.input)


async def test_the_function_gets_the_real_argument(memory_desk):
    got: list[str] = []

    async def send(header: str) -> None:
        got.append(header)

    @workflow
    async def sends(ctx: Context) -> None:
        await ctx.step(send, VALUE)

    async with memory_desk.open(secrets=["API_KEY"]) as journal:
        await journal.run(sends)
    assert got == [VALUE]


async def test_the_same_input_with_a_secret_is_the_same_run(memory_desk):
    @workflow
    async def takes(ctx: Context, text: str) -> str:
        return text

    async with memory_desk.open(secrets=["API_KEY"]) as journal:
        results = [await journal.run(takes, f"key {VALUE}", id="r") for _ in range(2)]
    assert results == ["key [secret API_KEY]"] * 2


@pytest.mark.parametrize("name", ["NOT_SET_ANYWHERE", "SHORT"])
def test_a_secret_that_is_missing_or_too_short_is_refused_at_open(name):
    with pytest.raises(SecretError) as caught:
        counterfoil.open("memory://", secrets=[name])
    assert (caught.value.facts["name"], "abc" in str(caught.value)) == (name, False)


async def test_a_secret_argument_is_recorded_by_name_and_revealed_in_a_step(desk, types_of):
    seen: list[str] = []

    async def charge(key: Secret) -> str:
        seen.append(reveal(key))
        return f"charged with {reveal(key)}"

    @workflow
    async def pays(ctx: Context, key: Secret) -> str:
        return await ctx.step(charge, key)

    async with desk.open() as journal:
        assert await journal.run(pays, Secret("API_KEY"), id="r") == "charged with [secret API_KEY]"
        events = await journal.events("r")
    assert seen == [VALUE]
    assert bytes(events[2].body.input) == b'{"key":{"$":"secret","v":"API_KEY"},"(closure)":{"seen":[]}}'
    assert types_of(events)[2:] == ["step_intended", "step_succeeded", "run_completed"]


async def test_a_missing_variable_of_a_secret_fails_the_step_and_can_be_resumed(desk, monkeypatch):
    async def charge(key: Secret) -> int:
        return len(reveal(key))

    @workflow
    async def pays(ctx: Context, key: Secret) -> int:
        return await ctx.step(charge, key)

    async with desk.open() as journal:
        with pytest.raises(RunPausedError, match="LATER_KEY"):
            await journal.run(pays, Secret("LATER_KEY"), id="r")
        monkeypatch.setenv("LATER_KEY", "1234567")
        assert await journal.resume("r") == 7


async def test_a_pydantic_secret_is_neither_written_nor_input(desk):
    async def login(user: str, password: pydantic.SecretStr) -> int:
        return len(password.get_secret_value())

    @workflow
    async def logs_in(ctx: Context) -> int:
        return await ctx.step(login, "ada", pydantic.SecretStr("hunter2-hunter2"))

    async with desk.open() as journal:
        assert await journal.run(logs_in, id="r") == 15
        records = await journal.store.read("r")
    assert not [record for record in records if b"hunter2" in (record.body or b"")]


async def test_a_pydantic_secret_as_a_result_or_workflow_input_is_refused_without_its_value(desk):
    async def gives() -> pydantic.SecretStr:
        return pydantic.SecretStr("hunter2-hunter2")

    @workflow
    async def leaks(ctx: Context) -> None:
        await ctx.step(gives)

    @workflow
    async def takes(ctx: Context, password: pydantic.SecretStr) -> None:
        """Could not be run again."""

    async with desk.open() as journal:
        with pytest.raises(RunPausedError) as caught:
            await journal.run(leaks)
        with pytest.raises(InputInvalidError) as refused:
            await journal.run(takes, pydantic.SecretStr("hunter2-hunter2"))
    assert "hunter2" not in f"{caught.value} {caught.value.__cause__} {refused.value} {refused.value.facts}"


async def test_an_id_with_a_secret_is_refused(memory_desk, monkeypatch):
    monkeypatch.setenv("API_KEY", "plain-secret")
    async with memory_desk.open(secrets=["API_KEY"]) as journal:
        with pytest.raises(CounterfoilError) as caught:
            await journal.run(workflow(leaks_everywhere), "x", id="run-plain-secret")
    assert "plain-secret" not in str(caught.value)


async def test_a_secret_in_an_unfitting_input_is_not_in_the_error(memory_desk, monkeypatch):
    monkeypatch.setenv("API_KEY", "plain-secret")

    @workflow
    async def takes(ctx: Context, number: int) -> int:
        return number

    async with memory_desk.open(secrets=["API_KEY"]) as journal:
        with pytest.raises(InputInvalidError) as caught:
            await journal.run(takes, "plain-secret")  # type: ignore[arg-type] - the case under test
    assert "plain-secret" not in f"{caught.value} {caught.value.facts} {caught.value.hint}"


async def test_a_secret_quoted_by_the_refusal_of_an_input_is_not_in_the_error(memory_desk, monkeypatch):
    monkeypatch.setenv("API_KEY", "plain-secret")

    @workflow
    async def takes(ctx: Context, colour: Literal["red"]) -> str:
        return colour

    async with memory_desk.open(secrets=["API_KEY"]) as journal:
        with pytest.raises(InputInvalidError, match=r"\[secret API_KEY\]") as caught:
            await journal.run(takes, "plain-secret")  # type: ignore[arg-type] - the case under test
    assert "plain-secret" not in f"{caught.value} {caught.value.facts} {caught.value.hint}"


async def test_a_step_whose_name_holds_a_secret_is_known_on_replay(memory_desk, monkeypatch, calls):
    monkeypatch.setenv("API_KEY", "postgres")
    first, last = calls.function("query_postgres", 1), calls.function("last", KeyError("x"), 2)

    @workflow
    async def queries(ctx: Context) -> list[int]:
        return [await ctx.step(first), await ctx.step(last)]

    async with memory_desk.open(secrets=["API_KEY"]) as journal:
        with pytest.raises(RunPausedError, match="step_failed"):
            await journal.run(queries, id="r")
        assert await journal.resume("r") == [1, 2]
    assert calls == {"query_postgres": 1, "last": 2}


# --- the log ---


async def test_a_line_is_logged_once_per_real_execution(desk, calls, caplog):
    caplog.set_level(logging.INFO, logger="counterfoil.run")
    fails = calls.function("fails", ValueError("no"), 1)

    @workflow
    async def talks(ctx: Context) -> int:
        ctx.log("before the first")
        await ctx.step(calls.function("one", 1))
        ctx.log("between", level="warning")
        return await ctx.step(fails)

    async with desk.open() as journal:
        with pytest.raises(RunPausedError):
            await journal.run(talks, id="r")
        await journal.resume("r")
        await journal.run(talks, id="r")
    assert [(record.levelname, record.getMessage(), record.run) for record in caplog.records] == [
        ("INFO", "before the first", "r"), ("WARNING", "between", "r"),
    ]  # fmt: skip


async def test_a_percent_sign_in_a_message_is_only_a_percent_sign(memory_desk, caplog):
    caplog.set_level(logging.INFO, logger="counterfoil.run")

    @workflow
    async def talks(ctx: Context) -> None:
        ctx.log("100 %s %d {}")

    async with memory_desk.open() as journal:
        await asyncio.wait_for(journal.run(talks), 10)
    assert [record.getMessage() for record in caplog.records] == ["100 %s %d {}"]
