"""All shards of a plan on a Ray cluster that is already there, and their results in one file.

Each shard is a task of one CPU, spread over the nodes; the plan travels with it and its results come back.
Every node needs this release of SpecGuard installed. All start at one time, `LEAD_S` ahead: a shard that Ray
places too late refuses to run, because the load would not be the plan's. Nodes' clocks must agree to some
milliseconds, as NTP keeps them. Nothing here starts a cluster.
"""

import asyncio
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from importlib.metadata import version
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final, Protocol

import msgspec

from replay.plan import verify
from replay.results import RunHeader
from replay.run import run_plan
from replay.runner import Options, Summary
from replay.shard import Shard, merge
from replay.target import check_allowed, target_of

LEAD_S: Final = 20.0
"""For Ray to place all tasks and start their processes."""
RELEASE: Final = version("specguard")


class LaunchError(RuntimeError):
    """The cluster could not carry the plan out."""


class Job(msgspec.Struct, frozen=True):
    """One shard's work, as it travels."""

    options: Options
    release: str = RELEASE


class Part(msgspec.Struct, frozen=True):
    """What comes back."""

    summary: Summary
    results: bytes


class Cluster(Protocol):
    """Something that runs jobs side by side."""

    def run(self, plan: bytes, jobs: Sequence[Job]) -> list[Part]:
        """All of them; raises LaunchError where one fails."""
        ...


class RayCluster:
    """The Ray cluster at an address."""

    def __init__(self, address: str = "auto") -> None:
        self._address = address

    def __repr__(self) -> str:
        return f"<RayCluster {self._address}>"

    def run(self, plan: bytes, jobs: Sequence[Job]) -> list[Part]:
        try:
            import ray  # noqa: PLC0415 - an extra
        except ImportError:
            raise LaunchError("ray is not installed: pip install 'specguard[ray]'") from None
        try:
            ray.init(address=self._address, log_to_driver=False, ignore_reinit_error=True)
        except ConnectionError:
            raise LaunchError(f"no Ray cluster at {self._address}") from None
        task: Any = ray.remote(num_cpus=1, max_retries=0, scheduling_strategy="SPREAD")(carry_out)
        shared = ray.put(plan)
        try:
            parts: list[Part] = ray.get([task.remote(shared, job) for job in jobs])
        except ray.exceptions.RayError as error:
            raise LaunchError(_first_line(error)) from None
        finally:
            ray.shutdown()
        return parts


def carry_out(plan: bytes, job: Job) -> Part:
    """One shard, on whatever node this is."""
    if job.release != RELEASE:
        raise LaunchError(f"this node has SpecGuard {RELEASE}, the plan was sent by {job.release}")
    with TemporaryDirectory(prefix="specguard-") as home:
        path, results = Path(home) / "plan", Path(home) / "results"
        path.write_bytes(plan)
        summary = asyncio.run(run_plan(path, results, job.options))
        return Part(summary, results.read_bytes())


def launch(
    plan: Path,
    out: Path,
    options: Options,
    shards: int,
    cluster: Cluster,
    *,
    lead_s: float = LEAD_S,
) -> tuple[RunHeader, list[Summary]]:
    """Carry a plan out in so many shards; what they came to, and the header of the merged results.

    Raises as `run_plan`, and LaunchError.
    """
    check_allowed(target_of(options.target), options.allow)
    verify(plan)
    start_at = options.start_at or datetime.now(UTC) + timedelta(seconds=lead_s)
    jobs = [
        Job(msgspec.structs.replace(options, shard=Shard(number, shards), start_at=start_at))
        for number in range(shards)
    ]
    parts = cluster.run(plan.read_bytes(), jobs)
    with TemporaryDirectory(prefix="specguard-") as home:
        paths = [Path(home) / f"{number}.results" for number in range(shards)]
        for path, part in zip(paths, parts, strict=True):
            path.write_bytes(part.results)
        return merge(paths, out), [part.summary for part in parts]


def _first_line(error: Exception) -> str:
    """Of the error that a task ended with; Ray wraps it in a traceback."""
    lines = [line for line in str(error).splitlines() if line.strip()]
    return lines[-1].strip() if lines else type(error).__name__
