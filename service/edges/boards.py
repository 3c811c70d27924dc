"""The Grafana dashboards, as data.

    python -m service.edges.boards docker/grafana/dashboards

writes the files; a test keeps them fresh. What an alert watches is drawn with the alert's own limit.
"""

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from service.edges.grafana_board import (
    OWN,
    Board,
    Panel,
    Query,
    engine,
    engine_rate,
    file_of,
    quantile,
    rate,
    text_of,
)

OVERVIEW: Final = Board(
    "specguard-overview",
    "SpecGuard / Overview and objective",
    (
        Panel(
            "Corrupted text that reached clients",
            "Share of streams, as far as it was noticed: delivered under a verdict, or late. Budget 0.05 %.",
            "percentunit",
            (
                Query("job:specguard_corrupt_delivered_per_stream:ratio1h", "last hour"),
                Query("job:specguard_corrupt_delivered_per_stream:ratio6h", "last six hours"),
                Query("job:specguard_corrupt_delivered_per_stream:ratio3d", "last three days"),
            ),
            0.0005,
        ),
        Panel(
            "What became of streams",
            "By outcome: recovered is what users were spared, marked and failed are what they were not.",
            "reqps",
            (Query(rate("streams", "outcome"), "{{outcome}}"),),
        ),
        Panel(
            "Verdicts by kind",
            "Generations judged corrupted, taken back or not.",
            "reqps",
            (Query(rate("verdicts", "kind"), "{{kind}}"),),
        ),
        Panel(
            "Bad tokens that clients saw",
            "Tokens delivered from the onset of corruption on: what the hold-back could not keep.",
            "short",
            (Query(rate("delivered_bad_tokens", "job"), "tokens a second"),),
        ),
        Panel(
            "Guards that are off",
            "1 while a part of the guard is off and streams pass unjudged.",
            "bool_yes_no",
            (
                Query(
                    f"max by (instance, reason) (specguard_failopen_active{OWN})", "{{instance}} {{reason}}"
                ),
            ),
            1,
        ),
        Panel(
            "Budget for second generations",
            "Share of this minute's retry budget that is unspent; at 0 bad generations are marked, or fail.",
            "percentunit",
            (Query(f"min by (instance) (specguard_retry_budget_ratio{OWN})", "{{instance}}"),),
        ),
    ),
)

GATEWAY: Final = Board(
    "specguard-gateway",
    "SpecGuard / Gateway: rate, errors, duration",
    (
        Panel(
            "Requests that ended",
            "By route: all that went through the sidecar.",
            "reqps",
            (Query(rate("streams", "route"), "{{route}}"),),
        ),
        Panel(
            "Requests that router or engine failed",
            "By the guilty side and the reason.",
            "reqps",
            (Query(rate("upstream_errors", "guilty, reason"), "{{guilty}} {{reason}}"),),
        ),
        Panel(
            "Added latency to first byte",
            "What SpecGuard itself adds before the first byte, hold-back included on guarded routes.",
            "s",
            (
                Query(quantile(0.5, "added_latency_seconds", "phase"), "p50 {{phase}}"),
                Query(quantile(0.99, "added_latency_seconds", "phase"), "p99 {{phase}}"),
            ),
        ),
        Panel(
            "Silence towards clients",
            "The longest that a stream's client was without a byte; many clients give up after 30 s.",
            "s",
            (
                Query(quantile(0.5, "client_silence_seconds"), "p50"),
                Query(quantile(0.99, "client_silence_seconds"), "p99"),
            ),
        ),
        Panel(
            "Stream duration",
            "From a client's request to its end.",
            "s",
            (
                Query(quantile(0.5, "stream_duration_seconds"), "p50"),
                Query(quantile(0.95, "stream_duration_seconds"), "p95"),
            ),
        ),
        Panel(
            "Streams in flight",
            "Client requests that are open now.",
            "short",
            (Query(f"sum by (instance) (specguard_open_streams{OWN})", "{{instance}}"),),
        ),
        Panel(
            "Bytes held back",
            "By all streams together; 256 MiB by default, then protect releases and strict refuses.",
            "bytes",
            (Query(f"max by (instance) (specguard_held_bytes{OWN})", "{{instance}}"),),
            0.8 * 256 * 1024 * 1024,
        ),
        Panel(
            "Lag of the data loop",
            "How late the ticker of the data loop ran; more than 5 ms at p99 delays every stream.",
            "s",
            (Query(quantile(0.99, "loop_lag_seconds", "instance"), "p99 {{instance}}"),),
            0.005,
        ),
        Panel(
            "Router",
            "1 while the router accepts connections.",
            "bool_yes_no",
            (Query(f"min by (instance) (specguard_router_up{OWN})", "{{instance}}"),),
        ),
    ),
)

