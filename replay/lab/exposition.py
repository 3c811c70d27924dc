"""`/metrics` under SGLang's names: the part of the engine's catalogue that the lab can fill with the truth.

Names, help texts, label sets and buckets are those of SGLang 0.5.23. Two label sets exist: the scheduler's
(with ranks, all 0 here) and the tokenizer's. As in the engine, the speculative gauges are means over the
whole batch and `DECODE_LOG_INTERVAL` iterations and keep their last value when decoding stops: they tell
of a worker, never of a request.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from time import monotonic
from typing import Literal

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

from replay.lab.intake import CONTEXT_TOKENS, MODEL_NAME
from replay.lab.loglines import Interval
from replay.lab.model import PAGE_TOKENS
from replay.lab.scheduler import Generation, Phase
from replay.lab.speculation import DRAFT_TOKENS, StepResult

DECODE_LOG_INTERVAL = 40
"""Decode iterations between two updates of the batch gauges: the engine's own --decode-log-interval."""

NUM_DRAFT_TOKENS = DRAFT_TOKENS + 1
"""SGLang counts the bonus token here: `speculative_num_steps` drafts and one."""

TYPE = "text/plain; version=1.0.0; charset=utf-8"

_TTFT_S = (0.1, 0.2, 0.4, 0.6, 0.8, 1, 2, 4, 6, 8, 10, 20, 40, 60, 80, 100, 200, 400)
_E2E_S = (*_TTFT_S, 600, 1200, 1800, 2400)
_ITL_S = (
    *(0.002, 0.004, 0.006, 0.008, 0.01, 0.015, 0.02, 0.025, 0.03, 0.035, 0.04, 0.06, 0.08),
    *(0.1, 0.2, 0.4, 0.6, 0.8, 1, 2, 4, 6, 8),
)
_MS = (1, 2, 5, 10, 25, 50, 100, 250, 500, 1000, 2500)
_HELD_S = (0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1, 5, 10, 30, 60)
_SPEED_GB_S = (0.1, 0.5, 1, 5, 10, 25, 50, 100, 200, 400)
_SIZE_MB = (1, 5, 10, 50, 100, 500, 1000, 5000, 10000)
_STAGE_S = tuple(0.001 * 1.62**power for power in range(30))

_SCHEDULER = ("engine_type", "model_name", "moe_ep_rank", "pp_rank", "tp_rank")
_TOKENIZER = ("engine_type", "model_name")

