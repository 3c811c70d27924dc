"""Our side of `make bench-replay`: one plan run to its end in a process of its own.

python -m replay.bench.replaying URL PLAN RESULTS [--judge]     -> one JSON object
"""

import json
import sys
from pathlib import Path
from random import Random
from typing import Any, Final, NamedTuple

import uvloop
import yaml

from replay.plan import Arm, Block, PlanHeader, Send, write_plan
from replay.results import results_of
from replay.run import run_plan
from replay.runner import Options, Summary
from service.core.detectors import build
from service.core.events import Kind
from service.core.recorded import Rules, judge_text

RULES: Final = Path(__file__).parents[2] / "rules" / "sets" / "default.yaml"
PROMPT: Final = "Explain how a cache page is handed from prefill to decode. " * 3
HOST: Final = "127.0.0.1"


class Pace(NamedTuple):
    """A load: so many requests at such a rate, Poisson or in waves of so many at once."""

    requests: int
    per_s: float
    at_once: int = 0  # 0: Poisson


def make_plan(path: Path, pace: Pace) -> Path:
    """A plan of that load."""
    span_s = pace.requests / pace.per_s
    blocks = [Block(index=0, arm="bench", start_s=0.0, end_s=span_s)]
    write_plan(path, PlanHeader(arms=[Arm(name="bench")], blocks=blocks), _sends(pace))
    return path


def _sends(pace: Pace) -> "list[Send]":
    random, at_s, sends = Random(1), 0.0, []
    body: dict[str, Any] = {"model": "mock", "prompt": PROMPT, "stream": True, "max_tokens": 64}
    for number in range(pace.requests):
        if not pace.at_once:
            at_s += random.expovariate(pace.per_s)
        elif number % pace.at_once == 0:
            at_s = number / pace.per_s
        sends.append(
            Send(id=f"r{number}", arm="bench", block=0, at_s=at_s, path="/v1/completions", body=body)
        )
    return sends


def judged(results: Path) -> int:
    """Put every text before the detectors; how many they found bad."""
    rules = Rules(*build(yaml.safe_load(RULES.read_text(encoding="utf-8"))))
    return sum(judge_text(one.text, rules).kind is not Kind.NORMAL for one in results_of(results))


def told(summary: Summary) -> dict[str, Any]:
    return {
        "requests": summary.sent,
        "failures": summary.failures,
        "kept": summary.kept,
        "late_p99_ms": summary.late_p99_ms,
        "late_limit_ms": summary.late_limit_ms,
    }


def main(url: str, plan: Path, results: Path, *, judge: bool) -> dict[str, Any]:
    """Run, and judge where that is asked for."""
    summary = uvloop.run(run_plan(plan, results, Options(target=url, allow=(HOST,))))
    if summary.failures or summary.left:
        raise SystemExit(f"{summary.failures} requests failed, {summary.left} were not sent")
    return told(summary) | ({"found": judged(results)} if judge else {})


if __name__ == "__main__":
    print(json.dumps(main(sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3]), judge="--judge" in sys.argv)))
