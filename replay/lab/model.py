"""The lab's language model: a tiny trained transformer in numpy whose KV lives in the pages of a shared pool.

Pre-RMSNorm, squared ReLU, tied embedding, partial RoPE (the first quarter of each head turns). Two learned
maps add the embeddings of the tokens one and two places back at the input of chosen layers, so that
looking a phrase up in the prompt (induction) takes one layer. One request is computed at a time: its
result depends on its tokens and on what lies in its pages, and on no other request. Nothing guards those
bytes: overwrite them and the request goes wrong.

Norm gains and the attention scale are folded into the matrices on loading. Cost on one thread of a two-core
virtual machine: 0.3 ms a verify step of five tokens, 0.05 ms a draft token, 5 ms a prefill of 180 tokens;
about 3,700 answer tokens a second, prefill included. On busy cores a second BLAS thread made it three times
slower: run it with OPENBLAS_NUM_THREADS=1.
"""

import hashlib
import json
import zipfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, Protocol, Self

import numpy as np
from numpy.typing import NDArray

from replay.lab.tokenizer import VOCABULARY_SHA256

Floats = NDArray[np.float32]
Turns = NDArray[np.complex64]

PAGE_TOKENS = 16
MAX_POSITIONS = 1024
"""Positions that the RoPE tables cover: four times the longest request that the model was trained on."""
ROPE_BASE = 1000.0
NORM_EPSILON = np.float32(1e-5)
BACK = 2
"""How many places back a token still has a say in the input."""
FORMAT = 1
"""Number of the weights file's layout: arrays in float16 and a JSON `header` with shape, vocabulary and
digest."""

WEIGHTS_DIRECTORY = Path(__file__).parent / "weights"
TARGET_PATH = WEIGHTS_DIRECTORY / "target.npz"
DRAFT_PATH = WEIGHTS_DIRECTORY / "draft.npz"


class WeightsError(Exception):
    """Ours: a weights file is missing, damaged, or made for another version."""

    def __init__(self, path: Path, fault: str) -> None:
        """Name the file, what is wrong with it and the way out."""
        super().__init__(
            f"{path}: {fault}; install SpecGuard anew, or make it with python -m replay.lab.train"
        )


@dataclass(frozen=True, slots=True)
class Shape:
    """The architecture. `previous_at`, `second_at`: the layers that see the tokens one and two back."""

    layers: int
    width: int
    heads: int
    hidden: int
    previous_at: int
    second_at: int
    second_width: int
    """Coordinates of the token two back that are fed in: what makes a draft model less than perfect."""

    @property
    def head_dim(self) -> int:
        """Width of one head."""
        return self.width // self.heads


@dataclass(frozen=True, slots=True)
class Weights:
    """One model's arrays by name, matrices as [out, in], and the shape that they fit."""

    shape: Shape
    arrays: Mapping[str, NDArray[np.float16]]

    @classmethod
    def load(cls, path: Path) -> Self:
        """Read a weights file and check that it is whole and speaks this vocabulary."""
        try:
            with path.open("rb") as file, np.load(file, allow_pickle=False) as archive:
                header = json.loads(str(archive["header"]))
                arrays = {name: archive[name] for name in archive.files if name != "header"}
        except FileNotFoundError as error:
            raise WeightsError(path, "no such weights file") from error
        except (OSError, EOFError, ValueError, TypeError, KeyError, zipfile.BadZipFile) as error:
            raise WeightsError(path, f"truncated or not a weights file ({type(error).__name__})") from error
        _check(path, header, arrays)
        return cls(Shape(**header["shape"]), arrays)

    def save(self, path: Path) -> None:
        """Write the arrays with a header that load() can check."""
        header = {
            "format": FORMAT,
            "shape": asdict(self.shape),
            "vocabulary_sha256": VOCABULARY_SHA256,
            "arrays_sha256": _digest(self.arrays),
        }
        content: dict[str, Any] = {"header": np.array(json.dumps(header)), **self.arrays}
        np.savez(path, **content)


