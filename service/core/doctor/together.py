"""What is risky between workers: settings that differ where they must agree, and timeouts against prefills.

A decode worker waits `SGLANG_DISAGGREGATION_WAITING_TIMEOUT` seconds for its KV (300 unless told). A prompt
that fills the context takes about `context length / measured prefill tokens a second`, alone and unqueued;
where the engine's own histogram shows a longer one, that one counts.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from typing import Final

from service.core.doctor.facts import Facts, ServerInfo, WorkerSeen
from service.core.doctor.finding import Finding, Severity

WAITING: Final = "SGLANG_DISAGGREGATION_WAITING_TIMEOUT"
WAITING_DEFAULT_S: Final = 300.0
TIMEOUT_HEADROOM: Final = 2.0
"""A prefill that takes half the timeout alone exceeds it behind one other of its kind."""


def together_findings(facts: Facts) -> Iterator[Finding]:
    answering = facts.of("decode", "regular")
    if not facts.workers and not facts.router.trouble:
        yield Finding(
            Severity.ERROR,
            "no_workers",
            facts.router.url or "fleet",
            "no worker is known",
            "there is nothing to judge",
            "name them: --worker URL",
        )
    if facts.pd and not facts.router.url:
        yield Finding(
            Severity.INFO,
            "router_unnamed",
            "fleet",
            "prefill and decode workers, and no router in front of them is named",
            "which of them serve one request together, and where a retry lands, is then not judged",
            "name it: --router URL",
        )
    yield from _agree(facts.workers, "version", "version_differs", _version)
    yield from _agree(facts.workers, "weights", "weights_differ", _weights)
    yield from _agree([*facts.of("prefill"), *answering], "speculation", "speculation_differs", _speculation)
    yield from _waiting(facts)


# --- agreement ---


def _agree(
    workers: Sequence[WorkerSeen], what: str, code: str, key: Callable[[ServerInfo], str]
) -> Iterator[Finding]:
    """One finding for each model whose workers say different things."""
    by_model: dict[str, dict[str, list[str]]] = {}
    for worker in workers:
        if worker.info is not None:
            said = by_model.setdefault(worker.info.served_model_name or "", {})
            said.setdefault(key(worker.info), []).append(worker.url)
    for model, said in by_model.items():
        if len(said) > 1:
            told = "; ".join(
                f"{value or 'none'} on {', '.join(urls)}" for value, urls in sorted(said.items())
            )
            severity, why, fix = _DIFFERENT[code]
            yield Finding(severity, code, model or "fleet", f"{what} of one model differs: {told}", why, fix)


_DIFFERENT: Final = {
    "version_differs": (
        Severity.WARNING,
        "workers of different versions are no control for each other, and their KV layouts may differ",
        "run one version",
    ),
    "weights_differ": (
        Severity.WARNING,
        "an answer continued or retried on other weights is another model's answer; acceptance differs, too",
        "finish the weight update on every worker",
    ),
    "speculation_differs": (
        Severity.ERROR,
        "decode gets the draft's KV from prefill: with other flags there it gets none, or of another shape",
        "start prefill and decode workers with the same --speculative-* flags",
    ),
}


def _version(info: ServerInfo) -> str:
    return info.version


def _weights(info: ServerInfo) -> str:
    return info.weight_version or ""


def _speculation(info: ServerInfo) -> str:
    if not info.speculative_algorithm:
        return "none"
    return f"{info.speculative_algorithm} {info.steps}/{info.speculative_num_draft_tokens}"


# --- timeouts ---


def _waiting(facts: Facts) -> Iterator[Finding]:
    longest_s, measured = _longest_prefill(facts)
    for worker in facts.of("decode"):
        if worker.info is None:
            continue
        timeout_s, told = _waiting_timeout(worker.info)
        if math.isnan(longest_s):
            yield Finding(
                Severity.INFO,
                "prefill_time_untold",
                worker.url,
                f"whether {timeout_s:.0f} s of waiting for KV suffice is not known",
                "no prefill worker tells how long its prefills take",
                "run the doctor again after some traffic, with --worker for each prefill worker",
            )
        elif longest_s * TIMEOUT_HEADROOM > timeout_s:
            yield _too_short(worker, timeout_s, longest_s, told=told, measured=measured)


def _too_short(
    worker: WorkerSeen, timeout_s: float, longest_s: float, *, told: bool, measured: bool
) -> Finding:
    seen = "measured" if measured else "a full context at the measured speed"
    source = "" if told else ", the engine's default"
    return Finding(
        Severity.ERROR if measured and longest_s > timeout_s else Severity.WARNING,
        "waiting_timeout_short",
        worker.url,
        f"it waits {timeout_s:.0f} s for KV{source}; a prefill takes up to {longest_s:.0f} s ({seen})",
        "a long prompt that queues behind another is failed and retried, and each failure is an abort in the"
        " middle of a transfer",
        f"set {WAITING} to at least {math.ceil(longest_s * TIMEOUT_HEADROOM)} on decode workers",
    )


def _waiting_timeout(info: ServerInfo) -> tuple[float, bool]:
    told = (info.environment or {}).get(WAITING, "")
    try:
        seconds = float(told)
    except ValueError:
        return WAITING_DEFAULT_S, False
    return (seconds, True) if math.isfinite(seconds) else (WAITING_DEFAULT_S, False)


def _longest_prefill(facts: Facts) -> tuple[float, bool]:
    """Seconds, and whether they were measured rather than reckoned; NaN where nothing is known."""
    longest_s, measured = math.nan, False
    for worker in facts.of("prefill"):
        seen, info = worker.metrics, worker.info
        if seen is None:
            continue
        full_s = (info.context_length or math.nan) / seen.prefill_tokens_per_s if info else math.nan
        for seconds, is_measured in ((full_s, False), (seen.longest_prefill_s, True)):
            if math.isfinite(seconds) and not seconds <= longest_s:
                longest_s, measured = seconds, is_measured
    return longest_s, measured
