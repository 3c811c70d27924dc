"""How fast collapsed acceptance is found, and how often healthy acceptance is taken for it: a simulation.

`Fleet` runs the e-process of `service.core.detectors.acceptance` for many streams at once. It is the same
recursion on arrays, fed by the same tables, and a test holds it to the scalar one step by step. Figures are
alarms of the detector at R >= 1/alpha, not aborts; delays count verify steps from the onset, over runs that
had not alarmed before. Bounds for .7 -> .1, k = 3, alpha 1e-6: 15.7 steps where the onset is known (Wald),
20.8 with a window (Lai), 24.3 to first order over 2,000 steps.

`learned` is what a calibration makes of such traffic: the anchor that `service.core.baseline` learns from
clean streams, the rate of false alarms it has on others of their kind, and the delay it costs.

    kappa   acceptance of each stream drawn from Beta(mean .7, kappa): how much requests differ
    drift   drawn anew every 20 steps: how much they change
"""

from collections.abc import Callable
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from service.core.baseline import Baselines, anchor, key_of
from service.core.detectors.acceptance import CEILING, Law, factors

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Rates = Callable[[np.random.Generator, int, int], Floats]
"""Acceptance of each stream at a step; called anew for every step."""

K: Final = 3
CORRUPT: Final = 0.1
HEALTHY: Final = 0.7
SAFE: Final = 0.35
HORIZON: Final = 2000
TOKENS: Final = 5000
"""The token limit of the streams that false alarms are counted over: about 2,000 steps."""

LATEST: Final = 1500
"""Steps after the onset that are simulated at most."""

ALPHAS: Final = (1e-3, 1e-4)
LEARNED_STREAMS: Final = 1000
LEARNED_STEPS: Final = 64
DRIFT_STEPS: Final = 20


class Fleet:
    """The e-processes of many streams: `AcceptanceState`, one array a field."""

    def __init__(self, streams: int, law: Law, depth: int, horizon: float = 0.0) -> None:
        self.row = np.array(factors(law, depth))
        self.horizon = horizon
        self.r: Floats = np.zeros(streams)
        self.tokens: Floats = np.zeros(streams)
        self.spent: Floats = np.ones(streams)

    def step(self, accepted: Ints) -> Floats:
        """One verify step of every stream; the answer is R."""
        grown = accepted + 1.0
        self.tokens += grown
        left = (self.tokens + 1.0) ** -0.5
        if self.horizon:
            prior = 0.5 * (self.spent - left)
            prior += np.where(self.tokens <= self.horizon, 0.5 / self.horizon * grown, 0.0)
        else:
            prior = self.spent - left
        self.spent = left
        self.r = np.minimum((self.r + prior) * self.row[accepted], CEILING)
        return self.r


def draw(rng: np.random.Generator, rate: Floats, depth: int) -> Ints:
    """Accepted drafts of one step of each stream: a chain that stops at the first refusal."""
    chain = rng.random((depth, rate.size)) < rate
    accepted: Ints = np.cumprod(chain, axis=0).sum(axis=0).astype(np.int64)
    return accepted


class Delays(NamedTuple):
    """Steps from the onset to the alarm."""

    mean: float
    p99: float
    runs: int  # that had not alarmed before the onset
    early: int  # that had


def delays(
    seed: int,
    *,
    runs: int,
    onset: int,
    anchor: float,
    healthy: float,
    horizon: float = 0.0,
    alpha: float = 1e-6,
) -> Delays:
    """How long a collapse at this step stays unseen."""
    rng = np.random.default_rng(seed)
    fleet = Fleet(runs, Law((anchor,), 0.15, 6.0), K, horizon)
    alarmed = np.zeros(runs, dtype=bool)
    for _ in range(onset):
        alarmed |= fleet.step(draw(rng, np.full(runs, healthy), K)) >= 1 / alpha
    early, found = alarmed.copy(), np.zeros(runs)
    for step in range(1, LATEST):
        hit = ~alarmed & (fleet.step(draw(rng, np.full(runs, CORRUPT), K)) >= 1 / alpha)
        found[hit] = step
        alarmed |= hit
        if alarmed.all():
            break
    kept = found[~early & alarmed]
    return Delays(float(kept.mean()), float(np.percentile(kept, 99)), kept.size, int(early.sum()))


def alarms(seed: int, *, runs: int, steps: int, anchor: float, rates: Rates, horizon: float = 0.0) -> Floats:
    """The highest R of each healthy stream."""
    rng = np.random.default_rng(seed)
    fleet = Fleet(runs, Law((anchor,), 0.15, 6.0), K, horizon)
    peak = np.ones(runs)
    for step in range(steps):
        peak = np.maximum(peak, fleet.step(draw(rng, rates(rng, runs, step), K)))
    return peak


def steady(rate: float) -> Rates:
    """Every stream at this acceptance: at the anchor, the worst that the promise covers."""
    return lambda _rng, runs, _step: np.full(runs, rate)


