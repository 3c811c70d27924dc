"""Prepared answers: the same each run, and nothing in them for a detector to find."""

import json

from replay.bench.texts import PIECES, RUNS, answer, streams


def test_the_same_seed_gives_the_same_answer() -> None:
    assert answer(7) == answer(7)
    assert answer(7) != answer(8)


def test_pieces_are_json_strings_with_the_tokens_of_a_draft_run() -> None:
    for piece in answer(3):
        assert json.loads(piece.text)
        assert piece.tokens in RUNS


def test_no_answer_repeats_itself() -> None:
    for pieces in streams(20):
        text = "".join(json.loads(piece.text) for piece in pieces)
        grams = [text[place : place + 32] for place in range(len(text) - 32)]
        assert len(set(grams)) / len(grams) > 0.9
        assert len(pieces) == PIECES


def test_one_in_five_is_chinese_and_one_in_five_is_code() -> None:
    texts = ["".join(json.loads(piece.text) for piece in answer(seed)) for seed in range(10)]
    assert sum("\u7684" in text or "\u3002" in text for text in texts) == 2
    assert sum("def " in text for text in texts) == 2
