"""Holm's adjustment."""

from replay.stats.many import holm


def test_the_textbook_example_is_met() -> None:
    found = holm({"a": 0.01, "b": 0.04, "c": 0.03, "d": 0.005})
    assert {name: round(p, 3) for name, p in found.items()} == {"a": 0.03, "b": 0.06, "c": 0.06, "d": 0.02}


def test_one_question_is_not_adjusted_and_none_is_none() -> None:
    assert holm({"a": 0.04}) == {"a": 0.04}
    assert holm({}) == {}


def test_no_probability_passes_one() -> None:
    assert set(holm({"a": 0.6, "b": 0.9}).values()) == {1.0}
