"""On which layers an answer hangs: the prompt's KV of some layers is replaced before the first decode step.

    zero    nothing in its place
    other   what another request of the same length has there: slot reuse, a wrong page
    noise   normal, with the deviation of the layer's own K and V

One row a set of layers: each alone, the later half (a transfer cut short, LayerSplit, a late load-back), all.
`changed` is the share of answers that differ from the clean ones, `accept` the accept rate. A layer that
changes nothing is one whose faults this model cannot show.

`python -m replay.lab.depth [--requests N]` prints the table and all of it as JSON on the last line.
Deterministic. Cost: about 20 ms a request and cell.
"""

import argparse
import json
import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Literal, get_args

import numpy as np

from replay.lab.model import Floats
from replay.lab.quality import MAX_TOKENS, Run, donor_of, drawn
from replay.lab.speculation import load_models
from replay.lab.tasks import Task

Source = Literal["zero", "other", "noise"]
SOURCES: tuple[Source, ...] = get_args(Source)
SEED = 90210
DEFAULT_REQUESTS = 80


@dataclass(frozen=True, slots=True)
class Row:
    """One set of layers and one source, over all requests."""

    layers: tuple[int, ...]
    source: Source
    requests: int
    changed: float
    accept: float

    def line(self) -> str:
        """Show it to a reader."""
        return f"{self.source:<6} layers {self.layers}: changed {self.changed:.2f}, accept {self.accept:.2f}"


def layer_sets(layers: int) -> list[tuple[int, ...]]:
    """Return each layer alone, the later half, and all."""
    everything = tuple(range(layers))
    return [*((at,) for at in everything), everything[layers // 2 :], everything]


def measure(requests: int, layers: Sequence[tuple[int, ...]] | None = None) -> Iterator[Row]:
    """Measure each set of layers with each source."""
    tasks = drawn(requests)
    clean = [Run(task).until(MAX_TOKENS) for task in tasks]
    chosen = layer_sets(load_models()[0].shape.layers) if layers is None else layers
    for source in SOURCES:
        for of in chosen:
            rng = np.random.default_rng(SEED)
            struck = [_struck(task, of, source, rng) for task in tasks]
            pairs = zip(clean, struck, strict=True)
            changed = np.mean([hit.answer() != well.answer() for well, hit in pairs])
            accept = np.nanmean([hit.accept_rate(0) for hit in struck])
            yield Row(of, source, requests, round(float(changed), 3), round(float(accept), 3))


def _struck(task: Task, layers: tuple[int, ...], source: Source, rng: np.random.Generator) -> Run:
    run, length = Run(task), len(task.prompt_ids)
    rows = _rows(run)[list(layers), :, :length]
    if source == "other":
        rows = _rows(Run(donor_of(task, "equal", rng)))[list(layers), :, :length]
    elif source == "noise":
        rows = rng.standard_normal(rows.shape, np.float32) * rows.std(axis=(2, 3, 4), keepdims=True)
    else:
        rows[:] = 0
    _rows(run)[list(layers), :, :length] = rows
    return run.until(MAX_TOKENS)


def _rows(run: Run) -> Floats:
    """View the target's pool as [layer, K or V, place, head, head_dim]."""
    pool = run.speculator.target_pool
    return pool.reshape(*pool.shape[:2], -1, *pool.shape[4:])


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--requests", type=int, default=DEFAULT_REQUESTS, help="requests of each cell")
    rows = []
    for row in measure(parser.parse_args().requests):
        rows.append(asdict(row))
        sys.stdout.write(f"{row.line()}\n")
    sys.stdout.write(f"{json.dumps(rows)}\n")


if __name__ == "__main__":
    main()
