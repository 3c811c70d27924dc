"""Shards on a cluster: here one of threads; `live_ray.py` has the real one."""

import asyncio
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import msgspec
import pytest

from replay.launch_ray import Job, LaunchError, Part, RayCluster, carry_out, launch
from replay.results import ResultsError, read_results
from replay.target import NotAllowedError
from tests.replay.runkit import by_id, evenly, mocking, options, plan_of


class Threads:
    """Runs jobs as a cluster would: side by side, with nothing but what travels."""

    def __init__(self) -> None:
        self.jobs: list[Job] = []

    def run(self, plan: bytes, jobs: Sequence[Job]) -> list[Part]:
        self.jobs = list(jobs)
        travelled = [msgspec.msgpack.decode(msgspec.msgpack.encode(job), type=Job) for job in jobs]
        with ThreadPoolExecutor(len(jobs)) as pool:
            return list(pool.map(lambda job: carry_out(plan, job), travelled))


async def test_every_request_is_sent_once_and_comes_back_in_one_file(tmp_path: Path) -> None:
    plan, out, cluster = plan_of(tmp_path / "p", evenly(24, 0.01)), tmp_path / "r", Threads()
    async with mocking() as (url, mock):
        header, summaries = await asyncio.to_thread(launch, plan, out, options(url), 3, cluster, lead_s=2.0)
    assert mock.requests == len(by_id(out)) == 24
    assert sum(summary.sent for summary in summaries) == 24
    assert read_results(out)[0] == header
    assert header.shard == ""
    assert len({job.options.start_at for job in cluster.jobs}) == 1
    assert [str(job.options.shard) for job in cluster.jobs] == ["0/3", "1/3", "2/3"]


def test_a_target_that_is_not_allowed_reaches_no_cluster(tmp_path: Path) -> None:
    cluster = Threads()
    with pytest.raises(NotAllowedError):
        launch(plan_of(tmp_path / "p", evenly(3, 0.01)), tmp_path / "r", options("http://prod"), 2, cluster)
    assert cluster.jobs == []


def test_a_shard_that_is_placed_too_late_sends_nothing(tmp_path: Path) -> None:
    plan = plan_of(tmp_path / "p", evenly(3, 0.01))
    with pytest.raises(ResultsError, match="was to start"):
        launch(plan, tmp_path / "r", options("http://127.0.0.1:9"), 2, Threads(), lead_s=-1.0)


def test_a_node_of_another_release_is_refused() -> None:
    with pytest.raises(LaunchError, match=r"sent by 9\.9"):
        carry_out(b"", Job(options("http://127.0.0.1:9"), release="9.9"))


def test_without_the_extra_it_says_how_to_get_it() -> None:
    hidden = sys.modules.get("ray")
    sys.modules["ray"] = None  # type: ignore[assignment]  # as if it were not installed
    try:
        with pytest.raises(LaunchError, match="specguard\\[ray\\]"):
            RayCluster().run(b"", [])
    finally:
        del sys.modules["ray"]
        if hidden is not None:
            sys.modules["ray"] = hidden
