"""Measure the lab's model: is a clean answer right, and what do KV faults do to one.

`python -m replay.lab.quality [--requests N] [--faults]` prints one line a measurement and all of it as
JSON on the last line. Clean: about 25 ms a request. Faults: 24 rows of N requests, about 100 ms each.

A fault strikes between two steps, when at least so many answer tokens are out, and changes all pages of
the request in the target's pool (`-both`: in the draft's too). The other request of a swap has answered as
many tokens; its prompt is as long, or at least 8 tokens longer.
"""

import argparse
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from replay.lab.model import Floats
from replay.lab.speculation import Speculator, load_models, private_request, private_speculator
from replay.lab.tasks import KINDS, Task, sample
from replay.lab.tokenizer import EOS

MAX_TOKENS = 256
"""A cap that no right answer comes near (97 tokens), so that a loop shows as one."""
LOOP_TOKENS = 64
LONGEST_PERIOD_TOKENS = 16
SHORT_ANSWER_TOKENS = 200
"""A wrong answer that does not loop and ends before this many tokens reads well enough to be believed."""
LONGER_TOKENS = 8
FAULT_AT_TOKENS = (5, 12, 20)
SEED = 31337


class Run:
    """One request on pools of its own, step by step."""

    def __init__(self, task: Task) -> None:
        self.task = task
        self.request = private_request(task.prompt_ids, MAX_TOKENS)
        self.speculator: Speculator = private_speculator(*load_models(), len(self.request.target_pages))
        self.accepted: list[int] = []
        self.speculator.prefill(self.request)

    def __repr__(self) -> str:
        return f"<Run {self.request!r}, {len(self.accepted)} steps>"

    @property
    def is_over(self) -> bool:
        answer = self.request.answer
        return EOS in answer or len(answer) >= MAX_TOKENS

    def until(self, tokens: int) -> "Run":
        """Step until so many answer tokens are out."""
        while not self.is_over and len(self.request.answer) < tokens:
            self.accepted.append(self.speculator.step(self.request).accepted)
        return self

    def answer(self) -> list[int]:
        """The answer so far, cut at its end."""
        answer = self.request.answer[:MAX_TOKENS]
        return answer[: answer.index(EOS) + 1] if EOS in answer else answer

    def accept_rate(self, first: int, steps: int | None = None) -> float:
        """Accepted share of the drafts from step `first` on, without the step that `<eos>` cuts short."""
        counted = self.accepted[first : len(self.accepted) - (EOS in self.request.answer)][:steps]
        return float(np.mean(counted)) / self.speculator.draft_tokens if counted else float("nan")


@dataclass(frozen=True, slots=True)
class Fault:
    """What happens to the pages. `donor`: the kind of other request that takes part, if any."""

    strike: Callable[[Run, Run | None, np.random.Generator], None]
    donor: str = ""


def overwrite(run: Run, _: Run | None, __: np.random.Generator, *, value: float) -> None:
    """Put one value everywhere."""
    run.speculator.target_pool[:] = value


