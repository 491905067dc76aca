"""Tokens and money in words. An unknown price is called so, and never shown as an amount."""

import math
from collections.abc import Iterator, Sequence

from counterfoil.cli.describe import count
from counterfoil.core.parts import Answer, Send
from counterfoil.core.tally import Lost, Sum, Totals, is_answered

NO_PRICE = "no price"
CENTS = 2
DIGITS = 3
"""Amounts below a dollar are shown with so many digits that say something."""


def dollars(amount: float) -> str:
    """An amount: whole cents from a dollar up, else as small as it is. Only altered rows have less than nothing."""
    if amount < 0:
        return f"-{dollars(-amount)}"
    if amount >= 1 or not amount:
        return f"${amount:,.{CENTS}f}"
    places = DIGITS - 1 - math.floor(math.log10(amount))
    whole, _, part = f"{amount:.{places}f}".partition(".")
    return f"${whole}.{part.rstrip('0').ljust(CENTS, '0')}"


def spent_line(totals: Totals) -> str:
    """What a run's model calls came to."""
    parts = [_spent(totals)]
    if totals.lost.calls:
        parts.append(lost_words(totals.lost))
    if totals.saved.calls:
        saved = totals.saved
        parts.append(f"saved by replay {price_words(saved)} ({count(saved.calls, 'call')}{_unpriced(saved)})")
    return " · ".join(parts)


def lost_words(lost: Lost) -> str:
    """Calls whose answer nobody saw."""
    bound = "cost not bounded" if lost.worst_cost_usd is None else f"at most {dollars(lost.worst_cost_usd)}"
    return f"lost {count(lost.calls, 'call')}, {bound}"


def price_words(total: Sum) -> str:
    """What the calls cost, as far as that is known."""
    return NO_PRICE if total.cost_usd is None else dollars(total.cost_usd)


def tokens_cell(totals: Totals) -> str:
    """Tokens in and out, for a list."""
    spent = totals.spent
    return f"{spent.input_tokens:,} + {spent.output_tokens:,}" if spent.calls else ""


def spent_cell(totals: Totals) -> str:
    """Money, for a list; a plus where some calls have no price."""
    spent = totals.spent
    more = " +" if spent.unpriced and spent.cost_usd is not None else ""
    return f"{price_words(spent)}{more}" if spent.calls else ""


def sends_notes(sends: Sequence[Send]) -> Iterator[str]:
    """What a step's requests came to: each answer, and each request if there is more to tell than one answer."""
    for send in sends:
        if send.answer is not None:
            yield ", ".join(_said(send.answer))
    if len(sends) > 1 or not all(map(is_answered, sends)):
        yield f"{count(len(sends), 'send')}: {', '.join(map(_came_of, sends))}"


def _spent(totals: Totals) -> str:
    spent = totals.spent
    if not spent.calls:
        return f"nothing ({count(totals.requests, 'request')})"
    requests = f" in {count(totals.requests, 'request')}" if totals.requests > spent.calls else ""
    tokens = f", {spent.input_tokens:,} in, {spent.output_tokens:,} out"
    tables = f"; prices: {', '.join(totals.prices)}" if totals.prices else ""
    calls = f"{count(spent.calls, 'call')}{requests}{_unpriced(spent)}"
    return f"{price_words(spent)} ({calls}{tokens}{tables})"


def _unpriced(total: Sum) -> str:
    return "" if total.cost_usd is None or not total.unpriced else f", {total.unpriced} without a price"


def _said(answer: Answer) -> Iterator[str]:
    model = answer.model or answer.asked
    if model:
        yield model
    if answer.input_tokens is not None:
        yield f"{answer.input_tokens:,} in"
    if answer.output_tokens is not None:
        yield f"{answer.output_tokens:,} out"
    yield NO_PRICE if answer.cost_usd is None else dollars(answer.cost_usd)
    if answer.finish:
        yield answer.finish


def _came_of(send: Send) -> str:
    if send.status is None:
        return f"no answer ({send.error})" if send.error else "no answer"
    end = f", cut off ({send.error})" if send.error else ", not read to its end" if send.partial else ""
    return f"HTTP {send.status}{end}"
