"""The charts: each well formed, and showing what it is about."""

from pathlib import Path
from xml.etree import ElementTree as ET

import msgspec
import pytest

from replay.judge import Judged, judge
from replay.plan import PlanHeader, Send, read_header
from replay.reporting.charts import acceptance_chart, latency_chart, rate_chart, timeline
from replay.results import Metric
from tests.replay.judging.made import WRONG, planned, ran, rules


def _bad_at_peak(send: Send) -> dict[str, object]:
    spoilt = send.arm == "peak" and send.id.endswith("3")
    return {"text": WRONG, "spec": {"spec_accept_length": 1.1}} if spoilt else {}


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> tuple[PlanHeader, Judged]:
    home: Path = tmp_path_factory.mktemp("run")
    header, sends = planned(home / "p")
    ran(home / "r", header, sends, _bad_at_peak)
    return read_header(home / "p"), judge(home / "p", home / "r", rules())


def _words(svg: str) -> list[str]:
    return [one.text or "" for one in ET.fromstring(svg).iter("text")]  # noqa: S314 - our own


def _titles(svg: str) -> list[str]:
    return [one.text or "" for one in ET.fromstring(svg).iter("title")]  # noqa: S314 - our own


def test_rates_stand_with_their_intervals_and_the_margin(run: tuple[PlanHeader, Judged]) -> None:
    titles = _titles(rate_chart(run[1]))
    assert "peak: 20 of 200, 1,000 per 10,000, 95 % 622 to 1,502" in titles
    assert any(title.startswith("return: 0 of 25") for title in titles)
    assert "margin: 400 per 10,000" in titles


def test_the_timeline_has_every_block_incident_and_the_telling_queues(run: tuple[PlanHeader, Judged]) -> None:
    header, found = run
    metrics = [
        Metric(
            at_s=at,
            url="http://p",
            values={"num_queue_reqs": float(at), "token_usage": 1.0, "num_running_reqs": 0.0},
        )
        for at in range(9)
    ]
    drawn = timeline(header, found, metrics)
    assert "num_queue_reqs of http://p" in _words(drawn)  # named in print, not for a pointer alone
    titles = _titles(drawn)
    assert titles.count("idle, return") == 1
    assert sum(title.startswith("peak, round") for title in titles) == 8
    assert sum(title.endswith("bad, d0") for title in titles) == len(found.incidents)
    assert "num_queue_reqs of http://p" in titles
    assert not any("token_usage" in title or "num_running_reqs" in title for title in titles)
    assert "no metrics were scraped" in timeline(header, found, [])


def test_accept_lengths_of_good_and_bad_answers_are_shares_of_their_own(
    run: tuple[PlanHeader, Judged],
) -> None:
    drawn = acceptance_chart(run[1])
    assert {"380 good answers", "20 bad answers"} <= {*_words(drawn)}
    titles = _titles(drawn)
    assert "bad: 20 of 20 at 1 to 1.25 tokens a step" in titles
    assert "good: 380 of 380 at 3.5 to 3.75 tokens a step" in titles


def test_latencies_are_told_by_level(run: tuple[PlanHeader, Judged]) -> None:
    titles = _titles(latency_chart(run[1], "ttft_s", "TTFT"))
    assert "peak: median 51, 90 % 51, 99 % 51 ms" in titles


def test_what_nobody_measured_has_no_chart(run: tuple[PlanHeader, Judged]) -> None:
    found = run[1]
    bare = [msgspec.structs.replace(one, ttft_s=None, accept_clean=[], accept_bad=[]) for one in found.levels]
    empty = msgspec.structs.replace(found, levels=bare)
    assert acceptance_chart(empty) == ""
    assert latency_chart(empty, "ttft_s", "TTFT") == ""
