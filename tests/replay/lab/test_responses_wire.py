"""`/v1/responses` as SGLang 0.5.23 writes it: numbered events, and a status at the end."""

import json

import pytest

from replay.lab.responses_wire import ResponsesWire
from replay.lab.scheduler import RUNNING_ABORT, Aborted
from replay.lab.tokenizer import EOS
from tests.replay.lab.wirekit import ANSWER, FAILED, WORDS, events, generation, spoken


def test_a_response_counts_its_events_and_ends_in_its_status() -> None:
    made = generation(rid="resp_1", instructions="list", max_output_tokens=60)
    got = spoken(made, ResponsesWire(made), *ANSWER)
    names = [name for name, _ in got]
    assert names[:4] == [
        "response.created",
        "response.in_progress",
        "response.output_item.added",
        "response.content_part.added",
    ]
    assert names[-4:] == [
        "response.output_text.done",
        "response.content_part.done",
        "response.output_item.done",
        "response.completed",
    ]
    assert [data["sequence_number"] for _, data in got] == list(range(len(got)))
    response = got[-1][1]["response"]
    assert response["output"][0]["content"][0]["text"] == made.text
    assert (response["id"], response["usage"]["output_tokens"], response["error"]) == ("resp_1", 7, None)
    assert (response["instructions"], response["max_output_tokens"]) == ("list", 60)
    assert "".join(d["delta"] for n, d in got if n == "response.output_text.delta") == made.text


@pytest.mark.parametrize(
    ("finish", "limit", "last"),
    [
        (None, 4, "response.incomplete"),
        (FAILED, 60, "response.failed"),
        (RUNNING_ABORT, 60, "response.failed"),
    ],
)
def test_a_response_that_did_not_complete_says_so(finish: Aborted | None, limit: int, last: str) -> None:
    made = generation(max_new_tokens=limit)
    wire = ResponsesWire(made)
    made.say(WORDS[:4])
    made.end(made.finish or finish or RUNNING_ABORT)
    name, data = events(b"".join(wire.chunks()))[-1]
    assert name == last
    assert (data["response"]["error"] is None) is (finish is None)
    assert (data["response"]["incomplete_details"] is None) is (finish is not None)


def test_a_whole_response_is_the_object_or_the_engines_error() -> None:
    made, lost = generation(stream=False), generation(stream=False)
    made.say([*WORDS[:3], EOS])
    made.end(RUNNING_ABORT)
    told = json.loads(ResponsesWire(made).whole()[1])
    assert (told["object"], told["status"], len(told["output"])) == ("response", "completed", 1)
    lost.end(FAILED)
    status, raw = ResponsesWire(lost).whole()
    assert (status, json.loads(raw)["object"]) == (500, "error")
