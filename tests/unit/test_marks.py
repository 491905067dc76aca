"""Where a streamed answer's events end, and which of them is the last."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from counterfoil.core.marks import Splitter, is_end, is_error

EVENTS = ['data: {"a": 1}', "event: ping\ndata: {}", ": a comment", "data: two\ndata: lines", "data: æøå ☂ 🌧"]


def fed(pieces: list[bytes]) -> tuple[list[str], str]:
    splitter = Splitter()
    found = [event for piece in pieces for event in splitter.feed(piece)]
    return found, splitter.rest()


def cut(content: bytes, places: list[int]) -> list[bytes]:
    borders = sorted({0, len(content), *(place % (len(content) + 1) for place in places)})
    return [content[begin:end] for begin, end in itertools.pairwise(borders)]


@pytest.mark.parametrize("line_end", ["\n", "\r\n", "\r"])
@given(places=st.lists(st.integers(0, 300)))
def test_events_are_the_same_wherever_the_bytes_are_cut(line_end: str, places: list[int]) -> None:
    events = [f"{event}\n\n".replace("\n", line_end) for event in EVENTS]
    content = "".join(events).encode()
    assert fed(cut(content, places)) == (events, "")


@given(content=st.text(alphabet="a:\r\n ☂"), places=st.lists(st.integers(0, 300)))
def test_what_is_split_and_joined_again_is_the_same(content: str, places: list[int]) -> None:
    found, rest = fed(cut(content.encode(), places))
    assert "".join(found) + rest == content


def test_an_event_is_whole_as_soon_as_its_last_byte_is_there() -> None:
    splitter = Splitter()
    assert splitter.feed(b"data: 1\r\n\r") == []
    assert splitter.feed(b"\n") == ["data: 1\r\n\r\n"]
    assert splitter.feed(b"data: 2\r\r") == ["data: 2\r\r"]
    assert splitter.feed(b"data: 3\n\ndata: 4\n\nda") == ["data: 3\n\n", "data: 4\n\n"]
    assert splitter.rest() == "da"


def test_bytes_that_are_no_text_are_replaced() -> None:
    assert fed([b"data: \xff\n\n", b"\xe2\x98"]) == (["data: �\n\n"], "�")


@pytest.mark.parametrize(
    "event",
    [
        "data: [DONE]\n\n",
        "data:[DONE]\r\n\r\n",
        'event: message_stop\ndata: {"type": "message_stop"}\n\n',
        'event: response.completed\ndata: {"type":"response.completed","response":{}}\n\n',
        'data: {"type":"response.incomplete"}\n\n',
        'data: {"type":"response.failed"}\n\n',
        'data: {"candidates": [{"content": {}, "finishReason": "STOP"}]}\n\n',
    ],
)
def test_the_last_event_of_each_protocol_is_known(event: str) -> None:
    assert is_end(event)


@pytest.mark.parametrize(
    "event",
    [
        "",
        ": [DONE]\n\n",
        'data: {"choices": [{"delta": {"content": "say [DONE] or message_stop"}}]}\n\n',
        'data: {"type":"response.created","response":{"status":"in_progress"}}\n\n',
        'data: {"candidates": [{"content": {}, "finishReason": null}]}\n\n',
        'data: {"candidates": "finishReason"}\n\n',
        "data: message_stop, cut in the mid\n\n",
        'data: ["response.completed"]\n\n',
    ],
)
def test_no_other_event_is_taken_for_the_last(event: str) -> None:
    assert not is_end(event)


@pytest.mark.parametrize(
    "event",
    [
        'event: error\ndata: {"type": "error", "error": {"type": "overloaded_error"}}\n\n',
        "event: error\ndata: not JSON\n\n",
        'data: {"error": {"message": "The server had an error"}}\n\n',
        'data: {"type": "error", "message": "too many"}\n\n',
    ],
)
def test_an_event_that_says_that_the_answer_failed_is_known(event: str) -> None:
    assert is_error(event)


@pytest.mark.parametrize(
    "event",
    [
        'data: {"error": null}\n\n',
        'data: {"choices": [{"delta": {"content": "error"}}]}\n\n',
        'data: {"type":"response.completed","response":{"error":null}}\n\n',
        "data: [DONE]\n\n",
    ],
)
def test_no_other_event_is_taken_for_a_failure(event: str) -> None:
    assert not is_error(event)
