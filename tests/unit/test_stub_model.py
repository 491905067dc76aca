"""The stub model is the witness of every count: it misses no call, not even a killed caller's.

That the real `openai` client understands it: tests/integration/test_stub_model_openai.py.
"""

import json
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from http.client import RemoteDisconnected

import pytest

from counterfoil.testing.stubs import Call, StubModel, prompt_digest, tool_call

QUESTION = [{"role": "user", "content": "Do I need an umbrella in Paris?"}]
ANSWERED = [*QUESTION, {"role": "tool", "tool_call_id": "call_1", "content": "rain"}]

ASK_AND_WAIT = """
import sys, urllib.request
body = b'{"model": "m", "messages": [{"role": "user", "content": "hello"}]}'
urllib.request.urlopen(sys.argv[1] + "/v1/chat/completions", body)
"""


@pytest.fixture
def stub() -> Iterator[StubModel]:
    with StubModel() as running:
        yield running


def post(url: str, body: object, **headers: str) -> dict:
    request = urllib.request.Request(url, json.dumps(body).encode(), headers)
    with urllib.request.urlopen(request) as response:
        return json.load(response)


def ask(stub: StubModel, messages: list = QUESTION, **more: object) -> dict:
    body = {"model": "m", "messages": messages, **more}
    return post(f"{stub.url}/v1/chat/completions", body)["choices"][0]["message"]


def answers(stub: StubModel) -> list[str | None]:
    return [call.answer for call in stub.log]


def test_the_log_says_who_asked_what_and_what_came_back(stub):
    headers = {"x-lab-process": "2", "x-lab-attempt": "3", "Idempotency-Key": "k-1", "X-Stainless-Retry-Count": "1"}
    body = {"model": "m", "messages": QUESTION, "temperature": 0, "seed": 7}
    post(f"{stub.url}/v1/chat/completions", body, **headers)

    assert stub.log == (
        Call(
            n=1,
            kind="model",
            api="chat.completions",
            name="m",
            process="2",
            attempt="3",
            key="k-1",
            retry_count=1,
            prompt_digest=prompt_digest(QUESTION),
            options={"temperature": 0, "seed": 7},
            streamed=False,
            status=200,
            answer='get_weather({"city":"Paris"})',
            billed=True,
            delivered=True,
            events_sent=0,
            repeat_of=None,
        ),
    )


def test_a_prompt_digest_depends_on_the_value_and_not_on_its_spelling():
    turned = [dict(reversed(message.items())) for message in QUESTION]

    assert prompt_digest(turned) == prompt_digest(QUESTION) != prompt_digest(ANSWERED)
    assert len(prompt_digest(QUESTION)) == 12


def test_the_same_prompt_twice_is_a_repeat_of_the_first_call_word_for_word(stub):
    ask(stub)
    ask(stub, ANSWERED)
    ask(stub)

    assert [call.repeat_of for call in stub.log] == [None, None, 1]
    assert stub.log[2].answer == stub.log[0].answer


def test_when_answers_vary_no_two_are_worded_alike(stub):
    stub.configure(vary=True)
    said = [ask(stub), ask(stub), ask(stub, ANSWERED), ask(stub, ANSWERED)]

    assert len({json.dumps(message) for message in said}) == 4
    assert len(set(answers(stub))) == 4


def test_a_script_answers_call_by_call_and_its_last_answer_stays(stub):
    stub.configure(script=[tool_call("search", q="rain"), "final", "tool"])
    for _ in range(4):
        ask(stub)

    weather = 'get_weather({"city":"Paris"})'
    assert answers(stub) == ['search({"q":"rain"})', "Take an umbrella.", weather, weather]


def test_a_script_may_hold_a_whole_completion(stub):
    whole = {"id": "x", "choices": [{"message": {"role": "assistant", "content": "As is."}}]}
    stub.configure(script=[whole])

    assert ask(stub)["content"] == "As is."


def test_a_tool_is_counted_apart_from_the_model(stub):
    stub.configure(tool_results={"get_weather": {"report": "12 C, rain"}})
    ask(stub)
    result = post(f"{stub.url}/tools/get_weather", {"city": "Paris"})

    assert result == {"report": "12 C, rain"}
    assert [(c.kind, c.name, c.n) for c in stub.log] == [
        ("model", "m", 1),
        ("tool", "get_weather", 1),
    ]


