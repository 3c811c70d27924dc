"""The stage: traffic whose answers are known, at rates that mean what they say."""

from itertools import pairwise

import pytest

from replay.lab.tasks import prompt_ids
from replay.proving.stage import IDLE, PEAK, Stage, rate_per_s, traffic


def test_traffic_has_one_right_answer_each_and_comes_at_random_once_a_second() -> None:
    header, requests = traffic(300, 10)
    assert header.source == "the lab's copy tasks"
    assert len({one.id for one in requests}) == 300
    assert all(one.expected and one.path == "/generate" for one in requests)
    gaps = [b.at_s - a.at_s for a, b in pairwise(requests)]
    assert 0.8 < sum(gaps) / len(gaps) < 1.2
    assert len(set(gaps)) == len(gaps)


def test_a_prompt_as_text_is_the_prompt_that_was_answered() -> None:
    _, (one, other) = traffic(2, 10)
    body, longer = one.body or {}, other.body or {}
    assert len(prompt_ids(body["text"])) > 30
    assert body["text"] != longer["text"]
    assert body["sampling_params"] == {"max_new_tokens": 16, "temperature": 0}
    assert one.expected
    assert one.expected.split()[0] in body["text"]


def test_the_rates_are_those_of_the_load_curve() -> None:
    assert rate_per_s(PEAK) / rate_per_s(IDLE) == pytest.approx(PEAK / IDLE)
    assert 15 < rate_per_s(IDLE) < 30


def test_a_stage_that_has_not_started_says_so(tmp_path_factory: pytest.TempPathFactory) -> None:
    assert "not started" in repr(Stage(tmp_path_factory.mktemp("stage") / "log"))
