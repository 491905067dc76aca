"""The facade: open a store by URL, run workflows durably, look at what is recorded.

The only module that picks a store. `run`, `start` and `resume` are different verbs: `run` starts or attaches and waits,
`start` records and leaves the work to whoever takes it, `resume` lets a run that stands still go on. Cancelling the
caller of any of them detaches it; the run goes on until the journal closes.
"""

import asyncio
import contextlib
import os
import threading
from collections.abc import Awaitable, Callable, Coroutine, Generator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType, TracebackType
from typing import Any, Concatenate, Generic, ParamSpec, Self, TypeVar, TypeVarTuple, cast, overload

from counterfoil import artifacts
from counterfoil.artifacts import Artifact, Need
from counterfoil.core import codec, tally
from counterfoil.core.events import Event, Record, RunStarted
from counterfoil.core.failure import printable
from counterfoil.core.integrity import Anchor
from counterfoil.core.keys import check_run_id
from counterfoil.core.scrub import Scrubber
from counterfoil.core.sharing import WholeEvents
from counterfoil.core.state import Status
from counterfoil.core.tally import Totals
from counterfoil.engine import inspection, keyring, queries
from counterfoil.engine.calls import Call
from counterfoil.engine.context import Context
from counterfoil.engine.definitions import Workflow, known_workflow, workflow_of
from counterfoil.engine.driver import Resume
from counterfoil.engine.drives import GRACE_SECONDS, Drives
from counterfoil.engine.outcomes import outcome_of
from counterfoil.engine.prices import Prices, PriceTable
from counterfoil.engine.recorder import as_value, first_record
from counterfoil.engine.resources import Provider, Resources
from counterfoil.engine.system import System
from counterfoil.errors import (
    IdInvalidError,
    InputInvalidError,
    JournalDamagedError,
    NotReadableError,
    NotStorableError,
    ResultTypeUnknownError,
    RunConflictError,
    RunNotFoundError,
    RunOwnedError,
    StoreClosedError,
    StoreUrlError,
    WorkflowUnknownError,
)
from counterfoil.store import Head, NewRun, Query, Store
from counterfoil.stores.memory import MemoryStore
from counterfoil.stores.sqlite import SqliteStore

R = TypeVar("R")
P = ParamSpec("P")
Ts = TypeVarTuple("Ts")

DEFAULT_URL = "sqlite:///counterfoil.db"
VERSION = "0.1.0"
WATCH_SECONDS = 0.05
SHOWN_CHARACTERS = 200


def open(
    url: str | Store = DEFAULT_URL, *, secrets: Sequence[str] = (), prices: PriceTable | None = None,
    system: System | None = None, overrides: Mapping[Provider, Any] = MappingProxyType({}),
) -> "Journal":  # fmt: skip
    """A journal over the store that the URL names: `sqlite:///relative.db`, `sqlite:////absolute.db`, `memory://`.

    Use it as `async with`, or `await` it and `close` it later. `secrets` names environment variables whose values must
    never be written: not to the store, not to the log, not into an error. `prices` says what a model's answer cost, in
    dollars, or None where it does not know; its name is recorded with each cost. Without it the package genai-prices
    does that, where it is installed. `overrides` gives steps another value than the provider of `use(provider)` would,
    for tests. Raises StoreUrlError or SecretError at once; opening raises StoreNewerError, NotAStoreError or
    StoreUnavailableError.
    """
    scrubber = Scrubber({name: os.environ.get(name, "") for name in secrets})
    keyring.take_out_of(scrubber)
    store = _store_of(url) if isinstance(url, str) else url
    resources = Resources(overrides, scrubber.text)
    return Journal(store, scrubber, system or System(), resources=resources, prices=Prices(prices))


