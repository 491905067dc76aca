"""The tasks of one run: numbered when they are created, and watched for the moment at which all of them rest.

A task that a body creates is a branch of the run, numbered under the branch that created it, in the order of creation:
the order in which tasks finish shows in no key. A branch is at rest when it is inside a call of the context, or waits
for something that has not happened yet. What a task waits for can be seen only by looking into it.
"""

import asyncio
import itertools
import zlib
from collections.abc import Callable, Collection, Coroutine
from contextvars import Context, ContextVar
from typing import Any, Protocol

from counterfoil.core.keys import ROOT, step_key
from counterfoil.core.parts import Value
from counterfoil.core.replay import Operation
from counterfoil.engine import bridge, unsafe
from counterfoil.engine.definitions import current_step
from counterfoil.errors import Halted, UnsafeConstructError

REST_TURNS = 3
"""Turns of a busy loop without anything of the run going on, until it counts as quiet: the way from a task's end over a
gather or a TaskGroup to the task that waits for it takes two."""

ON_ITS_WAY_TURNS = 1000
"""So many turns a callback of the run is waited for at most: a longer chain of them is one without end."""

CUTS_MAX = 100
"""A branch that was asked to end so often outside a call stands still: a scope of anyio asks in every turn, and what it
waits for (a lock, say, that another branch holds) may take its cancellations without an end."""


class OpenStream(Protocol):
    """What a branch knows of a stream that it has opened."""

    what: str

    @property
    def is_live(self) -> bool:
        """Whether it is under way, so that it may come to its end although the run is to end."""

    def cut(self) -> Value:
        """The branch was cancelled in it. What had been handed over."""

    def branch_ended(self, branch: "Branch", task: "asyncio.Task[Any]") -> None:
        """The branch has come to its end, and left it open."""


class Branch:
    """One line of a run's code: its body, or a task that it made."""

    __slots__ = (
        "cancel_is_own",
        "children",
        "cuts",
        "limits",
        "operation",
        "ordinal",
        "parent",
        "path",
        "sealed_calls",
        "stream",
        "task",
        "under_way",
    )

    def __init__(self, path: tuple[int, ...], parent: "Branch | None") -> None:
        self.path, self.parent = path, parent
        self.task: asyncio.Task[Any] | None = None
        self.ordinal = self.children = 0
        self.under_way: str | None = None  # the call that it is inside of
        self.operation: Operation | None = None  # its last one
        self.stream: OpenStream | None = None  # one that it has opened, and not read to its end
        self.limits: list[tuple[asyncio.TimerHandle, unsafe.Callback]] = []  # timers that will cancel its task
        self.cancel_is_own = False  # the last request to cancel it came from the run's own code
        self.sealed_calls = self.cuts = 0  # requests to end it since it was last inside a call

    def next_key(self) -> str:
        """The key of its next step."""
        key = step_key(self.path, self.ordinal)
        self.ordinal += 1
        return key

    def place(self) -> str:
        """File and line of the user's code that is running, or that made this branch."""
        found, branch = unsafe.place_here() or (unsafe.place_of(self.task) if self.task else None), self.parent
        while found is None and branch is not None and branch.task is not None:
            found, branch = unsafe.place_of(branch.task), branch.parent
        return found or "?"

    def has_limit(self) -> bool:
        """Whether a timer may cancel it, or a branch above it, while it is inside a call."""
        branch: Branch | None = self
        while branch is not None:
            if branch.limits:
                branch.limits = [limit for limit in branch.limits if _is_set(*limit)]
                if branch.limits:
                    return True
            branch = branch.parent
        return False