_GAUGES = {
    "num_running_reqs": "The number of running requests.",
    "num_queue_reqs": "The number of requests in the waiting queue.",
    "gen_throughput": "The generation throughput (token/s).",
    "token_usage": "The token usage.",
    "kv_available_tokens": "Number of free token slots in the KV cache pool.",
    "kv_used_tokens": "Number of actively used token slots in the KV cache pool.",
    "max_total_num_tokens": "Maximum total number of tokens in the KV cache pool.",
    "page_size": "KV cache page size in tokens.",
    "num_pages": "Number of KV cache pages.",
    "context_len": "Maximum context length.",
    "num_prefill_bootstrap_queue_reqs": "The number of requests in the prefill bootstrap queue.",
    "num_prefill_inflight_queue_reqs": "The number of requests in the prefill inflight queue.",
    "num_decode_prealloc_queue_reqs": "The number of requests in the decode prealloc queue.",
    "num_decode_transfer_queue_reqs": "The number of requests in the decode transfer queue.",
    "num_decode_deferred_kv_release_reqs": "The number of failed decode requests whose KV allocations are"
    " held pending transfer drain acknowledgement or timeout.",
    "spec_accept_length": "Mean acceptance length of speculative decoding (accepted drafts + bonus token"
    " per forward).",
    "spec_accept_rate": "Speculative acceptance rate (`accepted drafts / proposed drafts` in batch).",
    "spec_num_steps": "Currently active speculative_num_steps.",
    "spec_num_draft_tokens": "Currently active speculative_num_draft_tokens"
    " (decouples from steps under topk>1).",
}
_REALTIME_TEXT = (
    "Total number of tokens processed (updated on each log interval)."
    " mode: prefill_compute, prefill_cache, decode."
)
_SCHEDULER_COUNTERS: dict[str, tuple[str, tuple[str, ...]]] = {
    "num_transfer_failed_reqs_total": ("The number of transfer failed requests.", ()),
    "num_bootstrap_failed_reqs_total": ("The number of bootstrap failed requests.", ()),
    "decode_deferred_kv_release_total": (
        "Total deferred decode KV release resolution attempts.",
        ("outcome",),
    ),
    "realtime_tokens_total": (
        _REALTIME_TEXT,
        ("mode",),
    ),
}
_TOKENIZER_COUNTERS: dict[str, tuple[str, tuple[str, ...]]] = {
    "spec_verify_calls_total": ("Number of speculative decoding verification calls.", ()),
    "num_aborted_requests_total": ("Number of requests aborted.", ()),
    "prompt_tokens_total": ("Number of prefill tokens processed.", ("is_streaming",)),
    "generation_tokens_total": ("Number of generation tokens processed.", ("is_streaming",)),
    "num_requests_total": ("Number of requests processed.", ("is_streaming",)),
}
_TOKENIZER_HISTOGRAMS: dict[str, tuple[str, tuple[str, ...], Sequence[float]]] = {
    "time_to_first_token_seconds": (
        "Histogram of time to first token in seconds.",
        ("is_streaming",),
        _TTFT_S,
    ),
    "inter_token_latency_seconds": ("Histogram of inter-token latency in seconds.", (), _ITL_S),
    "e2e_request_latency_seconds": (
        "Histogram of End-to-end request latency in seconds",
        ("is_streaming",),
        _E2E_S,
    ),
}
_SCHEDULER_HISTOGRAMS: dict[str, tuple[str, tuple[str, ...], Sequence[float]]] = {
    "decode_deferred_kv_release_seconds": (
        "Histogram of time spent holding deferred decode KV releases.",
        (),
        _HELD_S,
    ),
    "per_stage_req_latency_seconds": ("The latency of each stage of requests.", ("stage",), _STAGE_S),
    "kv_transfer_speed_gb_s": ("Histogram of KV cache transfer speed in GB/s.", (), _SPEED_GB_S),
    "kv_transfer_latency_ms": ("Histogram of KV cache transfer latency in ms.", (), (*_MS, 5000)),
    "kv_transfer_total_mb": ("Histogram of KV cache transfer size in MB.", (), _SIZE_MB),
    "kv_transfer_bootstrap_ms": ("Histogram of KV transfer bootstrap time in ms.", (), _MS),
    "kv_transfer_alloc_ms": ("Histogram of KV transfer allocation waiting time in ms.", (), _MS),
}
Stage = Literal[
    "prefill_bootstrap",
    "prefill_forward",
    "prefill_transfer_kv_cache",
    "decode_bootstrap",
    "decode_transferred",
    "decode_waiting",
]


@dataclass(frozen=True, slots=True)
class Transfer:
    """How long the stations of one hand-over took, and its size."""

    bootstrap_s: float
    alloc_s: float
    write_s: float
    size_bytes: int