class Run(Generic[R]):
    """A run as it stood when it was looked at; `refresh` looks again."""

    def __init__(self, journal: "Journal", head: Head, workflow: Workflow | None) -> None:
        self._journal, self._head, self._workflow = journal, head, workflow

    def __repr__(self) -> str:
        return f"<run {self.id} of {self.workflow}: {self.state}>"

    @property
    def id(self) -> str:
        """The run's id."""
        return self._head.run

    @property
    def workflow(self) -> str:
        """The name of its workflow."""
        return self._head.workflow

    @property
    def state(self) -> Status:
        """pending, running, suspended, paused, completed or failed."""
        return self._head.status

    @property
    def reason(self) -> str | None:
        """Why it is paused or suspended."""
        return self._head.reason

    @property
    def tags(self) -> Mapping[str, str]:
        """Labels given at the start."""
        return self._head.tags

    @property
    def totals(self) -> Totals:
        """What its model calls came to, as far as that is on record: spent, lost, and saved by replay."""
        return tally.read(self._head.totals)

    @property
    def head(self) -> Head:
        """The stored row: revision, hash, owner, times."""
        return self._head

    async def refresh(self) -> Self:
        """Look again."""
        self._head = await self._journal.head(self.id)
        return self

    async def result(self, timeout: float | None = None) -> R:  # noqa: ASYNC109 - waits for another process
        """Wait until the run has ended and return what it returned.

        Raises RunFailedError, RunPausedError as soon as it is paused, TimeoutError after `timeout` seconds.
        """
        async with asyncio.timeout(timeout):
            return cast("R", await self._journal.wait(self.id, self._workflow))