INTEGRITY: Final = Board(
    "specguard-integrity",
    "SpecGuard / Integrity",
    (
        Panel(
            "Verdicts by detector",
            "Which detector judged; a detector that falls silent after a change of rules shows here.",
            "reqps",
            (Query(rate("verdicts", "detector"), "{{detector}}"),),
        ),
        Panel(
            "What protect would have taken back",
            "Generations under a verdict that observe let go on, by kind; 0 where nothing is observed.",
            "reqps",
            (Query(rate("would_abort", "reason"), "{{reason}}"),),
        ),
        Panel(
            "Suspicions that stayed suspicions",
            "Generations that ended under suspicion without a verdict.",
            "reqps",
            (Query(rate("suspects", "detector"), "{{detector}}"),),
        ),
        Panel(
            "Generations asked for again",
            "By reason and by what became of the wish.",
            "reqps",
            (Query(rate("retries", "reason, result"), "{{reason}}: {{result}}"),),
        ),
        Panel(
            "Cross-talk",
            "Generations with another request's text, and with another tenant's: one of these pages.",
            "short",
            (
                Query(rate("verdicts", "job", ', kind="crosstalk"'), "another request's"),
                Query(rate("foreign_text", "job"), "another tenant's"),
            ),
        ),
        Panel(
            "Requests where cross-talk could be seen",
            "Judged, unread or sealed; a donor on another replica is never seen.",
            "reqps",
            (Query(rate("provenance", "coverage"), "{{coverage}}"),),
        ),
        Panel(
            "Requests passed through without a look",
            "By reason: another path, an encoding, too large, too many streams.",
            "reqps",
            (Query(rate("uninspected", "reason"), "{{reason}}"),),
        ),
        Panel(
            "Bad cases",
            "By what became of them: saved, dropped, failed, skipped.",
            "reqps",
            (Query(rate("cases", "result"), "{{result}}"),),
        ),
        Panel(
            "Cases replayed",
            "By the verdict that came back from the test backend.",
            "short",
            (Query(f"sum by (verdict) (specguard_replays_total{OWN})", "{{verdict}}"),),
        ),
    ),
)

ACCEPTANCE: Final = Board(
    "specguard-acceptance",
    "SpecGuard / Acceptance by worker",
    (
        Panel(
            "Accept length by worker",
            "Mean tokens a verify step, bonus token included; 1.0 is no draft accepted.",
            "short",
            (
                Query(
                    f"max by (worker, source) (specguard_worker_accept_length{OWN})",
                    "{{worker}} ({{source}})",
                ),
            ),
        ),
        Panel(
            "The baseline each worker is held against",
            "Frozen when it was learned; relearn it after a deploy that changes acceptance.",
            "short",
            (
                Query(
                    f"max by (worker, source) (specguard_worker_accept_baseline{OWN})",
                    "{{worker}} ({{source}})",
                ),
            ),
        ),
        Panel(
            "Evidence that acceptance fell",
            "log10 of an e-value: 5 is one false alarm in 100,000 workers for all time.",
            "short",
            (Query(f"max by (worker) (specguard_worker_fall_evidence{OWN})", "{{worker}}"),),
            5,
        ),
        Panel(
            "How well verify steps are known",
            "Share of recent generations: exact by the probe, an upper bound by token growth, or none.",
            "percentunit",
            (Query(f"avg by (source) (specguard_telemetry_coverage_ratio{OWN})", "{{source}}"),),
        ),
        Panel(
            "Accept length of generations",
            "Over all generations that ended; the median moves with the traffic, the low end with faults.",
            "short",
            (
                Query(quantile(0.05, "spec_accept_length"), "p5"),
                Query(quantile(0.5, "spec_accept_length"), "p50"),
                Query(quantile(0.95, "spec_accept_length"), "p95"),
            ),
        ),
        Panel(
            "The engines' own gauge",
            "spec_accept_length by worker and dp_rank: a mean over the last decode iterations, old at rest.",
            "short",
            (Query(engine("spec_accept_length", "instance, dp_rank"), "{{instance}} {{dp_rank}}"),),
        ),
    ),
)

