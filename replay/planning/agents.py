"""Agents made up: sessions whose prefix grows, steps asked several times at once, branches that fork.

    step k      sees everything before it: its blocks are those of step k - 1 and a few more
    candidates  several requests at the same time with the same prompt, as for a best of n
    branches    from a step on a session goes on in several ways; each has the step as its parent
    tools       between two steps a tool runs, lognormal, median 2 s, cut at 75 s

The traffic of agents is what the reports are about: long common prefixes, steps that wait for the one before,
salvos of candidates. Cost: some microseconds a request.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from random import Random

from replay.plan import PlanError
from replay.trace import FORMAT, TraceHeader, TraceRequest

TOOL_MEDIAN_LN, TOOL_SIGMA, MAX_TOOL_S = 0.69, 1.6, 75.0
"""As in the lab's workloads: half of all tools are done in 2 s, one in a hundred runs into the cut."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Agents:
    """What the sessions are like."""

    sessions: int
    steps: int = 10
    rate_per_s: float = 1.0  # at which sessions begin
    first_blocks: int = 4  # system message and tools
    step_blocks: int = 1  # what a step adds
    block_tokens: int = 64
    output_tokens: int = 128
    candidates: int = 1
    branches: int = 1  # ways in which a session goes on after half of its steps
    seed: int = 0

    def __post_init__(self) -> None:
        """Refuse sessions that cannot be."""
        if min(self.sessions, self.steps, self.candidates, self.branches, self.block_tokens) < 1:
            raise PlanError("agents: sessions, steps, candidates, branches and block tokens are at least 1")
        if self.rate_per_s <= 0:
            raise PlanError("agents: sessions begin at a rate above 0")


def header(agents: Agents) -> TraceHeader:
    return TraceHeader(
        format=FORMAT, source=f"agents seed {agents.seed}", block_tokens=agents.block_tokens, salted=True
    )


def trace(agents: Agents) -> list[TraceRequest]:
    """All requests in order."""
    random = Random(f"agents {agents.seed}")
    begin_s = 0.0
    requests: list[TraceRequest] = []
    for number in range(agents.sessions):
        requests += _session(agents, number, begin_s, random)
        begin_s += random.expovariate(agents.rate_per_s)
    return sorted(requests, key=lambda one: one.at_s)


def _session(agents: Agents, number: int, begin_s: float, random: Random) -> Iterator[TraceRequest]:
    """The trunk, and from its middle on each branch."""
    fork = agents.steps // 2 if agents.branches > 1 else agents.steps
    at_s, parent = begin_s, ""
    for turn in range(fork):
        for candidate in range(agents.candidates):
            yield _step(agents, number, 0, turn, candidate, at_s, parent)
        parent = _name(number, 0, turn, 0)
        at_s += _tool_s(random)
    for branch in range(agents.branches if fork < agents.steps else 0):
        own_at_s, own_parent = at_s, parent
        for turn in range(fork, agents.steps):
            for candidate in range(agents.candidates):
                yield _step(agents, number, branch, turn, candidate, own_at_s, own_parent)
            own_parent = _name(number, branch, turn, 0)
            own_at_s += _tool_s(random)


def _step(
    agents: Agents, number: int, branch: int, turn: int, candidate: int, at_s: float, parent: str
) -> TraceRequest:
    fork = agents.steps // 2
    trunk = min(turn, fork) if branch else turn
    # A block's name tells session, branch and place: what branches have in common has a name in common.
    common = [_block(number, 0, place) for place in range(agents.first_blocks + trunk * agents.step_blocks)]
    grown = agents.first_blocks + turn * agents.step_blocks
    own = [_block(number, branch, place) for place in range(len(common), grown)]
    return TraceRequest(
        id=_name(number, branch, turn, candidate),
        at_s=at_s,
        session=f"{number}.{branch}",
        turn=turn,
        parent=parent,
        group=f"{number}.{branch}.{turn}" if agents.candidates > 1 else "",
        prompt_tokens=grown * agents.block_tokens,
        output_tokens=agents.output_tokens,
        blocks=tuple(common + own),
    )


def _name(number: int, branch: int, turn: int, candidate: int) -> str:
    return f"{number}.{branch}.{turn}.{candidate}"


def _block(number: int, branch: int, place: int) -> int:
    return (number << 24) + (branch << 16) + place


def _tool_s(random: Random) -> float:
    return min(MAX_TOOL_S, random.lognormvariate(TOOL_MEDIAN_LN, TOOL_SIGMA))
