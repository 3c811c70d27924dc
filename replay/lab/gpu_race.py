"""Read-before-ready on a real GPU: the lab's model on two CUDA streams, the event between them out or in.

    python -m replay.lab.gpu_race [--rounds N] [--batches 1,8,64,512]        (make gpu-race)

The KV of a prefix lies in pinned host memory. A load stream copies it to the device layer by layer, as a
hierarchical cache loads back; a compute stream runs the suffix of the same prompts layer by layer and reads
each layer's prefix. With the event the compute stream waits for a layer's copy; without, it reads what lies
there: the KV of the batch before. Truth is the same computation after the whole load has been waited for.

    small batches    the copy is over before the kernel asks: no difference without the event
    large batches    the copy lasts longer than the layer before computes: other requests' KV is read

A sequence counts as wrong if the most likely next token at any of its suffix places is another one.

It needs torch and a CUDA device, fetches nothing, and takes seconds. Without them it says so and ends with 0:
nothing was shown and nothing failed. `--device cpu` has no streams; it checks that this model is the lab's.
"""

import argparse
import json
import sys
from collections.abc import Sequence
from typing import Any

import numpy as np

from replay.lab.model import NORM_EPSILON, TARGET_PATH, Floats, TinyLM, Weights
from replay.lab.tasks import sample

PREFIX_TOKENS = 96
SUFFIX_TOKENS = 16
BATCHES = (1, 8, 64, 512)
ROUNDS = 20
SEED = 7


def drawn(batch: int, rng: np.random.Generator) -> np.ndarray[tuple[int, int], np.dtype[np.int64]]:
    """Draw the beginnings of prompts, [request, place]."""
    length = PREFIX_TOKENS + SUFFIX_TOKENS
    rows: list[tuple[int, ...]] = []
    while len(rows) < batch:
        ids = sample(rng).prompt_ids
        if len(ids) >= length:
            rows.append(ids[:length])
    return np.array(rows, np.int64)


class BatchLM:
    """The lab's model over a batch of equally long prompts, in torch, KV in one tensor a layer."""

    def __init__(self, torch: Any, lab: TinyLM, device: str) -> None:  # noqa: ANN401 (torch is not installed here)
        """Put the lab's folded weights on the device."""
        self._torch = torch
        self.shape = lab.shape
        self.device = device

        def put(array: Floats) -> Any:  # noqa: ANN401 (a tensor)
            return torch.from_numpy(np.ascontiguousarray(array)).to(device)

        self._tables = [put(table) for table in (lab._embedded, lab._previous, lab._second)]  # noqa: SLF001
        self._layers = [[put(m) for m in (one.qkv, one.out, one.up, one.down)] for one in lab._layers]  # noqa: SLF001
        self._output = put(lab._output)  # noqa: SLF001
        turns = lab._turns[:, 0, 0]  # noqa: SLF001
        self._turns = put(turns.real), put(turns.imag)

    def __repr__(self) -> str:
        """Name the device."""
        return f"<BatchLM on {self.device}>"

    def new_kv(self, batch: int) -> list[Any]:
        """Make [k or v, request, place, head, dim] for each layer."""
        shape = self.shape
        length = PREFIX_TOKENS + SUFFIX_TOKENS
        axes = (2, batch, length, shape.heads, shape.head_dim)
        return [self._torch.zeros(axes, device=self.device) for _ in range(shape.layers)]

    def forward(self, ids: Any, start: int, end: int, kv: Sequence[Any], before: Any = None) -> Any:  # noqa: ANN401
        """Compute places start .. end - 1 of each prompt; `before` is called with each layer's number."""
        torch = self._torch
        places = torch.arange(start, end, device=self.device)
        future = torch.arange(end, device=self.device)[None] > places[:, None]
        x = self._tables[0][ids[:, start:end]]
        for at, (qkv, out, up, down) in enumerate(self._layers):
            if before is not None:
                before(at)
            for table, where, back in zip(
                self._tables[1:], (self.shape.previous_at, self.shape.second_at), (1, 2), strict=True
            ):
                if at == where:
                    known = (places >= back)[None, :, None]
                    x = x + table[ids[:, (places - back).clamp(min=0)]] * known
            x = x + self._attend(_normed(torch, x) @ qkv, kv[at], start, end, future) @ out
            hidden = torch.relu(_normed(torch, x) @ up)
            x = x + (hidden * hidden) @ down
        return _normed(torch, x) @ self._output

    def _attend(self, qkv: Any, kv: Any, start: int, end: int, future: Any) -> Any:  # noqa: ANN401
        torch, shape = self._torch, self.shape
        qkv = qkv.reshape(*qkv.shape[:2], 3, shape.heads, shape.head_dim)
        turned = self._turn(qkv[:, :, :2], start, end)
        kv[0, :, start:end], kv[1, :, start:end] = turned[:, :, 1], qkv[:, :, 2]
        queries, keys, values = (
            side.transpose(1, 2) for side in (turned[:, :, 0], kv[0, :, :end], kv[1, :, :end])
        )
        scores = (queries @ keys.transpose(-1, -2)).masked_fill(future, -float("inf"))
        mixed = torch.softmax(scores, -1) @ values
        return mixed.transpose(1, 2).reshape(*qkv.shape[:2], -1)

    def _turn(self, x: Any, start: int, end: int) -> Any:  # noqa: ANN401
        cosine, sine = (turn[start:end][None, :, None, None] for turn in self._turns)
        size = 2 * cosine.shape[-1]
        a, b = x[..., :size:2], x[..., 1:size:2]
        turned = self._torch.stack((a * cosine - b * sine, a * sine + b * cosine), -1).flatten(-2)
        return self._torch.cat((turned, x[..., size:]), -1)