class Journal:
    """A store, opened: runs are driven here, by this process, until the journal is closed."""

    def __init__(
        self, store: Store, scrubber: Scrubber, system: System, *, resources: Resources, prices: Prices
    ) -> None:
        self.store = store
        self._scrubber, self._system = scrubber, system
        self._drives = Drives(store, system, scrubber, release=VERSION, resources=resources, prices=prices)
        self._is_open = False

    async def __aenter__(self) -> Self:
        await self.store.open()
        self._is_open = True
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    def __await__(self) -> Generator[Any, Any, Self]:
        return self.__aenter__().__await__()

    async def close(self, *, grace: float = GRACE_SECONDS) -> None:
        """Stop driving and let go. Steps under way get `grace` seconds to end; every run is left resumable.

        What steps have used is closed after that, the last one first; what closing raises is logged.
        """
        if not self._is_open:
            return
        self._is_open = False
        await self._drives.close("the journal was closed", grace=grace)
        await self.store.close()

    async def stop(self, why: str, *, grace: float = GRACE_SECONDS) -> None:
        """Leave every run that is driven here resumable; those who wait for one get RunStoppedError."""
        await self._drives.stop(why, grace=grace)

    # --- running ---

    @overload
    async def run(self, call: Call[R], /, *, id: str | None = ..., tags: Mapping[str, str] | None = ...) -> R: ...
    @overload
    async def run(
        self, workflow: Callable[[Context, *Ts], Coroutine[Any, Any, R]], /, *args: *Ts,
        id: str | None = ..., tags: Mapping[str, str] | None = ...,
    ) -> R: ...  # fmt: skip
    async def run(
        self, workflow: Any, /, *args: object, id: str | None = None, tags: Mapping[str, str] | None = None
    ) -> Any:
        """Run a workflow and return its result; with an id in use, attach to that run.

        A run that has ended gives its recorded result; one that stands still because its process died is taken up where
        it was. Without an id a new UUIDv7 is used; keyword arguments go through `bind`. Raises RunConflictError for an
        id of another workflow or input, RunPausedError, RunFailedError, RunStoppedError, InputInvalidError.
        """
        self._check_open()
        call = _call_of(workflow, args)
        head, record = await self._recorded(call, id, tags, is_ours=True)
        declared = workflow_of(call.function)
        if record:
            return await asyncio.shield(self._drives.launch(head, declared, [record]))
        return await self._attach(head, declared)

    @overload
    async def start(
        self, call: Call[R], /, *, id: str | None = ..., tags: Mapping[str, str] | None = ...
    ) -> Run[R]: ...
    @overload
    async def start(
        self, workflow: Callable[[Context, *Ts], Coroutine[Any, Any, R]], /, *args: *Ts,
        id: str | None = ..., tags: Mapping[str, str] | None = ...,
    ) -> Run[R]: ...  # fmt: skip
    async def start(
        self, workflow: Any, /, *args: object, id: str | None = None, tags: Mapping[str, str] | None = None
    ) -> Any:
        """Record a run and return; it is on disk by then. Somebody has to take it: `resume`, or `run` with its id.

        Raises RunConflictError and InputInvalidError.
        """
        self._check_open()
        call = _call_of(workflow, args)
        head, _ = await self._recorded(call, id, tags, is_ours=False)
        return Run(self, head, workflow_of(call.function))

    async def resume(
        self, id: str, workflow: Callable[Concatenate[Context, P], Coroutine[Any, Any, R]] | None = None,
        *, who: str = "api", why: str | None = None,
    ) -> R:  # fmt: skip
        """Let a run that stands still go on, here, and return its result. A failed step that paused it is tried again.

        Without `workflow` it is looked up by the recorded name among those loaded. A run that has ended gives its
        result. Raises RunOwnedError while another process drives it, RunNotFoundError, WorkflowUnknownError, and what
        `run` raises.
        """
        head = await self.head(id)
        declared = workflow_of(workflow) if workflow else known_workflow(head.workflow)
        if workflow and declared and head.workflow not in {declared.name, *declared.aliases}:
            raise RunConflictError(run=id, what="workflow", recorded=head.workflow, attempted=declared.name)
        if head.status.is_final:
            return cast("R", await self._outcome(head, declared))
        if declared is None:
            raise WorkflowUnknownError(run=id, workflow=head.workflow)
        task = await self._drives.take_up(id, declared, Resume(printable(who), printable(why) if why else None))
        return cast("R", await (asyncio.shield(task) if task else self._outcome(await self.head(id), declared)))

    # --- looking ---

    @overload
    async def get(self, id: str) -> Run[Any]: ...
    @overload
    async def get(self, id: str, workflow: Callable[Concatenate[Context, P], Coroutine[Any, Any, R]]) -> Run[R]: ...
    async def get(self, id: str, workflow: Any = None) -> Run[Any]:
        """The run with this id, typed by its workflow if that is given. Raises RunNotFoundError."""
        head = await self.head(id)
        return Run(self, head, workflow_of(workflow) if workflow else known_workflow(head.workflow))

    async def list(
        self, *, states: Sequence[Status] = (), workflow: str | None = None, tags: Mapping[str, str] | None = None,
        before: int | None = None, limit: int = 50,
    ) -> "Sequence[Run[Any]]":  # fmt: skip
        """Runs, newest first; page on with `before=` the last one's `head.number`."""
        self._check_open()
        query = Query(statuses=states, workflow=workflow, tags=dict(tags or {}), before=before, limit=limit)
        return [Run(self, head, known_workflow(head.workflow)) for head in await self.store.heads(query)]

    async def events(self, id: str) -> WholeEvents:
        """All events of a run, in order, each with its whole input: those of a long conversation one at a time.

        Raises RunNotFoundError, JournalDamagedError, JournalUnreadableError, ArtifactMissingError,
        ArtifactAlteredError.
        """
        return WholeEvents(id, await artifacts.read_all(await self._records(id), id, self.store.artifact))

    async def verify(self, id: str, *, anchors: Sequence[Anchor] = ()) -> queries.Verification:
        """Check a run's chain, sequence, transitions and artifacts. `anchors` are heads kept outside the store."""
        row = await self.head(id)
        return await queries.verify(row, await self.store.read(id), self.store.artifact, anchors=anchors)

    async def read(self, artifact: Artifact) -> bytes:
        """The bytes of an artifact that a run keeps. Raises ArtifactMissingError, ArtifactAlteredError."""
        self._check_open()
        need = Need(digest=artifact.digest, size_bytes=artifact.size_bytes)
        return await artifacts.content(need, self.store.artifact)

    async def inspect_artifacts(self) -> inspection.ArtifactReport:
        """Check all artifacts of the store: which are lost, what needs them, and what no event names."""
        self._check_open()
        return await inspection.inspect_artifacts(self.store)

    async def head(self, id: str) -> Head:
        """The run's stored row. Raises RunNotFoundError."""
        self._check_open()
        found = await self.store.head(id)
        if found is None:
            raise RunNotFoundError(run=id, store=self.store.name)
        return found

    async def wait(self, id: str, workflow: Workflow | None = None) -> Any:
        """Wait until the run has ended or is paused, whoever drives it, and return or raise its outcome."""
        while not _stands((head := await self.head(id)).status):
            task = self._drives.get(id)
            await (asyncio.wait([task]) if task else asyncio.sleep(WATCH_SECONDS))
        return await self._outcome(head, workflow)

    # --- inside ---

    async def _recorded(
        self, call: Call[Any], id_: str | None, tags: Mapping[str, str] | None, *, is_ours: bool
    ) -> tuple[Head, Record | None]:
        """The run's head, and its first record if this call made it; a conflict if it is another run's id."""
        declared = workflow_of(call.function)
        run = self._checked_id(id_)
        tags = self._checked_tags(declared, tags or {})
        raw = self._scrubber.raw(self._input_of(declared, call))
        now = self._system.now()
        body = RunStarted(workflow=declared.name, input=as_value(raw), version=declared.version, tags=tags)
        record, contents = first_record(run, body, now=now, system=self._system, scrubber=self._scrubber)
        owner = (await self._drives.lease()).worker if is_ours else None
        new = NewRun(
            run=run, workflow=declared.name, tags=tags, record=record, now=now, owner=owner, artifacts=contents
        )
        head, is_new = await self.store.start(new)
        if not is_new:
            await self._check_same(head, declared, raw)
        return head, record if is_new else None

    def _input_of(self, declared: Workflow, call: Call[Any]) -> bytes:
        try:
            return _input_of(declared, call)
        except InputInvalidError as error:  # it may quote the input
            reason = self._scrubber.text(error.reason)
            raise InputInvalidError(name=error.name, signature=error.signature, reason=reason) from None

    def _checked_id(self, id_: str | None) -> str:
        run = check_run_id(id_) if id_ is not None else self._system.new_id()
        if self._scrubber.text(run) != run:
            raise IdInvalidError(run=self._scrubber.text(run), problem="contains a declared secret")
        return run

    def _checked_tags(self, declared: Workflow, tags: Mapping[str, str]) -> dict[str, str]:
        if not all(type(text) is str and text.isprintable() for pair in tags.items() for text in pair):
            reason = "tags must be a mapping of printable strings to printable strings"
            raise InputInvalidError(name=declared.name, signature=" tags", reason=reason)
        return {self._scrubber.text(key): self._scrubber.text(value) for key, value in tags.items()}

    async def _check_same(self, head: Head, declared: Workflow, raw: bytes) -> None:
        if head.workflow not in {declared.name, *declared.aliases}:
            raise RunConflictError(run=head.run, what="workflow", recorded=head.workflow, attempted=declared.name)
        body = (await self._event(head.run, 0)).body
        recorded = bytes(cast("RunStarted", body).input)
        if recorded != raw and codec.input_digest(recorded) != codec.input_digest(raw):
            raise RunConflictError(run=head.run, what="input", recorded=_shown(recorded), attempted=_shown(raw))

    async def _attach(self, head: Head, declared: Workflow) -> Any:
        """Wait for whoever drives the run; drive it here once nobody does."""
        while True:
            task = self._drives.get(head.run)
            if task is None and _stands(head.status):
                return await self._outcome(head, declared)
            with contextlib.suppress(RunOwnedError):
                task = task or await self._drives.take_up(head.run, declared, None)
            if task:
                return await asyncio.shield(task)
            await asyncio.sleep(WATCH_SECONDS)
            head = await self.head(head.run)

    async def _outcome(self, head: Head, declared: Workflow | None) -> Any:
        return outcome_of(declared, head.run, await self._event(head.run, -1))

    async def _event(self, run: str, index: int) -> Event:
        """One event: the others may need artifacts that are large, or lost."""
        return await artifacts.read((await self._records(run))[index], run, self.store.artifact)

    async def _records(self, run: str) -> Sequence[Record]:
        row = await self.head(run)
        records = await self.store.read(run)
        if not records or records[0].seq:
            raise JournalDamagedError(run=run, seq=row.seq, problem="the events that lead to it are not there")
        return records

    def _check_open(self) -> None:
        if not self._is_open:
            raise StoreClosedError(store=self.store.name)


