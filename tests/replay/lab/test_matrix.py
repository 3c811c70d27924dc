"""The fault matrix is deterministic, starts every fault from one state, and shows the known signatures."""

import json
from typing import Any

import numpy as np
import pytest

from replay.lab.corruption import Fault
from replay.lab.matrix import Bench, cells, drawn, measure
from replay.lab.ngram import Drafter

FAULTS = ["nan", "nan@both", "zero", "swap", "swap_both", "swap@draft", "zero/page", "swap/transient"]


@pytest.fixture(scope="module")
def measured() -> dict[str, Any]:
    return measure(4, faults=[Fault.parse(name) for name in FAULTS], onsets=(6,))


def cell(measured: dict[str, Any], name: str) -> dict[str, Any]:
    found: dict[str, Any] = next(one for one in measured["cells"] if one["fault"] == name)
    return found


def test_the_matrix_has_every_source_place_extent_and_the_transient_once() -> None:
    names = [fault.name for fault in cells()]
    assert len(names) == len(set(names)) == 75
    assert {"nan", "stale@both/late", "torn@draft/page", "random/transient", "nan/all"} <= set(names)


def test_the_same_seed_gives_the_same_matrix() -> None:
    fault = [Fault.parse("random")]
    again = (measure(1, faults=fault, onsets=(3,)), measure(1, faults=fault, onsets=(3,)))
    assert json.dumps(again[0]) == json.dumps(again[1])


def test_clean_requests_are_right_and_every_fault_touched(measured: dict[str, Any]) -> None:
    assert measured["clean_text"]["right"] == 4
    assert all(one["touched"] == 4 for one in measured["cells"])


def test_loud_faults_change_every_answer_and_show(measured: dict[str, Any]) -> None:
    for name, text in (("nan", "silent"), ("nan@both", "silent"), ("zero", "loop")):
        assert cell(measured, name)["answer_changed"] == 4
        assert cell(measured, name)["text"][text] >= 3
    assert cell(measured, "nan")["accept_end"] == 0
    assert cell(measured, "nan@both")["accept_end"] == 1


def test_a_swap_of_both_leaks_at_an_acceptance_like_clean_and_one_of_the_target_does_not(
    measured: dict[str, Any],
) -> None:
    both, target = cell(measured, "swap_both"), cell(measured, "swap")
    assert both["text"]["leak"] == target["text"]["leak"] >= 3
    assert target["accept_6"] < 0.2 < both["accept_6"]


def test_a_fault_in_the_draft_costs_acceptance_and_no_answer(measured: dict[str, Any]) -> None:
    draft = cell(measured, "swap@draft")
    assert draft["answer_changed"] == 0
    assert draft["text"]["right"] == 4
    assert draft["accept_6"] < draft["clean_accept_6"] / 2


def test_every_fault_starts_from_the_same_bytes() -> None:
    (tasks,) = drawn(1)
    bench = Bench(tasks, 6)
    clean, _ = bench.run(None)
    bench.run(Fault.parse("nan@both/all"), (1,))
    again, touch = bench.run(None)
    assert touch is None
    assert again.answer == clean.answer
    assert not np.isnan(bench.target).any()


def test_with_n_grams_a_fault_in_the_drafts_pool_is_none() -> None:
    got = measure(1, faults=[Fault.parse("zero@draft")], onsets=(6,), drafter=Drafter())
    (only,) = got["cells"]
    assert got["drafter"] == "ngram"
    assert only["accept_end"] == only["clean_accept_end"]


def test_an_answer_that_ends_before_the_onset_is_not_touched() -> None:
    (only,) = measure(1, faults=[Fault.parse("zero")], onsets=(150,))["cells"]
    assert (only["touched"], only["accept_6"], only["answer_changed"]) == (0, None, 0)
