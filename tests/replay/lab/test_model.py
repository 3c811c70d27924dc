"""The lab's model: its KV is what lies in its pages, and its weights are checked before use."""

from pathlib import Path

import numpy as np
import pytest

from replay.lab.model import (
    DRAFT_PATH,
    MAX_POSITIONS,
    PAGE_TOKENS,
    TARGET_PATH,
    Floats,
    Shape,
    TinyLM,
    Weights,
    WeightsError,
)
from replay.lab.tokenizer import VOCABULARY_SIZE

PAGES = 6
TOKENS = [1, *np.random.default_rng(2).integers(40, VOCABULARY_SIZE, 59).tolist()]
SHAPE = Shape(layers=2, width=32, heads=2, hidden=16, previous_at=0, second_at=1, second_width=8)


def small_weights() -> Weights:
    rng = np.random.default_rng(1)
    width, hidden = SHAPE.width, SHAPE.hidden
    sizes = {
        "embedding.weight": (VOCABULARY_SIZE, width),
        "previous.weight": (width, width),
        "second.weight": (width, SHAPE.second_width),
        "norm.weight": (width,),
    }
    for layer in range(SHAPE.layers):
        block = {
            "norm1": (width,), "norm2": (width,), "qkv": (3 * width, width),
            "out": (width, width), "up": (hidden, width), "down": (width, hidden),
        }  # fmt: skip
        sizes |= {f"blocks.{layer}.{name}.weight": size for name, size in block.items()}
    return Weights(SHAPE, {name: rng.normal(0, 0.2, size).astype(np.float16) for name, size in sizes.items()})


@pytest.fixture(scope="module")
def model() -> TinyLM:
    return TinyLM(small_weights())


def whole(model: TinyLM, pages: list[int], pool: Floats | None = None) -> Floats:
    return model.forward(TOKENS, 0, model.new_pool(PAGES) if pool is None else pool, pages)


def test_computing_in_pieces_gives_what_computing_at_once_gives(model: TinyLM) -> None:
    pool, pages = model.new_pool(PAGES), [0, 1, 2, 3]
    pieces = [
        model.forward(TOKENS[:end], start, pool, pages)
        for start, end in ((0, 21), (21, 22), (22, 40), (40, 60))
    ]
    np.testing.assert_allclose(np.concatenate(pieces), whole(model, pages), atol=1e-4)


def test_which_pages_a_request_owns_makes_no_difference(model: TinyLM) -> None:
    assert np.array_equal(whole(model, [0, 1, 2, 3]), whole(model, [5, 0, 4, 2]))


def test_what_lies_in_other_requests_pages_makes_no_difference(model: TinyLM) -> None:
    pool = model.new_pool(PAGES)
    pool[:] = np.nan
    assert np.array_equal(whole(model, [1, 3, 5, 0], pool), whole(model, [1, 3, 5, 0]))


def test_only_the_request_s_own_pages_are_written(model: TinyLM) -> None:
    pool = model.new_pool(PAGES)
    whole(model, [1, 3, 5, 0], pool)
    assert not pool[:, :, [2, 4]].any()
    assert pool[:, :, [1, 3, 5]].all()


def test_last_only_returns_the_last_row(model: TinyLM) -> None:
    last = model.forward(TOKENS, 0, model.new_pool(PAGES), [0, 1, 2, 3], last_only=True)
    assert last.shape == (1, VOCABULARY_SIZE)
    np.testing.assert_allclose(last[0], whole(model, [0, 1, 2, 3])[-1], atol=1e-4)


@pytest.mark.parametrize("layer", range(SHAPE.layers))
@pytest.mark.parametrize("side", [0, 1])
def test_overwritten_bytes_corrupt_the_request(model: TinyLM, layer: int, side: int) -> None:
    pool, pages = model.new_pool(PAGES), [0, 1, 2, 3]
    whole(model, pages, pool)
    clean = model.forward(TOKENS, 59, pool, pages)
    pool[layer, side, 1] = 1.0
    assert not np.allclose(clean, model.forward(TOKENS, 59, pool, pages))


