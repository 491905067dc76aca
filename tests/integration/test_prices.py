"""What an answer cost: by the package's table, by the user's own, and that neither can get in a run's way."""

import subprocess
import sys
from decimal import Decimal

import pytest

from counterfoil.core.events import Envelope, Event, RunCompleted, StepSucceeded
from counterfoil.core.parts import NONE, Answer, Send
from counterfoil.engine import prices
from counterfoil.engine.prices import Prices, Table, priced_now

WHEN = 1_780_000_000_000_000
OPENAI, GATEWAY = "https://api.openai.com/v1/chat/completions", "http://127.0.0.1:9/v1/chat/completions"
CACHED = {"prompt_tokens": 1_000_000, "completion_tokens": 0, "prompt_tokens_details": {"cached_tokens": 1_000_000}}


def answered(
    model: str = "gpt-4o-2024-08-06", *, api: str = "chat.completions", asked: int = 1000, said: int = 100
) -> Answer:
    usage = {
        "chat.completions": {"prompt_tokens": asked, "completion_tokens": said},
        "responses": {"input_tokens": asked, "output_tokens": said},
        "messages": {"input_tokens": asked, "output_tokens": said},
        "embeddings": {"prompt_tokens": asked, "total_tokens": asked},
        "generate_content": {"promptTokenCount": asked, "candidatesTokenCount": said},
    }
    return Answer(api=api, model=model, usage=usage[api], input_tokens=asked, output_tokens=said)


def outcome(answer: Answer | None, url: str = OPENAI) -> StepSucceeded:
    return StepSucceeded(result=NONE, sends=(Send(url=url, status=200, answer=answer),))


def event(body) -> Event:
    return Event(Envelope(run="r", seq=1, type=body.type, time=WHEN), body, b"")


def cost_of(body: StepSucceeded) -> tuple[float | None, str | None]:
    (send,) = body.sends
    return send.answer.cost_usd, send.answer.prices


@pytest.fixture
def table() -> Table:
    table = prices.catalogue.load()
    assert table is not None, "genai-prices is not installed"
    return table


@pytest.mark.parametrize(
    ("answer", "url", "cost"),
    [
        (answered(), OPENAI, 0.0035),
        (answered(), GATEWAY, 0.0035),
        (answered("gpt-4.1-2025-04-14", api="responses"), OPENAI, 0.0028),
        (answered("text-embedding-3-small", api="embeddings"), OPENAI, 0.00002),
        (answered("claude-sonnet-4-20250514", api="messages"), "https://api.anthropic.com/v1/messages", 0.0045),
        (answered("claude-sonnet-4-20250514", api="messages"), GATEWAY, 0.0045),
        (answered("gemini-2.5-flash", api="generate_content"), "https://generativelanguage.googleapis.com/x", 0.00055),
        (answered("llama-3.3-70b-versatile"), "https://api.groq.com/openai/v1/chat/completions", 0.000669),
    ],
)
def test_an_answer_is_priced_by_its_host_or_else_by_its_maker(table, answer, url, cost):
    assert cost_of(Prices().priced(outcome(answer, url), WHEN)) == (pytest.approx(cost), table.name)


def test_tokens_read_from_a_cache_have_their_own_price(table):
    answer = Answer(api="chat.completions", model="gpt-4o-2024-08-06", usage=CACHED)
    assert table.price(Send(url=OPENAI, answer=answer), WHEN) == pytest.approx(1.25)


@pytest.mark.parametrize(
    ("answer", "url"),
    [
        (answered("llama-3.3-70b-versatile"), GATEWAY),
        (answered("gpt-oss-120b"), GATEWAY),
        (answered("gpt-of-next-year"), OPENAI),
        (answered("no such model", api="messages"), OPENAI),
        (Answer(api="chat.completions", model="gpt-4o"), OPENAI),
        (Answer(api="chat.completions", model="gpt-4o", usage={"prompt_tokens": "many"}), OPENAI),
        (Answer(api="elsewhere", model="gpt-4o", usage={"prompt_tokens": 3}), OPENAI),
        (None, OPENAI),
    ],
)
def test_what_the_table_does_not_know_has_no_price(table, answer, url):
    body = outcome(answer, url)
    assert Prices().priced(body, WHEN) is body


def price_list_7(answer: Answer) -> float | None:
    return answer.input_tokens / 1000 if answer.model == "own" else None


def test_a_table_of_ones_own_is_asked_in_place_of_the_package_and_named():
    own = Prices(price_list_7)
    assert cost_of(own.priced(outcome(answered("own")), WHEN)) == (1.0, "price_list_7")
    assert cost_of(own.priced(outcome(answered()), WHEN)) == (None, None)


@pytest.mark.parametrize("cut", [{"error": "StreamCutError"}, {"partial": True}])
def test_an_answer_that_was_cut_off_has_no_price(cut):
    body = StepSucceeded(result=NONE, sends=(Send(status=200, answer=answered("own"), **cut),))
    assert Prices(price_list_7).priced(body, WHEN) is body


def test_a_cost_that_is_there_is_kept():
    body = outcome(Answer(model="own", input_tokens=5, cost_usd=0.0, prices="list 6"))
    assert Prices(price_list_7).priced(body, WHEN) is body


@pytest.mark.parametrize("given", [float("nan"), float("inf"), 1e308, -1.0, "much", [], Decimal("NaN")])
def test_what_is_no_amount_is_no_price(given):
    body = outcome(answered())
    assert Prices(lambda _: given).priced(body, WHEN) is body


def test_a_table_that_fails_leaves_the_outcome_as_it_is():
    def failing(answer):
        raise ZeroDivisionError

    body = outcome(answered())
    assert Prices(failing).priced(body, WHEN) is body


def test_an_event_without_sends_is_left_alone():
    body = RunCompleted(result=NONE)
    assert Prices(price_list_7).priced(body, WHEN) is body


def test_answers_without_a_price_are_priced_for_who_looks_and_marked_so(table):
    known = event(outcome(Answer(model="own", cost_usd=1.0, prices="list 6")))
    found = priced_now([event(RunCompleted(result=NONE)), known, event(outcome(answered()))])
    assert [cost_of(each.body) for each in found[1:]] == [
        (1.0, "list 6"), (pytest.approx(0.0035), f"{table.name}, when shown"),
    ]  # fmt: skip


LOADING = """
import sys, threading
from counterfoil.engine.prices import Prices
{before}
Prices({own}).wake()
names = [thread.name for thread in threading.enumerate() if thread is not threading.main_thread()]
[thread.join() for thread in threading.enumerate() if thread is not threading.main_thread()]
print(names, bool(sys.modules.get("genai_prices")))
"""


@pytest.mark.parametrize(
    ("before", "own", "seen"),
    [
        ("import httpx", "", "['counterfoil-prices'] True"),
        ("import httpx; Prices().wake()", "", "['counterfoil-prices'] True"),
        ("", "", "[] False"),
        ("import httpx", "print", "[] False"),
        ("import httpx; sys.modules['genai_prices'] = None", "", "[] False"),
        ("import httpx; sys.modules['genai_prices'] = type(sys)('stand_in')", "", "[] True"),
    ],
    ids=["http", "again", "no http", "own table", "not installed", "a stand-in"],
)
def test_the_package_is_loaded_once_in_a_thread_where_a_model_may_be_asked_over_http(before, own, seen):
    code = LOADING.format(before=before, own=own)
    ran = subprocess.run([sys.executable, "-W", "error", "-c", code], capture_output=True, text=True, check=True)
    assert (ran.stdout.strip(), ran.stderr) == (seen, "")
