"""The launcher on a real Ray, started here for the test: shards as tasks in processes of their own.

`make replay-ray` installs Ray and runs this; where it is missing it fails.
"""

import asyncio
from pathlib import Path

import pytest
import ray

from replay.launch_ray import RayCluster, launch
from tests.replay.runkit import by_id, evenly, mocking, options, plan_of

pytestmark = [
    pytest.mark.filterwarnings("ignore"),  # Ray's own
    pytest.mark.timeout(240),  # a local cluster takes half a minute to come up
]


async def test_a_plan_is_sent_from_the_tasks_of_a_cluster(tmp_path: Path) -> None:
    plan, out = plan_of(tmp_path / "p", evenly(60, 0.05)), tmp_path / "r"
    await asyncio.to_thread(ray.init, num_cpus=2, include_dashboard=False)
    address = ray.get_runtime_context().gcs_address
    async with mocking() as (url, mock):
        header, summaries = await asyncio.to_thread(
            launch, plan, out, options(url), 2, RayCluster(address), lead_s=30.0
        )
    assert mock.requests == len(by_id(out)) == 60
    assert all(summary.sent > 10 for summary in summaries)
    assert header.shard == ""