def test_a_tool_called_again_with_the_same_arguments_is_a_repeat(stub):
    for city in ("Paris", "Oslo", "Paris"):
        post(f"{stub.url}/tools/get_weather", {"city": city})

    assert [call.repeat_of for call in stub.log] == [None, None, 1]


@pytest.mark.parametrize(
    ("drop", "answer", "next_repeats"),
    [("before", None, None), ("after", 'get_weather({"city":"Paris"})', 1)],
)
def test_a_dropped_call_was_paid_for_only_when_its_work_was_done(stub, *, drop, answer, next_repeats):
    stub.configure(drops=[drop])
    with pytest.raises(RemoteDisconnected):
        ask(stub)
    ask(stub)

    assert (stub.log[0].answer, stub.log[0].delivered) == (answer, False)
    assert stub.log[1].repeat_of == next_repeats


def test_a_tool_may_be_dropped_and_refused_too(stub):
    stub.configure(tool_drops=["after"], tool_statuses=[200, 503])
    with pytest.raises(RemoteDisconnected):
        post(f"{stub.url}/tools/pay", {"cents": 1})
    with pytest.raises(urllib.error.HTTPError, match="503"):
        post(f"{stub.url}/tools/pay", {"cents": 1})

    assert [(c.status, c.delivered) for c in stub.log] == [(200, False), (503, True)]


@pytest.mark.parametrize("_again", range(3))
def test_a_call_whose_caller_is_killed_is_counted_and_not_delivered(stub, _again):
    stub.configure(delays=[60])
    with subprocess.Popen([sys.executable, "-c", ASK_AND_WAIT, stub.url]) as caller:
        stub.wait_for(lambda log: log)
        caller.kill()
        stub.wait_for(lambda log: log[0].delivered is False)

    assert [(c.n, c.answer, c.delivered) for c in stub.log] == [(1, 'get_weather({"city":"Paris"})', False)]


def test_an_answer_is_on_record_as_delivered_when_the_caller_has_it(stub):
    stub.configure(delays=[0.05])
    ask(stub)

    assert stub.log[0].delivered is True


def test_a_fact_that_never_comes_raises_and_shows_the_log(stub):
    ask(stub)

    with pytest.raises(TimeoutError, match="n=1, kind='model'"):
        stub.wait_for(lambda log: len(log) == 2, timeout=0.01)


def test_another_process_may_configure_the_stub_and_read_its_log(stub):
    ask(stub)
    post(f"{stub.url}/config", {"script": ["final"]})
    assert ask(stub)["content"] == "Take an umbrella."

    with urllib.request.urlopen(f"{stub.url}/log") as response:
        log = json.load(response)
    assert [(call["n"], call["answer"]) for call in log] == [(1, "Take an umbrella.")]


@pytest.mark.parametrize(
    "plan",
    [{"dellays": [1]}, {"script": ["maybe"]}, {"drops": ["during"]}],
    ids=["unknown-word", "unknown-answer", "unknown-drop"],
)
def test_a_plan_that_means_nothing_is_refused_and_changes_nothing(stub, plan):
    ask(stub)
    with pytest.raises(urllib.error.HTTPError, match="400"):
        post(f"{stub.url}/config", plan)

    assert len(stub.log) == 1


@pytest.mark.parametrize(
    ("path", "body", "status"),
    [
        ("/v1/chat/completions", {"model": "m"}, 400),
        ("/v1/completions", {}, 404),
    ],
    ids=["no-messages", "no-such-path"],
)
def test_what_the_stub_does_not_speak_is_refused_and_not_counted(stub, *, path, body, status):
    with pytest.raises(urllib.error.HTTPError, match=str(status)):
        post(stub.url + path, body)

    assert stub.log == ()


def test_leaving_lets_go_of_an_answer_still_held_back():
    with StubModel(delays=[600]) as stub:
        caller = subprocess.Popen([sys.executable, "-c", ASK_AND_WAIT, stub.url], stderr=subprocess.PIPE)
        stub.wait_for(lambda log: log)

    assert "RemoteDisconnected" in caller.communicate(timeout=10)[1].decode()


def test_a_stub_that_is_not_running_says_how_to_run_it():
    with pytest.raises(RuntimeError, match="with StubModel"):
        _ = StubModel().url
