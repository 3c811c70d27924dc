"""Observations: what counts as an answer, and when an answer is bad."""

from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from replay.canary import mark
from replay.judging.observation import (
    Index,
    Observation,
    accept_length_of,
    failure_of,
    is_right,
    observe,
    prompt_text,
)
from replay.plan import PlanError, Recipe, Send
from replay.results import Result
from service.core.events import Kind
from tests.replay.judging.made import RIGHT, WRONG, planned, result, rules


def _seen(home: Path, changes: dict[str, dict[str, Any]], **wishes: Any) -> dict[str, Observation]:  # noqa: ANN401
    _, sends = planned(home / "p", requests=16, rounds=2, **wishes)
    index = Index(home / "p")
    try:
        seen = observe(index, [result(send, **changes.get(send.id, {})) for send in sends], rules())
    finally:
        index.close()
    return {one.id: one for one in seen}


def test_a_good_answer_is_good_in_every_sense(tmp_path: Path) -> None:
    one = _seen(tmp_path, {})["0.peak.1"]
    assert (one.judged, one.wrong, one.changed, one.kind) == (True, False, False, Kind.NORMAL)
    assert (one.arm, one.round, one.worker, one.tokens) == ("peak", 0, "d0", 8)
    assert one.ttft_s == pytest.approx(0.051)
    assert one.itl_s == pytest.approx(0.025)
    assert one.total_s == pytest.approx(0.3)
    assert one.accept_length == 3.5
    assert [one.bad(event) for event in ("corrupt", "wrong", "changed")] == [False] * 3


def test_a_wrong_answer_is_wrong_and_changed_against_its_control(tmp_path: Path) -> None:
    seen = _seen(tmp_path, {"0.peak.1": {"text": WRONG}, "1.idle.9": {"text": WRONG}})
    assert (seen["0.peak.1"].wrong, seen["0.peak.1"].changed) == (True, True)
    assert (seen["1.idle.9"].wrong, seen["1.idle.9"].changed) == (True, None)
    assert (seen["1.peak.9"].wrong, seen["1.peak.9"].changed) == (False, True)


def test_detectors_read_every_text(tmp_path: Path) -> None:
    looped = "it goes on and on " * 60
    one = _seen(tmp_path, {"0.peak.1": {"text": looped}})["0.peak.1"]
    assert (one.kind, one.detector) == (Kind.REPETITION, "loop")
    assert one.bad("corrupt")


def test_somebody_else_s_mark_is_cross_talk(tmp_path: Path) -> None:
    seen = _seen(tmp_path, {"0.peak.1": {"text": f"well, {mark(0, 'canary.0.0')}"}}, canaries=1)
    one = seen["0.peak.1"]
    assert (one.kind, one.detector, one.leaks) == (Kind.CROSSTALK, "canary", ("canary.0.0",))
    assert (seen["canary.0.0"].leaks, seen["canary.0.0"].own_mark) == ((), True)
    assert not seen["canary.0.0"].judged


def test_a_failure_is_no_answer_and_compares_with_nothing(tmp_path: Path) -> None:
    seen = _seen(tmp_path, {"0.idle.1": {"ending": "reset"}})
    assert (seen["0.idle.1"].judged, seen["0.idle.1"].failure) == (False, "reset")
    assert seen["0.peak.1"].changed is None


@pytest.mark.parametrize(
    ("fields", "failure"),
    [
        ({}, ""),
        ({"ending": "timeout"}, "timeout"),
        ({"ending": "aborted"}, "aborted"),
        ({"ending": "aborted", "error": "cut off"}, "cut off"),
        ({"status": 500}, "error"),
        ({"status": 429}, "refused by the backend"),
        ({"error": "BadRequestError"}, "error"),
    ],
)
def test_failures_have_names(fields: dict[str, Any], failure: str) -> None:
    send = Send(id="a", arm="idle", block=0, at_s=0)
    assert failure_of(result(send, **fields)) == failure


def test_the_right_answer_may_be_known_by_its_hash() -> None:
    assert is_right(f" {RIGHT}\n", RIGHT)
    assert is_right(RIGHT, f"sha256:{sha256(RIGHT.encode()).hexdigest()}")
    assert not is_right(WRONG, f"sha256:{sha256(RIGHT.encode()).hexdigest()}")


def test_acceptance_is_the_engine_s_or_that_of_the_steps() -> None:
    def of(**fields: Any) -> Result:  # noqa: ANN401
        return result(Send(id="a", arm="idle", block=0, at_s=0), **fields)

    assert accept_length_of(of()) == 3.5
    assert accept_length_of(of(spec=None, steps=[(4, 2), (4, 1)])) == 2.5
    assert accept_length_of(of(spec={}, steps=None)) is None


def test_the_prompt_is_every_text_of_the_body() -> None:
    parts = [{"role": "user", "content": [{"type": "text", "text": "b"}, {"type": "image"}]}]
    body = {"messages": [{"role": "system", "content": "a"}, *parts], "model": "m"}
    assert prompt_text(Send(id="a", arm="i", block=0, at_s=0, body=body)) == "a\nb"
    made = prompt_text(Send(id="a", arm="i", block=0, at_s=0, recipe=Recipe(prompt_tokens=3)))
    assert len(made.split()) == 3
    assert prompt_text(Send(id="a", arm="i", block=0, at_s=0)) == ""


def test_results_of_another_plan_are_passed_over(tmp_path: Path) -> None:
    planned(tmp_path / "p", requests=16, rounds=2)
    index = Index(tmp_path / "p")
    stranger = result(Send(id="stranger", arm="idle", block=0, at_s=0))
    assert observe(index, [stranger], rules()) == []
    assert repr(index) == "<Index 40 sends>"


@pytest.mark.parametrize(
    "changed", [lambda plan: plan[:-9], lambda plan: plan.replace(b"Question 3?", b"Question 4?")]
)
def test_a_plan_that_is_not_the_one_that_was_run_is_not_judged(
    changed: Callable[[bytes], bytes], tmp_path: Path
) -> None:
    path = tmp_path / "p"
    planned(path, requests=16, rounds=2)
    path.write_bytes(changed(path.read_bytes()))
    with pytest.raises(PlanError):
        Index(path)
