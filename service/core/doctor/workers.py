"""What is risky in one worker's settings. Each check is a small function of what the worker said."""

from collections.abc import Callable, Collection, Iterator
from typing import Final
from urllib.parse import urlsplit

import msgspec

from service.core.doctor.facts import UNTOLD, Engine, ServerInfo, WorkerSeen
from service.core.doctor.finding import Finding, Severity
from service.core.doctor.versions import missing, parsed

ALIVE_ACCEPTANCE: Final = 0.35
"""Acceptance a draft that healthy requests may fall to: the acceptance detector's upper anchor."""
LOG_INTERVAL: Final = 10
"""Decode iterations: about half a second of work, well under the five seconds of a scrape."""
LOG_INTERVAL_DEFAULT: Final = 40
SKEW_S: Final = 1.0
"""The probe's epochs and the order of two logs bear a second."""
SKEW_GRAVE_S: Final = 30.0
DEFERRED: Final = "SGLANG_DISAGGREGATION_DEFERRED_DECODE_KV_RELEASE"
_OFF: Final = frozenset({"0", "false", "no", "off"})
_LOOPBACK: Final = frozenset({"127.0.0.1", "localhost", "::1"})


class PublicRule(msgspec.Struct, frozen=True):
    """The published thresholds that dashboards carry, from the rule set that holds them."""

    length_min: float
    rate_max: float


class Asked(msgspec.Struct, frozen=True):
    """What a check may ask beside the worker itself."""

    rule: PublicRule
    probe_versions: Collection[str]
    pd: bool = False


Check = Callable[[WorkerSeen, Asked], Iterator[Finding]]
InfoCheck = Callable[[WorkerSeen, ServerInfo, Asked], Iterator[Finding]]


def worker_findings(worker: WorkerSeen, asked: Asked) -> Iterator[Finding]:
    """Everything about one worker; an unreachable one has one finding."""
    if worker.trouble:
        yield Finding(
            Severity.ERROR,
            "unreachable",
            worker.url,
            f"worker cannot be asked: {worker.trouble}",
            "it is down or out of this machine's reach; nothing of it is known",
            "start it, or run the doctor where the worker can be reached",
        )
        return
    for check in _CHECKS:
        yield from check(worker, asked)
    if worker.info is not None:
        for of_info in _INFO_CHECKS:
            yield from of_info(worker, worker.info, asked)


# --- what every engine can be asked ---


def _readable(worker: WorkerSeen, _: Asked) -> Iterator[Finding]:
    if worker.unreadable:
        yield Finding(
            Severity.WARNING,
            "unreadable",
            worker.url,
            f"answer cannot be read: {worker.unreadable}",
            "what is not understood is not judged: the other findings of this worker are incomplete",
            "report the engine's version with this line",
        )
    elif worker.engine is Engine.UNKNOWN:
        yield Finding(
            Severity.WARNING,
            "unknown_engine",
            worker.url,
            "neither SGLang nor vLLM, by its /server_info, /version and /metrics",
            "its answers are judged by their text alone",
            "check the URL; only SGLang and vLLM have telemetry that is understood",
        )


def _metrics(worker: WorkerSeen, _: Asked) -> Iterator[Finding]:
    if worker.metrics is None:
        yield Finding(
            Severity.WARNING,
            "metrics_off",
            worker.url,
            "/metrics does not answer",
            "a collapse of its acceptance, failed transfers and late releases show nowhere else",
            "start the worker with --enable-metrics",
        )


def _skew(worker: WorkerSeen, _: Asked) -> Iterator[Finding]:
    beyond = abs(worker.skew_s) - worker.skew_error_s
    if not beyond > SKEW_S:  # NaN: not told
        return
    yield Finding(
        Severity.ERROR if beyond > SKEW_GRAVE_S else Severity.WARNING,
        "clock_skew",
        worker.url,
        f"its clock is {worker.skew_s:+.0f} s off ours",
        "the order of its log lines, incidents and probe epochs against ours cannot be told",
        "run chrony or ntpd on both machines",
    )


