"""What a run's model calls came to: what was sent, spent, lost, and saved by replay."""

import pytest

from counterfoil.core.events import OutcomeUnknown, RetrySet, StepCancelled, StepFailed, StepSucceeded
from counterfoil.core.parts import NONE, Answer, ErrorRecord, Send
from counterfoil.core.tally import Lost, Sum, Totals, is_answered, is_lost, read, totals_of, written

TABLE = "list 7"
ERROR = ErrorRecord(type="builtins:ValueError", message="boom")


def answered(cost: float | None = 0.5, **changes) -> Send:
    said = Answer(input_tokens=100, output_tokens=10, cost_usd=cost, prices=TABLE if cost is not None else None)
    return Send(**{"status": 200, "answer": said} | changes)


BUSY = Send(status=503)
NO_ANSWER = Send(error="ReadTimeout")
SPENT = Sum(calls=1, input_tokens=100, output_tokens=10, cost_usd=0.5)


class Run:
    """A script whose model step `0` is declared to cost 0.5 at the most."""

    def __init__(self, script) -> None:
        self.script = script.begun()

    def asked(self, tried: int = 1, step: str = "0") -> "Run":
        self.script.intended(step, kind="model", tried=tried)
        return self

    def got(self, *sends: Send, step: str = "0") -> "Run":
        self.script.add(StepSucceeded(result=NONE, sends=sends), step=step, try_number=1)
        return self

    def failed(self, *sends: Send) -> "Run":
        self.script.add(StepFailed(error=ERROR, sends=sends), step="0", try_number=1)
        return self

    def retried(self, *sends: Send) -> "Run":
        self.script.add(RetrySet(due=1, sends=sends), step="0", try_number=1)
        return self

    def cancelled(self, *sends: Send) -> "Run":
        self.script.add(StepCancelled(sends=sends), step="0", try_number=1)
        return self

    def again(self) -> "Run":
        self.script.again()
        return self

    def unknown(self, calls: int = 1) -> "Run":
        self.script.add(OutcomeUnknown(calls=calls), step="0", try_number=1)
        return self

    @property
    def totals(self) -> Totals:
        assert self.script.state  # the events are legal
        return totals_of(self.script.events)


@pytest.fixture
def run(script) -> Run:
    return Run(script)


def test_a_run_without_model_calls_comes_to_nothing(begun):
    totals = totals_of(begun.done("0").again().done("1").events)
    assert (totals, bool(totals)) == (Totals(), False)


def test_an_answered_call_is_spent(run):
    assert run.asked().got(answered()).totals == Totals(requests=1, spent=SPENT, prices=(TABLE,))


def test_a_call_under_way_counts_when_it_has_an_outcome(run):
    assert run.asked().totals == Totals()


def test_a_clients_own_retries_are_requests_and_only_the_answer_is_spent(run):
    assert run.asked().got(BUSY, BUSY, answered()).totals == Totals(requests=3, spent=SPENT, prices=(TABLE,))


def test_a_retry_after_503_is_not_spent(run):
    run.asked().retried(BUSY).asked(tried=2).got(answered())
    assert run.totals == Totals(requests=2, spent=SPENT, prices=(TABLE,))


def test_a_failed_try_whose_answer_came_is_spent(run):
    assert run.asked().failed(answered()).totals == Totals(requests=1, spent=SPENT, prices=(TABLE,))


def test_a_clients_retry_after_a_lost_answer_shows_both_requests_and_the_lost_one(run):
    """FC-03: the client timed out, the server had the request, and the client's own retry was answered."""
    run.asked().got(NO_ANSWER, answered())
    assert run.totals == Totals(requests=2, spent=SPENT, lost=Lost(calls=1, worst_cost_usd=0.5), prices=(TABLE,))


def test_a_try_that_a_crash_cut_off_is_lost_with_its_declared_bound(run):
    run.asked().again().unknown(calls=2).asked(tried=2).got(answered())
    assert run.totals == Totals(requests=3, spent=SPENT, lost=Lost(calls=2, worst_cost_usd=0.5), prices=(TABLE,))


