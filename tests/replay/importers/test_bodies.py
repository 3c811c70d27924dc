"""Files of requests as they are sent."""

import json

import pytest

from replay.importers import SourceError
from tests.replay.importers.conftest import Importing

BODY = {
    "model": "m",
    "messages": [{"role": "user", "content": "hi"}],
    "max_tokens": 9,
    "user": "jane@example.org",
}


def test_a_batch_keeps_ids_paths_and_bodies_but_not_whom_they_are_for(importing: Importing) -> None:
    row = {"custom_id": "r-1", "method": "POST", "url": "/v1/completions", "body": BODY}
    read = importing("openai-batch", json.dumps(row) + "\n")
    assert (read[0].id, read[0].path) == ("r-1", "/v1/completions")
    assert read[0].body == {key: value for key, value in BODY.items() if key != "user"}
    assert read.imported.dropped == {"user": 1}
    assert "no arrival times: the plan makes them" in read.header.notes


def test_a_bare_body_goes_where_its_shape_belongs(importing: Importing) -> None:
    lines = [{"messages": []}, {"prompt": "x"}, {"text": "x", "sampling_params": {}}]
    read = importing("bodies", "".join(json.dumps(line) + "\n" for line in lines))
    assert [one.path for one in read.requests] == ["/v1/chat/completions", "/v1/completions", "/generate"]


@pytest.mark.parametrize(
    ("times", "span_s"), [((1.5, 2.0), 0.5), (("2026-01-01T00:00:00Z", "2026-01-01T00:01:00+00:00"), 60.0)]
)
def test_timed_bodies_name_seconds_or_dates(
    times: tuple[object, object], span_s: float, importing: Importing
) -> None:
    rows = [{"timestamp": when, "body": BODY, "completion_tokens": 4} for when in times]
    read = importing("timed-bodies", "".join(json.dumps(row) + "\n" for row in rows))
    assert [one.at_s for one in read.requests] == [0.0, span_s]
    assert read[0].output_tokens == 4


def test_a_conversation_is_a_request_an_answer_each_with_all_before_it(importing: Importing) -> None:
    turns = [("human", "a"), ("gpt", "b"), ("human", "c"), ("gpt", "d")]
    talk = {"id": "t", "conversations": [{"from": who, "value": what} for who, what in turns]}
    read = importing("sharegpt", json.dumps([talk]))
    assert [one.expected for one in read.requests] == ["b", "d"]
    assert read[1].body == {
        "messages": [
            {"role": "user", "content": "a"},
            {"role": "assistant", "content": "b"},
            {"role": "user", "content": "c"},
        ]
    }
    assert (read[1].session, read[1].turn, read[1].parent) == ("t", 1, "0.0")


def test_sessions_of_aiperf_are_their_payloads_in_order(importing: Importing) -> None:
    read = importing("aiperf-inputs", json.dumps({"data": [{"session_id": "s", "payloads": [BODY, BODY]}]}))
    assert [(one.session, one.turn, one.parent) for one in read.requests] == [("s", 0, ""), ("s", 1, "0.0")]


@pytest.mark.parametrize(
    ("form", "text", "says"),
    [
        ("openai-batch", '{"custom_id": "1", "body": "x"}', "given:1: has no body"),
        ("sharegpt", '[{"conversations": "x"}]', "conversation 0 holds no list of turns"),
        ("sharegpt", '[{"conversations": []}', "is not JSON, or is cut off"),
        ("aiperf-inputs", '{"data": [{"payloads": 1}]}', "session 0 holds no list of payloads"),
    ],
)
def test_what_holds_no_request_is_named(form: str, text: str, says: str, importing: Importing) -> None:
    with pytest.raises(SourceError, match=says):
        importing(form, text)