def _vllm(worker: WorkerSeen, _: Asked) -> Iterator[Finding]:
    if worker.engine is Engine.VLLM:
        yield Finding(
            Severity.INFO,
            "vllm",
            worker.url,
            f"vLLM {worker.version}".rstrip(),
            "its chunks carry no verify steps: growth of usage is an upper bound, and the depth is not told",
            "name the worker under `workers` in the settings, with drafter and draft_tokens",
        )


# --- what SGLang's /server_info tells ---


def _speculation(worker: WorkerSeen, info: ServerInfo, asked: Asked) -> Iterator[Finding]:
    if info.steps == UNTOLD:
        if info.role != "prefill":
            yield Finding(
                Severity.INFO,
                "speculation_off",
                worker.url,
                "no speculative decoding",
                "there are no verify steps to learn from: answers are judged by their text alone",
                "none needed",
            )
        return
    yield from _rate_rule(worker, info, asked.rule)
    yield from _length_rule(worker, info, asked.rule)
    if info.speculative_adaptive:
        yield Finding(
            Severity.WARNING,
            "adaptive_width",
            worker.url,
            "the width of a verify step changes as it runs (speculative_adaptive)",
            "accept rates over the configured width are understated, and the depth of a step is a bound only",
            "use the probe, which tells each step as it ran; take rates for approximate",
        )


def _rate_rule(worker: WorkerSeen, info: ServerInfo, rule: PublicRule) -> Iterator[Finding]:
    width = (info.speculative_num_draft_tokens or 0) - 1
    if width <= 0 or info.steps / width > rule.rate_max:
        return
    yield Finding(
        Severity.WARNING,
        "rate_rule_unreachable",
        worker.url,
        f"a tree of {width} drafts, {info.steps} deep: full acceptance is a rate of {info.steps / width:.2f}",
        f"a rule `accept rate > {rule.rate_max}` can never fire here, however full the acceptance",
        f"divide accepted drafts by {info.steps} a step instead of {width}; SpecGuard does",
    )


def _length_rule(worker: WorkerSeen, info: ServerInfo, rule: PublicRule) -> Iterator[Finding]:
    lively = sum(ALIVE_ACCEPTANCE**depth for depth in range(info.steps + 1))
    if lively >= rule.length_min:
        return
    yield Finding(
        Severity.WARNING,
        "length_rule_blunt",
        worker.url,
        f"{info.steps} draft token a step: accept length is {1 + info.steps} at most",
        f"a rule `accept length < {rule.length_min}` fires on healthy requests whose acceptance is"
        f" {ALIVE_ACCEPTANCE:.0%} a draft",
        "judge against the worker's own baseline: specguard calibrate",
    )


def _cadence(worker: WorkerSeen, info: ServerInfo, _: Asked) -> Iterator[Finding]:
    if info.role != "prefill" and info.steps != UNTOLD and info.decode_log_interval > LOG_INTERVAL:
        default = info.decode_log_interval <= LOG_INTERVAL_DEFAULT
        yield Finding(
            Severity.INFO if default else Severity.WARNING,
            "decode_log_interval",
            worker.url,
            f"acceptance gauges move every {info.decode_log_interval} decode iterations",
            "between two moves a scrape reads the old value, and each is a mean over the whole batch",
            f"start the worker with --decode-log-interval {LOG_INTERVAL}",
        )
    if info.stream_interval > 1:
        yield Finding(
            Severity.WARNING,
            "stream_interval",
            worker.url,
            f"a chunk holds up to {info.stream_interval} verify steps",
            "growth of a chunk only bounds the acceptance of a step, and text is judged that much later",
            "start the worker with --stream-interval 1, or use the probe",
        )