def run_sync(
    workflow: Callable[[Context, *Ts], Coroutine[Any, Any, R]], /, *args: *Ts,
    id: str | None = None, store: str | Store | None = None,
) -> R:  # fmt: skip
    """Open a journal, run a workflow, close it, from code without an event loop (or with one: then in a thread).

    Raises what `Journal.run` raises.
    """

    async def main() -> R:
        async with open(store or DEFAULT_URL) as journal:
            return await journal.run(workflow, *args, id=id)

    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(main())
    return _in_thread(main)


def _in_thread(main: Callable[[], Awaitable[R]]) -> R:
    outcome: list[Any] = []
    error: list[BaseException] = []

    def work() -> None:
        try:
            outcome.append(asyncio.run(cast("Coroutine[Any, Any, R]", main())))
        except BaseException as raised:  # noqa: BLE001 - raised again in the caller's thread
            error.append(raised)

    thread = threading.Thread(target=work, name="counterfoil-run-sync")
    thread.start()
    thread.join()
    if error:
        raise error[0]
    return cast("R", outcome[0])


def _store_of(url: str) -> Store:
    scheme, separator, rest = url.partition("://")
    if not separator:
        raise StoreUrlError(url=url, problem="it has no scheme")
    if scheme == "memory":
        return MemoryStore()
    if scheme != "sqlite":
        raise StoreUrlError(url=url, problem=f"{scheme!r} is not supported")
    if not rest.startswith("/") or len(rest) == 1:
        raise StoreUrlError(url=url, problem="a SQLite URL has three slashes and a path")
    return SqliteStore(Path(rest[1:]))