def _check(path: Path, header: object, arrays: Mapping[str, NDArray[Any]]) -> None:
    match header:
        case {
            "format": number,
            "shape": dict(),
            "vocabulary_sha256": str(vocabulary_sha256),
            "arrays_sha256": str(arrays_sha256),
        } if number == FORMAT:
            pass
        case _:
            raise WeightsError(path, f"not of weights format {FORMAT}")
    if vocabulary_sha256 != VOCABULARY_SHA256:
        raise WeightsError(path, "trained with another vocabulary")
    if arrays_sha256 != _digest(arrays):
        raise WeightsError(path, "damaged (checksum differs)")


def _digest(arrays: Mapping[str, NDArray[Any]]) -> str:
    """Hash names, shapes and bytes, in the order of the names."""
    digest = hashlib.sha256()
    for name in sorted(arrays):
        digest.update(f"{name}{arrays[name].dtype}{arrays[name].shape}".encode())
        digest.update(np.ascontiguousarray(arrays[name]).tobytes())
    return digest.hexdigest()


@dataclass(frozen=True, slots=True)
class _Layer:
    """One layer's matrices as [in, out], norm gains and attention scale folded in."""

    qkv: Floats
    out: Floats
    up: Floats
    down: Floats


class TinyLM:
    """The model: forward() computes the next places of one request against the pages that it owns."""

    def __init__(self, weights: Weights) -> None:
        """Fold the weights into float32 matrices."""
        self.shape = shape = weights.shape
        arrays = {name: array.astype(np.float32) for name, array in weights.arrays.items()}
        embedding = arrays["embedding.weight"]
        self._embedded: Floats = embedding * np.float32(shape.width**0.5)
        self._previous: Floats = self._embedded @ arrays["previous.weight"].T
        self._second: Floats = self._embedded[:, : shape.second_width] @ arrays["second.weight"].T
        self._output = np.ascontiguousarray((embedding * arrays["norm.weight"]).T)
        self._layers = [_folded(arrays, f"blocks.{at}.", shape) for at in range(shape.layers)]
        turning = shape.head_dim // 8
        angles = np.arange(MAX_POSITIONS)[:, None] / ROPE_BASE ** (np.arange(turning) / turning)
        self._turns: Turns = np.exp(1j * angles).astype(np.complex64)[:, None, None]

    def __repr__(self) -> str:
        """Show the architecture."""
        return f"<TinyLM {self.shape}>"

    def new_pool(self, pages: int) -> Floats:
        """Make a private pool of zeros; a shared one has the same shape."""
        return np.zeros(self.pool_shape(pages), np.float32)

    def pool_shape(self, pages: int) -> tuple[int, int, int, int, int, int]:
        """The shape of a pool: [layers, key or value, pages, page_tokens, heads, head_dim]."""
        return (self.shape.layers, 2, pages, PAGE_TOKENS, self.shape.heads, self.shape.head_dim)

    def forward(
        self,
        tokens: Sequence[int],
        start: int,
        pool: Floats,
        pages: Sequence[int],
        *,
        last_only: bool = False,
        before: Callable[[int], None] | None = None,
    ) -> Floats:
        """Compute places start .. len(tokens) - 1, write their KV, return logits [place, vocabulary].

        Places before `start` are read from the pages as they lie there. NaN in, NaN out, without a warning.
        `before` is called with each layer's number before that layer's pages are touched: the sync point of
        whatever else writes them.
        """
        _check_room(start, len(tokens), pages)
        store = _slots(pool, pages, start, len(tokens))
        return self.forward_in(tokens, start, store, last_only=last_only, before=before)

    def forward_in(
        self,
        tokens: Sequence[int],
        start: int,
        store: "KVStore",
        *,
        last_only: bool = False,
        before: Callable[[int], None] | None = None,
    ) -> Floats:
        """Do what forward() does with KV that lies in a store of the caller's."""
        known = min(start, BACK)
        ids = np.asarray(tokens[start - known :], np.intp)
        x = self._embedded.take(ids[known:], axis=0)
        with np.errstate(all="ignore"):
            for at, layer in enumerate(self._layers):
                if before is not None:
                    before(at)
                self._inject(x, at, ids, known)
                mixed = self._attend(_normed(x) @ layer.qkv, start, store.of_layer(at))
                x += mixed @ layer.out
                hidden = _normed(x) @ layer.up
                np.maximum(hidden, 0, out=hidden)
                hidden *= hidden
                x += hidden @ layer.down
            logits: Floats = _normed(x[-1:] if last_only else x) @ self._output
        return logits

    def _inject(self, x: Floats, at: int, ids: NDArray[np.intp], known: int) -> None:
        """Add what this layer learns of the tokens one and two places back."""
        if at == self.shape.previous_at:
            _add_shifted(x, self._previous, ids, known - 1)
        if at == self.shape.second_at:
            _add_shifted(x, self._second, ids, known - 2)

    def _attend(self, qkv: Floats, start: int, layer: "LayerKV") -> Floats:
        """Write this layer's keys and values, then read all of the request's from its pages."""
        places = len(qkv)
        qkv = qkv.reshape(places, 3, self.shape.heads, self.shape.head_dim)
        turning = self._turns.shape[-1]
        pairs = qkv.view(np.complex64)[:, :2, :, :turning]
        pairs *= self._turns[start : start + places]
        layer.write(qkv[:, 1], qkv[:, 2])
        keys, values = layer.read()
        scores = np.matmul(qkv[:, 0].transpose(1, 0, 2), keys.transpose(1, 2, 0))
        if places > 1:
            np.copyto(scores[..., start + 1 :], -np.inf, where=_future(places))
        scores -= np.maximum.reduce(scores, axis=-1, keepdims=True)
        np.exp(scores, out=scores)
        mixed: Floats = np.matmul(scores, values.transpose(1, 0, 2))
        mixed /= np.add.reduce(scores, axis=-1, keepdims=True)
        return mixed.transpose(1, 0, 2).reshape(places, -1)


