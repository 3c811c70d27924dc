"""The catalogue: every metric SpecGuard exposes, as data. `metrics.py` brings it to life.

Names follow Prometheus' practice: one prefix, base units, `_total` on counters, no colons (those are for
recording rules), no label in a name, and only labels with a bounded set of values; the values known here
exist from the start with the value zero, so that a rate over them is never "no data".
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from service.core.cache_watch import CacheKind
from service.core.coverage import HOW
from service.core.events import Drafter, Guilty, Kind, Level, Outcome, Policy
from service.core.fleet_rates import DIMENSIONS
from service.core.fleet_watch import Reason
from service.core.loglines import CORRUPTION
from service.core.retry import Refusal

PREFIX: Final = "specguard"

Labels = Mapping[str, Sequence[str]]
"""Label name -> the values known in advance. A label with no values known gets its series when they come."""

VERDICT_KINDS: Final = tuple(kind for kind in Kind if kind not in {Kind.NORMAL, Kind.LOW_ACCEPTANCE})
LOSSES: Final = ("broken_stream", "router_unreachable", "timeout", "empty_response")
STATUSES: Final = ("status_500", "status_502", "status_503", "status_504")
RETRY_REASONS: Final = (
    "verdict",
    *LOSSES,
    *STATUSES,
    "engine_error",
    "second_opinion",
    "unreadable",
    "stale_connection",
)
RETRY_RESULTS: Final = ("restarted", *Refusal)
ABORT_REASONS: Final = ("verdict", "client_gone", "drained", "shutdown", "timeout", "defect")
FAILOPEN_REASONS: Final = ("detector", "memory", "streams")
UNINSPECTED: Final = ("path", "encoding", "too_large", "streams", "malformed")
COVERAGE: Final = ("judged", "unread", "sealed")
PROBE_LOSSES: Final = (
    "bad_mac",
    "foreign",
    "version",
    "torn",
    "old_counter",
    "old_epoch",
    "senders_full",
    "missed",
    "gaps",
    "untaken",
    "receive_errors",
)
CACHE_TURNS: Final = ("first", "continued", "untold", "skipped")
SOURCES: Final = ("metrics", "streams")
CASE_RESULTS: Final = ("saved", "dropped", "failed", "skipped")
REPLAY_VERDICTS: Final = (
    "LOAD-DEPENDENT",
    "NOT LOAD-DEPENDENT",
    "UNDECIDED",
    "SCHEDULE NOT KEPT",
    "BACKEND FAILING",
)
"""The words of the replay's judge; a test holds the two together."""
TOKEN_KINDS: Final = ("delivered", "discarded")

LATENCY_BUCKETS_S: Final = (
    0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 1.5, 2.5, 5.0, 10.0, 30.0,
)  # fmt: skip
LAG_BUCKETS_S: Final = (0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.25, 1.0)
ACCEPT_LENGTH_BUCKETS: Final = (1.0, 1.2, 1.4, 1.6, 1.8, 2.0, 2.5, 3.0, 3.5, 4.0, 5.0, 6.0, 8.0)
ACCEPT_ERROR_BUCKETS: Final = (-1.0, -0.3, -0.1, -0.03, -0.001, 0.001, 0.03, 0.1, 0.3, 1.0, 3.0)
SILENCE_BUCKETS_S: Final = (0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 15.0, 30.0, 60.0, 120.0)
"""Of heartbeats and of clients' usual patience."""
DURATION_BUCKETS_S: Final = (0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0, 600.0)


GROWTH_MAX: Final = 64
"""Series a family may grow beyond those known in advance; what comes after is counted as `other`."""
WORKER_SERIES: Final = 2048
"""The same where workers are the label: they come from the router's list, and there may be hundreds."""

WORKER_HISTOGRAMS: Final = 256
"""And for a histogram, which is sixteen series a worker."""


@dataclass(frozen=True, slots=True)
class Family:
    """One metric: its key in our code, its help, its labels."""

    key: str
    help: str
    labels: Labels = field(default_factory=dict)
    buckets: tuple[float, ...] = ()  # histograms only
    growth: int = GROWTH_MAX