class Spread:
    """Streams that differ, and change where `drift` says so; no anchor covers all of them."""

    def __init__(self, kappa: float, *, drift: bool) -> None:
        self._shape = HEALTHY * kappa, (1 - HEALTHY) * kappa
        self._drift = drift
        self._rates: Floats = np.zeros(0)

    def __call__(self, rng: np.random.Generator, runs: int, step: int) -> Floats:
        if step == 0 or (self._drift and step % DRIFT_STEPS == 0):
            self._rates = rng.beta(*self._shape, runs)
        return self._rates


def learned_anchor(rates: Rates, seed: int = 7) -> float:
    """What a calibration holds such traffic to."""
    rng, known = np.random.default_rng(seed), Baselines()
    steps = [draw(rng, rates(rng, LEARNED_STREAMS, step), K) for step in range(LEARNED_STEPS)]
    key = key_of("m", "w", K, 0.0, grammar=False)
    for stream in np.array(steps).T.tolist():
        known.learn(key, [(K, accepted) for accepted in stream])
    return anchor(known.sheets[key], K)[0]


def learned(runs: int) -> dict[str, object]:
    """Anchors learned from traffic that is alike, that differs, and that changes as well."""
    kinds: dict[str, Rates] = {"alike": steady(HEALTHY)}
    kinds |= {
        f"kappa_{kappa}{'_drift' if drift else ''}": Spread(kappa, drift=drift)
        for kappa in (20, 5)
        for drift in (False, True)
    }
    out: dict[str, object] = {}
    for name, rates in kinds.items():
        held = learned_anchor(rates)
        peak = alarms(8, runs=runs, steps=HORIZON, anchor=held, rates=rates, horizon=TOKENS)
        late = delays(9, runs=runs, onset=100, anchor=held, healthy=HEALTHY)
        out[name] = {
            "anchor": round(held, 3),
            "0.001": float((peak >= 1 / ALPHAS[0]).mean()),
            "delay_steps_mean": round(late.mean, 1),
        }
    return out


def zai_steps(onset_token: int) -> int:
    """Steps after which the public rule (mean accept length < 1.4 after 128 tokens) sees acceptance fall."""
    before = 1 + sum(HEALTHY**depth for depth in range(1, K + 1))
    after = 1 + sum(CORRUPT**depth for depth in range(1, K + 1))
    steps_before = onset_token / before
    steps = 0
    while onset_token + after * steps <= 128 or (onset_token + after * steps) / (steps_before + steps) >= 1.4:  # noqa: PLR2004 - the rule's own numbers
        steps += 1
    return steps


def figures(runs: int, *, rare: bool) -> dict[str, object]:
    """The table of delays and false alarms; `rare` also the rates that need many streams."""
    horizon = delays(1, runs=runs, onset=200, anchor=HEALTHY, healthy=HEALTHY, horizon=HORIZON)
    free = delays(2, runs=runs, onset=1000, anchor=HEALTHY, healthy=HEALTHY)
    start = delays(3, runs=runs, onset=0, anchor=HEALTHY, healthy=HEALTHY, horizon=HORIZON)
    safe = delays(4, runs=runs, onset=1000, anchor=SAFE, healthy=SAFE)
    out: dict[str, object] = {
        "runs": runs,
        "delay_steps_mean": round(horizon.mean, 2),
        "delay_steps_p99": round(horizon.p99, 1),
        "delay_start_mean": round(start.mean, 2),
        "delay_free_mean": round(free.mean, 2),
        "delay_safe_anchor_mean": round(safe.mean, 2),
        "zai_steps_from_start": zai_steps(0),
        "zai_steps_from_token_2000": zai_steps(2000),
        "early_alarms": horizon.early + free.early + safe.early,
    }
    if rare:
        out |= false_alarms(runs)
    return out


def false_alarms(runs: int) -> dict[str, object]:
    """Rates over 2,000 steps: at the anchor, and under spread and drift, where nothing is promised."""
    at_anchor = {
        f"anchor_{anchor}": alarms(
            5, runs=5 * runs, steps=HORIZON, anchor=anchor, rates=steady(anchor), horizon=TOKENS
        )
        for anchor in (HEALTHY, SAFE)
    }
    spread = {
        f"kappa_{kappa}{'_drift' if drift else ''}_anchor_{anchor}": alarms(
            6, runs=runs // 4, steps=HORIZON, anchor=anchor, rates=Spread(kappa, drift=drift), horizon=TOKENS
        )
        for anchor in (HEALTHY, SAFE)
        for kappa in (5, 20)
        for drift in (False, True)
    }
    return {
        "false_alarms_streams": 5 * runs,
        "false_alarms": {
            name: {f"{alpha:g}": float((peak >= 1 / alpha).mean()) for alpha in ALPHAS}
            for name, peak in at_anchor.items()
        },
        "learned": learned(runs // 4),
        "spread_streams": runs // 4,
        "spread_false_alarms": {
            name: {"0.001": float((peak >= 1 / ALPHAS[0]).mean())} for name, peak in spread.items()
        },
    }