def _normed(torch: Any, x: Any) -> Any:  # noqa: ANN401
    return x * torch.rsqrt((x * x).mean(-1, keepdim=True) + float(NORM_EPSILON))


class Race:
    """One batch size: prompts in turn, each batch's prefix loaded while its suffix computes."""

    def __init__(self, torch: Any, model: BatchLM, batch: int) -> None:  # noqa: ANN401
        """Compute every batch's prefix once and keep it in pinned host memory."""
        self._torch, self._model, self._batch = torch, model, batch
        rng = np.random.default_rng(SEED)
        self._ids = [torch.from_numpy(drawn(batch, rng)).to(model.device) for _ in range(2)]
        self._host = [self._prefix(ids) for ids in self._ids]
        self._device = model.new_kv(batch)
        self._loading, self._computing = torch.cuda.Stream(), torch.cuda.Stream()

    def __repr__(self) -> str:
        """Name the batch size."""
        return f"<Race of batches of {self._batch}>"

    def _prefix(self, ids: Any) -> list[Any]:  # noqa: ANN401
        kv = self._model.new_kv(self._batch)
        self._model.forward(ids, 0, PREFIX_TOKENS, kv)
        return [layer[:, :, :PREFIX_TOKENS].to("cpu").pin_memory() for layer in kv]

    def run(self, rounds: int, *, event: bool) -> dict[str, Any]:
        """Serve the batches in turn; compare with the same batches computed after their whole load."""
        wrong = total = 0
        largest = 0.0
        truths = [self._serve(which, whole=True, event=True) for which in (0, 1)]
        for at in range(rounds):
            which = at % 2
            logits = self._serve(which, whole=False, event=event)
            differs = (logits.argmax(-1) != truths[which].argmax(-1)).any(-1)
            wrong += int(differs.sum())
            total += self._batch
            largest = max(largest, float((logits - truths[which]).abs().max()))
        return {"event": event, "sequences": total, "wrong": wrong, "largest_difference": largest}

    def _serve(self, which: int, *, whole: bool, event: bool) -> Any:  # noqa: ANN401
        """Load the prefix on one stream, compute the suffix on the other."""
        torch = self._torch
        torch.cuda.synchronize()
        loaded = [torch.cuda.Event() for _ in self._device]
        with torch.cuda.stream(self._loading):
            for at, layer in enumerate(self._device):
                layer[:, :, :PREFIX_TOKENS].copy_(self._host[which][at], non_blocking=True)
                loaded[at].record()
        if whole:
            torch.cuda.synchronize()

        def before(layer: int) -> None:
            if event:
                self._computing.wait_event(loaded[layer])

        end = PREFIX_TOKENS + SUFFIX_TOKENS
        with torch.cuda.stream(self._computing):
            logits = self._model.forward(self._ids[which], PREFIX_TOKENS, end, self._device, before)
        torch.cuda.synchronize()
        return logits


