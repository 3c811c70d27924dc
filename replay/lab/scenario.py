"""Named situations: what an operator, an alert or a dashboard should see, phase by phase.

A scenario is a lab and a few phases. `replay.lab.stage` plays it; `specguard lab scenario NAME` shows it.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from replay.lab.hicache import Mode
from replay.lab.serve import Options

Switches = Mapping[str, object]


@dataclass(frozen=True, slots=True)
class Phase:
    """One stretch of a scenario."""

    name: str
    says: str
    """What is wrong, and what should be seen."""
    share: float = 1.0
    """Of the scenario's time, in proportion to the other phases."""
    agents: int = 4
    pause_s: float = 0.2
    """Mean pause between two steps of an agent."""
    leave_share: float = 0.0
    """Share of requests whose client leaves after a few chunks."""
    decode: Switches = field(default_factory=dict)
    prefill: Switches = field(default_factory=dict)
    drift: bool = False
    """Every step has another blank doubled: no prefix is found again."""
    candidates: int = 1
    """How often each step goes out at the same time, for a best of n."""
    branches: int = 1
    """Sessions that fork from one history and go on side by side."""
    tool_pace: float = 0.0
    """Seconds here for one of a tool, which has up to 75 of them; 0: tools take no time."""
    only_decode: int | None = None
    """Throw decode switches on this worker only."""
    flush: bool = False
    """Drop the prefix caches at the beginning, once nobody is busy."""


@dataclass(frozen=True, slots=True)
class Scenario:
    """A lab, and what happens to it."""

    name: str
    about: str
    phases: tuple[Phase, ...]
    options: Options = field(default_factory=lambda: Options(prefill=1, decode=2, pages=256, step_ms=4))


CALM = Phase("calm", "all is well: acceptance near its baseline, answers right")
CLEAN: Switches = {"fault": "none", "stuck": False, "drafter": "model"}
CACHED = Options(
    prefill=1, decode=2, pages=96, step_ms=4, prefix_cache=True, host_pages=2048, hicache=Mode.FIXED
)
"""A prefix cache and a host tier; the pool is small, so that sessions are pushed out to the host."""

BUSY = Phase(
    "busy", "sixteen agents, more than the pool can hold: prefixes come back from the host", agents=16
)

STORM = Phase(
    "storm",
    "more agents than prefill can serve, half of the clients give up: queues, aborts, time to first token",
    agents=32,
    pause_s=0.02,
    leave_share=0.5,
    prefill={"prefill_ms": 40.0, "tail_share": 0.08},
)
DRAFT_BROKEN = Phase(
    "draft broken",
    "the draft's KV is noise in every request: acceptance collapses on all workers, every answer is right",
    decode={"fault": "random@draft", "rate": 1.0, "onset": [1, 1]},
)
COLLAPSE = Phase(
    "load-back collapse",
    "load-backs lose the draft's index: acceptance falls with the host hits, answers stay right; only a flush"
    " cures it",
    agents=16,
    prefill={"hicache": "index_lost"},
)
UNREADY = Phase(
    "read before ready",
    "KV of load-backs is read before it is there: wrong answers, only after host hits, only while busy",
    agents=16,
    prefill={"hicache": "unfixed", "load_page_ms": 1.0},
)
DRIFT = Phase(
    "prefix drift",
    "clients format their prompts anew at every step: same words, same answers, and no cache hit",
    drift=True,
)
STUCK = Phase(
    "scheduler stuck",
    "decode-0 takes requests and computes nothing: running requests and no tokens, its health fails",
    decode={"stuck": True},
    only_decode=0,
    leave_share=0.2,
)
CANDIDATES = Phase(
    "candidates",
    "sessions fork, each step goes out four times at once: one prefill in four computes, the rest is cached",
    agents=2,
    candidates=4,
    branches=3,
)
SLOW_TOOLS = Phase(
    "slow tools",
    "tools take their time, as many as 75 s at a tenth of it: what waits longest comes back from the host",
    agents=48,
    tool_pace=0.1,
)
CORRUPTED = Phase(
    "corruption",
    "one request in five loses its KV: silence, loops, and somebody else's answer",
    decode={"fault": "nan,zero,swap,swap_both", "rate": 0.2, "onset": [4, 16]},
)
RECOVERED = Phase("recovered", "all switches back: figures return to those of the calm", flush=True)

SCENARIOS: dict[str, Scenario] = {
    one.name: one
    for one in (
        Scenario("calm", "no fault at all", (CALM,)),
        Scenario("storm", "an abort storm on a prefill queue", (CALM, STORM, RECOVERED)),
        Scenario(
            "loadback-collapse",
            "HiCache load-back loses the draft's index",
            (BUSY, COLLAPSE, replace(RECOVERED, agents=16)),
            CACHED,
        ),
        Scenario(
            "read-before-ready",
            "HiCache load-back without its sync point",
            (BUSY, UNREADY, replace(RECOVERED, agents=16)),
            CACHED,
        ),
        Scenario("prefix-drift", "prompts that never begin alike", (CALM, DRIFT, RECOVERED), CACHED),
        Scenario(
            "candidates",
            "parallel candidates and branches over one history",
            (CALM, CANDIDATES, RECOVERED),
            CACHED,
        ),
        Scenario(
            "slow-tools",
            "tools that run long enough for a prefix to leave the pool",
            (CALM, SLOW_TOOLS, RECOVERED),
            CACHED,
        ),
        Scenario("draft-broken", "a draft model that is of no use", (CALM, DRAFT_BROKEN, RECOVERED)),
        Scenario("scheduler-stuck", "a decode worker that makes no progress", (CALM, STUCK, RECOVERED)),
        Scenario("corruption", "KV faults of the loud and of the silent kind", (CALM, CORRUPTED, RECOVERED)),
        Scenario(
            "ops-all",
            "all of them in turn: every metric moves",
            (CALM, BUSY, CORRUPTED, STORM, DRAFT_BROKEN, COLLAPSE, UNREADY, DRIFT, STUCK, RECOVERED),
            CACHED,
        ),
    )
}
