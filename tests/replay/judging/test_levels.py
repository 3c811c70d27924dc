"""Levels: what is counted, and what is told beside it."""

from typing import Any

import pytest

from replay.judging.levels import failing, level, levels, quantile, rounds, rounds_of, spread
from replay.judging.observation import Observation
from replay.plan import RETURN, PlanHeader
from tests.replay.judging.made import ARMS


def _one(name: str, arm: str = "peak", number: int = 0, **fields: Any) -> Observation:  # noqa: ANN401
    usual: dict[str, Any] = {"role": "sample", "at_s": 0.0, "wrong": False, "tokens": 10, "worker": name}
    return Observation(id=name, arm=arm, block=number, round=number, **(usual | fields))


SEEN = [
    *(_one(f"good{at}", accept_length=3.0, ttft_s=0.1) for at in range(6)),
    _one("bad", wrong=True, accept_length=1.2, ttft_s=0.9),
    _one("late", failure="timeout"),
    _one("left", failure="aborted"),
    _one("untold", wrong=None),
    _one("canary", role="canary", wrong=True),
    _one("calm", arm="idle"),
    _one("after", arm="idle", number=RETURN, wrong=True),
]


def test_a_level_counts_whole_answers_and_tells_the_rest() -> None:
    found = level(ARMS[1], [one for one in SEEN if one.arm == "peak"], "wrong", 1.0)
    assert (found.sent, found.trials, found.events, found.incidents) == (10, 7, 1, 1)
    assert found.failures == {"timeout": 1}
    assert found.failing_share == 1 / 8
    assert found.per_10k == pytest.approx(10_000 / 7)
    assert found.per_million_tokens == pytest.approx(1e6 / 70)
    assert (found.accept_clean, found.accept_bad) == ([3.0] * 6, [1.2])
    assert found.ttft_s is not None
    assert (found.ttft_s.count, found.ttft_s.p50, found.ttft_s.max) == (7, 0.1, 0.9)
    assert found.rate is not None


def test_a_level_without_answers_has_no_rate() -> None:
    found = level(ARMS[0], [], "wrong", 1.0)
    assert (found.per_10k, found.rate, found.incident_rate, found.failing_share) == (None, None, None, 0.0)


def test_the_return_is_no_part_of_the_lowest_arm() -> None:
    idle, peak = levels(PlanHeader(arms=list(ARMS)), SEEN, "wrong", 1.0)
    assert (idle.trials, idle.events) == (1, 0)
    assert peak.trials == 7


def test_a_round_knows_which_arms_it_can_compare() -> None:
    whole, half = rounds([*SEEN, _one("alone", number=1)], "wrong")
    assert (whole.number, whole.counts) == (0, {"peak": (1, 7), "idle": (0, 1)})
    assert (whole.has("idle", "peak"), half.has("idle", "peak")) == (True, False)
    (failed,) = rounds_of(SEEN, failing)
    assert failed.counts["peak"] == (1, 9)


def test_quantiles_are_values_that_were_seen() -> None:
    assert spread([None]) is None
    assert quantile(list(range(1, 101)), 0.99) == 99
    assert quantile([5.0], 0.5) == 5.0