def counters(routes: Sequence[str], detectors: Sequence[str]) -> tuple[Family, ...]:
    """Exposed as specguard_KEY_total."""
    route, detector = {"route": routes}, {"detector": detectors}
    return (
        Family(
            "streams", "Client requests that ended.", {**route, "policy": [*Policy], "outcome": [*Outcome]}
        ),
        Family("verdicts", "Generations judged corrupted.", {"kind": VERDICT_KINDS, **detector}),
        Family(
            "would_abort",
            "Generations that observe let go on and protect would have taken back, by the verdict's kind.",
            {"reason": VERDICT_KINDS},
        ),
        Family("suspects", "Generations that ended under suspicion without a verdict.", detector),
        Family(
            "escaped", "Requests whose text was delivered although a verdict stood.", {"kind": VERDICT_KINDS}
        ),
        Family(
            "late_detections", "Requests failed loudly after bad text had gone out.", {"kind": VERDICT_KINDS}
        ),
        Family("delivered_bad_tokens", "Tokens delivered from the onset of corruption on."),
        Family("tokens", "Completion tokens, by what became of them.", {"kind": TOKEN_KINDS}),
        Family("retries", "Generations asked for again.", {"reason": RETRY_REASONS, "result": RETRY_RESULTS}),
        Family("retry_same_worker", "Retries that landed on a worker they were meant to avoid."),
        Family("aborts", "Upstream streams closed before their end.", {"reason": ABORT_REASONS}),
        Family("hold_overflow", "Streams that outgrew what may be held.", {"policy": [*Policy]}),
        Family("spec_emitted_tokens", "Tokens emitted by observed verify steps."),
        Family("spec_verify_steps", "Verify steps observed."),
        Family("detector_faults", "Detectors that raised and were switched off for a stream.", detector),
        *_around_streams(),
    )


def _around_streams() -> tuple[Family, ...]:
    """What befell streams from outside, what could not be seen of them, and what was kept."""
    return (
        Family(
            "upstream_errors",
            "Requests that router or engine failed.",
            {"guilty": [*Guilty], "reason": LOSSES},
        ),
        Family(
            "provenance",
            "Guarded requests, by whether cross-talk could be seen in them; a donor elsewhere never can.",
            {"coverage": COVERAGE},
        ),
        Family("foreign_text", "Generations judged to hold the text of another tenant's request."),
        Family("malformed_events", "Upstream events that could not be read; their bytes went out."),
        Family("uninspected", "Requests passed through without a look.", {"reason": UNINSPECTED}),
        Family("cases", "Bad cases, by what became of them.", {"result": CASE_RESULTS}),
        Family("cases_dropped", "Incidents not kept because the store's queue was full."),
        Family(
            "incidents",
            "Incidents handed to the store.",
            {"level": [str(level.name).lower() for level in Level]},
        ),
        Family(
            "telemetry_streams", "Generations, by how well their verify steps were known.", {"source": HOW}
        ),
        Family("probe_datagrams", "Datagrams of scheduler probes taken in."),
        Family("probe_steps", "Verify steps and arrivals that probes told."),
        Family(
            "probe_dropped",
            "What probes sent and streams did not get: datagrams refused or missed, gaps, steps nobody took.",
            {"reason": PROBE_LOSSES},
        ),
        Family(
            "engine_evidence",
            "What the engines' own checks said of corrupted state.",
            {"kind": sorted(CORRUPTION), "worker": ()},
        ),
        Family(
            "draft_faults",
            "Times that a worker turned out to refuse everybody's drafts although the texts were clean.",
            {"worker": ()},
        ),
        Family("replays", "Cases replayed, by what it showed.", {"verdict": REPLAY_VERDICTS}),
        *_cache(),
        Family("store_errors", "Failed attempts to write to the store; each is tried again."),
        Family("samples_dropped", "Histogram observations lost between two flushes."),
        Family("unknown_counts", "Counts under a name this catalogue lacks: a defect of ours."),
    )


def _cache() -> tuple[Family, ...]:
    """Sessions and the prefix cache."""
    return (
        Family("cache_turns", "Turns of sessions, by what could be said of them.", {"result": CACHE_TURNS}),
        Family(
            "cache_findings",
            "Turns that missed what they should have found cached, or whose prompt's own bytes had drifted.",
            {"kind": [*CacheKind]},
        ),
    )


