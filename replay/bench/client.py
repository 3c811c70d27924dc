"""CPU a streamed request of our load client, beside SGLang's, aiperf and guidellm: `make bench-replay`.

    python -m replay.bench.client [--quick] [--without NAME ...] [--rounds 3]

All read the same mock, a process of its own: 64 chunks a request, one each 15 ms, 100 streams, texts kept and
every chunk timed. A client is run at two sizes and its CPU, children included, divided by the difference in
requests, so that start-up is left out; how many requests came is the mock's count, not what was asked for.
Arms take turns within a round. Ours is what `specguard replay run` does, plan read and results written;
`judged` is the same with the detectors on every text afterwards. The streams begin together, as they do in a
closed loop, which lets a client read many at one wake; `staggered` is the same rate with Poisson arrivals,
nearer to real traffic and dearer for everybody, for our client and SGLang's.

At the end 100,000 requests at 1,000 a second, Poisson: how late they went out and what memory that took.
"""

import argparse
import json
import os
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from time import monotonic
from typing import Any, Final

from replay.bench.client_arms import ARMS, Arm, ArmError, Field, Spent
from replay.bench.cpu import machine_busy_ns
from replay.bench.replaying import Pace, make_plan

ROUNDS: Final = 3
SLOW_ROUNDS: Final = 1
"""Of the clients that are ten times slower: a ratio of ten needs no third digit."""
PACE: Final = Pace(requests=100_000, per_s=1000.0)
QUICK_PACE: Final = Pace(requests=3_000, per_s=1000.0)
GOALS: Final = {"sglang_rust": 1.25, "aiperf": 0.1, "guidellm": 0.1, "detectors": 1.5}


class Slope:
    """One arm's rounds."""

    def __init__(self, arm: Arm) -> None:
        self.arm = arm
        self.ms_per_request: list[float] = []

    def __repr__(self) -> str:
        return f"<Slope {self.arm.name} {self.ms_per_request}>"

    def measure(self, field: Field, sizes: tuple[int, int]) -> None:
        """Two runs of different sizes; the difference is what a request costs."""
        small, large = (field.run(self.arm, size) for size in sizes)
        requests = large.requests - small.requests
        if requests <= 0:
            raise ArmError(f"{self.arm.name} sent {requests} requests more at the larger size")
        self.ms_per_request.append((large.cpu_s - small.cpu_s) / requests * 1e3)

    @property
    def middle(self) -> float:
        return median(self.ms_per_request)


def figures(slopes: Sequence[Slope], paced: Spent | None) -> dict[str, Any]:
    """The last line."""
    by_name = {slope.arm.name: slope for slope in slopes if slope.ms_per_request}
    told: dict[str, Any] = {
        f"ratio_{name}": _ratio(by_name, "ours", name) for name in ("sglang_rust", "aiperf", "guidellm")
    }
    told["ratio_sglang_rust_staggered"] = _ratio(by_name, "ours_staggered", "sglang_rust_staggered")
    told["ratio_detectors"] = _ratio(by_name, "judged", "ours")
    told["cpu_ms_per_request"] = {name: round(slope.middle, 4) for name, slope in by_name.items()}
    told["by_round"] = {
        name: [round(value, 4) for value in slope.ms_per_request] for name, slope in by_name.items()
    }
    if paced is not None:
        told["pace"] = {**paced.told, "peak_rss_mb": round(paced.peak_mb, 1), "cpu_s": round(paced.cpu_s, 2)}
    told["goals"] = GOALS
    return told


def _ratio(by_name: dict[str, Slope], ours: str, theirs: str) -> float | None:
    """The median over the rounds that both were in; None for one that was left out.

    Within a round, as what else the machine does changes what a request costs, and clients that are measured
    once must not be held against rounds in which the machine was busier.
    """
    if ours not in by_name or theirs not in by_name:
        return None
    rounds = zip(by_name[ours].ms_per_request, by_name[theirs].ms_per_request, strict=False)
    return round(median(one / other for one, other in rounds), 3)


def run(*, rounds: int, quick: bool, without: Sequence[str]) -> dict[str, Any]:
    """Measure all arms."""
    slopes = [Slope(arm) for arm in ARMS if arm.name not in without]
    busy, began = machine_busy_ns(), monotonic()
    with tempfile.TemporaryDirectory() as home, Field(Path(home)) as field:
        for number in range(rounds):
            for slope in slopes if number % 2 == 0 else slopes[::-1]:
                if number < (SLOW_ROUNDS if slope.arm.slow else rounds):
                    slope.measure(field, slope.arm.sizes(quick=quick))
                    _tell(f"round {number + 1}: {slope.arm.name} {slope.ms_per_request[-1]:.3f} ms a request")
        paced = _paced(field, QUICK_PACE if quick else PACE)
        ours_s = field.cpu_s
    told = figures(slopes, paced)
    span_s = (monotonic() - began) * (os.cpu_count() or 1)
    told["others_share"] = round(max(0.0, (machine_busy_ns() - busy) / 1e9 - ours_s) / span_s, 3)
    return told


def _paced(field: Field, pace: Pace) -> Spent:
    plan = make_plan(field.home / "pace.plan", pace)
    _tell(f"{pace.requests} requests at {pace.per_s:g} a second")
    return field.paced(plan)


def _tell(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


def main(words: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="replay.bench.client", description=__doc__.partition("\n")[0])
    parser.add_argument("--quick", action="store_true", help="one round of short turns: a look, no result")
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument(
        "--without", action="append", default=[], choices=[arm.name for arm in ARMS if arm.python]
    )
    told = parser.parse_args(words)
    try:
        found = run(rounds=1 if told.quick else told.rounds, quick=told.quick, without=told.without)
    except ArmError as failed:
        _tell(str(failed))
        return 1
    print(json.dumps(found))
    return 0


if __name__ == "__main__":
    sys.exit(main())
