"""Baselines: how well drafts are accepted when all is well, learned stratum by stratum.

A stratum is a model, a worker, a draft depth and a kind of request (temperature, grammar, copying; see
`anchors`). Of each are kept, from clean streams only: how often each depth was reached and accepted, and a
histogram of acceptance in windows of 16 steps. From these comes the anchor, by depth:

    a[d] = h[d] * lowest / mean                                     h: acceptance at depth d
    lowest = mean - sqrt((mean - q)^2 - (z s)^2)                    q: the 0.1 % quantile of the windows

A window of 16 steps is low by chance, too: z s is how low a 0.1 % quantile lies where all requests are alike
(s^2: the variance of a step's accepted drafts over the steps of a window). What it explains is no difference
between requests, and the e-process allows for chance by itself; anchors that count it twice find nothing
within an agent's short answers. Of streams whose mean alone is known nothing is taken off: what changes
within them does not show in a mean.

Small samples shrink: the anchor of a stratum with n windows is n / (n + `PRIOR`) its own, the rest its
parent's (the same request kind on any worker, then the model as a whole). Under `ENOUGH` windows a sheet has
no anchor of its own: a quantile that nobody has seen is no baseline; where there is none at all the safe one
stands.

Numbers age: each new stream makes older ones count a little less (half after `HALF_LIFE` streams), so that a
new draft model is learned within a day. While an alert stands against a worker nothing is learned of it: a
sick worker must not become its own baseline. No clock: age is counted in streams. Clients choose the names of
models, so that strata are bounded: the one with the fewest streams makes room. Cost: 0.1 us a step, or 10 us
a stream of which only the mean is known; the anchors of a worker 5 us a stratum of its models.
"""

from collections.abc import Collection, Iterable, Sequence
from math import sqrt
from statistics import NormalDist
from typing import Final

import msgspec

from service.core.anchors import ANY, Anchors, stratum

WINDOW_STEPS: Final = 16
"""Steps whose acceptance makes one entry: the fewest over which a collapse differs from a bad stretch."""

LEAST_STEPS: Final = 8
"""Of what is left at the end of a stream: answers of agents are short."""

BINS: Final = 50
DEEPEST: Final = 16
QUANTILE: Final = 0.001
ENOUGH: Final = 200
"""Windows under which there is no anchor."""

PRIOR: Final = 200.0
"""Windows of a stratum at which it counts as much as its parent."""

HALF_LIFE: Final = 5000.0
"""Streams after which an old one counts half."""

ANCHOR_MIN: Final = 0.25
"""Lower anchors find nothing in the length of an answer (reference: detection.md 2)."""

HOPELESS: Final = 0.3
"""Mean acceptance of the first draft under which no floor is put: such a drafter's refusals say nothing."""

STRATA_MAX: Final = 512

RATE_MIN: Final = 0.01
"""So that its logarithm is one."""

LEAST: Final = 0.2
MOST: Final = 0.95
"""Of its mean that the anchor of a depth is at least, and at most: a mean is an estimate."""


class Key(msgspec.Struct, frozen=True):
    """What is told apart."""

    model: str
    worker: str
    depth: int  # draft tokens a step
    stratum: str


