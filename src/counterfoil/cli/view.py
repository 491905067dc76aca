"""One run as `show` shows it, put together from its row and its events."""

from collections.abc import Sequence

import msgspec

from counterfoil.core.events import (
    BOOKKEEPING,
    AttemptStarted,
    Event,
    RunCompleted,
    RunFailed,
    RunPaused,
)
from counterfoil.core.state import Status
from counterfoil.core.tally import Totals, totals_of
from counterfoil.engine.queries import OUTCOMES, Entry, Summary, summary, timeline
from counterfoil.store import Head


class Pass(msgspec.Struct, frozen=True, kw_only=True):
    """One attempt: who made it, what it found recorded, and where it went live."""

    number: int
    started: AttemptStarted
    event: Event
    recorded: int  # outcomes that were there before it began
    live_from: int | None  # seq of its first event that is news; None if there was none


class RunView(msgspec.Struct, frozen=True, kw_only=True):
    """A run, as far as it is recorded."""

    head: Head
    entries: list[Entry]
    summary: Summary
    totals: Totals
    passes: list[Pass]
    pause: RunPaused | None
    end: RunCompleted | RunFailed | None

    def goes_live_at(self, entry: Entry) -> bool:
        """Whether a later attempt replayed all before this entry, and this is the first that it added."""
        first = next(each for each in self.entries if each.attempt == entry.attempt)
        return entry is first and entry.attempt > 1


def view(head: Head, events: Sequence[Event]) -> RunView:
    """The run that the row and the events tell of."""
    bodies = [event.body for event in events]
    pauses = [body for body in bodies if isinstance(body, RunPaused)] if head.status is Status.PAUSED else []
    ends = [body for body in bodies if isinstance(body, RunCompleted | RunFailed)]
    return RunView(
        head=head,
        entries=timeline(events),
        summary=summary(events),
        totals=totals_of(events),
        passes=_passes(events),
        pause=pauses[-1] if pauses else None,
        end=ends[-1] if ends else None,
    )


def _passes(events: Sequence[Event]) -> list[Pass]:
    outcomes, passes = 0, []
    for event in events:
        outcomes += isinstance(event.body, OUTCOMES)
        if isinstance(event.body, AttemptStarted):
            passes.append(
                Pass(
                    number=event.attempt,
                    started=event.body,
                    event=event,
                    recorded=outcomes,
                    live_from=_live_from(events, event.attempt),
                )
            )
    return passes


def _live_from(events: Sequence[Event], attempt: int) -> int | None:
    news = (event.seq for event in events if event.attempt == attempt and event.type not in BOOKKEEPING)
    return next(news, None)