def check(torch: Any, model: BatchLM, lab: TinyLM) -> float:  # noqa: ANN401
    """Return the largest difference of logits from the lab's own model."""
    ids = drawn(2, np.random.default_rng(SEED))
    length = ids.shape[1]
    kv = model.new_kv(2)
    tensor = torch.from_numpy(ids).to(model.device)
    model.forward(tensor, 0, PREFIX_TOKENS, kv)
    ours = model.forward(tensor, PREFIX_TOKENS, length, kv).cpu().numpy()
    pages = range(-(-length // 16))
    largest = 0.0
    for row, tokens in zip(ours, ids.tolist(), strict=True):
        theirs = lab.forward(tokens, 0, lab.new_pool(len(pages)), pages)[PREFIX_TOKENS:]
        largest = max(largest, float(np.abs(row - theirs).max()))
    return largest


def race(torch: Any, batches: Sequence[int], rounds: int) -> dict[str, Any]:  # noqa: ANN401
    """Run every batch size with the event and without."""
    lab = TinyLM(Weights.load(TARGET_PATH))
    model = BatchLM(torch, lab, "cuda")
    results = []
    for batch in batches:
        course = Race(torch, model, batch)
        for event in (True, False):
            results.append({"batch": batch, **course.run(rounds, event=event)})
            _say(json.dumps(results[-1]))
    return {
        "device": torch.cuda.get_device_name(),
        "torch": torch.__version__,
        "model_difference": check(torch, model, lab),
        "results": results,
        "wrong_with_event": sum(result["wrong"] for result in results if result["event"]),
        "wrong_without_event": sum(result["wrong"] for result in results if not result["event"]),
    }


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def main(arguments: Sequence[str]) -> int:
    """Run the experiment, or say why not; return the exit status."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=ROUNDS, help="batches of each size and kind")
    parser.add_argument("--batches", default=",".join(map(str, BATCHES)), help="batch sizes")
    parser.add_argument("--device", default="cuda", choices=("cuda", "cpu"), help="cpu only checks the model")
    options = parser.parse_args(arguments)
    try:
        import torch  # noqa: PLC0415 (an experiment's own need: nothing that we install has it)
    except ImportError:
        _say("gpu-race: not run: torch is not installed for this Python (name one that has it: GPU_PYTHON=)")
        return 0
    torch.set_grad_enabled(False)
    if options.device == "cpu":
        lab = TinyLM(Weights.load(TARGET_PATH))
        _say(json.dumps({"model_difference": check(torch, BatchLM(torch, lab, "cpu"), lab)}))
        return 0
    if not torch.cuda.is_available():
        _say("gpu-race: not run: torch sees no CUDA device")
        return 0
    torch.backends.cuda.matmul.allow_tf32 = False
    torch.backends.cudnn.allow_tf32 = False
    result = race(torch, [int(batch) for batch in options.batches.split(",")], options.rounds)
    _say(json.dumps(result))
    return 1 if result["wrong_with_event"] else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
