"""From a trace and wishes to a plan: the same slice of traffic in every arm of a round, nothing else changed.

    trace -> ties spread -> thinned or laid over itself -> as many requests as wished -> slices, one a round
    each block: its round's slice at its arm's load, candidates, aborts, canaries, the arm's dose, a pause

As every arm of a round sends the same requests, arms have equal numbers, prompts and lengths: what differs is
the load (or the one knob that an arm turns) and the order, which is drawn by lot. A sample of another arm
names the first arm's as its control: at temperature 0 the answer should not have changed. Where changes are
what is counted, the first arm is nothing but the control: the low arm has to be compared with it as well.

Cost: 12,031 requests of Mooncake in two arms in .6 s, files included.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from math import inf
from random import Random

from msgspec.structs import replace

from replay import canary
from replay.plan import RETURN, Arm, Block, Contrast, PlanError, PlanHeader, Recipe, Send
from replay.planning import arrivals, dose, knobs, levels
from replay.planning.bodies import cleaned, seeded
from replay.stats.exact import PER
from replay.stats.power import power, requests_needed
from replay.trace import TraceHeader, TraceRequest

PAUSE_S = 5.0
"""Between two blocks: queues run empty, so that one level does not start on another's backlog."""

DEFAULT_PROMPT_TOKENS = 256
"""Where a trace does not say how long a prompt was."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Wishes:
    """What a plan is to be like."""

    arms: tuple[Arm, ...]
    contrast: Contrast
    rounds: int = 10
    requests: int | None = None  # an arm; None: all of the trace once
    rate_per_s: float | None = None  # of load 1; None: the trace's own
    scale: arrivals.Scale = "arrivals"
    ties: arrivals.Ties = "uniform"
    thin: float = 1.0
    copies: int = 1
    candidates: int = 1
    chained: bool = True  # a turn waits for the one before it
    abort_share: float = 0.0  # of requests that the trace does not abort
    abort_within_s: float = 2.0
    canaries: int = 0  # a block
    pause_s: float = PAUSE_S
    seed: int = 0
    model: str = ""
    path: str | None = None  # None: the trace's own
    notes: tuple[str, ...] = ()


@dataclass(slots=True)
class _Told:
    """What the notes of a plan tell."""

    dropped: Counter[str] = field(default_factory=Counter)


def make(
    header: TraceHeader, requests: Sequence[TraceRequest], wishes: Wishes
) -> tuple[PlanHeader, list[Send]]:
    """A plan; its hash comes with the file."""
    _fit(requests, wishes)
    traffic, notes = _traffic(requests, wishes)
    parts = arrivals.slices(traffic, wishes.rounds)
    if len(parts) < wishes.rounds:
        raise PlanError(
            f"{len(traffic)} requests in whole sessions fill {len(parts)} rounds, not {wishes.rounds}"
        )
    told, sends, blocks, start_s = _Told(), [], [], 0.0
    for index, (number, arm) in enumerate(levels.rounds(wishes.arms, wishes.rounds, wishes.seed)):
        maker = _BlockMaker(header, wishes, arm, index, number, start_s, told)
        made = maker.sends(parts[number])
        end_s = max(send.at_s for send in made) + wishes.pause_s
        blocks.append(Block(index=index, arm=arm.name, start_s=start_s, end_s=end_s, round=number))
        sends += made
        start_s = end_s
    notes += [f"dropped {name} from {count} bodies" for name, count in sorted(told.dropped.items())]
    made_header = PlanHeader(
        seed=wishes.seed,
        arms=list(wishes.arms),
        blocks=blocks,
        contrast=wishes.contrast,
        target_model=wishes.model,
        sends=len(sends),
        duration_s=start_s,
        notes=[f"from {header.source}", *wishes.notes, *notes, *_sized(len(traffic), wishes)],
    )
    return made_header, sends


def _fit(requests: Sequence[TraceRequest], wishes: Wishes) -> None:
    """Refuse wishes that contradict each other."""
    names = [arm.name for arm in wishes.arms]
    if not requests:
        raise PlanError("the trace has no requests")
    if len(set(names)) < len(names) or not names:
        raise PlanError("arms need names, each another")
    _fit_contrast(names, wishes.contrast)
    if not all(0 < arm.load < inf for arm in wishes.arms):
        raise PlanError("an arm's load is a number above 0")
    if not 0 < (wishes.rate_per_s or 1.0) < inf or not 0 <= wishes.pause_s < inf:
        raise PlanError("a rate is a number above 0, a pause one of seconds")
    if wishes.rounds < 1 or not 0 < wishes.thin <= 1:
        raise PlanError("a plan has at least one round and keeps a share above 0 of its families")
    for arm in wishes.arms:
        dose.dose_of(arm)
    knobs.check(wishes.arms)


def _fit_contrast(names: Sequence[str], asked: Contrast) -> None:
    if not 0 < asked.margin_per_10k <= PER:
        raise PlanError("a margin is above 0 and at most 10,000 per 10,000")
    if not 0 <= asked.incident_window_s < inf:
        raise PlanError("the window of an incident is a number of seconds")
    if wrong := {asked.low, asked.high} - set(names):
        raise PlanError(f"the contrast names {', '.join(sorted(wrong))}; arms are {', '.join(names)}")
    if asked.event == "changed":
        if asked.low == names[0]:
            raise PlanError("changed against what? the first arm must be a control beside low and high")
    elif asked.low != names[0]:
        raise PlanError(f"the contrast's low arm {asked.low} must be the first arm")


def _traffic(requests: Sequence[TraceRequest], wishes: Wishes) -> tuple[list[TraceRequest], list[str]]:
    """One arm's requests in order, and what was done to get them."""
    traffic = arrivals.in_order(requests)
    notes = []
    if tied := arrivals.tied(traffic):
        notes.append(f"{tied} of {len(traffic)} requests tied; spread: {wishes.ties}")
        traffic = arrivals.spread_ties(traffic, wishes.ties, wishes.seed)
    if wishes.thin < 1:
        traffic = arrivals.thin(traffic, wishes.thin, wishes.seed)
        notes.append(f"thinned to {len(traffic)} requests by whole sessions")
    copies = wishes.copies
    if wishes.requests is not None and traffic:
        copies = max(copies, -(-wishes.requests // len(traffic)))
    if copies > 1:
        traffic = arrivals.superpose(traffic, copies, wishes.seed)
        notes.append(f"{copies} copies laid over each other")
    if wishes.requests is not None:
        traffic = _first(traffic, wishes.requests)
    if not traffic:
        raise PlanError("no request is left")
    return _at_rate(traffic, wishes.rate_per_s), notes


def _first(traffic: list[TraceRequest], count: int) -> list[TraceRequest]:
    """At least so many, whole families, the first to come first."""
    named = arrivals.families(traffic)
    kept: set[str] = set()
    for seen, family in enumerate(named):
        if seen >= count and family not in kept:
            break
        kept.add(family)
    chosen = [one for one, family in zip(traffic, named, strict=True) if family in kept]
    return chosen if len(kept) < len(set(named)) else traffic


def _at_rate(traffic: list[TraceRequest], rate_per_s: float | None) -> list[TraceRequest]:
    span_s = traffic[-1].at_s
    if rate_per_s is None:
        return traffic
    if not span_s:
        return [replace(one, at_s=place / rate_per_s) for place, one in enumerate(traffic)]
    stretch = len(traffic) / rate_per_s / span_s
    return [replace(one, at_s=one.at_s * stretch) for one in traffic]


def _sized(requests: int, wishes: Wishes) -> list[str]:
    """What a run of this size can do."""
    asked, margin = wishes.contrast, wishes.contrast.margin_per_10k / PER
    chance = power(0, margin, requests, alpha=asked.alpha)
    needed = requests_needed(0, margin, wanted=asked.power, alpha=asked.alpha)
    aim = f"0 against {asked.margin_per_10k:g} per 10,000"
    return [f"{requests} requests an arm: power {chance:.0%} for {aim}; {needed} have {asked.power:.0%}"]


@dataclass(frozen=True, slots=True)
class _BlockMaker:
    """Makes the sends of one block."""

    trace: TraceHeader
    wishes: Wishes
    arm: Arm
    index: int
    round: int
    start_s: float
    told: _Told

    def sends(self, part: Sequence[TraceRequest]) -> list[Send]:
        """Samples, canaries and dose, in order."""
        due = arrivals.scaled(part, self.arm.load, self.wishes.scale)
        made = [send for one, at_s in zip(part, due, strict=True) for send in self._samples(one, at_s)]
        span_s = max(due)
        made += self._canaries(span_s, made[0].path)
        if (asked := dose.dose_of(self.arm)) is not None:
            made += dose.injections(asked, self.arm.name, self.index, self.start_s, span_s, made[0].path)
        return sorted(made, key=lambda send: send.at_s)

    def _prefix(self, arm: str) -> str:
        return f"{'return' if self.round == RETURN else self.round}.{arm}."

    def _samples(self, one: TraceRequest, due_s: float) -> Iterator[Send]:
        own = self._prefix(self.arm.name)
        earlier = one.parent if self.wishes.chained else ""
        control = self.wishes.arms[0].name
        controlled = self.round != RETURN and self.arm.name != control
        sample = Send(
            id=own + one.id,
            arm=self.arm.name,
            block=self.index,
            at_s=self.start_s + due_s,
            path=self.wishes.path or one.path,
            body=self._body(one),
            recipe=self._recipe(one),
            session=own + one.session if one.session else "",
            turn=one.turn,
            group=own + one.group if one.group else "",
            after=own + earlier if earlier else None,
            abort_after_s=self._abort(one),
            expected=one.expected,
            control_of=self._prefix(control) + one.id if controlled else None,
        )
        yield sample
        for number in range(1, self.wishes.candidates):
            yield self._candidate(sample, number, one.id)

    def _candidate(self, sample: Send, number: int, origin: str) -> Send:
        seed, name = self._lot("seed", origin, number).getrandbits(31), f"{sample.id}#{number}"
        body = seeded(sample.body, seed, sample.path) if sample.body is not None else None
        recipe = replace(sample.recipe, seed=seed) if sample.recipe is not None else None
        group, control = sample.group or sample.id, sample.control_of
        control = f"{control}#{number}" if control else None
        return replace(
            sample, id=name, body=body, recipe=recipe, group=group, control_of=control, expected=None
        )

    def _body(self, one: TraceRequest) -> dict[str, object] | None:
        if one.body is None:
            return None
        body, dropped = cleaned(one.body)
        self.told.dropped.update(dropped)
        return body

    def _recipe(self, one: TraceRequest) -> Recipe | None:
        if one.body is not None:
            return None
        return Recipe(
            prompt_tokens=one.prompt_tokens or DEFAULT_PROMPT_TOKENS,
            output_tokens=one.output_tokens,
            blocks=one.blocks,
            block_tokens=self.trace.block_tokens or 0,
            salt=f"{self.wishes.seed}.{self.index}",  # no block finds what another left in the cache
        )

    def _abort(self, one: TraceRequest) -> float | None:
        if one.abort_after_s is not None or not self.wishes.abort_share:
            return one.abort_after_s
        lot = self._lot("abort", one.id)
        return lot.uniform(0, self.wishes.abort_within_s) if lot.random() < self.wishes.abort_share else None

    def _lot(self, *of: object) -> Random:
        """Chance that hangs on the plan's seed and the request alone: it is the same in every arm."""
        return Random(f"{self.wishes.seed} {of}")

    def _canaries(self, span_s: float, path: str) -> Iterator[Send]:
        for number in range(self.wishes.canaries):
            name = f"canary.{self.index}.{number}"
            own = canary.mark(self.wishes.seed, name)
            yield Send(
                id=name,
                arm=self.arm.name,
                block=self.index,
                at_s=self.start_s + span_s * (number + 0.5) / self.wishes.canaries,
                path=path,
                body=canary.body(own, path),
                role="canary",
                canary=own,
            )
