"""The long run: every requested request is simulated, from its own seed, and the rates grow with load."""

from dataclasses import replace

import pytest

from replay.lab import longrun
from replay.lab.curve import ARMS, Settings
from replay.lab.load import Load, PrefillTime

BUSY_ARMS = tuple(replace(arm, utilisation=0.9) if arm.name in {"peak", "fixed"} else arm for arm in ARMS)


def test_chunks_share_out_the_requests_and_no_two_have_the_same_seed() -> None:
    load = Load(10, 0.5, 4, PrefillTime(0.01, seed=7), 8)
    chunks = list(longrun._chunks(load, 2_500_000))
    assert [chunk.requests for chunk in chunks] == [1_000_000, 1_000_000, 500_000]
    assert [chunk.prefill.seed for chunk in chunks] == [7, 8, 9]
    assert [(chunk.part, chunk.parts) for chunk in chunks] == [(0, 3), (1, 3), (2, 3)]


def test_rates_grow_from_nothing_and_the_fix_has_none() -> None:
    said: list[str] = []
    told = longrun.long_run(Settings(arms=BUSY_ARMS), 20_000, said.append)
    rates = {point["name"]: point["per_10k"] for point in told["points"]}
    assert rates["idle"] == rates["fixed"] == 0
    assert rates["light"] < rates["peak"]
    assert rates["peak"] > 50
    assert told["requests"] == 4 * 20_000 + 200
    assert [line.split(":")[0] for line in said] == [arm.name for arm in ARMS]
    assert told["points"][3]["late_writes_on_live_requests"] == pytest.approx(rates["peak"] * 1.9, rel=0.2)
