"""Whether a worker accepts drafts as it used to, and whether its peers do.

    d = ln(accept length) - baseline                     fall relative to its own frozen median
    r = d - median of the peers' d                       what of the fall is its own
    L = -DELTA (x + MARGIN) / spread - DELTA^2 / 2       x = d or r, clipped; log-likelihood ratio of a fall
    R = (R + 1/(t(t+1))) e^L, alarm at 1/ALPHA           an e-process while falls stay within MARGIN
                                                         (Shin, Ramdas, Rinaldo, NEJSDS 2024)

The baseline is the median and the spread of the first `BASELINE` samples, and is frozen: one that follows the
data follows a slow decay, too. A fall is a ratio, so that 4.487 -> 1.589 (sglang#32176) is seen although no
fixed limit of 1.4 is crossed. Peers are the workers of the same model with samples of their own: a fall that
they share is the draft's, the deploy's or the traffic's, and no worker's.

The level holds for samples that vary as the baseline's did; the baseline is an estimate and traffic changes,
so it is a measured thing (see the tests), not a proof. Nothing here aborts a stream. A worker that shows no
fall is not said to be healthy: KV that is valid and somebody else's leaves acceptance where it was.

Measured, on samples of 200 real verify steps of one small model, 20 runs each: a fall to 70 % of the baseline
is seen in 4 samples (5 at most), to 80 % in 24 (46), to 85 % never in 400; no alarm in 40,000 clean samples.

Cost: 5 us a sample in a small fleet, 14 in one of a hundred workers; 32 floats a worker.
"""

from collections import deque
from collections.abc import Iterable
from enum import StrEnum
from math import exp, isfinite, log, log10, nan
from statistics import median
from typing import Final

import msgspec

BASELINE: Final = 30
"""Samples: seven minutes at a scrape each 15 s."""
MARGIN: Final = log(1 / 0.85)
"""A fall by 15 % is traffic: another mix of code and prose does as much."""
SPREAD_MIN: Final = 0.05
"""Of ln(length): a baseline of an idle night is not as sharp as it looks."""
DELTA: Final = 1.5
"""Standard deviations of the fall that is tested for."""
CLIP: Final = 4.0
ALPHA: Final = 1e-6
"""Of a worker's whole life: it may end in a page."""
R_MAX: Final = 1e30
PEER_FRESH_S: Final = 90.0
"""A peer's newest sample older than this is no control."""
RECOVERED: Final = 5
"""Samples in a row within the margin that end an alarm."""
BELOW_PEERS: Final = log(1 / 0.6)
"""A baseline under 60 % of the peers' own: learned while something was wrong already."""
WORKERS_MAX: Final = 1024
MAD_TO_SD: Final = 1.4826


class State(StrEnum):
    """What is to be said of a worker's acceptance. There is no word for healthy."""

    LEARNING = "learning"  # too few samples for a baseline
    NO_EVIDENCE = "no_evidence"  # as it used to be
    FALLEN = "fallen"  # its own: peers, where there are any, did not fall with it
    FALLEN_WITH_PEERS = "fallen_with_peers"
    BELOW_PEERS = "below_peers"  # from the start


class AcceptanceView(msgspec.Struct, frozen=True):
    """One worker, for people and metrics."""

    worker: str
    model: str
    source: str  # metrics: the worker's own gauge; streams: what went through us
    state: State
    accept_length: float  # newest; NaN before the first
    baseline: float  # accept length; NaN while learning
    samples: int
    log10_e: float  # evidence of a fall against its own baseline
    log10_e_own: float  # the same with the peers' part taken out; NaN without peers
    peers: int  # that served as control at the newest sample


class FallDetector:
    """The e-process of one series."""

    __slots__ = ("_looks", "_r")

    def __init__(self) -> None:
        self._r = 0.0
        self._looks = 0

    def __repr__(self) -> str:
        return f"<FallDetector log10_e={self.log10_e:.1f}>"

    def see(self, deviations: float) -> None:
        """A sample, in standard deviations from what a fall must be beyond."""
        self._looks += 1
        weight = 1 / (self._looks * (self._looks + 1))
        ratio = exp(-DELTA * min(max(deviations, -CLIP), CLIP) - DELTA**2 / 2)
        self._r = min((self._r + weight) * ratio, R_MAX)

    @property
    def log10_e(self) -> float:
        return log10(self._r) if self._r > 0 else 0.0

    @property
    def alarm(self) -> bool:
        return self._r >= 1 / ALPHA


