"""The capacity model meets the published points, says what it is, and refuses what it cannot know."""

import pytest

from replay.lab.capacity import PUBLISHED, CapacityModel, PlanError, plan


@pytest.mark.parametrize("ranks", [2, 4, 8, 16])
def test_the_published_points_are_met_within_a_few_percent(ranks: int) -> None:
    model = CapacityModel.fitted(ranks)
    assert model.capacity_tokens == pytest.approx(160_000)
    for point in PUBLISHED:
        assert model.gain(point.tokens) == pytest.approx(point.gain, rel=0.2)
        assert model.memory(point.tokens) == pytest.approx(point.memory)


def test_longer_prompts_gain_more_and_more_ranks_never_less() -> None:
    model = CapacityModel.fitted(8)
    gains = [model.gain(tokens) for tokens in range(10_000, 150_000, 10_000)]
    assert gains == sorted(gains)
    more = CapacityModel(16, model.capacity_tokens, model.a, model.b)
    assert more.gain(80_000) > model.gain(80_000)


def test_a_plan_says_that_it_is_a_model_and_answers_for_the_asked_lengths() -> None:
    made = plan(8, [60_000])
    assert "model" in made["what"]
    (row,) = made["plan"]
    assert row["memory_split"] == pytest.approx(row["memory_unsplit"] / 8, abs=1e-3)
    assert len(plan(8, ())["plan"]) == 3


@pytest.mark.parametrize(("ranks", "tokens"), [(1, 40_000), (8, 0), (8, 160_000)])
def test_what_the_model_cannot_know_is_refused(ranks: int, tokens: int) -> None:
    with pytest.raises(PlanError):
        plan(ranks, [tokens])