class Sheet(msgspec.Struct):
    """What was counted of one stratum; counts are weighed by age."""

    reached: list[float]  # by depth: steps in which this depth was reached ...
    accepted: list[float]  # ... and its draft accepted
    windows: list[float]  # by acceptance, in `BINS`
    streams: float = 0.0
    inverse: float = 0.0  # sum over the windows of 1 / steps, where each step is known

    @classmethod
    def blank(cls) -> "Sheet":
        return cls([0.0] * DEEPEST, [0.0] * DEEPEST, [0.0] * BINS)

    def age(self, factor: float) -> None:
        for counts in (self.reached, self.accepted, self.windows):
            counts[:] = [count * factor for count in counts]
        self.streams *= factor
        self.inverse *= factor

    def add(self, steps: Sequence[tuple[int, int]]) -> None:
        """One clean stream, as (drafted, accepted) of each step."""
        self.streams += 1
        for drafted, accepted in steps:
            for depth in range(min(drafted, accepted + 1, DEEPEST)):
                self.reached[depth] += 1
                self.accepted[depth] += depth < accepted
        for start in range(0, len(steps), WINDOW_STEPS):
            window = steps[start : start + WINDOW_STEPS]
            if len(window) >= LEAST_STEPS:
                self.windows[_bin(window)] += 1
                self.inverse += 1 / len(window)

    def add_mean(self, steps: float, accepted: float, depth: int) -> None:
        """A stretch of which only the mean is known: every depth as if it were accepted alike."""
        rate, reached = _rate(accepted / steps, depth), steps
        for place in range(min(depth, DEEPEST)):
            self.reached[place] += reached
            reached *= rate
            self.accepted[place] += reached
        self.windows[min(int(accepted / (steps * depth) * BINS), BINS - 1)] += 1

    def merge(self, other: "Sheet") -> None:
        """Add what another sheet counted."""
        pairs = (
            (self.reached, other.reached),
            (self.accepted, other.accepted),
            (self.windows, other.windows),
        )
        for mine, theirs in pairs:
            mine[:] = [one + more for one, more in zip(mine, theirs, strict=True)]
        self.streams += other.streams
        self.inverse += other.inverse

    def chance(self, depth: int, windows: float) -> float:
        """The variance of a window's acceptance where all requests are alike."""
        share = [
            accepted / self.reached[0] for accepted in self.accepted[:depth]
        ]  # of steps that got so deep
        mean = sum(share)
        square = sum((2 * place + 1) * one for place, one in enumerate(share))
        return (square - mean**2) / depth**2 * self.inverse / windows


def anchor(sheet: Sheet, depth: int) -> tuple[float, ...]:
    """By depth; empty where too little was seen."""
    total, below = sum(sheet.windows), 0.0
    if total < ENOUGH or not sheet.reached[0]:
        return ()
    mean = sum(count * (place + 0.5) / BINS for place, count in enumerate(sheet.windows)) / total
    quantile = 0.0
    for place, count in enumerate(sheet.windows):
        below += count
        if below > QUANTILE * total:
            quantile = place / BINS
            break
    deviations = NormalDist().inv_cdf(max(QUANTILE, 1 / total))
    fall = (mean - quantile) ** 2 - deviations**2 * sheet.chance(max(depth, 1), total)
    lowest = mean - sqrt(max(fall, 0.0))
    scale = min(max(lowest / mean, LEAST), MOST) if mean else MOST
    hazards = [
        accepted / reached
        for accepted, reached in zip(sheet.accepted, sheet.reached, strict=True)
        if reached >= 1
    ]
    floor = ANCHOR_MIN if hazards[0] >= HOPELESS else RATE_MIN
    return tuple(max(hazard * scale, floor) for hazard in hazards[: max(depth, 1)])