class _Worker:
    """What is remembered of one worker."""

    __slots__ = (
        "at", "baseline", "control", "deviation", "first", "good", "model", "own", "peers", "samples",
        "spread", "with_peers",
    )  # fmt: skip

    def __init__(self, model: str) -> None:
        self.model = model
        self.first: list[float] = []  # samples of the baseline
        self.baseline = nan  # ln
        self.spread = nan
        self.samples = 0
        self.at = float("-inf")
        self.deviation = nan
        self.own = FallDetector()  # against its own baseline
        self.control = FallDetector()  # the same, less the peers' part
        self.peers = 0
        self.good: deque[bool] = deque(maxlen=RECOVERED)
        self.with_peers = False  # some sample had a control

    @property
    def fallen(self) -> bool:
        return self.own.alarm or self.deviation < -MARGIN

    def learn(self, value: float) -> None:
        self.first.append(value)
        if len(self.first) == BASELINE:
            self.baseline = median(self.first)
            spread = MAD_TO_SD * median(abs(one - self.baseline) for one in self.first)
            self.spread = max(spread, SPREAD_MIN)

    def judge(self, common: float | None, peers: int) -> None:
        """One more deviation, and what of it the peers share."""
        self.own.see((self.deviation + MARGIN) / self.spread)
        self.peers = peers
        if common is not None:
            self.with_peers = True
            self.control.see((self.deviation - common + MARGIN) / self.spread)
        self.good.append(self.deviation >= -MARGIN)
        if self.own.alarm and len(self.good) == RECOVERED and all(self.good):
            self.own, self.control = FallDetector(), FallDetector()
            self.with_peers = False


class Acceptance:
    """All workers' acceptance."""

    __slots__ = ("_source", "_workers")

    def __init__(self, source: str) -> None:
        self._source = source
        self._workers: dict[str, _Worker] = {}

    def __repr__(self) -> str:
        return f"<Acceptance {self._source} {len(self._workers)} workers>"

    def see(self, worker: str, model: str, accept_length: float, at: float) -> None:
        """A worker's mean accept length since its last sample, over many requests."""
        if not isfinite(accept_length) or accept_length < 1:
            return
        one = self._workers.get(worker)
        if one is None and len(self._workers) >= WORKERS_MAX:
            return
        if one is None or one.model != model:
            one = self._workers[worker] = _Worker(model)
        value = log(accept_length)
        one.samples += 1
        one.at = at
        one.deviation = value - one.baseline if isfinite(one.baseline) else nan
        if isfinite(one.deviation):
            peers = [peer.deviation for peer in self._peers(worker, one) if at - peer.at <= PEER_FRESH_S]
            one.judge(median(peers) if peers else None, len(peers))
        else:
            one.learn(value)
            one.deviation = value - one.baseline  # NaN while learning

    def keep(self, workers: Iterable[str]) -> None:
        """Forget the others."""
        gone = self._workers.keys() - set(workers)
        for worker in gone:
            del self._workers[worker]

    def forget(self, worker: str) -> None:
        """It is learned anew."""
        self._workers.pop(worker, None)

    def views(self) -> tuple[AcceptanceView, ...]:
        """All workers, in time proportional to their number: a fleet may have hundreds."""
        models: dict[str, list[_Worker]] = {}
        for one in self._workers.values():
            if isfinite(one.baseline):
                models.setdefault(one.model, []).append(one)
        peers = {model: _Peers.of(workers) for model, workers in models.items()}
        return tuple(
            self._view(worker, one, peers.get(one.model, NO_PEERS)) for worker, one in self._workers.items()
        )

    def _view(self, worker: str, one: _Worker, peers: "_Peers") -> AcceptanceView:
        newest = one.baseline + one.deviation if isfinite(one.deviation) else one.first[-1]
        return AcceptanceView(
            worker=worker,
            model=one.model,
            source=self._source,
            state=_state(one, peers),
            accept_length=exp(newest),
            baseline=exp(one.baseline),
            samples=one.samples,
            log10_e=one.own.log10_e,
            log10_e_own=one.control.log10_e if one.with_peers else nan,
            peers=one.peers,
        )

    def _peers(self, worker: str, one: _Worker) -> list[_Worker]:
        """Workers of the same model that have a baseline."""
        return [
            peer
            for url, peer in self._workers.items()
            if url != worker and peer.model == one.model and isfinite(peer.baseline)
        ]


class _Peers(msgspec.Struct, frozen=True):
    """The workers of one model that have a baseline, as each of them is held against the others."""

    workers: int = 0
    fallen: int = 0
    baseline: float = nan  # their median, the worker in question included

    @classmethod
    def of(cls, workers: list[_Worker]) -> "_Peers":
        fallen = sum(one.fallen for one in workers)
        return cls(len(workers), fallen, median(one.baseline for one in workers))


NO_PEERS: Final = _Peers()


def _state(one: _Worker, peers: _Peers) -> State:
    if not isfinite(one.baseline):
        return State.LEARNING
    if one.own.alarm:
        others, fallen = peers.workers - 1, peers.fallen - one.fallen
        shared = one.with_peers and not one.control.alarm and 2 * fallen > others
        return State.FALLEN_WITH_PEERS if shared else State.FALLEN
    below = peers.workers > 2 and one.baseline < peers.baseline - BELOW_PEERS  # noqa: PLR2004 - itself and two
    return State.BELOW_PEERS if below else State.NO_EVIDENCE
