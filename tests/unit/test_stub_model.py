"""The stub model is the witness of every count: it misses no call, not even a killed caller's.

That the providers' own clients understand it: tests/integration/test_stub_model_clients.py.
"""

import contextlib
import json
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from http.client import RemoteDisconnected

import pytest

from counterfoil.testing.stubs import Call, StubModel, billed, prompt_digest, tool_call

QUESTION = [{"role": "user", "content": "Do I need an umbrella in Paris?"}]
ANSWERED = [*QUESTION, {"role": "tool", "tool_call_id": "call_1", "content": "rain"}]

HELLO = {"model": "m", "messages": [{"role": "user", "content": "hello"}]}
ASK_AND_WAIT = """
import sys, urllib.request
body = b'{"model": "m", "messages": [{"role": "user", "content": "hello"}]}'
request = urllib.request.Request(sys.argv[1] + "/v1/chat/completions", body, {"Idempotency-Key": "k"})
urllib.request.urlopen(request)
"""


def chat(*messages: dict) -> tuple[str, dict]:
    return "/v1/chat/completions", {"messages": [*QUESTION, *messages]}


def responses(*items: dict, **more: str) -> tuple[str, dict]:
    return "/v1/responses", {"input": [*QUESTION, *items], **more}


def messages(*turns: dict) -> tuple[str, dict]:
    return "/v1/messages", {"messages": [*QUESTION, *turns], "max_tokens": 9}


CHAT_CALL = {"role": "assistant", "tool_calls": [{"id": "call_1"}]}
CHAT_RESULT = {"role": "tool", "tool_call_id": "call_1", "content": "rain"}
ITEM_CALL = {"type": "function_call", "call_id": "call_1", "name": "look", "arguments": "{}"}
ITEM_RESULT = {"type": "function_call_output", "call_id": "call_1", "output": "rain"}
USE = {"role": "assistant", "content": [{"type": "tool_use", "id": "call_1", "name": "look", "input": {}}]}
RESULT = {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "call_1", "content": "rain"}]}
TEXT_FIRST = {"role": "user", "content": [{"type": "text", "text": "Here:"}, *RESULT["content"]]}
TEXT_LAST = {"role": "user", "content": [*RESULT["content"], {"type": "text", "text": "So?"}]}

UNPAIRED = [
    pytest.param(*chat(CHAT_CALL), id="chat-nothing-follows"),
    pytest.param(*chat(CHAT_CALL, *QUESTION, CHAT_RESULT), id="chat-result-comes-late"),
    pytest.param(*chat(CHAT_RESULT), id="chat-result-of-no-call"),
    pytest.param(*chat(CHAT_CALL, CHAT_RESULT, CHAT_RESULT), id="chat-two-results"),
    pytest.param(*responses(ITEM_CALL), id="responses-no-output"),
    pytest.param(*responses(ITEM_RESULT), id="responses-output-of-no-call"),
    pytest.param(*responses(ITEM_RESULT, ITEM_CALL), id="responses-output-comes-first"),
    pytest.param(*responses(ITEM_CALL, ITEM_RESULT, ITEM_RESULT), id="responses-two-outputs"),
    pytest.param(*messages(USE), id="messages-nothing-follows"),
    pytest.param(*messages(USE, *QUESTION, RESULT), id="messages-result-comes-late"),
    pytest.param(*messages(USE, TEXT_FIRST), id="messages-text-comes-first"),
    pytest.param(*messages(RESULT), id="messages-result-of-no-call"),
    pytest.param(*messages(USE, RESULT, RESULT), id="messages-two-results"),
]
PAIRED = [
    pytest.param(*chat(CHAT_CALL, CHAT_RESULT, CHAT_CALL, CHAT_RESULT), id="chat"),
    pytest.param(*responses(ITEM_CALL, *QUESTION, ITEM_RESULT), id="responses"),
    pytest.param(*responses(ITEM_RESULT, previous_response_id="resp_1"), id="responses-of-a-previous-one"),
    pytest.param(*messages(USE, TEXT_LAST, USE, RESULT), id="messages"),
]


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


@pytest.mark.parametrize("whole", [{"output": []}, {"type": "message", "content": []}], ids=["response", "message"])
def test_a_whole_body_of_another_protocol_is_refused_and_not_counted(stub, whole):
    stub.configure(script=[whole])
    with pytest.raises(urllib.error.HTTPError, match="400"):
        ask(stub)

    assert stub.log == ()


def test_a_tool_is_counted_apart_from_the_model(stub):
    stub.configure(tool_results={"get_weather": {"report": "12 C, rain"}})
    ask(stub)
    result = post(f"{stub.url}/tools/get_weather", {"city": "Paris"})

    assert result == {"report": "12 C, rain"}
    assert [(c.kind, c.name, c.n) for c in stub.log] == [
        ("model", "m", 1),
        ("tool", "get_weather", 1),
    ]