class LayerKV(Protocol):
    """One layer of one request's KV: the new places are written, then all places are read."""

    def write(self, keys: Floats, values: Floats) -> None:
        """Store [place, head, head_dim] of the new places."""

    def read(self) -> tuple[Floats, Floats]:
        """Return keys and values of all places, the new ones last."""


class KVStore(Protocol):
    """One request's KV, wherever it lies."""

    def of_layer(self, layer: int) -> LayerKV:
        """Return one layer of it."""


def _slots(pool: Floats, pages: Sequence[int], start: int, end: int) -> KVStore:
    """Return one request's places in the pool; neighbouring pages are one stretch of rows."""
    used = list(pages[: -(-end // PAGE_TOKENS)])
    if used == list(range(used[0], used[0] + len(used))):
        return _Stretch(pool.reshape(*pool.shape[:2], -1, *pool.shape[4:]), used[0] * PAGE_TOKENS, start, end)
    return _Pages(pool, np.array(used), start, end)


class _Stretch:
    """Places in neighbouring pages: written and read where they lie."""

    __slots__ = ("end", "first", "rows", "start")

    def __init__(self, rows: Floats, first: int, start: int, end: int) -> None:
        self.rows, self.first, self.start, self.end = rows, first, first + start, first + end

    def of_layer(self, layer: int) -> "_StretchLayer":
        return _StretchLayer(self, self.rows[layer])


class _StretchLayer:
    """One layer of them: rows[k or v, row, head, head_dim]."""

    __slots__ = ("rows", "stretch")

    def __init__(self, stretch: _Stretch, rows: Floats) -> None:
        self.stretch, self.rows = stretch, rows

    def write(self, keys: Floats, values: Floats) -> None:
        start, end = self.stretch.start, self.stretch.end
        self.rows[0, start:end] = keys
        self.rows[1, start:end] = values

    def read(self) -> tuple[Floats, Floats]:
        first, end = self.stretch.first, self.stretch.end
        return self.rows[0, first:end], self.rows[1, first:end]


class _Pages:
    """Places in pages that lie anywhere: gathered to be read."""

    __slots__ = ("at", "end", "pages", "pool")

    def __init__(self, pool: Floats, pages: NDArray[np.intp], start: int, end: int) -> None:
        self.pool, self.pages, self.end = pool, pages, end
        places = np.arange(start, end)
        self.at = (pages[places // PAGE_TOKENS], places % PAGE_TOKENS)

    def of_layer(self, layer: int) -> "_PagesLayer":
        return _PagesLayer(self, self.pool[layer])


class _PagesLayer:
    """One layer of them: pool[k or v, page, row, head, head_dim]."""

    __slots__ = ("pages", "pool")

    def __init__(self, pages: _Pages, pool: Floats) -> None:
        self.pages, self.pool = pages, pool

    def write(self, keys: Floats, values: Floats) -> None:
        self.pool[0][self.pages.at] = keys
        self.pool[1][self.pages.at] = values

    def read(self) -> tuple[Floats, Floats]:
        both = self.pool[:, self.pages.pages]
        keys, values = both.reshape(2, -1, *both.shape[3:])[:, : self.pages.end]
        return keys, values


@lru_cache(maxsize=64)
def _future(places: int) -> NDArray[np.bool_]:
    """Which of the new places after the first lie behind each of the new places."""
    return np.arange(1, places) > np.arange(places)[:, None]


def _check_room(start: int, end: int, pages: Sequence[int]) -> None:
    if not 0 <= start < end <= MAX_POSITIONS:
        raise ValueError(f"places {start} to {end} do not fit in {MAX_POSITIONS} positions")
    if end > len(pages) * PAGE_TOKENS:
        raise ValueError(f"{end} tokens do not fit in {len(pages)} pages of {PAGE_TOKENS}")


def _folded(arrays: Mapping[str, Floats], prefix: str, shape: Shape) -> _Layer:
    scale = np.ones(3 * shape.width, np.float32)
    scale[: shape.width] = shape.head_dim**-0.5
    qkv = (arrays[f"{prefix}qkv.weight"] * arrays[f"{prefix}norm1.weight"]).T * scale
    up = (arrays[f"{prefix}up.weight"] * arrays[f"{prefix}norm2.weight"]).T
    out, down = arrays[f"{prefix}out.weight"].T, arrays[f"{prefix}down.weight"].T
    return _Layer(*(np.ascontiguousarray(matrix) for matrix in (_paired(qkv, shape), out, up, down)))


def _paired(qkv: Floats, shape: Shape) -> Floats:
    """Put the two numbers that turn together side by side: (a1 .. an, b1 .. bn) becomes (a1, b1, .. an, bn).

    Queries and keys alike, so no score changes; a pair is then one complex number, and RoPE one product.
    """
    heads = qkv.reshape(shape.width, 3, shape.heads, shape.head_dim).copy()
    turned = heads[:, :2, :, : 2 * (shape.head_dim // 8)]
    turned[...] = turned.reshape(*turned.shape[:-1], 2, -1).swapaxes(-1, -2).reshape(turned.shape)
    return heads.reshape(qkv.shape)


def _normed(x: Floats) -> Floats:
    """RMSNorm without its gain, which is folded into the matrix that follows."""
    size = np.vecdot(x, x)[:, None]
    size /= np.float32(x.shape[1])
    size += NORM_EPSILON
    normed: Floats = x / np.sqrt(size, out=size)
    return normed


def _add_shifted(x: Floats, table: Floats, ids: NDArray[np.intp], first: int) -> None:
    """Add the rows of ids[first:], as many as fit; places before the first token add nothing."""
    x[max(0, -first) :] += table.take(ids[max(0, first) : len(x) + first], axis=0)