class Branches:
    """The run's branches. `stop` is called with the first unsafe construct, `stirred` whenever a branch begins."""

    def __init__(self, run: str, stop: Callable[[UnsafeConstructError], None], stirred: Callable[[], None]) -> None:
        self._stop, self._stirred = stop, stirred
        self._numbers = itertools.count(zlib.crc32(run.encode()))
        self._of: dict[asyncio.Task[Any], Branch] = {}
        self._moving: set[Branch] = set()  # outside a call, and not known to wait
        self._turns_at_rest = 0
        self._hops = 1  # the longest way from a task's end to the task that waits for it
        self.moves = 0  # how often any branch has entered or left a call
        self._has_just_ended = False  # a branch, in this turn: a TaskGroup may cancel another one for it
        self.is_settled = False  # at rest since the last outcome was handed over
        self.leaving: dict[Branch, asyncio.Future[None] | None] = {}
        """Those that leave their call without an outcome, with a future from when they are ready."""

    @property
    def is_alone(self) -> bool:
        """Whether the run has one branch just now."""
        return len(self._of) <= 1

    def of_current_task(self) -> Branch | None:
        """The branch whose code is running; None in a task or a thread that is none of the run's."""
        try:
            task = asyncio.current_task()
        except RuntimeError:  # a thread without a loop
            return None
        return self._of.get(task) if task else None

    def in_body(self) -> Branch | None:
        """The branch whose own code is running, and not a call of the context or anything that it does."""
        branch = self.of_current_task()
        return branch if branch and branch.under_way is None else None

    def left(self) -> list[asyncio.Task[Any]]:
        """Tasks that have not ended."""
        return [task for task in self._of if not task.done()]

    def between_chunks(self) -> int:
        """How many live streams are held open by code that is in no call just now."""
        return sum(branch.under_way is None and _is_live(branch.stream) for branch in self._of.values())

    # --- refusals, where nothing can be awaited ---

    def refuse(self, error: UnsafeConstructError) -> None:
        """End the run for an unsafe construct. A lone branch ends here.

        Among others nothing is raised, since that could cut a paid call of a sibling: the caller lets its branch wait
        until the run is wound up.
        """
        self._stop(error)
        if self.is_alone:
            raise Halted

    # --- growth ---

    def begin(self, body: Coroutine[Any, Any, Any], context: Context) -> "asyncio.Task[Any]":
        """Start the run's body as its first branch."""
        task = self.task(bridge.driven(body), context=context)  # not by the loop: its factory may begin it at once
        self._enter(Branch(ROOT, None), task)
        return task

    def grow(
        self, parent: Branch, coroutine: Coroutine[Any, Any, Any], create: Callable[..., "asyncio.Task[Any]"]
    ) -> "asyncio.Task[Any]":
        """Start a task as the next child of a branch.

        `create` may be a factory that begins the task before it returns it, so the task makes itself known, too.
        """
        child = Branch((*parent.path, parent.children), parent)
        parent.children += 1

        async def known() -> Any:
            self._enter(child, asyncio.current_task())
            return await coroutine

        task = create(bridge.driven(known()))
        task.add_done_callback(lambda _: coroutine.close())  # it may have been cancelled before it began
        self._enter(child, task)
        return task

    def grow_plainly(
        self, parent: Branch, coroutine: Coroutine[Any, Any, Any], options: dict[str, Any]
    ) -> "asyncio.Task[Any]":
        """As `grow`, for a loop without a factory of its own."""
        child = Branch((*parent.path, parent.children), parent)
        parent.children += 1
        task = self.task(bridge.driven(coroutine), **options)
        self._enter(child, task)
        return task

    def task(self, coroutine: Coroutine[Any, Any, Any], **options: Any) -> "asyncio.Task[Any]":
        """A task of the kind that tells of its cancellation."""
        return BranchTask(coroutine, number=next(self._numbers), **options)

    def _enter(self, branch: Branch, task: "asyncio.Task[Any] | None") -> None:
        if task is None or branch.task is not None:
            return
        branch.task = task
        if isinstance(task, BranchTask):
            task.branches = self
        else:
            branch.cancel_is_own = True  # nobody tells, so the code is believed
        self._of[task] = branch
        self._move(branch)
        task.add_done_callback(self._leave)
        if not self.is_alone:
            self._stirred()

    def _leave(self, task: "asyncio.Task[Any]") -> None:
        branch = self._of.pop(task)
        if branch.stream is not None:
            branch.stream.branch_ended(branch, task)
        self._moving.discard(branch)
        self._turns_at_rest, self._has_just_ended = 0, True
        task.get_loop().call_soon(self._ended)
        if isinstance(task._exception, Halted):  # noqa: SLF001 - asking for it would
            task.exception()  # keep asyncio from telling of an exception that nobody asked for

    def _ended(self) -> None:
        self._has_just_ended = False

    # --- rest ---

    def enter_call(self, branch: Branch, what: str) -> None:
        """A call of the context begins in this branch."""
        branch.under_way, branch.operation, branch.cuts = what, None, 0
        self.moves += 1
        self._moving.discard(branch)
        self._turns_at_rest = 0
        if self._moving:
            self._look()

    def leave_call(self, branch: Branch) -> None:
        """The branch's own code goes on."""
        branch.under_way = None
        self.moves += 1
        self._move(branch)

    def is_quiet(self) -> bool:
        """One look per turn of the loop: whether everything is at rest, and nothing is on its way to anybody.

        That is so when the loop has nothing else to do. Where it has, for other runs, or can't be asked, turns are
        counted, and what it has to do for this run is waited for.
        """
        self._look()
        self._turns_at_rest = 0 if self._moving else self._turns_at_rest + 1
        ready: Collection[asyncio.Handle] | None = getattr(asyncio.get_running_loop(), "_ready", None)
        is_idle = not self._moving and ready is not None and not ready
        is_rest = self._turns_at_rest >= REST_TURNS + self._hops - 1
        self.is_settled = is_idle or (is_rest and not self._is_on_its_way(ready or ()))
        return self.is_settled

    def _is_on_its_way(self, ready: Collection[asyncio.Handle]) -> bool:
        """Whether the loop will call something of this run's code: futures may lead to each other over many turns."""
        if self._turns_at_rest > ON_ITS_WAY_TURNS:
            return False
        return any(self._is_of_body(handle) for handle in list(ready))

    def _is_of_body(self, handle: Any) -> bool:
        """Whether this goes on with the run's own code; not with a call of the context, nor with a step in it."""
        context, owner = handle._context, getattr(handle._callback, "__self__", None)  # noqa: SLF001 - not told elsewhere
        if context.get(current_branches) is not self or context.get(current_step) is not None:
            return False
        branch = self._of.get(owner) if isinstance(owner, asyncio.Task) else None
        is_still = branch is not None and (branch.under_way is not None or branch.cuts > CUTS_MAX)
        return not is_still and not unsafe.is_limit(handle._callback)  # noqa: SLF001 - a scope of anyio asks every turn

    def refuse_polling(self) -> None:
        """A branch goes on and on without waiting for anything, so that no outcome can be handed over: refuse that."""
        places = [unsafe.place_of(branch.task) for branch in self._moving if branch.task]
        self._stop(unsafe.refusal("asyncio.sleep(0) in a loop", next(filter(None, places), "?")))

    def wake(self, branch: Branch) -> None:
        """An outcome is handed to this branch, inside its call."""
        self._move(branch)

    def woke(self, branch: Branch) -> None:
        """The branch is awake, and still inside its call."""
        self._moving.discard(branch)
        self._turns_at_rest = 0

    def cancel_asked(self, task: "asyncio.Task[Any]") -> None:
        """Somebody asks to cancel a branch: its own run's code, if that is going on just now."""
        branch = self._of.get(task)
        if branch is None or current_step.get() is not None:  # a step's own affair, such as a timeout in it
            return
        is_going_on = not self.is_alone or self._has_just_ended or self.of_current_task() is branch
        branch.cuts += branch.under_way is None
        branch.cancel_is_own = current_branches.get() is self and is_going_on and not self.is_settled
        if branch.cancel_is_own and branch.under_way is not None:
            self.leaving.setdefault(branch, None)

    def _move(self, branch: Branch) -> None:
        self._moving.add(branch)
        self._turns_at_rest, self.is_settled = 0, False

    def _look(self) -> None:
        """Find those that wait by now. They are not looked at again until what they wait for has happened."""
        for branch in list(self._moving):
            task = branch.task
            if branch.under_way is not None or task is None:  # handed over, and not yet awake
                continue
            if branch.cuts > CUTS_MAX:
                self._moving.discard(branch)
                continue
            waited = task._fut_waiter  # type: ignore[attr-defined] # noqa: SLF001 - see above
            if waited is None or waited.done():
                continue
            self._moving.discard(branch)
            self._hops = max(self._hops, _hops(waited))
            construct = "asyncio.timeout" if branch.has_limit() else unsafe.waiting(task)
            if construct and not self.is_alone:
                self._stop(unsafe.refusal(construct, unsafe.place_of(task) or "?"))
            waited.add_done_callback(lambda _, branch=branch: self._happened(branch))

    def _happened(self, branch: Branch) -> None:
        if branch.task in self._of and branch.under_way is None and branch.cuts <= CUTS_MAX:
            self._move(branch)


