"""Mooncake's traces and their dialects."""

import json

import pytest

from replay.importers import Question, SourceError
from tests.replay.importers.conftest import Importing

ROWS = """\
{"timestamp": 3000, "input_length": 6758, "output_length": 500, "hash_ids": [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13]}
{"timestamp": 3000, "input_length": 2290, "output_length": 316, "hash_ids": [0, 42, 43, 44, 45]}
{"timestamp": 6000, "input_length": 6760, "output_length": 3, "hash_ids": [0, 46, 47, 48, 49, 50, 51, 52, 53, 54, 55, 56, 57, 58]}
"""  # noqa: E501 - rows as they are published


def _rows(count: int, *, every: float, block: int = 512) -> str:
    row = {"input_length": 1000, "output_length": 5, "hash_ids": list(range(-(-1000 // block)))}
    return "".join(json.dumps({"timestamp": index * every, **row}) + "\n" for index in range(count))


def test_milliseconds_become_seconds_from_the_first_row(importing: Importing) -> None:
    read = importing("mooncake", ROWS)
    assert [one.at_s for one in read.requests] == [0.0, 0.0, 3.0]
    assert (read[1].prompt_tokens, read[1].output_tokens, read[1].blocks) == (2290, 316, (0, 42, 43, 44, 45))
    assert (read.header.block_tokens, read.header.units) == (512, {"timestamp": "ms"})
    assert (read.imported.summary.moments, read.imported.summary.most_at_once) == (2, 2)


def test_a_rate_that_no_fleet_sees_is_a_question(importing: Importing) -> None:
    with pytest.raises(Question, match="--unit s, if it holds milliseconds --unit ms"):
        importing("mooncake", _rows(40, every=0.3))
    with pytest.raises(Question, match="--unit s"):
        importing(
            "mooncake",
            _rows(4000, every=0 + 1).replace(": 1000,", ": 600,", 1).replace("}", "}"),
            block_tokens=9,
        )
    assert importing("mooncake", _rows(40, every=0.3), unit="s").imported.summary.span_s == pytest.approx(
        11.7
    )


def test_a_rate_of_days_a_request_is_a_question(importing: Importing) -> None:
    with pytest.raises(Question, match="--unit us or --unit ns"):
        importing("mooncake", _rows(40, every=10_000_000))


def test_hashes_of_another_block_size_are_a_question_that_names_it(importing: Importing) -> None:
    with pytest.raises(Question, match="--block-tokens 64"):
        importing("mooncake", _rows(10, every=100, block=64))
    read = importing("mooncake", _rows(10, every=100, block=64), block_tokens=64)
    assert read.header.block_tokens == 64


def test_rows_with_a_delay_follow_their_session(importing: Importing) -> None:
    rows = [
        {"timestamp": 0, "session_id": "a", "text_input": "one", "output_length": 3},
        {"delay": 500, "session_id": "a", "text_input": "two"},
        {"delay": 500, "session_id": "a", "messages": [{"role": "user", "content": "three"}]},
    ]
    read = importing("mooncake", "".join(json.dumps(row) + "\n" for row in rows))
    assert [(one.at_s, one.turn, one.parent) for one in read.requests] == [
        (0.0, 0, ""),
        (0.5, 1, "0"),
        (1.0, 2, "1"),
    ]
    assert read[2].body == {"messages": [{"role": "user", "content": "three"}]}


@pytest.mark.parametrize(
    ("row", "says"),
    [
        ('{"timestamp": 0, "input_length": -4}', "given:1: input_length must be a number of tokens"),
        ('{"timestamp": "x", "input_length": 4}', "given:1: timestamp must be a number"),
        ('{"timestamp": -5, "input_length": 4}', "given:1: timestamp must not be negative"),
        ('{"timestamp": 0, "input_length": 4, "hash_ids": ["a"]}', "given:1: hash_ids must be whole numbers"),
        (2 * '{"timestamp": 0, "input_length": 4, "id": "a"}\n', "id 'a' is there twice"),
        ('{"timestamp": 0, "input_length": 4}\n{"timestamp": 0, "inp', "given:2: is cut off"),
        ('{"timestamp": 0, "input_length": 4}\n[]', "given:2: is not a JSON object"),
        ('{"timestamp": 0, "input_length": 4}\n{"timestamp": 1}', "given:2: has none of input_length"),
    ],
)  # fmt: skip
def test_a_bad_row_is_named(row: str, says: str, importing: Importing) -> None:
    with pytest.raises(SourceError, match=says):
        importing("mooncake", row)


def test_rows_out_of_order_are_sorted_and_said_so(importing: Importing) -> None:
    lines = ROWS.splitlines(keepends=True)
    read = importing("mooncake", lines[2] + lines[0] + lines[1])
    assert [one.at_s for one in read.requests] == [0.0, 0.0, 3.0]
    assert [one.id for one in read.requests] == ["1", "2", "0"]
    assert "rows were out of order: sorted by time" in read.header.notes


def _talk(*messages: list[str]) -> str:
    rows = [{"timestamp": at, "session_id": "a", "messages": said} for at, said in enumerate(messages)]
    return "".join(json.dumps(row) + "\n" for row in rows)


@pytest.mark.parametrize(
    ("rows", "choice", "last"),
    [
        (_talk(["a"], ["b"]), "auto", ["a", "b"]),
        (_talk(["a"], ["a", "b"]), "auto", ["a", "b"]),
        (_talk(["a"], ["a", "b"]), "delta", ["a", "a", "b"]),
        (_talk(["a"], ["b"]), "cumulative", ["b"]),
    ],
)
def test_rows_of_a_session_are_whole_or_new(
    rows: str, choice: str, last: list[str], importing: Importing
) -> None:
    assert importing("mooncake", rows, session_rows=choice)[1].body == {"messages": last}