class Baselines:
    """All strata of a fleet."""

    def __init__(self) -> None:
        self.sheets: dict[Key, Sheet] = {}
        self.frozen: frozenset[str] = frozenset()  # workers that an alert stands against

    def __repr__(self) -> str:
        return f"<Baselines {len(self.sheets)} strata, {len(self.frozen)} frozen>"

    def learn(self, key: Key, steps: Sequence[tuple[int, int]]) -> bool:
        """One clean stream; whether it was taken."""
        if key.worker in self.frozen or not steps:
            return False
        self._sheet(key).add(steps)
        return True

    def learn_mean(self, key: Key, stretches: Sequence[tuple[float, float]], depth: int) -> bool:
        """The same where only means are known: (steps, accepted drafts) of stretches of a clean stream."""
        if key.worker in self.frozen or not stretches:
            return False
        sheet = self._sheet(key)
        sheet.streams += 1
        for steps, accepted in stretches:
            sheet.add_mean(steps, accepted, depth)
        return True

    def _sheet(self, key: Key) -> Sheet:
        """The sheet of a stratum, aged by the stream that comes."""
        sheet = self.sheets.get(key)
        if sheet is None:
            if len(self.sheets) >= STRATA_MAX:
                del self.sheets[min(self.sheets, key=lambda one: self.sheets[one].streams)]
            sheet = self.sheets[key] = Sheet.blank()
        sheet.age(0.5 ** (1 / HALF_LIFE))
        return sheet

    def freeze(self, workers: Collection[str]) -> None:
        """Nothing is learned of these, and of these only, until the next call."""
        self.frozen = frozenset(workers)

    def anchors(self, worker: str, depth: int) -> Anchors | None:
        """What this worker's requests are held to; None where nothing is known."""
        of_depth: dict[str, list[tuple[Key, Sheet]]] = {}
        for key, sheet in self.sheets.items():
            if key.depth == depth:
                of_depth.setdefault(key.model, []).append((key, sheet))
        found: dict[tuple[str, str], tuple[float, ...]] = {}
        for model, sheets in of_depth.items():
            whole = found[model, ANY] = anchor(_sum(sheet for _, sheet in sheets), depth)
            for name in {key.stratum for key, _ in sheets if key.stratum.endswith("/prose")}:
                kin = _sum(sheet for key, sheet in sheets if key.stratum == name)
                own = self.sheets.get(Key(model, worker, depth, name)) or Sheet.blank()
                found[model, name] = _shrunk(own, _shrunk(kin, whole, depth), depth)
        known = {kind: by_depth for kind, by_depth in found.items() if by_depth}
        return Anchors(known) if known else None

    def dump(self) -> bytes:
        """As JSON, strata in order."""
        rows = sorted(self.sheets.items(), key=lambda row: msgspec.structs.astuple(row[0]))
        return msgspec.json.format(msgspec.json.encode(_File([_Row(key, sheet) for key, sheet in rows])))

    @classmethod
    def load(cls, data: bytes) -> "Baselines":
        """What `dump` wrote; a `msgspec.ValidationError` names what is wrong."""
        file = msgspec.json.decode(data, type=_File)
        known = cls()
        for row in file.strata:
            shape = len(row.sheet.reached), len(row.sheet.accepted), len(row.sheet.windows)
            if shape != (DEEPEST, DEEPEST, BINS):
                raise msgspec.ValidationError(f"a sheet of {DEEPEST} depths and {BINS} bins was expected")
            known.sheets[row.key] = row.sheet
        return known


class _Row(msgspec.Struct):
    key: Key
    sheet: Sheet


class _File(msgspec.Struct):
    strata: list[_Row]
    version: int = 1


def key_of(
    model: str, worker: str, depth: int, temperature: float, *, grammar: bool, copying: bool = False
) -> Key:
    """The stratum of a request."""
    return Key(model, worker, depth, stratum(temperature, grammar=grammar, copying=copying))


def _shrunk(sheet: Sheet, parent: tuple[float, ...], depth: int) -> tuple[float, ...]:
    """The sheet's anchor, moved towards its parent's the more, the less was seen of it."""
    own = anchor(sheet, depth)
    if not own or len(own) != len(parent):
        return own or parent
    weight = sum(sheet.windows) / (sum(sheet.windows) + PRIOR)
    return tuple(weight * mine + (1 - weight) * other for mine, other in zip(own, parent, strict=True))


def _rate(mean: float, depth: int) -> float:
    """The acceptance that gives so many accepted drafts a step: the root of a + a^2 + ... + a^k = mean."""
    low, high = 0.0, 1.0
    for _ in range(40):
        middle = (low + high) / 2
        if sum(middle**place for place in range(1, depth + 1)) < mean:
            low = middle
        else:
            high = middle
    return low


def _bin(steps: Sequence[tuple[int, int]]) -> int:
    drafted, accepted = sum(pair[0] for pair in steps), sum(pair[1] for pair in steps)
    return min(int(accepted / drafted * BINS), BINS - 1) if drafted else 0


def _sum(sheets: Iterable[Sheet]) -> Sheet:
    total = Sheet.blank()
    for sheet in sheets:
        total.merge(sheet)
    return total
