"""Large bodies and artifacts in whole runs: recorded once, replayed, told when lost (J1, J2, J6, J10; FC-53)."""

import asyncio
import contextlib

import msgspec
import pytest

import counterfoil
from counterfoil import (
    Artifact,
    ArtifactAlteredError,
    ArtifactMissingError,
    Context,
    InputMismatchError,
    NotStorableError,
    Retry,
    RunFailedError,
    RunPausedError,
    RunStoppedError,
    Secret,
    Status,
    reveal,
    workflow,
)
from counterfoil.artifacts import BODY_BYTES_MAX, digest_of
from counterfoil.errors import ArtifactError, NestedStepError, StoreUnavailableError
from counterfoil.stores.sqlite import SqliteStore
from counterfoil.testing.clock import ManualSystem

pytestmark = pytest.mark.anyio
LONG = "é" * 10_000
PNG = b"\x89PNG" + bytes(range(256)) * 100
VALUE = "sk-live-12345"
HUNDRED_MB = 100_000_000


async def echo(text: str) -> str:
    return text


async def make(size: int) -> str:
    MADE.append(size)
    return "x" * size


class BusyError(Exception):
    status_code = 429


async def busy(text: str) -> None:
    raise BusyError(text)


async def broken(text: str) -> None:
    raise ValueError(text)


MADE: list[int] = []


@pytest.fixture(autouse=True)
def nothing_made():
    MADE.clear()


async def everything_large(ctx: Context, text: str) -> str:
    await ctx.step(echo, text)
    with contextlib.suppress(ValueError):
        await ctx.step(broken, text)
    await ctx.with_options(retry=Retry(tries=2)).step(busy, text)
    return text


def outside(records):
    """Types of the events whose body left the journal."""
    envelopes = [msgspec.json.decode(record.envelope) for record in records]
    return [envelope["type"] for envelope in envelopes if "reference" in envelope]


async def test_every_large_body_leaves_the_journal_and_every_small_one_stays(desk):
    async with desk.open() as journal:
        with pytest.raises(RunPausedError):
            await journal.run(workflow(everything_large), LONG, id="r")
        records, events = await journal.store.read("r"), await journal.events("r")
    step = ["step_intended", "step_succeeded", "step_intended", "step_failed"]
    retried = ["step_intended", "retry_set", "step_failed", "run_paused"]  # the input of the second try is the first's
    assert outside(records) == ["run_started", *step, *retried]
    assert max(len(record.body) for record in records) <= BODY_BYTES_MAX
    assert msgspec.json.decode(events[0].body.input) == {"text": LONG}


@pytest.mark.parametrize("result", [LONG, {"text": LONG, "parts": [LONG] * 3}], ids=["text", "dict"])
async def test_a_large_result_is_handed_out_live_on_attach_and_on_resume(desk, calls, result):
    async def ends(ctx: Context) -> object:
        return await ctx.step(calls.function("work", result))

    ends = workflow(ends)
    async with desk.open() as journal:
        live = await journal.run(ends, id="r")
    async with desk.open() as journal:
        again = [await journal.run(ends, id="r"), await journal.resume("r"), await (await journal.get("r")).result()]
        assert (await journal.verify("r")).flaws == ()
    assert ([live, *again], calls["work"]) == ([result] * 4, 1)


async def test_a_large_failure_of_a_run_is_raised_as_it_was_recorded(desk):
    @workflow
    async def fails(ctx: Context) -> None:
        raise LookupError(LONG)

    async with desk.open() as journal:
        for _ in range(2):
            with pytest.raises(RunFailedError) as caught:
                await journal.run(fails, id="r")
            assert caught.value.__cause__.args == (LONG,)


async def test_a_run_with_another_large_input_is_a_conflict(desk):
    async def takes(ctx: Context, text: str) -> int:
        return len(text)

    takes = workflow(takes)
    async with desk.open() as journal:
        assert [await journal.run(takes, LONG, id="r") for _ in range(2)] == [len(LONG)] * 2
        with pytest.raises(counterfoil.RunConflictError):
            await journal.run(takes, LONG + "x", id="r")
        assert (await journal.inspect_artifacts()).strays == ()


@pytest.mark.parametrize("size", [16_340, 16_341, 16_342, 16_343, 16_344, 16_345, 16_346, 16_347, 16_348])
async def test_sizes_around_the_limit_are_the_same_to_the_code(desk, size):
    async def makes(ctx: Context, size: int) -> str:
        return await ctx.step(make, size)

    makes = workflow(makes)
    async with desk.open() as journal:
        results = [await journal.run(makes, size, id="r") for _ in range(2)]
        assert (await journal.verify("r")).flaws == ()
    assert results == ["x" * size] * 2


