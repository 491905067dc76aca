"""Tokens and money in words: an unknown price is never an amount."""

import pytest

from counterfoil.cli.money import dollars, sends_notes, spent_cell, spent_line, tokens_cell
from counterfoil.cli.render import runs_table
from counterfoil.core.parts import Answer, Send
from counterfoil.core.state import Status
from counterfoil.core.tally import Lost, Sum, Totals, written
from counterfoil.store import Head

CALL = Sum(calls=1, input_tokens=1200, output_tokens=80, cost_usd=0.0038)
UNPRICED = Sum(calls=1, input_tokens=5, unpriced=1)


@pytest.mark.parametrize(
    ("amount", "told"),
    [
        (0.0, "$0.00"),
        (0.02, "$0.02"),
        (0.5, "$0.50"),
        (0.0123456, "$0.0123"),
        (0.0000021, "$0.0000021"),
        (0.9999, "$1.00"),
        (1.005, "$1.00"),
        (1234.5, "$1,234.50"),
        (-0.02, "-$0.02"),
    ],
)
def test_an_amount_is_told_in_dollars_with_the_digits_that_say_something(amount, told):
    assert dollars(amount) == told


@pytest.mark.parametrize(
    ("totals", "told"),
    [
        (Totals(1, CALL, prices=("list 7",)), "$0.0038 (1 call, 1,200 in, 80 out; prices: list 7)"),
        (Totals(1, UNPRICED), "no price (1 call, 5 in, 0 out)"),
        (Totals(2, CALL.plus(UNPRICED)), "$0.0038 (2 calls, 1 without a price, 1,205 in, 80 out)"),
        (Totals(3, lost=Lost(2, None)), "nothing (3 requests) · lost 2 calls, cost not bounded"),
        (Totals(1, lost=Lost(1, 0.02)), "nothing (1 request) · lost 1 call, at most $0.02"),
        (Totals(1, UNPRICED, saved=UNPRICED), "no price (1 call, 5 in, 0 out) · saved by replay no price (1 call)"),
        (
            Totals(2, CALL, saved=CALL.plus(UNPRICED)),
            "$0.0038 (1 call in 2 requests, 1,200 in, 80 out) · saved by replay $0.0038 (2 calls, 1 without a price)",
        ),
    ],
)
def test_what_a_run_came_to_is_a_line(totals, told):
    assert spent_line(totals) == told


@pytest.mark.parametrize(
    ("totals", "cells"),
    [
        (Totals(), ("", "")),
        (Totals(1, lost=Lost(1, 0.02)), ("", "")),
        (Totals(1, CALL), ("1,200 + 80", "$0.0038")),
        (Totals(1, UNPRICED), ("5 + 0", "no price")),
        (Totals(2, CALL.plus(UNPRICED)), ("1,205 + 80", "$0.0038 +")),
    ],
)
def test_a_list_has_a_cell_for_tokens_and_one_for_money(totals, cells):
    assert (tokens_cell(totals), spent_cell(totals)) == cells


def answered(**changes) -> Send:
    said = {"model": "m-7", "input_tokens": 1200, "output_tokens": 80, "cost_usd": 0.0038, "finish": "stop"}
    return Send(status=200, answer=Answer(**said | changes))


@pytest.mark.parametrize(
    ("sends", "notes"),
    [
        ([], []),
        ([Send(status=200)], []),
        ([answered()], ["m-7, 1,200 in, 80 out, $0.0038, stop"]),
        ([answered(model=None, asked="m", finish=None)], ["m, 1,200 in, 80 out, $0.0038"]),
        ([answered(cost_usd=None, output_tokens=None)], ["m-7, 1,200 in, no price, stop"]),
        ([Send(status=503), answered()], ["m-7, 1,200 in, 80 out, $0.0038, stop", "2 sends: HTTP 503, HTTP 200"]),
        ([Send(error="ReadTimeout")], ["1 send: no answer (ReadTimeout)"]),
        ([Send()], ["1 send: no answer"]),
        ([Send(status=200, error="StreamCutError")], ["1 send: HTTP 200, cut off (StreamCutError)"]),
        ([Send(status=200, partial=True)], ["1 send: HTTP 200, not read to its end"]),
    ],
)
def test_a_steps_requests_are_told_by_their_answers_and_by_what_came_of_each(sends, notes):
    assert list(sends_notes(sends)) == notes


@pytest.mark.parametrize(("is_wide", "has_money"), [(True, True), (False, False)])
def test_a_narrow_terminal_has_no_columns_for_money(is_wide, has_money):
    head = Head(
        run="r", number=1, workflow="w", status=Status.COMPLETED, reason=None, tags={}, epoch=1, owner=None, seq=4,
        hash=b"", created=0, updated=0, totals=written(Totals(1, CALL)),
    )  # fmt: skip
    titles = [column.header for column in runs_table([head], is_wide=is_wide).columns]
    assert ("spent" in titles, len(titles)) == (has_money, 8 + 2 * has_money)