def test_a_tool_honours_keys_too_and_does_its_work_once(stub):
    stub.configure(honours_keys=True, tool_drops=["after"])
    with pytest.raises(RemoteDisconnected):
        post(f"{stub.url}/tools/pay", {"cents": 1}, **{"Idempotency-Key": "k"})
    post(f"{stub.url}/tools/pay", {"cents": 1}, **{"Idempotency-Key": "k"})

    assert [(c.key, c.billed, c.delivered) for c in stub.log] == [("k", True, False), ("k", False, True)]
    assert billed(stub.log) == 1


def test_a_key_whose_answer_is_still_held_back_gets_it_at_once(stub):
    stub.configure(honours_keys=True, vary=True, delays=[60])
    with subprocess.Popen([sys.executable, "-c", ASK_AND_WAIT, stub.url]) as caller:
        stub.wait_for(lambda log: log)
        post(f"{stub.url}/v1/chat/completions", HELLO, **{"Idempotency-Key": "k"})
        caller.kill()
        stub.wait_for(lambda log: log[0].delivered is False)

    assert [(c.billed, c.delivered) for c in stub.log] == [(True, False), (False, True)]
    assert stub.log[0].answer == stub.log[1].answer


@pytest.mark.parametrize("plan", [{"drops": ["before"]}, {"statuses": [503]}], ids=["dropped", "error"])
def test_a_key_whose_work_was_not_done_is_not_known(stub, plan):
    stub.configure(honours_keys=True, **plan)
    for _ in range(3):
        with contextlib.suppress(RemoteDisconnected, urllib.error.HTTPError):
            post(f"{stub.url}/v1/chat/completions", HELLO, **{"Idempotency-Key": "k"})

    assert [call.billed for call in stub.log] == [False, True, False]


def test_a_key_means_nothing_to_a_stub_that_is_not_told_to_honour_it(stub):
    for _ in range(2):
        post(f"{stub.url}/v1/chat/completions", HELLO, **{"Idempotency-Key": "k"})

    assert [call.billed for call in stub.log] == [True, True]


def test_a_key_used_for_another_request_is_refused(stub):
    stub.configure(honours_keys=True)
    post(f"{stub.url}/tools/pay", {"cents": 1}, **{"Idempotency-Key": "k"})
    with pytest.raises(urllib.error.HTTPError, match="400"):
        post(f"{stub.url}/tools/pay", {"cents": 2}, **{"Idempotency-Key": "k"})

    assert [(c.status, c.billed) for c in stub.log] == [(200, True), (400, False)]


def test_a_keyed_repeat_takes_no_place_in_the_script(stub):
    stub.configure(honours_keys=True, script=["tool", "final"])
    for key in ("one", "one", "two"):
        post(f"{stub.url}/v1/chat/completions", HELLO, **{"Idempotency-Key": key})

    assert answers(stub) == [*['get_weather({"city":"Paris"})'] * 2, "Take an umbrella."]


@pytest.mark.parametrize(("path", "body"), UNPAIRED)
def test_a_strict_stub_refuses_calls_and_results_that_are_not_one_to_one(stub, path, body):
    stub.configure(strict=True)
    with pytest.raises(urllib.error.HTTPError, match="400") as caught:
        post(stub.url + path, body)

    assert "call_1" in json.load(caught.value)["error"]["message"]
    assert [(c.status, c.answer, c.billed, c.delivered) for c in stub.log] == [(400, None, False, True)]


@pytest.mark.parametrize(("path", "body"), PAIRED)
def test_a_strict_stub_answers_when_each_call_has_its_result(stub, path, body):
    stub.configure(strict=True)
    post(stub.url + path, body)

    assert [(c.status, c.billed) for c in stub.log] == [(200, True)]


@pytest.mark.parametrize(("path", "body"), UNPAIRED)
def test_a_stub_that_is_not_strict_answers_any_history(stub, path, body):
    post(stub.url + path, body)

    assert billed(stub.log) == 1


def test_instructions_and_a_system_prompt_are_part_of_what_the_model_is_shown(stub):
    post(f"{stub.url}/v1/responses", {"input": "hello", "instructions": "Be brief."})
    post(f"{stub.url}/v1/messages", {"messages": QUESTION, "system": "Be brief.", "max_tokens": 9})
    system = {"role": "system", "content": "Be brief."}

    assert [(call.prompt_digest, call.options) for call in stub.log] == [
        (prompt_digest([system, {"role": "user", "content": "hello"}]), {}),
        (prompt_digest([system, *QUESTION]), {"max_tokens": 9}),
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
    [{"dellays": [1]}, {"script": ["maybe"]}, {"drops": ["during"]}, {"cuts": ["early"]}],
    ids=["unknown-word", "unknown-answer", "unknown-drop", "no-number"],
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
        ("/v1/responses", {"input": []}, 400),
        ("/v1/messages", {"messages": QUESTION}, 400),
        ("/v1/messages", {"messages": [{"role": "system", "content": "x"}], "max_tokens": 9}, 400),
        ("/v1/completions", {}, 404),
    ],
    ids=["no-messages", "no-input", "no-limit", "no-role-of-messages", "no-such-path"],
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