async def test_a_result_of_100_megabytes_is_recorded_and_its_effect_made_once(tmp_path):
    async def makes(ctx: Context, size: int) -> int:
        first, second = [len(await ctx.step(make, size)) for _ in "12"]
        return first + second

    makes, url = workflow(makes), f"sqlite:///{tmp_path / 'runs.db'}"
    async with counterfoil.open(url) as journal:
        assert await journal.run(makes, HUNDRED_MB, id="r") == 2 * HUNDRED_MB
    assert MADE == [HUNDRED_MB] * 2
    assert (tmp_path / "runs.db").stat().st_size < 1_000_000


# --- artifacts of the workflow's own ---


async def keeps(ctx: Context, text: str) -> Artifact:
    kept = await ctx.artifact(PNG, "image/png")
    assert await ctx.read(kept) == PNG
    await ctx.step(echo, text)
    return kept


async def test_an_artifact_is_recorded_once_and_is_a_value(desk, types_of):
    kept = workflow(keeps)
    async with desk.open() as journal:
        first = await journal.run(kept, "a", id="r")
        assert first == await journal.run(kept, "a", id="r") == Artifact(digest_of(PNG), len(PNG), "image/png")
        assert await journal.read(first) == PNG
        events = await journal.events("r")
    assert types_of(events)[2:] == ["artifact_stored", "step_intended", "step_succeeded", "run_completed"]
    assert (events[2].step, events[2].body.media_type) == ("0", "image/png")


@pytest.mark.parametrize("data", [b"", b"x", bytearray(b"ab"), memoryview(b"abc"), bytes(300_000)], ids=len)
async def test_bytes_of_any_size_are_kept(desk, data):
    async def keeps(ctx: Context) -> int:
        kept = await ctx.artifact(data)
        assert (await ctx.read(kept), kept.media_type) == (bytes(data), "application/octet-stream")
        return kept.size_bytes

    async with desk.open() as journal:
        assert await journal.run(workflow(keeps)) == len(data)
        assert (await journal.inspect_artifacts()).artifacts == 1


async def test_an_artifact_may_be_input_argument_and_result_and_is_read_in_another_run(desk):
    async def passes(given: Artifact) -> Artifact:
        return given

    async def takes(ctx: Context, given: Artifact) -> bytes:
        return list(await ctx.read(await ctx.step(passes, given)))

    async with desk.open() as journal:
        kept = await journal.run(workflow(keeps), "a")
        assert bytes(await journal.run(workflow(takes), kept)) == PNG


async def test_an_artifact_is_read_in_a_step_too(desk):
    async def reads(ctx: Context) -> int:
        kept = await ctx.artifact(PNG)

        async def size() -> int:
            return len(await ctx.read(kept))

        return await ctx.step(size)

    async with desk.open() as journal:
        assert await journal.run(workflow(reads)) == len(PNG)


async def test_an_artifact_is_not_stored_in_a_step(desk):
    async def stores(ctx: Context) -> None:
        async def inner() -> None:
            await ctx.artifact(b"x")

        await ctx.step(inner)

    async with desk.open() as journal:
        with pytest.raises(RunPausedError) as caught:
            await journal.run(workflow(stores))
    assert type(caught.value.__cause__) is NestedStepError


@pytest.mark.parametrize(("data", "media_type"), [("text", "text/plain"), (None, "a/b"), (b"x", "a\n"), (b"x", 5)])
async def test_what_is_no_bytes_is_refused_and_the_run_waits_for_mended_code(desk, data, media_type):
    async def stores(ctx: Context) -> None:
        await ctx.artifact(data, media_type)

    async with desk.open() as journal:
        with pytest.raises(RunPausedError) as caught:
            await journal.run(workflow(stores), id="r")
    assert type(caught.value.__cause__) is NotStorableError


# --- replay ---


def keeping(data, media_type="text/plain"):
    """A workflow that keeps an artifact, waits, and reads it."""

    async def kept_then_read(ctx: Context) -> str:
        kept = await ctx.artifact(data, media_type)
        await ctx.sleep(5)
        return (await ctx.read(kept)).decode()

    return workflow(name="keeping")(kept_then_read)


async def stop_in_its_wait(store, work):
    """Drive a run until it waits, and stop there."""
    system = ManualSystem()
    system.hold()
    async with counterfoil.open(store, system=system) as journal:
        driven = asyncio.create_task(journal.run(work, id="r"))
        await system.waiting(1)
    with pytest.raises(RunStoppedError):
        await driven


