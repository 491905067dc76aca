"""What a run's model calls came to: a fold of its events, for readers of the record. No replay depends on it.

Four sums, each of model steps only:

- *requests*: that left, or may have left. Those listed as `sends`, and those of a try whose outcome was never seen.
- *spent*: model's answers that came whole, with a status of 2xx. A try that succeeded without any was one answer of
  unknown cost. It does not matter what came of the try: a result that could not be kept was paid for too. Another
  status (429, 503) counts as not billed.
- *lost*: requests that left and whose whole answer was not seen, a stream that broke or was left early included, and
  what they cost at the most: the step's declared bound, once for each try that lost any. A provider that knew a
  repeated request by its key may have billed less.
- *saved*: for each later attempt, what the outcomes on record when it began were answered with. That is what it would
  have come to had the attempt asked for them again.
"""

from collections.abc import Callable, Iterable
from typing import Any

import msgspec

from counterfoil.core.events import (
    AttemptStarted,
    Body,
    Event,
    OutcomeUnknown,
    RetrySet,
    RunResumed,
    StepCancelled,
    StepFailed,
    StepIntended,
    StepSucceeded,
)
from counterfoil.core.parts import Answer, Send

SUCCESS = range(200, 300)
NEVER_LEFT = frozenset(
    {"ConnectError", "ConnectTimeout", "PoolTimeout", "ProxyError", "UnsupportedProtocol", "LocalProtocolError"}
)
"""Errors of HTTP clients by which it is known that the request was not sent."""
DECIMALS = 12
"""Sums of money are kept to so many, which hides what adding binary fractions leaves behind."""


class Sum(msgspec.Struct, frozen=True, omit_defaults=True):
    """Answered calls."""

    calls: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    cost_usd: float | None = None  # of those whose price is known; None: of none it is
    unpriced: int = 0  # calls without a known price

    def plus(self, other: "Sum") -> "Sum":
        """Both together."""
        return Sum(
            self.calls + other.calls,
            self.input_tokens + other.input_tokens,
            self.output_tokens + other.output_tokens,
            _money(self.cost_usd, other.cost_usd),
            self.unpriced + other.unpriced,
        )


class Lost(msgspec.Struct, frozen=True, omit_defaults=True):
    """Calls that may have been made and paid for, and whose answer nobody saw."""

    calls: int = 0
    worst_cost_usd: float | None = 0.0  # None: a bound was not declared

    def plus(self, calls: int, worst: float | None) -> "Lost":
        """With the lost calls of one more try."""
        both = None if worst is None or self.worst_cost_usd is None else _money(self.worst_cost_usd, worst)
        return Lost(self.calls + calls, both)


class Totals(msgspec.Struct, frozen=True, omit_defaults=True):
    """What a run's model calls came to so far."""

    requests: int = 0  # that left, or may have
    spent: Sum = Sum()
    lost: Lost = Lost()
    saved: Sum = Sum()  # by replay
    prices: tuple[str, ...] = ()  # tables that the costs come from

    def __bool__(self) -> bool:
        return self != Totals()


class Tally:
    """Folds a run's events into totals."""

    def __init__(self, events: Iterable[Event] = ()) -> None:
        self.totals = Totals()
        self.under_way: dict[str, float | None] = {}  # model steps with a try under way: its declared bound
        self.on_record: dict[str, Sum] = {}  # model steps with an outcome: what it was answered with
        for event in events:
            self.add(event)

    def add(self, event: Event) -> None:
        """Take one event in."""
        take = _TAKE.get(type(event.body))
        if take is not None:
            take(self, event.step or "", event.body)

    def change(self, **parts: Any) -> None:
        """Replace parts of the totals."""
        self.totals = msgspec.structs.replace(self.totals, **parts)


def totals_of(events: Iterable[Event]) -> Totals:
    """What these events come to."""
    return Tally(events).totals


def written(totals: Totals) -> bytes:
    """The totals as a run's row keeps them."""
    return msgspec.json.encode(totals)


