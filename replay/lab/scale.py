"""The unfixed race at production scale: 10^8 requests in minutes, by the same rules as the event simulator.

Without the fix nothing that decode does reaches prefill, so a prefill queue is Lindley's recursion

    finish_n = max(arrive_n, finish_(n-1)) + service_n
             = C_n + max_(j <= n) (arrive_j - C_(j-1)),     C = cumulative service

which is a running maximum over arrays. Whoever is not written after `waiting_s` has timed out. Only those
need a closer look: from the timeout to the landing of the late write the hands through which the slot goes
are followed in the stack of free slots. All slots are of one size, so a slot freed is on top; a slot freed
later lies above it, and a request that finds nothing above it takes it.

What is left out against `replay.lab.simulate`: the pool never runs dry, and the decode ticks do not start
anew after an idle moment. Cost: about 1.5 us a request at the loads of the curve, drawing included.
"""

from bisect import bisect_right
from dataclasses import dataclass

import numpy as np

from replay.lab.load import Plan, Reals
from replay.lab.simulate import Engine, Hit
from replay.lab.slot import Race


@dataclass(frozen=True, slots=True)
class Scaled:
    """What became of a load."""

    requests: int
    timed_out: int
    hits: tuple[Hit, ...]

    @property
    def answered(self) -> int:
        """Requests that got their answer."""
        return self.requests - self.timed_out


def scale(plan: Plan, engine: Engine) -> Scaled:
    """Run a plan of the unfixed protocol."""
    if engine.race is not Race.UNFIXED:
        raise ValueError(f"protocol {engine.race} acts on the queues: only unfixed can be scaled")
    written = _written(plan, engine.transfer_s)
    gives_up = plan.at_s + engine.waiting_s
    lost = written > gives_up
    steps = np.asarray(engine.steps)[plan.prompt]
    joined = np.ceil(written / engine.step_s) * engine.step_s
    freed = np.where(lost, gives_up, joined + steps * engine.step_s)
    hands = _Hands(plan.at_s, freed, lost, written)
    hits = []
    for writer in np.flatnonzero(lost).tolist():
        victim = hands.holder(float(gives_up[writer]), float(written[writer]))
        if victim is not None:
            done = int(max(0, (written[writer] - joined[victim]) // engine.step_s))
            hits.append(Hit(victim, writer, min(done, int(steps[victim])), max(0, int(steps[victim]) - done)))
    return Scaled(len(plan.at_s), int(lost.sum()), tuple(hits))


def _written(plan: Plan, transfer_s: float) -> Reals:
    """Return when each request's last layer lands."""
    landed = np.empty_like(plan.at_s)
    for worker, backlog_s in enumerate(plan.backlog_s.tolist()):
        mine = np.flatnonzero(plan.worker == worker)
        total = np.cumsum(plan.service_s[mine])
        slack = plan.at_s[mine] - (total - plan.service_s[mine])
        landed[mine] = total + np.maximum(np.maximum.accumulate(slack), backlog_s)
    return landed + transfer_s


class _Hands:
    """Who holds a slot after a while: the stack of free slots, as far as one slot of it matters."""

    def __init__(
        self, arrive: Reals, freed: Reals, lost: np.ndarray[tuple[int], np.dtype[np.bool_]], written: Reals
    ) -> None:
        self._arrive = arrive.tolist()
        self._freed = freed.tolist()
        self._lost = lost.tolist()
        self._written = written.tolist()
        self._frees = np.sort(freed).tolist()

    def holder(self, given_back_s: float, landing_s: float) -> int | None:
        """Return the live request that has the slot when the late write lands, if one has."""
        now = given_back_s
        while True:
            taker = self._taken(now, landing_s)
            if taker is None:
                return None
            now = self._freed[taker]
            if now > landing_s:
                live = not self._lost[taker] and self._written[taker] <= landing_s
                return taker if live else None

    def _taken(self, now: float, until: float) -> int | None:
        """Return who takes the slot that was freed now, before `until`."""
        arrive, frees = self._arrive, self._frees
        coming, going, above = bisect_right(arrive, now), bisect_right(frees, now), 0
        while coming < len(arrive) and arrive[coming] <= until:
            while going < len(frees) and frees[going] < arrive[coming]:
                above += 1
                going += 1
            if above == 0:
                return coming
            above -= 1
            coming += 1
        return None
