"""What is read from a model's response, in each provider's shape, and that no body makes the reading fail."""

import json
from typing import Any

import pytest

from counterfoil.core.answer import answer_of
from counterfoil.core.parts import Answer

CHAT_URL = "https://api.openai.com/v1/chat/completions"
ASKED = {"model": "gpt-4o", "temperature": 0.2, "messages": [{"role": "user", "content": "Umbrella?"}], "tools": []}
CHAT = {
    "id": "chatcmpl-B9", "object": "chat.completion", "created": 1741569952, "model": "gpt-4o-2024-08-06",
    "choices": [{"index": 0, "message": {"role": "assistant", "content": "Yes."}, "finish_reason": "stop"}],
    "usage": {
        "prompt_tokens": 19, "completion_tokens": 10, "total_tokens": 29,
        "prompt_tokens_details": {"cached_tokens": 8},
    },
}  # fmt: skip
RESPONSE = {
    "id": "resp_67", "object": "response", "status": "completed", "model": "gpt-4.1-2025-04-14",
    "output": [{"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "Yes."}]}],
    "usage": {"input_tokens": 36, "input_tokens_details": {"cached_tokens": 6}, "output_tokens": 87},
}  # fmt: skip
MESSAGE = {
    "id": "msg_01X", "type": "message", "role": "assistant", "model": "claude-sonnet-4-20250514",
    "content": [{"type": "text", "text": "Yes."}], "stop_reason": "end_turn", "stop_sequence": None,
    "usage": {
        "input_tokens": 20, "cache_creation_input_tokens": 300, "cache_read_input_tokens": 4000, "output_tokens": 9,
    },
}  # fmt: skip
GEMINI_URL = "https://generativelanguage.googleapis.com/v1beta/models/gemini-2.5-flash:generateContent"
GEMINI = {
    "candidates": [{"content": {"parts": [{"text": "Yes."}], "role": "model"}, "finishReason": "STOP", "index": 0}],
    "usageMetadata": {
        "promptTokenCount": 8, "candidatesTokenCount": 5, "totalTokenCount": 43, "thoughtsTokenCount": 30,
    },
    "modelVersion": "gemini-2.5-flash", "responseId": "mAitaLm",
}  # fmt: skip
EMBEDDINGS = {
    "object": "list", "data": [{"object": "embedding", "index": 0, "embedding": [0.1, -0.2]}],
    "model": "text-embedding-3-small", "usage": {"prompt_tokens": 5, "total_tokens": 5},
}  # fmt: skip


def read(response: Any, *, url: str = CHAT_URL, request: Any = ASKED, streamed: bool = False) -> Answer | None:
    body = response if isinstance(response, bytes) else json.dumps(response).encode()
    return answer_of(url, json.dumps(request).encode(), body, streamed=streamed)


def stream(*frames: Any, name: str | None = None, end: str = "\n") -> bytes:
    lines = [
        line for frame in frames for line in ([f"event: {name}"] * bool(name) + [f"data: {json.dumps(frame)}", ""])
    ]
    return end.join([*lines, ""]).encode()


def chunk(**changes: Any) -> dict[str, Any]:
    said = {"id": "chatcmpl-B9", "object": "chat.completion.chunk", "model": "gpt-4o-2024-08-06", "choices": []}
    return said | changes


def choice(text: str, finish: str | None = None) -> dict[str, Any]:
    return {"choices": [{"index": 0, "delta": {"content": text}, "finish_reason": finish}]}


CHUNKS = (chunk(**choice("Ye")), chunk(**choice("s.", "stop")), chunk(usage=CHAT["usage"]))
EVENTS = (
    {"type": "message_start", "message": MESSAGE | {"content": [], "stop_reason": None}},
    {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "Yes."}},
    {
        "type": "message_delta",
        "delta": {"stop_reason": "end_turn"},
        "usage": {"output_tokens": 15, "input_tokens": None},
    },
    {"type": "message_stop"},
)
CHAT_ANSWER = Answer(
    api="chat.completions", asked="gpt-4o", model="gpt-4o-2024-08-06", id="chatcmpl-B9", finish="stop",
    parameters={"temperature": 0.2}, usage=CHAT["usage"], input_tokens=19, output_tokens=10,
)  # fmt: skip


def test_a_chat_completion_is_read_whole():
    assert read(CHAT) == CHAT_ANSWER


def test_a_response_is_read_and_its_input_tokens_hold_the_cached_ones_already():
    assert read(RESPONSE, request={"model": "gpt-4.1", "input": "hi", "instructions": "be brief", "store": False}) == (
        Answer(
            api="responses", asked="gpt-4.1", model="gpt-4.1-2025-04-14", id="resp_67", finish="completed",
            parameters={"store": False}, usage=RESPONSE["usage"], input_tokens=36, output_tokens=87,
        )
    )  # fmt: skip


def test_anthropics_input_tokens_are_counted_with_those_of_the_cache():
    assert read(MESSAGE, request={"model": "claude-sonnet-4-0", "max_tokens": 99, "system": "x", "messages": []}) == (
        Answer(
            api="messages", asked="claude-sonnet-4-0", model="claude-sonnet-4-20250514", id="msg_01X",
            finish="end_turn", parameters={"max_tokens": 99}, usage=MESSAGE["usage"], input_tokens=4320,
            output_tokens=9,
        )
    )  # fmt: skip


def test_geminis_model_is_asked_for_in_its_address_and_its_thoughts_are_output():
    request = {"contents": [], "generationConfig": {"temperature": 1}}
    assert read(GEMINI, url=GEMINI_URL, request=request) == (
        Answer(
            api="generate_content", asked="gemini-2.5-flash", model="gemini-2.5-flash", id="mAitaLm", finish="STOP",
            parameters={"generationConfig": {"temperature": 1}}, usage=GEMINI["usageMetadata"], input_tokens=8,
            output_tokens=35,
        )
    )  # fmt: skip


def test_embeddings_are_read_for_their_tokens():
    assert read(EMBEDDINGS, request={"model": "text-embedding-3-small", "input": ["a"]}) == (
        Answer(
            api="embeddings", asked="text-embedding-3-small", model="text-embedding-3-small",
            usage=EMBEDDINGS["usage"], input_tokens=5,
        )
    )  # fmt: skip


def test_a_host_is_known_by_the_shape_of_its_answers():
    said = read({**CHAT, "usage": {**CHAT["usage"], "cost": 0.1}}, url="http://127.0.0.1:9/v1/chat/completions")
    assert (said.api, said.input_tokens, said.usage["cost"]) == ("chat.completions", 19, 0.1)


def test_azures_deployment_is_the_model_asked_for_where_the_body_names_none():
    url = "https://x.openai.azure.com/openai/deployments/my-4o/chat/completions"
    assert read(CHAT, url=url, request={"messages": []}).asked == "my-4o"


def test_why_an_incomplete_response_ended_is_its_reason():
    cut = RESPONSE | {"status": "incomplete", "incomplete_details": {"reason": "max_output_tokens"}}
    assert (read(cut).finish, read(RESPONSE | {"status": "queued"}).finish) == ("max_output_tokens", None)


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_a_streamed_chat_completion_says_the_same_as_a_whole_one(end):
    body = stream(*CHUNKS, end=end) + b"data: [DONE]\n\n"
    assert read(body, streamed=True) == CHAT_ANSWER


def test_azures_first_chunk_without_a_model_leaves_that_of_the_later_ones():
    assert read(stream(chunk(id="", model=""), *CHUNKS), streamed=True) == CHAT_ANSWER


def test_a_streamed_response_is_read_from_its_last_event():
    begun = RESPONSE | {"status": "in_progress", "usage": None, "output": []}
    events = (
        {"type": "response.created", "response": begun},
        {"type": "response.output_text.delta", "delta": "Yes."},
        {"type": "response.completed", "response": RESPONSE},
    )
    assert read(stream(*events, name="x"), streamed=True) == read(RESPONSE)


def test_a_streamed_message_has_its_output_tokens_from_the_later_event():
    whole = MESSAGE | {"usage": MESSAGE["usage"] | {"output_tokens": 15}}
    assert read(stream(*EVENTS, name="x"), streamed=True) == read(whole)


def test_a_streamed_message_that_was_cut_says_what_had_come():
    said = read(stream(EVENTS[0]) + b'data: {"type": "content_bl', streamed=True)
    assert (said.id, said.finish, said.input_tokens, said.output_tokens) == ("msg_01X", None, 4320, 9)


@pytest.mark.parametrize("as_events", [True, False])
def test_geminis_stream_is_read_as_events_and_as_an_array(as_events):
    first = {**GEMINI, "candidates": [{"content": {}}], "usageMetadata": {"promptTokenCount": 8}}
    body = stream(first, GEMINI) if as_events else json.dumps([first, GEMINI]).encode()
    assert read(body, url=GEMINI_URL, streamed=as_events) == read(GEMINI, url=GEMINI_URL)


def test_a_response_to_a_streamed_request_may_come_whole():
    assert read(CHAT, streamed=True) == CHAT_ANSWER


def test_of_a_large_parameter_its_beginning_is_kept():
    said = read(CHAT, request={"model": "m", "response_format": {"schema": "x" * 1000}})
    assert said.parameters == {"response_format": '{"schema": "' + "x" * 188 + " ... (1014 bytes)"}


def test_tokens_of_a_tools_server_in_a_request_are_no_parameters():
    assert read(MESSAGE, request={"mcp_servers": [{"authorization_token": "t"}], "top_k": 4}).parameters == {"top_k": 4}


def test_a_usage_too_large_to_keep_is_still_counted():
    said = read(CHAT | {"usage": {"prompt_tokens": 3, "padding": "x" * 9000}})
    assert (said.usage, said.input_tokens, said.output_tokens) == ({}, 3, None)


@pytest.mark.parametrize(
    "usage", [None, [], "many", 7, {"prompt_tokens": "19"}, {"prompt_tokens": True}, {"prompt_tokens": -1}]
)
def test_a_usage_that_is_none_leaves_the_tokens_unknown(usage):
    said = read(CHAT | {"usage": usage})
    assert (said.model, said.input_tokens, said.output_tokens) == ("gpt-4o-2024-08-06", None, None)


@pytest.mark.parametrize("request_body", [b"", b"\xff", b"[]", b"--boundary\r\n", b'{"model": 3, "n": 1'])
def test_a_request_that_is_no_json_leaves_the_answer_without_what_was_asked(request_body):
    said = answer_of(CHAT_URL, request_body, json.dumps(CHAT).encode(), streamed=False)
    assert (said.asked, said.parameters, said.model) == (None, {}, "gpt-4o-2024-08-06")


@pytest.mark.parametrize("streamed", [True, False])
@pytest.mark.parametrize(
    "body",
    [
        b"", b"null", b"[]", b"[1]", b"17", b"{}", b"<html>", b"\xff\xfe", b"data:", b"data: \n\n", b"\n",
        b"[" * 99_999,
        b'{"a":' * 99_999, b'{"choices": 3}', b'{"choices": [3]}', b'{"object": "list", "data": []}',
        b'{"error": {"message": "busy", "code": 429}}', b'{"type": "error", "error": {"type": "overloaded_error"}}',
        b'{"type": "message_start"}', b'{"type": "response.completed", "response": []}', b'{"input_tokens": 12}',
        b'{"type": "message", "text": "hi"}', b'data: {"response": "ollama"}\n\n', b"1" * 9999,
    ],
)  # fmt: skip
def test_what_is_no_models_answer_is_none(body, streamed):
    assert read(body, streamed=streamed) is None


@pytest.mark.parametrize(
    "body", [stream(*CHUNKS), stream(*EVENTS), json.dumps(CHAT).encode(), json.dumps(GEMINI).encode()]
)
def test_a_body_cut_anywhere_is_read_without_failing(body):
    said = [read(body[:end], streamed=body.startswith(b"d")) for end in range(0, len(body) + 1, 3)]
    assert {type(answer) for answer in said} <= {type(None), Answer}


def test_a_count_that_no_number_can_be_made_of_is_none():
    usage = {"prompt_tokens": 10**4299, "completion_tokens": 2**53 + 1, "total_tokens": 7}
    answer = read(CHAT | {"usage": usage})
    assert (answer.input_tokens, answer.output_tokens) == (None, None)
