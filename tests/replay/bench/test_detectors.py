"""The floor under what is published: fast versions of the bench, on texts of our own."""

from replay.bench import detectors, quality
from service.core.recorded import Rules

RULES = Rules(*detectors.load())


def test_the_bench_streams_are_healthy_and_their_cost_is_counted() -> None:
    figures = detectors.cost(rounds=1)
    assert figures["alarms_on_clean"] == 0
    assert figures["tokens"] == detectors.STREAMS * detectors.TOKENS
    assert 0 < figures["us_per_token"] < figures["us_per_event"] < figures["us_per_look"]


def test_a_long_text_costs_no_more_a_token_than_a_short_one() -> None:
    assert detectors.growth(rounds=2)["growth"] <= 1.5


def test_texts_made_to_order_are_told_apart() -> None:
    score = quality.made(RULES, rounds=1, seed=3)
    assert score["precision"] == 1
    assert score["recall"] >= 0.9
    assert score["right_kind"] >= 0.9
