"""Outcomes are handed over one at a time, in the order of the journal, each when the run is quiet.

With more than one branch the order in which outcomes arrive shows in the program: in a shared list, a queue, a lock. So
each is handed over only when all that followed from the one before has come to rest, live just as on a replay. With one
branch none of this is needed, and nothing of it happens.
"""

import asyncio
from collections import OrderedDict
from collections.abc import Callable
from typing import Any

from counterfoil.core.replay import Consumed, Cursor, Decision, Mismatch
from counterfoil.engine.branches import Branch, Branches
from counterfoil.engine.ending import Ending

POLLING_TURNS = 1_000_000
"""So many turns an outcome waits while a branch goes on without waiting for anything; then that is polling."""


class Turns:
    """Who is handed what next. `differs` is called when the code does not fit the record."""

    def __init__(self, cursor: Cursor, ending: Ending, differs: Callable[[Mismatch], None]) -> None:
        self._cursor, self._ending, self._differs = cursor, ending, differs
        self._waiting: dict[str, tuple[Branch, asyncio.Future[Any]]] = {}
        self._noted: OrderedDict[str, None] = OrderedDict()  # outcomes of this attempt, in the order of the journal
        self._is_consumed = False
        self._is_looking = False
        self._turns_held_up = 0  # since an outcome could have been handed over

    def watch(self, branches: Branches) -> None:
        """Hand over to these branches."""
        self._branches = branches

    def stir(self) -> None:
        """Something of the run goes on: look until it is quiet again."""
        if not self._is_looking:
            self._is_looking = True
            asyncio.get_running_loop().call_soon(self._look)

    async def decision(self, branch: Branch, key: str) -> Decision:
        """What is recorded for this operation, when it is its turn; or how to make it, once the record is used up."""
        decision: Decision = await self._turn(branch, key)
        return decision

    def note(self, key: str) -> None:
        """An outcome of this operation was noted in the journal."""
        self._noted[key] = None

    def is_noted(self, key: str) -> bool:
        """Whether the outcome of this operation waits for its turn."""
        return key in self._noted

    async def outcome(self, branch: Branch, key: str) -> None:
        """The noted outcome is on disk: wait for its turn."""
        await self._turn(branch, key)

    async def leave(self, branch: Branch) -> None:
        """The branch leaves its call without an outcome: wait until it may.

        How long the call takes to end shows in nothing then: several that were cancelled, or read something, leave one
        at a time, in the order of their branches, and before any further outcome. Cancelled while it waits, a branch
        still waits.
        """
        leaving, is_cut = self._branches.leaving, False
        while branch in leaving and not self._branches.is_alone and not self._ending.is_sealed:
            leaving[branch] = turn = asyncio.get_running_loop().create_future()
            self.stir()
            try:
                await turn
            except asyncio.CancelledError:
                is_cut = True
        leaving.pop(branch, None)
        self._branches.woke(branch)
        if is_cut:
            raise asyncio.CancelledError

    def withdraw(self, key: str) -> None:
        """The operation was cancelled, and takes no turn any more."""
        self._cursor.withdraw(key)
        self._noted.pop(key, None)

    async def _turn(self, branch: Branch, key: str) -> Any:
        turn: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._waiting[key] = branch, turn
        self.stir()
        try:
            return await turn
        finally:
            self._branches.woke(branch)
            self._waiting.pop(key, None)

    def _look(self) -> None:
        if self._ending.is_sealed or (self._branches.is_quiet() and not self._hand_over()):
            self._is_looking = False
        else:
            asyncio.get_running_loop().call_soon(self._look)
            self._count_turn()

    def _count_turn(self) -> None:
        """While a branch polls no outcome can be handed over, and it may poll for just that outcome."""
        is_due = self._noted or self._branches.leaving or (self._waiting and not self._is_consumed)
        self._turns_held_up = self._turns_held_up + 1 if is_due and not self._branches.is_settled else 0
        if self._turns_held_up > POLLING_TURNS:
            self._turns_held_up = 0
            self._branches.refuse_polling()

    def _hand_over(self) -> bool:
        """Hand the next outcome over. Whether anything was."""
        if self._branches.leaving:
            return self._let_leave(min(self._branches.leaving, key=lambda branch: branch.path))
        return (not self._is_consumed and self._hand_over_recorded()) or self._hand_over_new()

    def _let_leave(self, branch: Branch) -> bool:
        turn = self._branches.leaving[branch]
        if turn is None:  # its call has not ended yet
            return False
        del self._branches.leaving[branch]
        self._branches.wake(branch)
        if not turn.done():
            turn.set_result(None)
        return True

    def _hand_over_recorded(self) -> bool:
        found = self._cursor.hand_over()
        if isinstance(found, Mismatch):
            self._differs(found)
            return False
        if isinstance(found, Consumed):
            self._is_consumed = True
            for turn in found.turns:
                self._give(turn.key, turn.decision)
            return bool(found.turns)
        return self._give(found.key, found.decision)

    def _hand_over_new(self) -> bool:
        first = next(iter(self._noted), None) if self._is_consumed else None
        if first is None or first not in self._waiting:
            return False
        del self._noted[first]
        return self._give(first, None)

    def _give(self, key: str, decision: Decision | None) -> bool:
        branch, turn = self._waiting[key]
        if not turn.done():
            turn.set_result(decision)
            self._branches.wake(branch)
        return True
