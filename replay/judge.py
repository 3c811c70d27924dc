"""The judge: a plan and what a run of it found, turned into a verdict and all that it rests on.

    observations    one a result, each text judged by the detectors (`replay.judging.observation`)
    levels          events, incidents, latencies of each arm (`levels`)
    verdict         on the contrast that the plan declared (`verdict`)
    trend           over three and more arms: exact, on incidents and by permutation of blocks
    questions       everything else one may ask of the same run, adjusted after Holm
    e-value         what somebody who looked all the time could have believed

Cost: about 1 ms an answer of some hundred tokens, nearly all of it the detectors.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

import msgspec

from replay.judging.levels import (
    Level,
    Round,
    events_of,
    failing,
    level,
    levels,
    rounds,
    rounds_of,
)
from replay.judging.observation import Index, Observation, observe
from replay.judging.verdict import State, Verdict, decide, weigh
from replay.pacer import Lateness
from replay.plan import RETURN, Arm, Contrast, PlanError, PlanHeader
from replay.results import CUT_OFF, Closing, Result, RunHeader, read
from replay.stats.clusters import Event, incidents, permutation, permutation_trend
from replay.stats.evalue import EProcess
from replay.stats.exact import Rate
from replay.stats.many import holm
from replay.stats.ratio import contrast
from replay.stats.trend import trend
from service.core.events import Kind
from service.core.recorded import Rules

FORMAT: Final = "specguard.verdict/1"

MAX_DEALT_ARMS: Final = 6
"""720 deals a round; more arms are judged by incidents alone."""

WHOLE: Final = 0.95
"""Of the sends that a run must have carried out for its p-values to count: no look has ended it then."""

MAX_INCIDENTS: Final = 200
"""Told one by one; all are counted."""


class Trend(msgspec.Struct, frozen=True):
    """A rise over all arms in the order of their loads."""

    p: float
    p_incidents: float
    p_blocks: float | None


class Question(msgspec.Struct, frozen=True):
    """Something else that was asked of the run."""

    name: str
    p: float
    p_adjusted: float
    low: str  # events of trials
    high: str


class Incident(msgspec.Struct, frozen=True):
    """Bad answers that hang together."""

    arm: str
    block: int
    at_s: float
    worker: str
    kinds: dict[str, int]
    ids: list[str]


class Schedule(msgspec.Struct, frozen=True):
    """How late this client was, in the arm that fared worst."""

    kept: bool
    arm: str
    p99_s: float
    limit_s: float


class Coverage(msgspec.Struct, frozen=True):
    """What of the plan was run."""

    planned: int
    results: int
    cut_off: int
    unknown: int  # results of no send of this plan


class Canaries(msgspec.Struct, frozen=True):
    """Marks that went astray, and marks that did not come back."""

    sent: int
    answered: int
    lost: int
    leaks: dict[str, list[str]]  # an answer -> the canaries whose mark it holds


class Judged(msgspec.Struct, frozen=True, kw_only=True):
    """All that is said of a run."""

    format: str = FORMAT
    plan_hash: str
    target: str
    started_at: str
    contrast: Contrast
    verdict: Verdict
    levels: list[Level]
    returned: Level | None
    trend: Trend | None
    questions: list[Question]
    e_value: float
    schedule: Schedule
    coverage: Coverage
    canaries: Canaries
    incidents: list[Incident]
    notes: list[str]


class Reading:
    """A results file, read once; results pass by one at a time, because their texts may not fit in memory."""

    def __init__(self, path: Path, plan_hash: str) -> None:
        self._path, self._plan_hash = path, plan_hash
        self._header: RunHeader | None = None
        self.results = 0
        self.stopped = ""  # what ended the run before its time

    def __repr__(self) -> str:
        return f"<Reading {self._path.name} {self.results} results>"

    def require(self) -> RunHeader:
        """The run's header, once the file has been read."""
        if self._header is None:
            raise PlanError(f"{self._path.name} holds no run")
        return self._header

    def __iter__(self) -> Iterator[Result]:
        for line in read(self._path):
            match line:
                case RunHeader():
                    self._begin(line)
                case Result():
                    self.results += 1
                    yield line
                case Closing():
                    self.stopped = line.stopped or ""
                case _:
                    pass

    def _begin(self, header: RunHeader) -> None:
        self._header = self._header or header
        if header.plan_hash != self._plan_hash:
            theirs, ours = header.plan_hash[:12], self._plan_hash[:12]
            raise PlanError(f"{self._path.name} is of the plan {theirs}, not {ours}")


