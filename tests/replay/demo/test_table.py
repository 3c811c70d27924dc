"""The shapes that people and programs read."""

import io
import json

from rich.console import Console

from replay.demo.score import Spent, tally
from replay.demo.table import render, to_json
from tests.replay.demo.made import WRONG, ask, attempt, delivery, line, one, seen

KEYS = [
    "requests",
    "corrupted_upstream",
    "detected",
    "recovered",
    "failed_loudly",
    "escaped",
    "escaped_strict",
    "delivered_bad_tokens",
    "false_alarms",
    "cases_saved",
    "by_fault",
    "seconds",
]
ROW_KEYS = ["hit", "answer_changed", "detected", "recovered", "failed_loudly", "escaped", "escaped_strict"]

SCORE = tally(
    [
        one(ask("a"), delivery("a"), [line("a")]),
        one(ask("b"), delivery("b", WRONG), [line("b", "swap", changed=True)]),
        one(
            ask("c"),
            delivery("c", by="d"),
            [line("c", "nan", changed=True), line("d")],
            seen("c", attempt("c", "corrupt"), attempt("d")),
        ),
    ],
    3,
    Spent(72.26, 60.0, {"lab": 20.0, "router": 3.0}),
)


def test_the_json_begins_with_the_keys_of_the_design_in_its_order() -> None:
    assert list(json.loads(to_json(SCORE)))[: len(KEYS)] == KEYS


def test_the_json_is_one_line_of_plain_numbers() -> None:
    text = to_json(SCORE)
    assert "\n" not in text
    found = json.loads(text)
    assert (found["requests"], found["escaped"], found["cases_saved"], found["seconds"]) == (3, 1, 3, 72.3)


def test_rows_have_exactly_the_keys_of_the_design() -> None:
    rows = json.loads(to_json(SCORE))["by_fault"]
    assert list(rows) == ["nan", "swap"]
    assert all(list(row) == ROW_KEYS for row in rows.values())


def test_the_table_has_a_row_a_fault_and_one_for_any() -> None:
    out = io.StringIO()
    Console(file=out, width=120).print(render(SCORE))
    rows = {
        words[0]: words[1:]
        for text in out.getvalue().splitlines()
        if (words := text.replace("│", " ").split())
    }
    assert rows["nan"] == ["1", "1", "1", "1", "0", "0", "0"]
    assert rows["swap"] == ["1", "1", "0", "0", "0", "1", "0"]
    assert rows["any"] == ["2", "2", "1", "1", "0", "1", "0"]
