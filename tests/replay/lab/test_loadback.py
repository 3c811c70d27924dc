"""A load-back brings the bytes of every layer, in order; a hook holds what it is told to, and waits end."""

import threading

import numpy as np
import pytest

from replay.lab.loadback import HostTier, LoadBack, LoadBackError, Loader
from tests.replay.lab.labkit import make_pool

PAGES = 40


def test_a_load_back_brings_the_bytes_of_every_layer_of_both_models() -> None:
    pool = make_pool("test", PAGES)
    host = HostTier.sized(pool.shape, 4)
    rng = np.random.default_rng(0)
    host.target[:], host.draft[:] = rng.normal(size=host.target.shape), rng.normal(size=host.draft.shape)
    loader = Loader(pool, host)
    job = loader.load([(2, 7), (0, 3)])
    for model, layers in (("target", 4), ("draft", 1)):
        for layer in range(layers):
            job.wait(model, layer)
    loader.close()
    assert np.array_equal(pool.target[:, :, [7, 3]], host.target[:, :, [2, 0]])
    assert np.array_equal(pool.draft[:, :, [7, 3]], host.draft[:, :, [2, 0]])
    assert not pool.target[:, :, 0].any()


def test_an_error_names_the_layer() -> None:
    assert "draft layer 0" in str(LoadBackError("draft", 0, 30))


def test_a_held_layer_holds_those_behind_it_and_a_reader_does_not_wait_for_ever() -> None:
    pool = make_pool("test", PAGES)
    loader, late = Loader(pool, HostTier.sized(pool.shape, 4)), threading.Event()

    def hold(_job: LoadBack, model: str, layer: int) -> None:
        if (model, layer) == ("target", 2):
            late.wait(10)

    loader.gate, loader.wait_s = hold, 0.01
    job = loader.load([(0, 0)])
    assert job.wanted["target", 3].is_set() is False
    with pytest.raises(LoadBackError, match="target layer 3"):
        job.wait("target", 3)
    assert (job.ready("target", 1), job.ready("target", 2), job.finished) == (True, False, False)
    late.set()
    loader.close()


def test_a_model_that_is_not_named_keeps_its_bytes() -> None:
    pool = make_pool("test", PAGES)
    host = HostTier.sized(pool.shape, 4)
    host.target[:], host.draft[:] = 1, 1
    loader = Loader(pool, host)
    job = loader.load([(0, 5)], ("target",))
    job.wait("draft", 0)
    loader.close()
    assert pool.target[:, :, 5].all()
    assert not pool.draft[:, :, 5].any()
