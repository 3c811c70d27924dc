"""The GPU experiment says that it was not run where it cannot be, and that is no failure."""

import importlib.util

import numpy as np
import pytest

from replay.lab.gpu_race import PREFIX_TOKENS, SUFFIX_TOKENS, drawn, main


def test_without_torch_or_a_device_it_says_so_and_ends_with_0(capsys: pytest.CaptureFixture[str]) -> None:
    if importlib.util.find_spec("torch") is None:
        assert main([]) == 0
        assert "not run: torch is not installed" in capsys.readouterr().out
    else:
        assert main(["--device", "cpu"]) == 0
        assert "model_difference" in capsys.readouterr().out


def test_prompts_are_as_long_as_the_race_wants() -> None:
    ids = drawn(3, np.random.default_rng(1))
    assert ids.shape == (3, PREFIX_TOKENS + SUFFIX_TOKENS)
    assert len({tuple(row) for row in ids.tolist()}) == 3
