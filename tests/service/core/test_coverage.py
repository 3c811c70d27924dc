"""The share of streams whose acceptance is known, and who told it."""

import pytest

from service.core.coverage import HALF_LIFE, WORKERS_MAX, Coverage


def test_before_the_first_attempt_there_is_no_share() -> None:
    assert Coverage().ratios() == {}


def test_shares_sum_to_one() -> None:
    coverage = Coverage()
    for how in ("exact", "exact", "upper", "none"):
        coverage.over("http://d:1", how)
    ratios = coverage.ratios()
    assert sum(ratios.values()) == pytest.approx(1)
    assert ratios["exact"] == pytest.approx(0.5, abs=0.01)
    assert ratios["gapped"] == 0


def test_what_is_long_past_counts_half() -> None:
    coverage = Coverage()
    for how in ("none", "exact"):
        for _ in range(int(HALF_LIFE)):
            coverage.over("http://d:1", how)
    assert coverage.ratios()["exact"] == pytest.approx(2 / 3, abs=0.01)


def test_a_workers_newest_source_is_kept() -> None:
    coverage = Coverage()
    coverage.over("http://d:1", "upper")
    coverage.over("http://d:1", "exact")
    coverage.over("", "none")
    assert coverage.sources == {"http://d:1": "exact"}


def test_a_flood_of_workers_is_bounded() -> None:
    coverage = Coverage()
    for number in range(WORKERS_MAX + 10):
        coverage.over(f"http://w:{number}", "exact")
    assert len(coverage.sources) == WORKERS_MAX