def read(raw: bytes) -> Totals:
    """The totals in a run's row. One without them has none yet; one that can't be read is as good."""
    try:
        return msgspec.json.decode(raw, type=Totals) if raw else Totals()
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return Totals()


def is_answered(send: Send) -> bool:
    """Whether the whole answer was seen."""
    return send.status in SUCCESS and send.error is None and not send.partial


def is_lost(send: Send) -> bool:
    """Whether the request left, and may have been served, without its whole answer being seen."""
    if send.status is None:
        return send.error not in NEVER_LEFT
    return send.status in SUCCESS and not is_answered(send)


def _intended(tally: Tally, step: str, body: StepIntended) -> None:
    if body.kind == "model":
        tally.under_way[step] = body.worst_cost_usd


def _ended(tally: Tally, step: str, body: StepSucceeded | StepFailed | RetrySet) -> None:
    """A try has an outcome."""
    if step not in tally.under_way:
        return
    _count_sends(tally, body.sends, tally.under_way.pop(step))
    answers = [send.answer for send in body.sends if is_answered(send) and send.answer is not None]
    if not answers and isinstance(body, StepSucceeded):
        answers = [Answer()]
    _count_answers(tally, answers)
    if not isinstance(body, RetrySet):
        tally.on_record[step] = _sum(answers)


def _cancelled(tally: Tally, step: str, body: StepCancelled) -> None:
    """The try under way may have sent what nobody waits for any more."""
    if step not in tally.under_way:
        return
    bound = tally.under_way.pop(step)
    if not body.sends:
        tally.change(requests=tally.totals.requests + 1, lost=tally.totals.lost.plus(1, bound))
    _count_sends(tally, body.sends, bound)
    _count_answers(tally, [send.answer for send in body.sends if is_answered(send) and send.answer is not None])


def _unknown(tally: Tally, step: str, body: OutcomeUnknown) -> None:
    if step not in tally.under_way:
        return
    bound = tally.under_way.pop(step)
    totals = tally.totals
    tally.change(requests=totals.requests + body.calls, lost=totals.lost.plus(body.calls, bound))


def _begun(tally: Tally, _: str, __: AttemptStarted) -> None:
    """What is on record now will be served from there."""
    if tally.on_record:
        tally.change(saved=_total([tally.totals.saved, *tally.on_record.values()]))


def _resumed(tally: Tally, _: str, body: RunResumed) -> None:
    """A failed step that is tried again is asked for again."""
    tally.on_record.pop(body.reopened or "", None)


def _count_sends(tally: Tally, sends: tuple[Send, ...], bound: float | None) -> None:
    if not sends:
        return
    lost = sum(map(is_lost, sends))
    if lost:
        tally.change(lost=tally.totals.lost.plus(lost, bound))
    tally.change(requests=tally.totals.requests + len(sends))


def _count_answers(tally: Tally, answers: list[Answer]) -> None:
    if not answers:
        return
    tables = tally.totals.prices
    tables += tuple(sorted({answer.prices for answer in answers if answer.prices} - set(tables)))
    tally.change(spent=tally.totals.spent.plus(_sum(answers)), prices=tables)


def _sum(answers: Iterable[Answer]) -> Sum:
    return _total(
        Sum(1, each.input_tokens or 0, each.output_tokens or 0, each.cost_usd, int(each.cost_usd is None))
        for each in answers
    )


def _total(sums: Iterable[Sum]) -> Sum:
    total = Sum()
    for each in sums:
        total = total.plus(each)
    return total


def _money(one: float | None, other: float | None) -> float | None:
    return one if other is None else other if one is None else round(one + other, DECIMALS)


_TAKE: dict[type[Body], Callable[[Tally, str, Any], None]] = {
    StepIntended: _intended,
    StepSucceeded: _ended,
    StepFailed: _ended,
    RetrySet: _ended,
    StepCancelled: _cancelled,
    OutcomeUnknown: _unknown,
    AttemptStarted: _begun,
    RunResumed: _resumed,
}
