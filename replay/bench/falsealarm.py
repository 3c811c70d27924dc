"""How often all detectors together take a clean request for a corrupted one: `make bench-falsealarm`.

    python -m replay.bench.falsealarm --requests 2000       some seconds, a look; writes nothing
    python -m replay.bench.falsealarm --requests 100000     three minutes of CPU; writes rules/quality.json

Clean traffic of many sessions (`clean_traffic`), judged by all detectors of the default rules with the index
of who said what. Each answer comes in verify steps of three drafts whose acceptance differs from request to
request and drifts within each: drawn from Beta(mean .7, kappa 20), anew every 20 steps. The drafter is held
to the safe anchor, as before any calibration. No alarm in n requests bounds the rate by 3/n.
"""

import argparse
import json
from functools import cache
from random import Random
from typing import Any, Final

from replay.bench.crosstalk import Bench, clean
from replay.bench.detectors import load
from replay.bench.interval import wilson
from replay.bench.quality import publish
from replay.bench.telemetry import DRIFT_STEPS, HEALTHY, K
from service.core.detectors.protocol import Detector
from service.core.events import Delta, Drafter, RequestFacts, WorkerFacts
from service.core.fusion import Fusion
from service.core.inspector import Inspector
from service.core.recorded import PSEUDO_TOKEN

KAPPA: Final = 20
WORKER: Final = WorkerFacts("http://bench", Drafter.MODEL, K)
PUBLISHED: Final = 100_000
"""Fewer requests bound the rate by too little to be published."""

LATER: Final = 3.0
"""No alarm in n requests bounds their rate by this over n, at 95 %."""


@cache
def rules() -> tuple[tuple[Detector[Any], ...], Fusion]:
    return load()


def inspect(facts: RequestFacts) -> Inspector:
    detectors, fusion = rules()
    return Inspector(facts, WORKER, detectors, fusion)


def steps(text: str, rng: Random) -> list[Delta]:
    """An answer in verify steps, accepted as healthy drafts are."""
    pieces, deltas = PSEUDO_TOKEN.findall(text), [Delta(tokens=0)]
    done, rate = 0, HEALTHY
    while done < len(pieces):
        if len(deltas) % DRIFT_STEPS == 1:
            rate = rng.betavariate(HEALTHY * KAPPA, (1 - HEALTHY) * KAPPA)
        accepted = 0
        while accepted < K and rng.random() < rate:
            accepted += 1
        piece = "".join(pieces[done : done + accepted + 1])
        done += accepted + 1
        deltas.append(Delta(text=piece, tokens=min(done, len(pieces)), exact=(accepted,)))
    return [*deltas, Delta(tokens=len(pieces), finish="stop")]


def measure(requests: int, seed: int) -> dict[str, Any]:
    """Judge so many clean requests."""
    seen = clean(requests, seed, Bench(seed, inspect=inspect, cut=steps))
    answers, alarms = seen["answers"], seen["corrupt"]
    return {
        "requests": answers,
        "seed": seed,
        "alarms": alarms,
        "suspected": seen["suspected"],
        "with_words_of_another": seen["one_gram"],
        "detector_faults": seen["detector_faults"],
        "rate_at_most": round(wilson(alarms, answers)[1] if alarms else LATER / max(answers, 1), 8),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description="False alarms of all detectors together.")
    parser.add_argument("--requests", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--dry", action="store_true", help="write nothing")
    args = parser.parse_args()
    figures = measure(args.requests, args.seed)
    if not args.dry and args.requests >= PUBLISHED:
        publish({"clean_requests": figures})
    print(json.dumps(figures))


if __name__ == "__main__":
    main()
