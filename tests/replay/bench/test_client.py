"""The load client's bench: slopes, ratios, and no figure where an arm was left out."""

from collections.abc import Sequence
from pathlib import Path

import pytest

from replay.bench.client import Slope, figures, main
from replay.bench.client_arms import Arm, ArmError, Field, Spent


def nothing(_: Field, __: int) -> Sequence[str | Path]:
    return []


class FakeField(Field):
    """Runs that cost a start of 3 s and so much a request."""

    def __init__(self, ms_per_request: float, extra: int = 0) -> None:
        super().__init__(Path())
        self._ms = ms_per_request
        self._extra = extra

    def run(self, arm: Arm, requests: int) -> Spent:
        came = requests + self._extra
        return Spent(3.0 + came * self._ms / 1e3, 50.0, came, {})


def slope(name: str, ms: float, extra: int = 0) -> Slope:
    found = Slope(Arm(name, nothing))
    found.measure(FakeField(ms, extra), (100, 1100))
    return found


def test_a_start_is_no_part_of_a_request_nor_is_what_came_beyond_what_was_asked() -> None:
    assert slope("ours", 0.6).middle == pytest.approx(0.6)
    assert slope("guidellm", 12.0, extra=37).middle == pytest.approx(12.0)


def test_ratios_are_ours_over_theirs() -> None:
    told = figures([slope("ours", 0.6), slope("sglang_rust", 0.8), slope("judged", 0.9)], None)
    assert told["ratio_sglang_rust"] == pytest.approx(0.75)
    assert told["ratio_detectors"] == pytest.approx(1.5)
    assert told["ratio_aiperf"] is None
    assert told["cpu_ms_per_request"] == {"ours": 0.6, "sglang_rust": 0.8, "judged": 0.9}


def test_a_client_of_one_round_is_held_against_that_round_alone() -> None:
    ours, theirs = slope("ours", 0.6), slope("aiperf", 6.0)
    ours.measure(FakeField(1.8), (100, 1100))  # when the machine had become busy
    assert figures([ours, theirs], None)["ratio_aiperf"] == pytest.approx(0.1)


def test_the_pace_is_told_with_its_memory() -> None:
    told = figures([slope("ours", 0.6)], Spent(20.0, 120.0, 9, {"late_p99_ms": 3.0}))
    assert told["pace"] == {"late_p99_ms": 3.0, "peak_rss_mb": 120.0, "cpu_s": 20.0}


def test_no_more_requests_at_the_larger_size_is_no_slope() -> None:
    found = Slope(Arm("ours", nothing))
    with pytest.raises(ArmError):
        found.measure(FakeField(1.0), (100, 100))


def test_an_unknown_word_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["--without", "ours"])
    assert "--without" in capsys.readouterr().err
