"""Bailian's and Weka's conversations."""

import json

import pytest

from replay.importers import SourceError
from tests.replay.importers.conftest import Importing


def test_a_chat_of_bailian_is_one_session_from_its_root_on(importing: Importing) -> None:
    rows = [
        {"chat_id": 1, "parent_chat_id": -1, "timestamp": 0.5, "turn": 1, "hash_ids": [1, 2]},
        {"chat_id": 2, "parent_chat_id": 1, "timestamp": 2.0, "turn": 2, "hash_ids": [1, 2, 3]},
        {"chat_id": 9, "parent_chat_id": 7, "timestamp": 3.0, "turn": 4, "hash_ids": []},
    ]
    text = "".join(
        json.dumps({**row, "input_length": 32, "output_length": 5, "type": "text"}) + "\n" for row in rows
    )
    read = importing("bailian", text)
    assert [(one.at_s, one.session, one.turn, one.parent) for one in read.requests] == [
        (0.0, "1", 0, ""),
        (1.5, "1", 1, "1"),
        (2.5, "9", 3, ""),
    ]
    assert read.header.block_tokens == 16


def _weka(requests: list[object]) -> str:
    return json.dumps([{"id": "c", "requests": requests}])


REQUEST = {"t": 0.0, "type": "n", "in": 900, "out": 20, "hash_ids": [5], "api_time": 1.5, "think_time": 0.5}


def test_a_sub_agents_requests_belong_to_their_conversation(importing: Importing) -> None:
    nested = {"type": "subagent", "requests": [{**REQUEST, "t": 2.0}]}
    read = importing("weka", _weka([REQUEST, nested, {**REQUEST, "t": 3.0}]))
    assert [(one.id, one.session, one.parent) for one in read.requests] == [
        ("c.0", "c", ""),
        ("c.1.0", "c", ""),
        ("c.2", "c", "c.0"),
    ]
    assert (read[0].prompt_tokens, read[0].output_tokens, read.header.block_tokens) == (900, 20, 64)


def test_agents_nested_without_end_are_refused(importing: Importing) -> None:
    rows: list[object] = [REQUEST]
    for _ in range(40):
        rows = [REQUEST, {"requests": rows}]
    with pytest.raises(SourceError, match="holds no list of requests"):
        importing("weka", _weka(rows))