def judge(plan: Path, results: Path, rules: Rules) -> Judged:
    """Judge a run of a plan; raises PlanError or ResultsError for files that do not fit."""
    index = Index(plan)
    try:
        reading = Reading(results, index.header.hash)
        return weighed(index, reading, observe(index, reading, rules))
    finally:
        index.close()


def observed(plan: Path, results: Path, rules: Rules) -> tuple[PlanHeader, list[Observation]]:
    """Only the observations; raises as `judge`."""
    index = Index(plan)
    try:
        reading = Reading(results, index.header.hash)
        seen = observe(index, reading, rules)
        reading.require()
        return index.header, seen
    finally:
        index.close()


def weighed(index: Index, ran: Reading, seen: Sequence[Observation]) -> Judged:
    """What observations add up to."""
    plan, asked, run = index.header, asked_of(index.header), ran.require()
    by_arm = levels(plan, seen, asked.event, asked.incident_window_s)
    low, high = (next(one for one in by_arm if one.arm == name) for name in (asked.low, asked.high))
    by_round = rounds(seen, asked.event)
    compared = [one for one in seen if one.round != RETURN]
    groups = incidents(events_of(compared, asked.event), asked.incident_window_s)
    schedule = _schedule(seen, asked)
    coverage = _coverage(plan, ran, seen)
    state = State(
        late="" if schedule.kept else _late(schedule),
        stopped=ran.stopped,
        over=coverage.results - coverage.cut_off >= WHOLE * coverage.planned,
        e_value=_e_value(index, groups, by_round, asked),
    )
    sizes = [len(group) for group in groups if _arm_of(index, group) in {asked.low, asked.high}]
    returned = [one for one in seen if one.round == RETURN]
    lowest, kinds = plan.arms[0], {one.id: _kind(one, asked) for one in seen}
    return Judged(
        plan_hash=plan.hash,
        target=run.target,
        started_at=run.started_at,
        contrast=asked,
        verdict=decide(asked, low, high, by_round, sizes, state),
        levels=by_arm,
        returned=level(lowest, returned, asked.event, asked.incident_window_s) if returned else None,
        trend=_trend(plan.arms, by_arm, by_round),
        questions=_questions(plan, seen, asked),
        e_value=round(state.e_value, 4),
        schedule=schedule,
        coverage=coverage,
        canaries=_canaries(seen),
        incidents=[_incident(index, group, kinds) for group in groups[:MAX_INCIDENTS]],
        notes=list(plan.notes),
    )


def asked_of(plan: PlanHeader) -> Contrast:
    if plan.contrast is None:
        raise PlanError("the plan declares no contrast: there is nothing to judge")
    return plan.contrast


def _schedule(seen: Iterable[Observation], asked: Contrast) -> Schedule:
    lateness = Lateness()
    for one in seen:
        if one.failure != CUT_OFF:
            lateness.add(one.arm, one.block, one.scheduled_s, one.at_s)
    worst = lateness.worst()
    limit_s = max(worst.limit_s, asked.late_s or 0.0)
    return Schedule(worst.p99_s <= limit_s, worst.arm, worst.p99_s, limit_s)


def _late(schedule: Schedule) -> str:
    late_ms, limit_ms = schedule.p99_s * 1e3, schedule.limit_s * 1e3
    return f"in {schedule.arm} one send in 100 was {late_ms:.1f} ms late or more; {limit_ms:.1f} are allowed"


def _arm_of(index: Index, group: Sequence[Event]) -> str:
    return index.header.blocks[group[0].block].arm


def _kind(one: Observation, asked: Contrast) -> str:
    """What a detector calls it, else in which sense it is bad."""
    return str(asked.event if one.kind is Kind.NORMAL else one.kind)


