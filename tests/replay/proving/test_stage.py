"""The stage: traffic whose answers are known, at rates that mean what they say."""

from itertools import pairwise
from pathlib import Path

import pytest

from replay.importers import Source, import_trace, sniff
from replay.lab.tasks import prompt_ids
from replay.proving.stage import IDLE, PEAK, Stage, rate_per_s, write_log
from replay.trace import TraceRequest, read_trace


def _logged(home: Path, requests: int) -> list[TraceRequest]:
    write_log(home / "log", requests, 10)
    source = Source(home / "log")
    assert sniff(home / "log").name == "sglang-log"
    import_trace(source, sniff(home / "log"), home / "trace")
    return list(read_trace(home / "trace")[1])


def test_the_log_is_imported_with_one_right_answer_each_and_poisson_times(tmp_path: Path) -> None:
    requests = _logged(tmp_path, 300)
    assert len({one.id for one in requests}) == 300
    assert all(one.expected and one.path == "/generate" for one in requests)
    gaps = [b.at_s - a.at_s for a, b in pairwise(requests)]
    assert 0.8 < sum(gaps) / len(gaps) < 1.2
    assert len({round(gap, 5) for gap in gaps}) > 290


def test_a_prompt_as_text_is_the_prompt_that_was_answered(tmp_path: Path) -> None:
    one, other = _logged(tmp_path, 2)
    body, another = one.body or {}, other.body or {}
    assert len(prompt_ids(body["text"])) == one.prompt_tokens
    assert body["text"] != another["text"]
    assert body["sampling_params"] == {"max_new_tokens": 16, "temperature": 0.0}
    assert one.expected
    assert one.expected.split()[0] in body["text"]


def test_the_rates_are_those_of_the_load_curve() -> None:
    assert rate_per_s(PEAK) / rate_per_s(IDLE) == pytest.approx(PEAK / IDLE)
    assert 15 < rate_per_s(IDLE) < 30


def test_a_stage_that_has_not_started_says_so(tmp_path: Path) -> None:
    assert "not started" in repr(Stage(tmp_path / "log"))
