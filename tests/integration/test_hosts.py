"""The library in the programs that hold it: plain code, a running loop, a web server, a notebook."""

import asyncio
import contextlib
import gc

import anyio
import httpx
import pytest
from fastapi import FastAPI

import counterfoil
from counterfoil import Context, RunConflictError, run_sync, workflow
from counterfoil.errors import StoreUrlError
from counterfoil.stores.memory import MemoryStore


@workflow(name="test_hosts.greet")
async def greet(ctx: Context, name: str) -> str:
    return await ctx.step(hello, name)


async def hello(name: str) -> str:
    CALLED.append(name)
    return f"hello {name}"


CALLED: list[str] = []


@pytest.fixture(autouse=True)
def fresh():
    CALLED.clear()


def test_plain_code_runs_a_workflow(tmp_path):
    store = f"sqlite:///{tmp_path / 'runs.db'}"
    results = [run_sync(greet, "ada", id="r", store=store) for _ in range(3)]
    assert (results, CALLED) == (["hello ada"] * 3, ["ada"])


def test_plain_code_gets_the_same_errors(tmp_path):
    store = MemoryStore()
    run_sync(greet, "ada", id="r", store=store)
    with pytest.raises(RunConflictError):
        run_sync(greet, "bob", id="r", store=store)


@pytest.mark.anyio
async def test_plain_code_under_a_running_loop_runs_a_workflow(tmp_path):
    store = f"sqlite:///{tmp_path / 'runs.db'}"
    results = [
        run_sync(greet, "ada", id="r", store=store),
        await asyncio.to_thread(run_sync, greet, "ada", id="r", store=store),
    ]
    assert (results, CALLED) == (["hello ada"] * 2, ["ada"])


def test_plain_code_needs_no_name_for_its_store(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert run_sync(greet, "ada") == "hello ada"
    assert (tmp_path / "counterfoil.db").stat().st_mode & 0o777 == 0o600


@pytest.mark.anyio
async def test_a_web_server_opens_a_journal_in_its_lifespan(tmp_path):
    @contextlib.asynccontextmanager
    async def lifespan(app: FastAPI):
        async with counterfoil.open(f"sqlite:///{tmp_path / 'runs.db'}") as journal:
            app.state.journal = journal
            yield

    app = FastAPI(lifespan=lifespan)

    @app.post("/greet/{name}")
    async def post(name: str) -> dict[str, str]:
        return {"text": await app.state.journal.run(greet, name, id=f"greet-{name}")}

    for _ in range(2):
        async with app.router.lifespan_context(app), _client(app) as client:
            answers = await asyncio.gather(*(client.post("/greet/ada") for _ in range(5)))
            assert [answer.json() for answer in answers] == [{"text": "hello ada"}] * 5
    assert CALLED == ["ada"]


def _client(app: FastAPI) -> httpx.AsyncClient:
    return httpx.AsyncClient(transport=httpx.ASGITransport(app=app), base_url="http://test")


@pytest.mark.anyio
async def test_a_notebook_opens_a_journal_by_await_and_closes_it_later(tmp_path):
    journal = await counterfoil.open(f"sqlite:///{tmp_path / 'runs.db'}")
    cell = {"counterfoil": counterfoil, "__name__": "__main__"}
    source = "@counterfoil.workflow\nasync def cell(ctx):\n    return {}\n"
    results = []
    for version in (1, 2):
        exec(source.format(version), cell)
        results.append(await journal.run(cell["cell"], id=str(version)))
    results.append(await journal.run(cell["cell"], id="1"))
    await journal.close()
    assert results == [1, 2, 1]


@pytest.mark.anyio
async def test_two_journals_on_one_file_do_not_disturb_each_other(tmp_path):
    url = f"sqlite:///{tmp_path / 'runs.db'}"
    async with counterfoil.open(url) as one, counterfoil.open(url) as other:
        results = await asyncio.gather(one.run(greet, "ada", id="r"), other.run(greet, "ada", id="r"))
        assert (results, CALLED) == (["hello ada"] * 2, ["ada"])
        assert (await other.verify("r")).is_intact


@pytest.mark.parametrize(
    "url", ["runs.db", "postgres://x/y", "sqlite://runs.db", "sqlite:///", "", "file:///runs.db"], ids=repr
)
def test_a_url_that_names_no_store_is_refused_at_once(url):
    with pytest.raises(StoreUrlError) as caught:
        counterfoil.open(url)
    assert caught.value.facts["url"] == url


if hasattr(asyncio, "eager_task_factory"):  # from Python 3.12 on

    @pytest.mark.anyio
    async def test_a_loop_that_begins_its_tasks_at_once_runs_a_workflow():
        loop = asyncio.get_running_loop()
        loop.set_task_factory(asyncio.eager_task_factory)
        try:
            async with counterfoil.open("memory://") as journal:
                assert await journal.run(greet, "ada") == "hello ada"
        finally:
            loop.set_task_factory(None)


@pytest.mark.anyio
async def test_a_task_of_a_foreign_factory_that_is_cancelled_before_it_begins_leaves_no_coroutine_unawaited():
    @workflow
    async def cancels(ctx: Context) -> str:
        task = asyncio.create_task(ctx.step(hello, "never"))
        task.cancel()
        (ended,) = await asyncio.gather(task, return_exceptions=True)
        return type(ended).__name__

    loop = asyncio.get_running_loop()
    loop.set_task_factory(lambda loop, coroutine, **options: asyncio.Task(coroutine, loop=loop, **options))
    try:
        async with counterfoil.open("memory://") as journal:
            assert await journal.run(cancels) == "CancelledError"
    finally:
        loop.set_task_factory(None)
    gc.collect()  # a warning would be an error


@pytest.mark.anyio
async def test_a_scope_of_anyio_that_cancels_every_turn_holds_nothing_up_beside_other_work():
    turns = 0

    async def beside() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    @workflow
    async def cleans_up(ctx: Context) -> None:
        async with anyio.create_task_group() as group:
            for name in ("ada", "bob"):
                group.start_soon(ctx.step, hello, name)
            await asyncio.sleep(0)
            group.cancel_scope.cancel()

    busy = asyncio.create_task(beside())
    async with counterfoil.open("memory://") as journal:
        await journal.run(cleans_up)
    busy.cancel()
    assert turns < 500