class Metrics:
    """One worker's metrics, in a registry of its own."""

    def __init__(self, engine_type: str, pages: int) -> None:
        """Register the catalogue for a `prefill` or a `decode` worker with that many KV pages."""
        self.registry = CollectorRegistry(auto_describe=False)
        self._ranks = (engine_type, MODEL_NAME, "0", "0", "0")
        self._worker = (engine_type, MODEL_NAME)
        self._pages = pages
        self._gauges = {name: self._gauge(name, text) for name, text in _GAUGES.items()}
        self._counters = {
            **{name: self._counter(name, *spec, _SCHEDULER) for name, spec in _SCHEDULER_COUNTERS.items()},
            **{name: self._counter(name, *spec, _TOKENIZER) for name, spec in _TOKENIZER_COUNTERS.items()},
        }
        self._histograms = {
            **{n: self._histogram(n, *spec, _SCHEDULER) for n, spec in _SCHEDULER_HISTOGRAMS.items()},
            **{n: self._histogram(n, *spec, _TOKENIZER) for n, spec in _TOKENIZER_HISTOGRAMS.items()},
        }
        self._set_constants()
        self._window = Window(monotonic())

    def __repr__(self) -> str:
        """Name the worker's kind."""
        return f"<Metrics {self._worker[0]}>"

    def render(self, phases: Mapping[Phase, int], free_pages: int) -> bytes:
        """Return the exposition with the gauges of this moment."""
        decode = self._worker[0] == "decode"
        running, waiting, transfer = (
            phases.get(at, 0) for at in (Phase.RUNNING, Phase.WAITING, Phase.TRANSFER)
        )
        used = self._pages - free_pages
        self._set("num_running_reqs", running)
        self._set("num_queue_reqs", waiting)
        self._set("token_usage", used / self._pages)
        self._set("kv_used_tokens", used * PAGE_TOKENS)
        self._set("kv_available_tokens", free_pages * PAGE_TOKENS)
        self._set("num_prefill_bootstrap_queue_reqs", phases.get(Phase.BOOTSTRAP, 0))
        self._set("num_prefill_inflight_queue_reqs", 0 if decode else transfer)
        self._set("num_decode_prealloc_queue_reqs", phases.get(Phase.PREALLOC, 0))
        self._set("num_decode_transfer_queue_reqs", transfer if decode else 0)
        if not running:
            self._set("gen_throughput", 0)
        return generate_latest(self.registry)

    def received(self, prompt_tokens: int, *, streaming: bool) -> None:
        """Count a request that was taken in."""
        self._counters["prompt_tokens_total"].labels(*self._worker, _flag(streaming)).inc(prompt_tokens)
        self._counters["num_requests_total"].labels(*self._worker, _flag(streaming)).inc()

    def aborted(self) -> None:
        """Count an abort that was dispatched, a lost client's too."""
        self._counters["num_aborted_requests_total"].labels(*self._worker).inc()

    def transfer_failed(self, *, before_write: bool) -> None:
        """Count a hand-over that did not come about, own aborts included."""
        name = "num_bootstrap_failed_reqs_total" if before_write else "num_transfer_failed_reqs_total"
        self._counters[name].labels(*self._ranks).inc()

    def deferred_release(self, outcome: str, seconds: float) -> None:
        """Count pages given back after an abort: `drained`, or `timeout` without prefill's word."""
        self._counters["decode_deferred_kv_release_total"].labels(*self._ranks, outcome).inc()
        self._histograms["decode_deferred_kv_release_seconds"].labels(*self._ranks).observe(seconds)

    def draining(self, requests: int) -> None:
        """Say how many lost requests' pages wait for prefill's word."""
        self._set("num_decode_deferred_kv_release_reqs", requests)

    def prefilled(self, tokens: int, cached_tokens: int = 0) -> None:
        """Count computed prompt tokens, and those that were in the cache."""
        self._counters["realtime_tokens_total"].labels(*self._ranks, "prefill_compute").inc(tokens)
        self._counters["realtime_tokens_total"].labels(*self._ranks, "prefill_cache").inc(cached_tokens)

    def stage(self, name: Stage, seconds: float) -> None:
        """Observe how long one request stayed at one station."""
        self._histograms["per_stage_req_latency_seconds"].labels(*self._ranks, name).observe(seconds)

    def transferred(self, transfer: Transfer) -> None:
        """Observe one hand-over on the prefill side."""
        self.stage("prefill_bootstrap", transfer.bootstrap_s)
        self.stage("prefill_transfer_kv_cache", transfer.write_s)
        seconds = max(transfer.write_s, 1e-9)
        for name, value in (
            ("kv_transfer_speed_gb_s", transfer.size_bytes / seconds / 1e9),
            ("kv_transfer_latency_ms", transfer.write_s * 1e3),
            ("kv_transfer_total_mb", transfer.size_bytes / (1 << 20)),
            ("kv_transfer_bootstrap_ms", transfer.bootstrap_s * 1e3),
            ("kv_transfer_alloc_ms", transfer.alloc_s * 1e3),
        ):
            self._histograms[name].labels(*self._ranks).observe(value)

    def first_token(self, seconds: float, *, streaming: bool) -> None:
        """Observe the time to the first token; the engine does so on decode workers only."""
        self._histograms["time_to_first_token_seconds"].labels(*self._worker, _flag(streaming)).observe(
            seconds
        )

    def tokens(self, count: int, interval_s: float) -> None:
        """Observe the latency of each token of one step."""
        child = self._histograms["inter_token_latency_seconds"].labels(*self._worker)
        for _ in range(count):
            child.observe(interval_s / count)

    def finished(self, generation: Generation) -> None:
        """Count what a finished request came to."""
        streaming = _flag(generation.asked.stream)
        stamps = generation.stamps
        self._counters["generation_tokens_total"].labels(*self._worker, streaming).inc(len(generation.output))
        self._counters["spec_verify_calls_total"].labels(*self._worker).inc(generation.spec.verify_steps)
        seconds = (stamps.finished or stamps.received) - stamps.received
        self._histograms["e2e_request_latency_seconds"].labels(*self._worker, streaming).observe(seconds)

    def iteration(self, steps: Sequence[StepResult], now: float) -> Interval | None:
        """Count one decode iteration over the batch; at an interval's end, refresh and return its means."""
        window = self._window
        window.iterations += 1
        window.forwards += len(steps)
        window.accepted += sum(step.accepted for step in steps)
        window.tokens += sum(len(step.new_tokens) for step in steps)
        if window.iterations < DECODE_LOG_INTERVAL:
            return None
        forwards = max(1, window.forwards)
        interval = Interval(
            accept_length=1 + window.accepted / forwards,
            accept_rate=window.accepted / (forwards * DRAFT_TOKENS),
            tokens_per_s=window.tokens / max(now - window.began, 1e-9),
        )
        if window.forwards:
            self._set("spec_accept_length", interval.accept_length)
            self._set("spec_accept_rate", interval.accept_rate)
        self._set("gen_throughput", interval.tokens_per_s)
        self._counters["realtime_tokens_total"].labels(*self._ranks, "decode").inc(window.tokens)
        self._window = Window(now)
        return interval

    def _set_constants(self) -> None:
        self._set("max_total_num_tokens", self._pages * PAGE_TOKENS)
        self._set("num_pages", self._pages)
        self._set("page_size", PAGE_TOKENS)
        self._set("context_len", CONTEXT_TOKENS)
        self._set("spec_num_steps", DRAFT_TOKENS)
        self._set("spec_num_draft_tokens", NUM_DRAFT_TOKENS)
        for name in ("gen_throughput", "spec_accept_length", "spec_accept_rate"):
            self._set(name, 0)

    def _set(self, name: str, value: float) -> None:
        self._gauges[name].labels(*self._ranks).set(value)

    def _gauge(self, name: str, text: str) -> Gauge:
        return Gauge(f"sglang:{name}", text, _SCHEDULER, registry=self.registry)

    def _counter(self, name: str, text: str, more: tuple[str, ...], labels: tuple[str, ...]) -> Counter:
        made = Counter(f"sglang:{name}", text, (*labels, *more), registry=self.registry)
        if not more:
            made.labels(*(self._ranks if labels is _SCHEDULER else self._worker))
        return made

    def _histogram(
        self, name: str, text: str, more: tuple[str, ...], buckets: Sequence[float], labels: tuple[str, ...]
    ) -> Histogram:
        return Histogram(f"sglang:{name}", text, (*labels, *more), buckets=buckets, registry=self.registry)


@dataclass(slots=True)
class Window:
    """What one log interval has summed up so far."""

    began: float
    iterations: int = 0
    forwards: int = 0
    accepted: int = 0
    tokens: int = 0


def _flag(value: bool) -> str:
    return "true" if value else "false"