def randomise(run: Run, _: Run | None, rng: np.random.Generator, *, matched: bool) -> None:
    """Put noise in all K and V; matched: with the standard deviation of each layer's K and V."""
    pool, used = run.speculator.target_pool, -(-len(run.request.tokens) // 16)
    written = pool[:, :, :used]
    scale = written.std(axis=(2, 3, 4, 5), keepdims=True) if matched else np.float32(1)
    pool[:] = rng.standard_normal(pool.shape, np.float32) * scale


def swap(run: Run, donor: Run | None, _: np.random.Generator, *, both: bool) -> None:
    """Put the other request's pages in place of ours."""
    if donor is None:
        return
    _copy(donor.speculator.target_pool, run.speculator.target_pool)
    if both:
        _copy(donor.speculator.draft_pool, run.speculator.draft_pool)


def _copy(source: Floats, target: Floats) -> None:
    pages = min(source.shape[2], target.shape[2])
    target[:, :, :pages] = source[:, :, :pages]


FAULTS: dict[str, Fault] = {
    "nan": Fault(partial(overwrite, value=np.nan)),
    "random-matched": Fault(partial(randomise, matched=True)),
    "random-standard": Fault(partial(randomise, matched=False)),
    "zeros": Fault(partial(overwrite, value=0.0)),
    "swap-equal": Fault(partial(swap, both=False), "equal"),
    "swap-equal-both": Fault(partial(swap, both=True), "equal"),
    "swap-longer": Fault(partial(swap, both=False), "longer"),
    "swap-longer-both": Fault(partial(swap, both=True), "longer"),
}


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of one struck request; the rates `clean_*` are of the same request without the fault."""

    wrong: bool
    ends: bool
    loops: bool
    tokens: int
    distinct_3_grams: float
    accept_6: float
    accept_12: float
    clean_accept_6: float

    @property
    def reads_well(self) -> bool:
        """Wrong, and neither a loop nor a runaway."""
        return self.wrong and not self.loops and self.tokens <= SHORT_ANSWER_TOKENS


def distinct_3_grams(ids: Sequence[int]) -> float:
    """Different 3-grams over all 3-grams; 1 where there are none."""
    grams = [tuple(ids[at : at + 3]) for at in range(len(ids) - 2)]
    return len(set(grams)) / len(grams) if grams else 1.0


def tail_loops(ids: Sequence[int]) -> bool:
    """Tell whether the last 64 tokens repeat with a period of at most 16."""
    tail = list(ids[-LOOP_TOKENS:])
    return len(tail) == LOOP_TOKENS and any(
        tail[period:] == tail[:-period] for period in range(1, LONGEST_PERIOD_TOKENS + 1)
    )


def struck(task: Task, fault: Fault, at_tokens: int, rng: np.random.Generator) -> Outcome | None:
    """Run one request with one fault; None where its answer is over before the fault."""
    clean, run = Run(task).until(MAX_TOKENS), Run(task).until(at_tokens)
    if run.is_over:
        return None
    donor = Run(donor_of(task, fault.donor, rng)).until(at_tokens) if fault.donor else None
    step, tokens = len(run.accepted), len(run.request.answer)
    fault.strike(run, donor, rng)
    answer = run.until(MAX_TOKENS).answer()
    return Outcome(
        wrong=answer != clean.answer(),
        ends=EOS in answer,
        loops=tail_loops(answer),
        tokens=len(answer),
        distinct_3_grams=distinct_3_grams(answer[tokens:]),
        accept_6=run.accept_rate(step, 6),
        accept_12=run.accept_rate(step, 12),
        clean_accept_6=clean.accept_rate(step, 6),
    )


def donor_of(task: Task, kind: str, rng: np.random.Generator) -> Task:
    """Draw another request whose prompt is as long, or longer."""
    while True:
        other, length = sample(rng), len(task.prompt_ids)
        more = len(other.prompt_ids) - length
        if more == 0 if kind == "equal" else more >= min(LONGER_TOKENS, 200 - length):
            return other


def drawn(requests: int) -> list[Task]:
    """Draw the requests to measure, as many of each kind."""
    rng = np.random.default_rng(SEED)
    return [sample(rng, KINDS[at % len(KINDS)]) for at in range(requests)]


def measure_clean(requests: int) -> dict[str, Any]:
    """Share of right answers by kind, loops, and the spread of the accept rate."""
    runs = [Run(task).until(MAX_TOKENS) for task in drawn(requests)]
    rates = [run.accept_rate(0) for run in runs]
    right = {
        kind: [tuple(r.answer()) == r.task.answer_ids for r in runs if r.task.kind == kind] for kind in KINDS
    }
    return {
        "requests": requests,
        "right": {kind: round(float(np.mean(hits)), 4) for kind, hits in right.items()},
        "distinct_3_grams_min": round(min(distinct_3_grams(run.answer()) for run in runs), 3),
        "accept_rate_mean": round(float(np.mean(rates)), 3),
        "accept_rate_q1_q5_q25_q50_q75_q95": np.quantile(rates, (0.01, 0.05, 0.25, 0.5, 0.75, 0.95))
        .round(3)
        .tolist(),
    }


def measure_fault(name: str, at_tokens: int, requests: int) -> dict[str, Any]:
    """One row of the fault table."""
    rng = np.random.default_rng(SEED + 1)
    tries = (struck(task, FAULTS[name], at_tokens, rng) for task in drawn(requests))
    outcomes = [outcome for outcome in tries if outcome is not None]
    wrong = [outcome for outcome in outcomes if outcome.wrong]
    means = ("wrong", "ends", "loops", "distinct_3_grams", "accept_6", "accept_12", "clean_accept_6")
    return {
        "fault": name,
        "at_tokens": at_tokens,
        "requests": len(outcomes),
        **{mean: round(float(np.nanmean([getattr(o, mean) for o in outcomes])), 3) for mean in means},
        "wrong_but_reads_well": round(float(np.mean([o.reads_well for o in wrong])), 3) if wrong else None,
    }


def main() -> None:
    """Print the measurements."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--requests", type=int, default=100, help="requests of each measurement")
    parser.add_argument("--faults", action="store_true", help="measure the faults too")
    options = parser.parse_args()
    result: dict[str, Any] = {"clean": measure_clean(options.requests), "faults": []}
    print(result["clean"], flush=True)
    for at_tokens in FAULT_AT_TOKENS if options.faults else ():
        for name in FAULTS:
            result["faults"].append(measure_fault(name, at_tokens, options.requests))
            print(result["faults"][-1], flush=True)
    print(json.dumps(result))


if __name__ == "__main__":
    main()