def test_nan_in_one_row_turns_all_logits_into_nan_without_a_warning(model: TinyLM) -> None:
    pool, pages = model.new_pool(PAGES), [0, 1, 2, 3]
    whole(model, pages, pool)
    pool[1, 1, 0, 3] = np.nan
    logits = model.forward(TOKENS, 58, pool, pages)
    assert np.isnan(logits).all()
    assert np.argmax(logits, -1).tolist() == [0, 0]


@pytest.mark.parametrize(("tokens", "start", "pages"), [(17, 0, 1), (16, 16, 1), (MAX_POSITIONS + 1, 0, 99)])
def test_a_request_that_does_not_fit_is_refused(model: TinyLM, tokens: int, start: int, pages: int) -> None:
    with pytest.raises(ValueError, match="do not fit"):
        model.forward([1] * tokens, start, model.new_pool(1), [0] * pages)


def test_a_pool_holds_layers_sides_pages_places_heads(model: TinyLM) -> None:
    assert model.new_pool(3).shape == model.pool_shape(3) == (2, 2, 3, PAGE_TOKENS, 2, 16)


def test_the_shipped_weights_are_whole_and_small() -> None:
    assert Weights.load(TARGET_PATH).shape.layers == 4
    assert Weights.load(DRAFT_PATH).shape.layers == 1
    assert TARGET_PATH.stat().st_size + DRAFT_PATH.stat().st_size <= 8_000_000


def test_saved_weights_load_as_they_were(tmp_path: Path) -> None:
    small_weights().save(tmp_path / "small.npz")
    loaded = Weights.load(tmp_path / "small.npz")
    assert loaded.shape == SHAPE
    assert all(np.array_equal(array, loaded.arrays[name]) for name, array in small_weights().arrays.items())


@pytest.mark.parametrize("kept", [0, 1, 100, 20_000, -1])
def test_a_truncated_file_is_named_with_the_way_out(tmp_path: Path, kept: int) -> None:
    small_weights().save(tmp_path / "small.npz")
    cut = tmp_path / "cut.npz"
    cut.write_bytes((tmp_path / "small.npz").read_bytes()[:kept])
    with pytest.raises(WeightsError, match=r"cut\.npz: truncated.*install SpecGuard anew"):
        Weights.load(cut)


def test_a_flipped_byte_is_seen(tmp_path: Path) -> None:
    small_weights().save(tmp_path / "small.npz")
    content = bytearray((tmp_path / "small.npz").read_bytes())
    content[len(content) // 2] ^= 0x10
    (tmp_path / "small.npz").write_bytes(content)
    with pytest.raises(WeightsError, match=r"small\.npz: (truncated|damaged)"):
        Weights.load(tmp_path / "small.npz")


def test_exchanged_arrays_are_seen(tmp_path: Path) -> None:
    path = tmp_path / "small.npz"
    small_weights().save(path)
    with np.load(path) as archive:
        content = dict(archive)
    content["norm.weight"] = content["norm.weight"][::-1]
    np.savez(path, **content)
    with pytest.raises(WeightsError, match=r"damaged \(checksum differs\)"):
        Weights.load(path)


@pytest.mark.parametrize(
    ("header", "fault"),
    [
        ('{"format": 99}', "not of weights format 1"),
        ('{"format": 1}', "not of weights format 1"),
        ("[]", "not of weights format 1"),
        ("{", "truncated or not a weights file"),
    ],
)
def test_a_file_of_another_kind_is_named(tmp_path: Path, header: str, fault: str) -> None:
    np.savez(tmp_path / "other.npz", header=np.array(header))
    with pytest.raises(WeightsError, match=fault):
        Weights.load(tmp_path / "other.npz")


def test_a_bare_array_is_not_a_weights_file(tmp_path: Path) -> None:
    np.save(tmp_path / "array.npy", np.zeros(3))
    with pytest.raises(WeightsError, match="not a weights file"):
        Weights.load(tmp_path / "array.npy")


def test_weights_of_another_vocabulary_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "small.npz"
    small_weights().save(path)
    with np.load(path) as archive:
        content = dict(archive)
    content["header"] = np.array(
        str(content["header"]).replace('"vocabulary_sha256": "', '"vocabulary_sha256": "0')
    )
    np.savez(path, **content)
    with pytest.raises(WeightsError, match="trained with another vocabulary"):
        Weights.load(path)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(WeightsError, match=r"gone\.npz: no such weights file"):
        Weights.load(tmp_path / "gone.npz")