current_branches: ContextVar[Branches | None] = ContextVar("counterfoil_branches", default=None)
"""The branches of the run that this code belongs to."""


class BranchTask(asyncio.Task[Any]):
    """A task that tells its run when somebody asks to cancel it.

    Its hash is a number that counts the tasks of the run: a TaskGroup keeps its tasks in a set, and cancels them in the
    order of the set, which must be the same on every pass.
    """

    branches: Branches | None = None

    def __init__(self, coroutine: Coroutine[Any, Any, Any], *, number: int, **options: Any) -> None:
        self._number = number
        super().__init__(coroutine, **options)

    def __hash__(self) -> int:
        return self._number

    def cancel(self, msg: Any | None = None) -> bool:
        """See asyncio.Task."""
        if self.branches is not None:
            self.branches.cancel_asked(self)
        return super().cancel(msg)


def _hops(waited: "asyncio.Future[Any]") -> int:
    """How deep gathers are nested in each other without a task in between."""
    inner = getattr(waited, "_children", ())
    return 1 + max((_hops(child) for child in inner if hasattr(child, "_children")), default=0) if inner else 1


def _is_live(stream: OpenStream | None) -> bool:
    return stream is not None and stream.is_live


def _is_set(timer: asyncio.TimerHandle, callback: unsafe.Callback) -> bool:
    return not timer.cancelled() and not unsafe.has_fired(callback)


async def forever() -> None:
    """Wait until cancelled."""
    await asyncio.get_running_loop().create_future()
