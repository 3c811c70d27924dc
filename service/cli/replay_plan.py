"""`specguard replay plan`: from a trace to a plan file with a hash."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal

import msgspec
from cyclopts import Parameter
from cyclopts.validators import Number

from service.cli.exits import DONE, Unfit
from service.cli.options import JsonFlag, print_json, print_line

if TYPE_CHECKING:
    from replay.plan import Arm, PlanHeader
    from replay.planning.agents import Agents
    from replay.planning.knobs import Turn
    from replay.planning.make import Wishes
    from replay.trace import TraceHeader, TraceRequest

Count = Annotated[int, Parameter(validator=Number(gte=1))]
Share = Annotated[float, Parameter(validator=Number(gte=0, lte=1))]


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class PlanWishes:
    """What the command line may say of a plan.

    Parameters
    ----------
    arm
        A level as NAME=LOAD, a multiple of the trace's own rate; the first is the low one. Several times.
    knobs
        What an arm sets, as NAME=JSON: {"control": {"decode": {...}}} is posted to the backend's control
        URLs before each of its blocks; {"dose": {"backlog_tokens", "prompt_tokens",
        "prefill_tokens_per_s"}} holds up a prefill backlog. What one arm sets every arm has to set: a knob
        stays where it was turned.
    turn
        For `specguard replay bisect`: an arm beside the only --arm, the control, that differs from it in
        this alone, as NAME=LOAD or NAME=JSON of knobs. Several times.
    contrast
        The two arms that the verdict is about, as LOW,HIGH; the first and the last unless given.
    event
        What counts: corrupt (a detector says so), wrong (not the expected answer), changed (not the answer
        of an added control arm, at the low load, to the same request).
    margin
        A difference below so many per 10,000 does not matter.
    window_s
        Bad answers of one worker within this time are one incident.
    rounds
        Every arm runs once a round.
    requests
        Of each arm; all of the trace once unless given.
    rate
        Requests a second at load 1; the trace's own unless given.
    scale
        What a load divides: all arrivals, or only when sessions begin.
    ties
        How requests of one time are spread up to the next time.
    thin
        Keep this share of all sessions.
    copies
        Lay the trace over itself so many times.
    candidates
        Send each request so many times at once, each with a seed of its own.
    abort
        Share of requests whose client leaves early, besides those of the trace.
    canaries
        Requests with a mark, a block: a mark in another's answer is cross-talk.
    pause_s
        Between blocks, for queues to run empty.
    seed
        Draws everything that is drawn.
    model
        The target's model, in place of the recorded one.
    path
        The endpoint, in place of the recorded one.
    """

    arm: list[str] | None = None
    knobs: list[str] | None = None
    turn: list[str] | None = None
    contrast: str | None = None
    event: Literal["corrupt", "wrong", "changed"] = "corrupt"
    margin: Annotated[float, Parameter(validator=Number(gt=0))] = 4.0
    window_s: Annotated[float, Parameter(validator=Number(gte=0))] = 5.0
    rounds: Count = 10
    requests: Count | None = None
    rate: Annotated[float, Parameter(validator=Number(gt=0))] | None = None
    scale: Literal["arrivals", "sessions"] = "arrivals"
    ties: Literal["uniform", "poisson", "none"] = "uniform"
    thin: Share = 1.0
    copies: Count = 1
    candidates: Count = 1
    abort: Share = 0.0
    canaries: Annotated[int, Parameter(validator=Number(gte=0))] = 0
    pause_s: Annotated[float, Parameter(validator=Number(gte=0))] = 5.0
    seed: int = 0
    model: str = ""
    path: Literal["/v1/chat/completions", "/v1/completions", "/generate"] | None = None

    def wishes(self) -> "Wishes":
        """The plan that this asks for."""
        from replay.plan import Arm, Contrast
        from replay.planning.make import Wishes

        arms = self._arms()
        low, _, high = (self.contrast or f"{arms[0].name},{arms[-1].name}").partition(",")
        if self.event == "changed":  # what the low arm says has to be compared with something, too
            arms = (Arm(name="control", load=arms[0].load, knobs=arms[0].knobs), *arms)
        contrast = Contrast(
            low=low,
            high=high,
            event=self.event,
            margin_per_10k=self.margin,
            incident_window_s=self.window_s,
        )
        return Wishes(
            arms=arms,
            contrast=contrast,
            rounds=self.rounds,
            requests=self.requests,
            rate_per_s=self.rate,
            scale=self.scale,
            ties=self.ties,
            thin=self.thin,
            copies=self.copies,
            candidates=self.candidates,
            abort_share=self.abort,
            canaries=self.canaries,
            pause_s=self.pause_s,
            seed=self.seed,
            model=self.model,
            path=self.path,
        )

    def _arms(self) -> "tuple[Arm, ...]":
        from replay.plan import Arm

        knobs = dict(_knob(one) for one in self.knobs or ())
        named = [_arm(one) for one in self.arm or ("idle=1", "peak=4")]
        if stray := knobs.keys() - {name for name, _ in named}:
            raise Unfit(f"plan: --knobs names {', '.join(sorted(stray))}, which is no --arm")
        arms = tuple(Arm(name=name, load=load, knobs=knobs.get(name, {})) for name, load in named)
        return self._turned(arms) if self.turn else arms

    def _turned(self, arms: "tuple[Arm, ...]") -> "tuple[Arm, ...]":
        from replay.planning.knobs import beside

        if len(arms) > 1 or self.arm is None:
            raise Unfit("plan: --turn goes with one --arm, the control at the load that breaks things")
        return beside(arms[0], [_turn(one) for one in self.turn or ()])


AS_WISHED: Final = PlanWishes()


def plan(
    trace: Path | None = None,
    *,
    out: Path,
    agents: Count | None = None,
    steps: Count = 10,
    branches: Count = 1,
    wishes: PlanWishes = AS_WISHED,
    json_output: JsonFlag = False,
) -> int:
    """Plan a run: the same traffic at several loads, in rounds drawn by lot, and a return at the end.

    Example: specguard replay plan traffic.trace --out peak.plan --arm idle=1 --arm peak=4 --rate 5

    Prints how long the run takes and what its size can show; the file has a hash over all of it. Exit codes:
    0 done, 2 bad input.

    Parameters
    ----------
    trace
        What `specguard replay import` wrote.
    out
        Where the plan goes.
    agents
        Make up so many agent sessions in place of a trace: prefixes that grow, tools between the steps.
    steps
        Steps of each of these sessions.
    branches
        Ways in which each of them goes on after half of its steps.
    """
    from replay.plan import PlanError, write_plan
    from replay.planning.make import make
    from replay.trace import TraceError

    made_up = _agents(agents, steps, branches, wishes) if agents else None
    try:
        header, requests = _source(trace, made_up)
        made, sends = make(header, requests, wishes.wishes())
        written = write_plan(out, made, sends)
    except (PlanError, TraceError) as error:
        raise Unfit(f"plan: {error}") from None
    except OSError as error:
        raise Unfit(f"plan: {error.filename or out}: {error.strerror}") from None
    if json_output:
        print_json(told(written))
        return DONE
    print_line(f"{out}: {written.sends} sends in {len(written.blocks)} blocks, {written.duration_s:.0f} s")
    for note in written.notes:
        print_line(f"  {note}")
    print_line(f"  hash {written.hash}")
    return DONE


def told(header: "PlanHeader") -> dict[str, Any]:
    """A header as JSON, without its blocks."""
    fields: dict[str, Any] = msgspec.to_builtins(header)
    return {name: value for name, value in fields.items() if name != "blocks"}


def _agents(sessions: int, steps: int, branches: int, wishes: PlanWishes) -> "Agents":
    from replay.planning.agents import Agents

    # The rate of requests is set by the plan; here only how sessions lie to each other.
    return Agents(sessions=sessions, steps=steps, branches=branches, seed=wishes.seed)


def _source(trace: Path | None, agents: "Agents | None") -> "tuple[TraceHeader, list[TraceRequest]]":
    from replay.planning.agents import header as agents_header
    from replay.planning.agents import trace as agents_trace
    from replay.trace import read_trace

    if (trace is None) == (agents is None):
        raise Unfit("plan: name a trace, or say --agents")
    if agents is not None:
        return agents_header(agents), agents_trace(agents)
    header, requests = read_trace(trace or Path())
    return header, list(requests)


def _arm(text: str) -> tuple[str, float]:
    name, _, load = text.partition("=")
    try:
        return name, float(load)
    except ValueError:
        raise Unfit(f"plan: --arm is NAME=LOAD, got {text!r}") from None


def _knob(text: str) -> tuple[str, dict[str, Any]]:
    name, _, value = text.partition("=")
    try:
        return name, msgspec.json.decode(value, type=dict[str, Any])
    except msgspec.DecodeError as error:
        raise Unfit(f"plan: --knobs is NAME=JSON: {error}") from None


def _turn(text: str) -> "Turn":
    from replay.planning.knobs import Turn

    name, _, value = text.partition("=")
    try:
        return Turn(name, msgspec.json.decode(value, type=dict[str, Any] | float))
    except msgspec.DecodeError as error:
        raise Unfit(f"plan: --turn is NAME=LOAD or NAME=JSON: {error}") from None