def _trend(arms: Sequence[Arm], by_arm: Sequence[Level], by_round: Sequence[Round]) -> Trend | None:
    order = sorted(arms, key=lambda arm: arm.load)
    named = {one.arm: one for one in by_arm}
    rates = [named[arm.name].incident_rate for arm in order]
    known = [rate for rate in rates if rate is not None]
    if len(arms) < 3 or len({arm.load for arm in arms}) < len(arms) or len(known) < len(arms):  # noqa: PLR2004 - two points are no trend
        return None
    counted = trend(known)
    if len(arms) > MAX_DEALT_ARMS:
        return Trend(counted, counted, None)
    whole = [one for one in by_round if one.has(*named)]
    dealt = permutation_trend([[one.counts[arm.name][0] for arm in order] for one in whole])
    return Trend(max(counted, dealt), counted, dealt)


def _questions(plan: PlanHeader, seen: Sequence[Observation], asked: Contrast) -> list[Question]:
    """Every other arm and every other kind of event against the low arm."""
    raw: dict[str, tuple[float, str, str]] = {}
    for event in ("corrupt", "wrong", "changed"):
        by_arm = {one.arm: one for one in levels(plan, seen, event, asked.incident_window_s)}
        by_round = rounds(seen, event)
        for arm in plan.arms:
            low, high = by_arm[asked.low], by_arm[arm.name]
            primary = event == asked.event and arm.name == asked.high
            if arm.name != asked.low and not primary and low.trials and high.trials:
                told = weigh(asked, low, high, by_round, ())
                raw[f"{event}: {arm.name}"] = (told.p, _of(low), _of(high))
    raw |= _failures(seen, asked)
    adjusted = holm({name: p for name, (p, _, _) in raw.items()})
    return [Question(name, p, adjusted[name], low, high) for name, (p, low, high) in raw.items()]


def _failures(seen: Sequence[Observation], asked: Contrast) -> dict[str, tuple[float, str, str]]:
    by_round = [one for one in rounds_of(seen, failing) if one.has(asked.low, asked.high)]
    pairs = [(Rate(*one.counts[asked.high]), Rate(*one.counts[asked.low])) for one in by_round]
    if not pairs:
        return {}
    high, low = (
        Rate(sum(pair[at].events for pair in pairs), sum(pair[at].trials for pair in pairs)) for at in (0, 1)
    )
    p = max(permutation(pairs), contrast(high, low).p)
    return {
        f"failures: {asked.high}": (p, f"{low.events} of {low.trials}", f"{high.events} of {high.trials}")
    }


def _of(one: Level) -> str:
    return f"{one.events} of {one.trials}"


def _e_value(
    index: Index, groups: Sequence[Sequence[Event]], by_round: Sequence[Round], asked: Contrast
) -> float:
    """One coin an incident, its chance the high arm's share of its round."""
    stake = EProcess()
    shares = {}
    for one in (one for one in by_round if one.has(asked.low, asked.high)):
        low, high = one.counts[asked.low][1], one.counts[asked.high][1]
        shares[one.number] = high / (low + high)
    for group in groups:
        arm, number = _arm_of(index, group), index.rounds[group[0].block]
        if arm in {asked.low, asked.high} and number in shares:
            stake.see(shares[number], high=arm == asked.high)
    return stake.value


def _coverage(plan: PlanHeader, ran: Reading, seen: Sequence[Observation]) -> Coverage:
    cut = sum(one.failure == CUT_OFF for one in seen)
    return Coverage(plan.sends, len(seen), cut, ran.results - len(seen))


def _canaries(seen: Sequence[Observation]) -> Canaries:
    sent = [one for one in seen if one.role == "canary"]
    answered = [one for one in sent if not one.failure]
    leaks = {one.id: list(one.leaks) for one in seen if one.leaks}
    return Canaries(len(sent), len(answered), sum(not one.own_mark for one in answered), leaks)


def _incident(index: Index, group: Sequence[Event], kinds: Mapping[str, str]) -> Incident:
    first = group[0]
    return Incident(
        arm=_arm_of(index, group),
        block=first.block,
        at_s=round(first.at_s, 3),
        worker=first.worker,
        kinds=dict(Counter(kinds[event.id] for event in group)),
        ids=[event.id for event in group],
    )