def gauges() -> tuple[Family, ...]:
    """Exposed as specguard_KEY."""
    return (
        Family("held_bytes", "Bytes held back by all streams together."),
        Family("open_streams", "Client requests in flight."),
        Family("retry_budget_ratio", "Share of this minute's retry budget that is unspent."),
        Family(
            "failopen_active",
            "1 while a part of the guard is off and streams pass unjudged.",
            {"reason": FAILOPEN_REASONS},
        ),
        Family("store_queue_length", "Incidents waiting for the store's writer."),
        Family("router_up", "1 while the router accepts connections."),
        Family("build_info", "Always 1; the build in its labels.", {"version": (), "python": ()}),
        Family(
            "config_hash_info", "Always 1; what is configured in its labels.", {"settings": (), "rules": ()}
        ),
        Family("ruleset_info", "Always 1; the rule set that judges.", {"ruleset": (), "digest": ()}),
        Family("policy_info", "Always 1; a route's policy.", {"route": (), "policy": ()}),
        Family("workers", "Workers known, by who drafts.", {"drafter": [*Drafter]}),
        Family(
            "telemetry_coverage_ratio",
            "Share of recent generations whose verify steps were known so well.",
            {"source": HOW},
        ),
        Family(
            "acceptance_source_info",
            "1 for what last told the acceptance of a worker's streams.",
            {"worker": (), "source": HOW},
        ),
        Family("probe_up", "1 while the probe of a worker is heard; it is silent at rest.", {"worker": ()}),
        Family("probe_aside", "1 once the probe of a worker has stood aside for good.", {"worker": ()}),
        *_fleet(),
    )


def _fleet() -> tuple[Family, ...]:
    """The fleet's judgement."""
    return (
        Family(
            "worker_suspect",
            "1 while there is evidence against a worker; its absence is no certificate of health.",
            {"worker": (), "reason": [*Reason]},
            growth=WORKER_SERIES,
        ),
        Family(
            "worker_accept_length",
            "Mean accept length of a worker, bonus token included, by who tells it.",
            {"worker": (), "source": SOURCES},
            growth=WORKER_SERIES,
        ),
        Family(
            "worker_accept_baseline",
            "The accept length that a worker is held against, frozen when it was learned.",
            {"worker": (), "source": SOURCES},
            growth=WORKER_SERIES,
        ),
        Family(
            "worker_fall_evidence",
            "Evidence that a worker's acceptance fell below its baseline: log10 of an e-value.",
            {"worker": (), "source": SOURCES},
            growth=WORKER_SERIES,
        ),
        Family("fallen_models", "Models whose workers' acceptance fell together."),
        Family(
            "suspect_groups",
            "Groups with more corrupted generations than their peers in the last hour.",
            {"dimension": DIMENSIONS},
        ),
    )


def histograms() -> tuple[Family, ...]:
    """Exposed as specguard_KEY; a sample's key may be `KEY:LABEL VALUE`."""
    phases = {"phase": ("first_byte", "hold")}
    return (
        Family("added_latency_seconds", "What SpecGuard adds to a request.", phases, LATENCY_BUCKETS_S),
        Family(
            "client_silence_seconds",
            "The longest that a stream's client was without a byte once it had begun, to 250 ms.",
            {},
            SILENCE_BUCKETS_S,
        ),
        Family("stream_duration_seconds", "From a client's request to its end.", {}, DURATION_BUCKETS_S),
        Family(
            "spec_accept_length",
            "Accept length of a generation, bonus token included.",
            {"worker": ()},
            ACCEPT_LENGTH_BUCKETS,
            growth=WORKER_HISTOGRAMS,
        ),
        Family(
            "acceptance_error",
            "Our accept length less the one that the engine told at the end.",
            {"source": ("exact", "upper")},
            ACCEPT_ERROR_BUCKETS,
        ),
        Family("loop_lag_seconds", "How late the data loop's ticker ran.", {}, LAG_BUCKETS_S),
    )