def test_a_lost_call_without_a_declared_bound_has_no_worst_case():
    assert Lost(2, 1.5).plus(1, None).plus(1, 0.5) == Lost(4, None)


def test_a_lost_tool_call_is_no_lost_model_call(begun):
    assert totals_of(begun.intended("0").again().unknown("0").events) == Totals()


def test_a_cancelled_call_is_lost_where_it_is_not_known_what_was_sent(run):
    assert run.asked().cancelled().totals == Totals(requests=1, lost=Lost(1, 0.5))


def test_a_cancelled_call_is_lost_where_its_last_request_was_not_answered(run):
    assert run.asked().cancelled(BUSY, Send(error="CancelledError")).totals == Totals(requests=2, lost=Lost(1, 0.5))


def test_a_call_cancelled_while_the_client_waits_to_ask_again_is_not_lost(run):
    assert run.asked().cancelled(BUSY).totals == Totals(requests=1)


def test_a_step_cancelled_while_it_waits_for_its_next_try_is_not_lost(run):
    assert run.asked().retried(BUSY).cancelled().totals == Totals(requests=1)


def test_an_answer_without_a_price_is_counted_and_costs_nothing_known(run):
    run.asked().got(answered(None))
    assert run.totals == Totals(requests=1, spent=Sum(1, 100, 10, cost_usd=None, unpriced=1))


def test_a_model_behind_no_http_is_an_answer_without_a_price(run):
    assert run.asked().got().totals == Totals(spent=Sum(calls=1, unpriced=1))


def test_priced_and_unpriced_answers_add_up(run):
    run.asked().got(answered(0.1), answered(None), answered(0.2))
    assert run.totals.spent == Sum(calls=3, input_tokens=300, output_tokens=30, cost_usd=0.3, unpriced=1)


def test_each_later_attempt_saves_what_was_on_record_when_it_began(run):
    run.asked().got(answered()).again().asked(step="1").got(answered(), step="1").again()
    assert run.totals.saved == Sum(calls=3, input_tokens=300, output_tokens=30, cost_usd=1.5)


def test_what_an_outcome_was_retried_for_is_not_saved(run):
    assert run.asked().retried(NO_ANSWER).asked(tried=2).got(BUSY, answered()).again().totals.saved == SPENT


def test_a_failed_step_that_is_tried_again_is_not_saved(run):
    run.asked().failed(answered())
    run.script.paused(step="0").resumed("0").again()
    assert run.totals.saved == Sum()


def test_a_recorded_failure_that_is_raised_again_saves_the_answer_it_had(run):
    assert run.asked().failed(answered()).again().totals.saved == SPENT


@pytest.mark.parametrize(
    ("send", "seen", "lost"),
    [
        (Send(status=200), True, False),
        (Send(status=200, error="StreamCutError"), False, True),
        (Send(status=200, partial=True), False, True),
        (Send(status=307, partial=True), False, False),
        (Send(status=429), False, False),
        (Send(status=503, error="ReadError"), False, False),
        (Send(), False, True),
        (Send(error="ReadTimeout"), False, True),
        (Send(error="CancelledError"), False, True),
        (Send(error="ConnectError"), False, False),
        (Send(error="PoolTimeout"), False, False),
    ],
)
def test_a_send_is_answered_lost_or_known_to_have_come_to_nothing(send, seen, lost):
    assert (is_answered(send), is_lost(send)) == (seen, lost)


def test_totals_are_written_and_read_back(run):
    totals = run.asked().got(NO_ANSWER, answered()).again().totals
    assert read(written(totals)) == totals


@pytest.mark.parametrize("raw", [b"", b"{", b"[]", b"null", b"\xff", b'{"spent": 3}'])
def test_a_row_without_readable_totals_has_none(raw):
    assert read(raw) == Totals()


def test_a_row_without_figures_is_short():
    assert (written(Totals()), written(Totals(requests=1, spent=SPENT))) == (
        b"{}",
        b'{"requests":1,"spent":{"calls":1,"input_tokens":100,"output_tokens":10,"cost_usd":0.5}}',
    )
