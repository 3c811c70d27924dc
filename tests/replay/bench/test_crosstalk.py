"""Nobody's answer is taken for another's, and another's is recognised once enough of it is shown."""

from random import Random

import pytest

from replay.bench import crosstalk


def test_no_clean_answer_is_even_suspected() -> None:
    figures = crosstalk.clean(2000, seed=11)
    assert figures["answers"] > 1900
    assert (figures["suspected"], figures["corrupt"], figures["detector_faults"]) == (0, 0, 0)


@pytest.fixture(scope="module")
def recall() -> dict[str, dict[str, float]]:
    return crosstalk.table(list(crosstalk.swaps(40, seed=5, onset=8)))


def test_whole_slot_swaps_are_recognised_and_the_donor_named(recall: dict[str, dict[str, float]]) -> None:
    assert recall["all"]["wrong_donor"] == 0
    assert recall["all"]["corrupt"] >= 0.7
    assert recall["shown >= 96"]["corrupt"] >= 0.85


def test_both_faults_are_struck(recall: dict[str, dict[str, float]]) -> None:
    assert recall["swap-equal"]["swaps"] + recall["swap-equal-both"]["swaps"] == recall["all"]["swaps"] > 30


def test_events_cut_an_answer_without_loss() -> None:
    deltas = crosstalk.events("some words and more", Random(1))
    assert "".join(delta.text for delta in deltas) == "some words and more"
    assert deltas[-1].finish == "stop"