def _call_of(workflow: Any, args: tuple[Any, ...]) -> Call[Any]:
    return workflow if isinstance(workflow, Call) else Call(workflow, args, {})


def _input_of(declared: Workflow, call: Call[Any]) -> bytes:
    """The encoded input by parameter name. Raises InputInvalidError unless it fits signature and types."""
    try:
        named = declared.form.bind(call.args, call.kwargs)
    except TypeError as error:
        raise _invalid(declared, str(error)) from None
    codec.encode(named, where=f"the input of {declared.name}")
    try:
        return codec.encode_arguments(named, declared.hints)
    except NotReadableError as error:
        at = "" if error.path == "$" else f" - at {error.path}"
        raise _invalid(declared, f"{error.where} does not fit {error.type}: {error.reason}{at}") from None
    except (NotStorableError, ResultTypeUnknownError) as error:
        raise _invalid(declared, str(error)) from None


def _invalid(declared: Workflow, reason: str) -> InputInvalidError:
    return InputInvalidError(name=declared.name, signature=str(declared.form.signature), reason=reason)


def _stands(status: Status) -> bool:
    """Whether waiting any longer would bring nothing."""
    return status.is_final or status is Status.PAUSED


def _shown(raw: bytes) -> str:
    text = raw.decode()
    return text if len(text) <= SHOWN_CHARACTERS else text[:SHOWN_CHARACTERS] + "..."