def _release(worker: WorkerSeen, info: ServerInfo, _: Asked) -> Iterator[Finding]:
    if info.role != "decode":
        return
    environment = info.environment
    if environment is None:
        yield Finding(
            Severity.INFO,
            "environment_untold",
            worker.url,
            "its environment is not shown: deferred release and PD timeouts are taken to be the defaults",
            "a release that is not deferred, or a short timeout, cannot be seen from outside",
            "set SGLANG_EXPOSE_OWN_ENV_VARS=1 on the worker, or check its environment by hand",
        )
    elif environment.get(DEFERRED, "1").strip().lower() in _OFF:
        yield Finding(
            Severity.ERROR,
            "deferred_release_off",
            worker.url,
            f"{DEFERRED}={environment[DEFERRED]}",
            "an aborted request's pages are handed on while prefill may still write into them: another"
            " request's answer is built on foreign KV",
            f"unset {DEFERRED}",
        )


def _ground_truth(worker: WorkerSeen, info: ServerInfo, _: Asked) -> Iterator[Finding]:
    if info.role == "decode" and not info.disaggregation_enable_kv_checksum:
        yield Finding(
            Severity.INFO,
            "kv_checksum_off",
            worker.url,
            "KV is taken over from prefill without a checksum",
            "a transfer that brought wrong bytes shows only in what the model then says, if at all",
            "start prefill and decode with --disaggregation-enable-kv-checksum (CUDA)",
        )
    if not info.enable_cache_report:
        yield Finding(
            Severity.INFO,
            "cache_report_off",
            worker.url,
            "chat responses do not tell cached tokens",
            "a prefix cache that no longer hits, or a client whose prompts drift, cannot be named",
            "start the worker with --enable-cache-report",
        )


def _keys(worker: WorkerSeen, info: ServerInfo, _: Asked) -> Iterator[Finding]:
    if info.admin_api_key or (info.host or urlsplit(worker.url).hostname) in _LOOPBACK:
        return
    what = "api_key alone guards" if info.api_key else "nothing guards"
    yield Finding(
        Severity.WARNING,
        "admin_key_missing",
        worker.url,
        f"{what} /abort_request, /flush_cache and /pause_generation",
        "/abort_request aborts every request whose id begins with the given text; anybody on the network can",
        "start the worker with --admin-api-key, or bind it to an address that only the router reaches",
    )


def _version(worker: WorkerSeen, info: ServerInfo, asked: Asked) -> Iterator[Finding]:
    version = parsed(info.version)
    if version is None:
        yield Finding(
            Severity.WARNING,
            "version_unknown",
            worker.url,
            "its version cannot be read",
            "whether known corruption fixes are in it cannot be told",
            "look up #22811, #24522 and #8352 in the build's history",
        )
        return
    for fix in missing(version, pd=asked.pd, hicache=info.enable_hierarchical_cache):
        yield Finding(
            Severity.ERROR,
            f"fix_{fix.number}_missing",
            worker.url,
            f"SGLang {info.version} may lack #{fix.number}, which {'.'.join(map(str, fix.since))} holds",
            f"without it {fix.effect}",
            "upgrade the worker",
        )
    if info.version not in asked.probe_versions:
        yield Finding(
            Severity.INFO,
            "probe_untested",
            worker.url,
            f"the probe was not run against SGLang {info.version} and steps aside there",
            "acceptance is then an upper bound from the growth of chunks",
            f"use one of {', '.join(sorted(asked.probe_versions))}, or try SPECGUARD_PROBE_UNTESTED=1",
        )


def _transport(worker: WorkerSeen, info: ServerInfo, _: Asked) -> Iterator[Finding]:
    if info.grpc_mode or info.smg_grpc_mode:
        yield Finding(
            Severity.ERROR,
            "grpc",
            worker.url,
            "the worker speaks gRPC",
            "no chunk of it can be read: its streams pass unjudged",
            "start the worker in HTTP mode",
        )
    if info.frontend != "python":
        yield Finding(
            Severity.WARNING,
            "frontend",
            worker.url,
            f"its frontend is {info.frontend!r}",
            "other frontends than Python's carry no meta_info: /generate chunks tell no verify steps",
            "unset SGLANG_RUST_SERVER",
        )


_CHECKS: Final[tuple[Check, ...]] = (_readable, _metrics, _skew, _vllm)
_INFO_CHECKS: Final[tuple[InfoCheck, ...]] = (
    _speculation,
    _cadence,
    _release,
    _ground_truth,
    _keys,
    _version,
    _transport,
)