async def test_a_replay_gives_the_same_reference_and_writes_nothing(desk, types_of):
    await stop_in_its_wait(desk.make_store(), keeping(b"one"))
    async with desk.open() as journal:
        assert await journal.resume("r", keeping(b"one")) == "one"
        assert types_of(await journal.events("r")).count("artifact_stored") == 1


@pytest.mark.parametrize(("data", "media_type"), [(b"two", "text/plain"), (b"one", "text/html")])
async def test_other_bytes_at_the_same_place_are_a_mismatch(desk, data, media_type):
    await stop_in_its_wait(desk.make_store(), keeping(b"one"))
    async with desk.open() as journal:
        with pytest.raises(RunPausedError) as caught:
            await journal.resume("r", keeping(data, media_type))
        report = await journal.inspect_artifacts()
    assert type(caught.value.__cause__) is InputMismatchError
    assert (report.artifacts, report.strays) == (1, ())


# --- what is lost ---


@pytest.fixture
def files(tmp_path):
    return tmp_path / "runs.db"


@pytest.fixture
def lose(files):
    """Change the file of the artifact that this event of the run names."""

    async def change(run, seq, how):
        async with opened(files) as journal:
            record = (await journal.store.read(run))[seq]
            digest = msgspec.json.decode(record.body)["digest"]
            how(journal.store._files._place(digest))

    return change


def opened(files):
    return counterfoil.open(SqliteStore(files), system=ManualSystem())


def remove(path):
    path.unlink()


def alter(path):
    path.write_bytes(path.read_bytes().replace(b"x", b"y"))


def swap(path):
    others = [each for each in path.parents[2].rglob("*") if each.is_file() and each != path]
    path.write_bytes(others[0].read_bytes())


LOST = [(remove, ArtifactMissingError), (alter, ArtifactAlteredError), (swap, ArtifactAlteredError)]


async def make_for(run, size):
    """Text of the run's own: two runs whose steps take equally long must not share a file."""
    return run + (await make(size))[len(run) :]


@workflow(name="steady")
async def steady(ctx: Context, wait: bool) -> int:
    texts = [await ctx.step(make_for, ctx.run_id, size) for size in (20_000, 30_000)]
    if wait:
        await ctx.sleep(3600)
    return sum(map(len, texts))


@pytest.fixture
async def waiting(files):
    """A run that has two large results and waits; the process that drove it was stopped."""
    async with opened(files) as journal:
        await journal.run(steady, False, id="other")
    await stop_in_its_wait(SqliteStore(files), counterfoil.bind(steady, wait=True))


@pytest.mark.parametrize(("how", "error"), LOST)
@pytest.mark.usefixtures("waiting")
async def test_driving_a_run_that_lost_an_artifact_raises_and_leaves_it_as_it_is(files, lose, how, error):
    await lose("r", 5, how)
    async with opened(files) as journal:
        before = await journal.store.read("r")
        for drive in (journal.run(steady, True, id="r"), journal.resume("r")):
            with pytest.raises(error) as caught:
                await drive
        assert (await journal.store.read("r"), (await journal.head("r")).status) == (before, Status.SUSPENDED)
    assert (caught.value.run, caught.value.seq, caught.value.step) == ("r", 5, "1")
    assert MADE == [20_000, 30_000] * 2


@pytest.mark.parametrize(("how", "error"), LOST)
@pytest.mark.usefixtures("waiting")
async def test_reading_such_a_run_raises_and_all_others_are_untouched(files, lose, how, error):
    await lose("r", 5, how)
    async with opened(files) as journal:
        with pytest.raises(error):
            await journal.events("r")
        assert [run.id for run in await journal.list()] == ["r", "other"]
        assert await journal.run(steady, False, id="other") == 50_000
        assert (await journal.verify("other")).flaws == ()


@pytest.mark.usefixtures("waiting")
async def test_a_run_goes_on_once_its_artifact_is_restored(files, lose):
    await lose("r", 5, lambda path: path.rename(path.with_name("saved")))
    async with opened(files) as journal:
        with pytest.raises(ArtifactMissingError):
            await journal.resume("r")
    await lose("r", 5, lambda path: path.with_name("saved").rename(path))
    async with opened(files) as journal:
        assert await journal.resume("r") == 50_000
    assert MADE == [20_000, 30_000] * 2


@pytest.mark.parametrize(("how", "problem"), [(remove, "is missing"), (alter, "is not what was stored")])
@pytest.mark.usefixtures("waiting")
async def test_verify_reports_what_is_lost_by_position(files, lose, how, problem):
    await lose("r", 3, how)
    await lose("r", 5, how)
    async with opened(files) as journal:
        flaws = (await journal.verify("r")).flaws
    assert [(flaw.seq, flaw.problem.endswith(problem)) for flaw in flaws] == [(3, True), (5, True)]


