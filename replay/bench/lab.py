"""How much of the matrix multiplications' own speed the lab's model reaches; last line JSON.

    python -m replay.bench.lab [--rounds N]

The yardstick is measured in the same run: the very multiplications of the pass (weights and attention, same
shapes, same count) done by numpy back to back with nothing between them. So a share of 1 would be a forward
pass in which norms, softmax, rotation, paging and Python cost nothing.

    prefill    a prompt of 180 tokens through the target
    verify     the target's pass over the last token and k = 4 drafts behind 180 tokens: decode's own pass
    draft      one token through the draft model
    step       a whole decode step: k draft passes and the verify pass

One thread; yardstick and pass in turn, so that a busy neighbour meets both. A share is the median of the
rounds' own ratios, times are the best of the rounds.
`sgemm_gflops` is the machine's speed on a square of 512, for comparison with other machines.
"""

import argparse
import json
import os
from collections.abc import Callable, Sequence
from time import perf_counter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from replay.lab.model import Floats, Shape, TinyLM
from replay.lab.speculation import DRAFT_TOKENS, load_models, pages_needed
from replay.lab.tokenizer import FIXED, VOCABULARY_SIZE

PROMPT_TOKENS = 180
SQUARE = 512
ROUNDS = 41
REPEAT_S = 0.01
"""How long one timing lasts: long beside the clock, short beside a neighbour's turn."""

Act = Callable[[], object]
Times = NDArray[np.float64]


def multiplications(shape: Shape, rows: int, length: int) -> tuple[Act, float]:
    """Return the multiplications of a pass over `rows` new places of `length`, and their operations."""
    rng = np.random.default_rng(0)

    def drawn(*axes: int) -> Floats:
        return rng.standard_normal(axes, np.float32)

    width, heads, dim = shape.width, shape.heads, shape.head_dim
    weights = [(width, 3 * width), (width, width), (width, shape.hidden), (shape.hidden, width)]
    pairs = [(drawn(rows, a), drawn(a, b)) for _ in range(shape.layers) for a, b in weights]
    keys, values = drawn(length, heads, dim), drawn(length, heads, dim)
    queries, scores = drawn(rows, heads, dim), drawn(heads, rows, length)
    last = (drawn(rows, width), drawn(width, VOCABULARY_SIZE))

    def multiply() -> None:
        for at, (left, right) in enumerate(pairs):
            left @ right
            if at % len(weights) == 0:
                np.matmul(queries.transpose(1, 0, 2), keys.transpose(1, 2, 0))
                np.matmul(scores, values.transpose(1, 0, 2))
        last[0] @ last[1]

    attention = 2 * shape.layers * 2 * heads * rows * length * dim
    flops = 2 * sum(left.size * right.shape[1] for left, right in [*pairs, last]) + attention
    return multiply, float(flops)


def times_s(acts: Sequence[Act], rounds: int) -> Times:
    """Time each act, in turn, round by round: [round, act]."""
    counts = [max(1, int(REPEAT_S / _once(act))) for act in acts]
    found = np.zeros((rounds, len(acts)))
    for row in found:
        for at, (act, count) in enumerate(zip(acts, counts, strict=True)):
            began = perf_counter()
            for _ in range(count):
                act()
            row[at] = (perf_counter() - began) / count
    return found


def _once(act: Act) -> float:
    act()
    began = perf_counter()
    act()
    return perf_counter() - began


def passes(model: TinyLM, rows: int, length: int) -> Act:
    """Return the model's own pass over `rows` new places of `length`."""
    rng = np.random.default_rng(1)
    tokens = rng.integers(len(FIXED), VOCABULARY_SIZE, length).tolist()
    pages = range(pages_needed(length))
    pool = model.new_pool(len(pages))
    model.forward(tokens, 0, pool, pages)
    return lambda: model.forward(tokens, length - rows, pool, pages)


def share(model: TinyLM, rows: int, length: int, rounds: int) -> dict[str, float]:
    """Measure one pass against its multiplications."""
    yardstick, flops = multiplications(model.shape, rows, length)
    times = times_s([yardstick, passes(model, rows, length)], rounds)
    multiplied_s, passed_s = times.min(axis=0).tolist()
    return {
        "share": float(np.median(times[:, 0] / times[:, 1])),
        "ms": passed_s * 1e3,
        "gflops": flops / passed_s / 1e9,
        "matmul_ms": multiplied_s * 1e3,
    }


def measure(rounds: int = ROUNDS) -> dict[str, Any]:
    """Measure all passes."""
    target, draft = load_models()
    square = np.random.default_rng(0).standard_normal((SQUARE, SQUARE), np.float32)
    square_s = float(times_s([lambda: square @ square], rounds).min())
    length = PROMPT_TOKENS + DRAFT_TOKENS + 1
    prefill = share(target, PROMPT_TOKENS, PROMPT_TOKENS, rounds)
    verify = share(target, DRAFT_TOKENS + 1, length, rounds)
    drafted = share(draft, 1, length, rounds)
    step_ms = verify["ms"] + DRAFT_TOKENS * drafted["ms"]
    share_ms = verify["share"] * verify["ms"] + DRAFT_TOKENS * drafted["share"] * drafted["ms"]
    rows = {"prefill": prefill, "verify": verify, "draft": drafted}
    return {
        "sgemm_gflops": round(2 * SQUARE**3 / square_s / 1e9, 1),
        **{f"{name}_{key}": round(value, 4) for name, row in rows.items() for key, value in row.items()},
        "step_share": round(share_ms / step_ms, 4),
        "step_ms": round(step_ms, 4),
        "threads": int(os.environ.get("OPENBLAS_NUM_THREADS", "0")),
        "rounds": rounds,
    }


def main() -> None:
    """Print the figures, the last line as JSON."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=ROUNDS, help="timings of each, the best counts")
    options = parser.parse_args()
    figures = measure(max(1, options.rounds))
    for name in ("prefill", "verify", "draft", "step"):
        share_of, ms = figures[f"{name}_share"], figures[f"{name}_ms"]
        print(f"{name:<8} {share_of:.0%} of its multiplications' speed, {ms:.3f} ms")
    print(json.dumps(figures))


if __name__ == "__main__":
    main()
