import random

import numpy as np
import pytest

from replay.bench import telemetry
from replay.bench.telemetry import HEALTHY, SAFE, Fleet, K, Spread, alarms, delays, steady, zai_steps
from service.core.detectors.acceptance import AcceptanceState, Law, advance
from service.core.events import Look, Step


@pytest.mark.parametrize("horizon", [0.0, 300.0])
@pytest.mark.parametrize("anchor", [(0.7,), (0.8, 0.6, 0.3)])
def test_the_twin_is_the_scalar_step_by_step(horizon: float, anchor: tuple[float, ...]) -> None:
    law, rng = Law(anchor, 0.15, 6.0), random.Random(1)
    fleet, states = Fleet(20, law, K, horizon), [AcceptanceState(law, horizon) for _ in range(20)]
    for step in range(400):
        accepted = [rng.choice((0, 0, 1, 2, 3, 3, 3) if step < 200 else (0, 0, 0, 1)) for _ in states]
        found = fleet.step(np.array(accepted))
        for state, one, r in zip(states, accepted, found, strict=True):
            advance(state, law, Look(steps=(Step(K, one),)))
            assert r == pytest.approx(state.r, rel=1e-12)


def test_a_collapse_is_found_as_fast_as_promised() -> None:
    known = delays(1, runs=3000, onset=200, anchor=HEALTHY, healthy=HEALTHY, horizon=2000)
    free = delays(2, runs=2000, onset=1000, anchor=HEALTHY, healthy=HEALTHY)
    safe = delays(3, runs=500, onset=1000, anchor=SAFE, healthy=SAFE)
    assert known.mean <= 25
    assert known.p99 <= 37
    assert free.mean <= 31
    assert safe.mean <= 135
    assert known.early == free.early == safe.early == 0


@pytest.mark.parametrize("anchor", [HEALTHY, SAFE])
def test_false_alarms_at_the_anchor_keep_the_promise(anchor: float) -> None:
    peak = alarms(4, runs=4000, steps=500, anchor=anchor, rates=steady(anchor), horizon=1500)
    assert (peak >= 100).mean() <= 0.01


def test_what_nobody_promised_is_measured_too() -> None:
    peak = alarms(5, runs=500, steps=500, anchor=HEALTHY, rates=Spread(5, drift=True))
    assert (peak >= 1000).mean() > 0.1
    peak = alarms(5, runs=500, steps=500, anchor=SAFE, rates=Spread(20, drift=True))
    assert (peak >= 1000).mean() == 0


def test_the_public_rule_needs_what_the_reference_says() -> None:
    assert abs(zai_steps(0) - 115) <= 1
    assert abs(zai_steps(2000) - 3095) <= 1


def test_the_table_has_every_figure() -> None:
    table = telemetry.figures(200, rare=False)
    assert {"delay_steps_mean", "delay_steps_p99", "delay_free_mean", "delay_safe_anchor_mean"} <= set(table)
    assert set(telemetry.false_alarms(40)) == {
        "false_alarms_streams", "false_alarms", "learned", "spread_streams", "spread_false_alarms"
    }  # fmt: skip


def test_an_anchor_is_near_the_mean_where_requests_are_alike_and_far_below_where_they_differ() -> None:
    alike, differing = (
        telemetry.learned_anchor(steady(HEALTHY)),
        telemetry.learned_anchor(Spread(20, drift=True)),
    )
    assert 0.9 * HEALTHY < alike < HEALTHY
    assert differing < 0.6 * HEALTHY
    peak = alarms(6, runs=500, steps=500, anchor=differing, rates=Spread(20, drift=True))
    assert (peak >= 1000).mean() == 0