@pytest.mark.usefixtures("waiting")
async def test_an_ended_run_gives_its_result_though_its_history_lost_an_artifact(files, lose):
    await lose("other", 3, remove)
    async with opened(files) as journal:
        assert await journal.run(steady, False, id="other") == 50_000
        (loss,) = (await journal.inspect_artifacts()).losses
    assert (loss.run, loss.seq, loss.step, loss.problem, loss.needed_for) == ("other", 3, "0", "missing", "history")


@pytest.mark.usefixtures("waiting")
async def test_the_report_says_what_a_loss_is_needed_for(files, lose):
    await lose("r", 3, alter)
    async with opened(files) as journal:
        report = await journal.inspect_artifacts()
    assert [(loss.run, loss.problem, loss.needed_for) for loss in report.losses] == [("r", "altered", "replay")]
    assert (report.is_whole, report.strays) == (False, ())


@pytest.mark.parametrize(("how", "error"), [(remove, ArtifactMissingError), (swap, ArtifactAlteredError)])
async def test_a_body_that_reads_a_lost_artifact_pauses_and_does_not_fail(files, lose, how, error):
    async def reads(ctx: Context) -> int:
        kept = await ctx.artifact(PNG)
        await ctx.artifact(b"another")
        await ctx.sleep(5)
        return len(await ctx.read(kept))

    await stop_in_its_wait(SqliteStore(files), workflow(reads))
    await lose("r", 2, how)
    async with opened(files) as journal:
        with pytest.raises(RunPausedError) as caught:
            await journal.resume("r")
    cause = caught.value.__cause__
    assert (caught.value.reason, type(cause), cause.run, cause.seq, cause.step) == (error.code, error, "r", 2, "0")


async def test_a_body_that_cannot_read_an_artifact_just_now_leaves_its_run_resumable(files):
    await stop_in_its_wait(SqliteStore(files), keeping(b"one"))
    folder = files.with_name("runs.db-artifacts")
    saved = folder.rename(folder.with_name("saved"))
    folder.symlink_to(folder)  # a loop: the system refuses to look, whoever asks
    async with opened(files) as journal:
        with pytest.raises(RunStoppedError) as caught:
            await journal.resume("r", keeping(b"one"))
    folder.unlink()
    saved.rename(folder)
    async with opened(files) as journal:
        assert (type(caught.value.__cause__), await journal.resume("r")) == (StoreUnavailableError, "one")


async def test_an_artifact_of_nobody_is_missing(desk):
    async with desk.open() as journal:
        with pytest.raises(ArtifactError) as caught:
            await journal.read(Artifact("0" * 64, 5, "text/plain"))
    assert caught.value.code == "artifact_missing"


# --- secrets ---


async def test_no_artifact_holds_a_declared_secret(files, monkeypatch):
    monkeypatch.setenv("API_KEY", VALUE)

    async def leaks(text: str) -> str:
        return f"{text} {VALUE}"

    async def leaky(ctx: Context, text: str) -> str:
        kept = await ctx.artifact(f"key={VALUE};".encode(), f"text/{VALUE}")
        assert kept.media_type == "text/[secret API_KEY]"
        said = await ctx.step(leaks, text)
        return (await ctx.read(kept)).decode() + said[-16:]

    url = f"sqlite:///{files}"
    async with counterfoil.open(url, secrets=["API_KEY"]) as journal:
        first = await journal.run(workflow(leaky), LONG + VALUE, id="r")
        assert (await journal.verify("r")).flaws == ()
    written = [path.read_bytes() for path in files.parent.rglob("*") if path.is_file()]
    assert first == "key=[secret API_KEY];[secret API_KEY]"
    assert (len(written) >= 5, [content for content in written if VALUE.encode() in content]) == (True, [])


async def test_a_secret_that_is_revealed_late_is_scrubbed_from_large_results_too(files, monkeypatch):
    monkeypatch.setenv("LATE_KEY", VALUE)

    async def leaks(key: Secret) -> str:
        return LONG + reveal(key)

    async def leaky(ctx: Context, key: Secret) -> str:
        return (await ctx.step(leaks, key))[-17:]

    async with counterfoil.open(f"sqlite:///{files}") as journal:
        assert await journal.run(workflow(leaky), Secret("LATE_KEY"), id="r") == "[secret LATE_KEY]"
    written = [path.read_bytes() for path in files.parent.rglob("*") if path.is_file()]
    assert [content for content in written if VALUE.encode() in content] == []