PD: Final = Board(
    "specguard-pd",
    "SpecGuard / Prefill, decode and cache tiers",
    (
        Panel(
            "Waiting for prefill",
            "Requests in the queues of prefill workers; growth runs into decode's waiting timeout.",
            "short",
            (
                Query(engine("num_prefill_bootstrap_queue_reqs"), "bootstrap {{instance}}"),
                Query(engine("num_prefill_inflight_queue_reqs"), "in flight {{instance}}"),
            ),
            20,
        ),
        Panel(
            "Waiting for KV",
            "Requests in decode workers' queues for slots and transfers.",
            "short",
            (
                Query(engine("num_decode_prealloc_queue_reqs"), "slots {{instance}}"),
                Query(engine("num_decode_transfer_queue_reqs"), "transfers {{instance}}"),
            ),
        ),
        Panel(
            "Failed transfers",
            "Each fails a request and gives slots up on both sides.",
            "short",
            (Query(engine_rate("num_transfer_failed_reqs_total"), "{{instance}}"),),
        ),
        Panel(
            "What engines say of corrupted state",
            "Checksum mismatches, canaries, NaN, releases without an acknowledged drain.",
            "short",
            (Query(rate("engine_evidence", "kind, worker"), "{{kind}} {{worker}}"),),
        ),
        Panel(
            "Cache hit rate",
            "Share of prompt tokens that the prefix cache had.",
            "percentunit",
            (Query(engine("cache_hit_rate"), "{{instance}}"),),
        ),
        Panel(
            "KV in use",
            "Share of the KV pool; above 95 % requests are retracted.",
            "percentunit",
            (Query(engine("token_usage"), "{{instance}}"),),
            0.95,
        ),
    ),
)

WORKERS: Final = Board(
    "specguard-workers",
    "SpecGuard / Workers",
    (
        Panel(
            "Workers under suspicion",
            "1 while there is evidence against a worker; 0 is no certificate of health.",
            "bool_yes_no",
            (Query(f"max by (worker, reason) (specguard_worker_suspect{OWN})", "{{worker}} {{reason}}"),),
            1,
        ),
        Panel(
            "Groups with more corruption than their peers",
            "Workers, pairs, cache tiers, models, routes in the last hour, by exact tests.",
            "short",
            (Query(f"max by (dimension) (specguard_suspect_groups{OWN})", "{{dimension}}"),),
            1,
        ),
        Panel(
            "Running requests",
            "By worker; requests that run while no token comes page.",
            "short",
            (Query(engine("num_running_reqs"), "{{instance}}"),),
        ),
        Panel(
            "Tokens generated",
            "By worker.",
            "short",
            (Query(engine_rate("generation_tokens_total"), "{{instance}}"),),
        ),
        Panel(
            "Probes",
            "1 while the probe of a worker is heard; it is silent at rest.",
            "bool_yes_no",
            (Query(f"max by (worker) (specguard_probe_up{OWN})", "{{worker}}"),),
        ),
        Panel(
            "Lost telemetry",
            "What probes sent and streams did not get, by reason.",
            "short",
            (Query(rate("probe_dropped", "reason"), "{{reason}}"),),
        ),
    ),
)

BOARDS: Final = (OVERVIEW, GATEWAY, INTEGRITY, ACCEPTANCE, PD, WORKERS)


def main(arguments: Sequence[str]) -> int:
    """Write the files."""
    folder = Path(arguments[0])
    folder.mkdir(parents=True, exist_ok=True)
    for board in BOARDS:
        (folder / file_of(board)).write_bytes(text_of(board))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
