"""Which knob matters: arms that each differ from a control in one thing, under the load that breaks things.

    plan      every arm turns one knob; the control turns none. Rounds, order and requests as in any plan
    events    an arm has fewer bad answers than the control: the verdict's two exact tests the other way
              round, adjusted after Holm over the knobs
    trigger   most failures (timeouts, errors) went with them: then it took away what sets the fault off, as
              lower load or a longer timeout would, and what is wrong may be there still
    cause     fewer bad answers while failures go on: what sets the fault off is still there, and it does no
              harm any more. The fence of a transfer race does that, and it is what to fix

The knob that is named is the cause with the strongest evidence; without a cause, the strongest trigger, and
it is called that. Of causes with the same adjusted evidence and effect it is the one under which more
failures go on: less work in front of a worker takes failures along, too. One knob at a time finds no cause
that needs two.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Literal

import msgspec

from replay.judge import asked_of, observed
from replay.judging.levels import Level, events_of, levels, rounds
from replay.judging.observation import Observation
from replay.judging.verdict import weigh
from replay.plan import RETURN, Contrast, PlanError, PlanHeader
from replay.stats.clusters import incidents
from replay.stats.many import holm
from service.core.recorded import Rules

FORMAT = "specguard.bisect/1"

GOES_ON = 0.25
"""Share of the control's failures that a cause leaves at least: without the trigger nothing goes wrong."""

Role = Literal["cause", "trigger", "none"]


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """What one knob did."""

    knob: str
    role: Role
    events: int
    trials: int
    per_10k: float | None
    failures: int
    p: float  # that it has fewer bad answers than the control
    p_adjusted: float
    failures_left: float | None  # of the control's rate; None where the control has none


class Bisected(msgspec.Struct, frozen=True, kw_only=True):
    """What all knobs did, and which is named."""

    format: str = FORMAT
    plan_hash: str
    knob: str | None
    role: Role
    control: Finding
    findings: list[Finding]
    why: str


def bisect(plan: Path, results: Path, rules: Rules, *, control: str = "") -> Bisected:
    """Compare every arm of a run with the control, which is the contrast's high arm unless named."""
    header, seen = observed(plan, results, rules)
    asked = asked_of(header)
    control = control or asked.high
    names = [arm.name for arm in header.arms]
    if control not in names or len(names) < 2:  # noqa: PLR2004 - a knob and a control
        raise PlanError(f"a bisection needs a control and a knob; arms are {', '.join(names)}")
    return weighed(header, seen, msgspec.structs.replace(asked, high=control))


def weighed(header: PlanHeader, seen: Sequence[Observation], asked: Contrast) -> Bisected:
    """What the observations say of each knob; the control is the high arm."""
    by_arm = {one.arm: one for one in levels(header, seen, asked.event, asked.incident_window_s)}
    control = by_arm.pop(asked.high)
    by_round = rounds(seen, asked.event)
    fewer = {
        name: weigh(asked, one, control, by_round, _sizes(seen, asked, name)).p
        for name, one in by_arm.items()
        if one.trials and control.trials
    }
    adjusted = holm(fewer)
    findings = [
        _finding(one, control, fewer.get(name, 1.0), adjusted.get(name, 1.0), asked.alpha)
        for name, one in by_arm.items()
    ]
    named = _named(findings)
    return Bisected(
        plan_hash=header.hash,
        knob=named.knob if named else None,
        role=named.role if named else "none",
        control=_finding(control, control, 1.0, 1.0, asked.alpha),
        findings=findings,
        why=_why(named, control),
    )


def _finding(one: Level, control: Level, p: float, adjusted: float, alpha: float) -> Finding:
    left = one.failing_share / control.failing_share if control.failing_share else None
    role: Role = "none"
    if adjusted <= alpha:
        role = "cause" if left is None or left >= GOES_ON else "trigger"
    return Finding(
        knob=one.arm,
        role=role,
        events=one.events,
        trials=one.trials,
        per_10k=one.per_10k,
        failures=sum(one.failures.values()),
        p=p,
        p_adjusted=adjusted,
        failures_left=left,
    )


def _named(findings: Sequence[Finding]) -> Finding | None:
    """A cause before a trigger, then by evidence, by effect on answers, and by failures that go on."""
    order: Mapping[Role, int] = {"cause": 0, "trigger": 1, "none": 2}
    found = [one for one in findings if one.role != "none"]

    def rank(one: Finding) -> tuple[float | str, ...]:
        return order[one.role], one.p_adjusted, one.per_10k or 0.0, -(one.failures_left or 0.0), one.knob

    return min(found, key=rank, default=None)


def _why(named: Finding | None, control: Level) -> str:
    if not control.events:
        return "the control has no bad answer: there is nothing to take away"
    if named is None:
        return "no knob has fewer bad answers than the control beyond chance"
    fewer = f"{named.events} of {named.trials} bad answers against {control.events} of {control.trials}"
    kept = "failures go on" if named.role == "cause" else "but most failures go with them"
    return f"{named.knob}: {fewer}, p = {named.p_adjusted:.2g}; {kept}"


def _sizes(seen: Sequence[Observation], asked: Contrast, knob: str) -> list[int]:
    both = [one for one in seen if one.arm in {asked.high, knob} and one.round != RETURN]
    return [len(group) for group in incidents(events_of(both, asked.event), asked.incident_window_s)]
