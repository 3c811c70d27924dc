"""What a worker and a router say of themselves, as far as it matters to a guard in front of them.

    GET WORKER/server_info    -> ServerInfo    flags, version, environment where the engine shows it
    GET WORKER/metrics        -> MetricsSeen   which engine, whether it speculates, how long prefill takes
    GET ROUTER/workers        -> Listed        who is there, in which role, over which connection
    GET ROUTER-METRICS        -> its policy    once it has chosen workers, and the retries it made
    the router's command line -> RouterFlags   the same before any traffic, and how many retries it may make

Everything may be missing or of a wrong type; what cannot be read is said to be so, and never raises. Keys
are read as "set or not": no secret gets any further than this module.
"""

import math
import shlex
from collections.abc import Mapping, Sequence
from enum import StrEnum
from itertools import zip_longest
from typing import Any, Final

import msgspec

from service.core.exposition import Exposition

UNTOLD: Final = -1
"""A number that nobody told."""
PREFILL_STAGE: Final = "prefill_forward"
DOCTOR_FAMILIES: Final = frozenset(
    {
        "per_stage_req_latency_seconds_bucket",
        "per_stage_req_latency_seconds_sum",
        "realtime_tokens_total",
        "spec_accept_length",
        "spec_decode_num_drafts_total",
        "num_running_reqs",
        "num_requests_running",
    }
)
"""Families that `metrics_of` reads."""
ROUTER_FAMILIES: Final = frozenset({"worker_selection_total", "worker_retries_total"})
"""Families that `counted_of` reads."""


class Engine(StrEnum):
    SGLANG = "sglang"
    VLLM = "vllm"
    UNKNOWN = "unknown"


class RouterKind(StrEnum):
    SMG = "smg"  # 1.13
    SGLANG_ROUTER = "sglang-router"  # 0.3.2
    OTHER = "other"
    NONE = "none"  # nobody named one


class InternalState(msgspec.Struct, frozen=True):
    """What one DP rank adds; only the environment is read."""

    env_vars: dict[str, Any] | None = None


class ServerInfo(msgspec.Struct, frozen=True, kw_only=True):
    """The part of `/server_info` that the doctor judges; names and defaults are the engine's."""

    version: str = ""
    served_model_name: str | None = None
    weight_version: str | None = None
    host: str | None = None
    speculative_algorithm: str | None = None
    speculative_num_steps: int | None = None
    speculative_eagle_topk: int | None = None
    speculative_num_draft_tokens: int | None = None
    speculative_adaptive: bool = False
    disaggregation_mode: str | None = None
    disaggregation_enable_kv_checksum: bool = False
    stream_interval: int = 1
    decode_log_interval: int = 40
    context_length: int | None = None
    enable_metrics: bool = False
    enable_cache_report: bool = False
    enable_hierarchical_cache: bool = False
    grpc_mode: bool = False
    smg_grpc_mode: bool = False
    frontend: str = "python"
    api_key: Any = None
    admin_api_key: Any = None
    internal_states: list[InternalState] = []

    def __repr__(self) -> str:
        """Without the keys."""
        return f"<ServerInfo {self.version} {self.role} {self.speculative_algorithm}>"

    @property
    def role(self) -> str:
        """`prefill`, `decode`, or `regular`."""
        return self.disaggregation_mode if self.disaggregation_mode in {"prefill", "decode"} else "regular"

    @property
    def steps(self) -> int:
        """The most drafts that one verify step can accept; UNTOLD without speculation."""
        if not self.speculative_algorithm:
            return UNTOLD
        if self.speculative_num_steps:
            return self.speculative_num_steps
        return max((self.speculative_num_draft_tokens or 0) - 1, 0) or UNTOLD

    @property
    def environment(self) -> Mapping[str, str] | None:
        """The engine's own variables; None where it does not show them."""
        shown = [state.env_vars for state in self.internal_states if state.env_vars is not None]
        return {key: str(value) for key, value in shown[0].items()} if shown else None


class MetricsSeen(msgspec.Struct, frozen=True):
    """What `/metrics` says."""

    engine: Engine = Engine.UNKNOWN
    speculates: bool = False
    longest_prefill_s: float = math.nan  # upper edge of the highest bucket in use
    prefill_tokens_per_s: float = math.nan


class WorkerSeen(msgspec.Struct, frozen=True):
    """One worker, as it answered."""

    url: str
    role: str = ""  # as the router lists it; "" where it does not
    trouble: str = ""  # why it could not be asked; "" where it could
    unreadable: str = ""  # what of its answer could not be read
    engine: Engine = Engine.UNKNOWN
    version: str = ""
    info: ServerInfo | None = None
    metrics: MetricsSeen | None = None  # None: no such answer
    skew_s: float = math.nan  # its clock less ours
    skew_error_s: float = math.nan

    @property
    def part(self) -> str:
        """Its role by its own word, else the router's."""
        return self.info.role if self.info is not None else self.role or "regular"


class Listed(msgspec.Struct, frozen=True):
    """An entry of `GET /workers`."""

    url: str
    worker_type: str = ""
    is_healthy: bool = True
    connection_mode: str = ""
    status: str | None = None  # smg only


class Workers(msgspec.Struct, frozen=True):
    """`GET /workers`."""

    workers: list[Listed]


class RouterFlags(msgspec.Struct, frozen=True):
    """A router's command line, as far as it decides what a retry does; defaults are those of both routers."""

    policy: str = "cache_aware"
    decode_policy: str = ""
    retries_max: int = 5  # attempts in all, whatever the flag's name says
    pd: bool = False
    dp_aware: bool = False

    @property
    def answering_policy(self) -> str:
        """Of the workers whose answers clients see."""
        return (self.decode_policy if self.pd else "") or self.policy


class RouterSeen(msgspec.Struct, frozen=True):
    """The router, as it answered."""

    url: str = ""
    kind: RouterKind = RouterKind.NONE
    trouble: str = ""
    ready: bool = True
    workers: tuple[Listed, ...] = ()
    flags: RouterFlags | None = None
    counted_policy: str = ""  # of the workers that answer, by the router's metrics
    retried: float = math.nan  # retries it counted, by its metrics
    metrics_url: str = ""  # where these metrics are; "" where nobody said
    metrics_trouble: str = ""  # why they could not be read

    @property
    def policy(self) -> str:
        """How it picks the worker whose answer a client sees; "" where nobody told."""
        return self.flags.answering_policy if self.flags is not None else self.counted_policy


class Facts(msgspec.Struct, frozen=True):
    """Everything that was asked."""

    router: RouterSeen = RouterSeen()
    workers: tuple[WorkerSeen, ...] = ()

    @property
    def pd(self) -> bool:
        """Whether prefill and decode are apart."""
        return any(worker.part in {"prefill", "decode"} for worker in self.workers)

    def of(self, *parts: str) -> tuple[WorkerSeen, ...]:
        return tuple(worker for worker in self.workers if worker.part in parts)


def server_info(body: bytes) -> ServerInfo | str:
    """`/server_info`, or what is wrong with it."""
    try:
        return msgspec.json.decode(body, type=ServerInfo)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as wrong:
        return f"/server_info: {wrong}"


def router_kind(listed: Sequence[Listed] | None) -> RouterKind:
    """Told by the shape of its list: smg alone names a status. A router without the path is another one."""
    if listed is None:
        return RouterKind.OTHER
    return RouterKind.SMG if any(one.status is not None for one in listed) else RouterKind.SGLANG_ROUTER


def router_flags(command: str) -> RouterFlags | str:
    """Read from a command line, whatever else stands in it; or what is wrong with it."""
    try:
        words = shlex.split(command)
    except ValueError as wrong:
        return f"router flags: {wrong}"
    values = {name: value for name, value in _pairs(words) if name.startswith("--")}
    retries = values.get("--retry-max-retries", "5")
    if not retries.isdigit():
        return f"router flags: --retry-max-retries {retries!r} is no number"
    return RouterFlags(
        policy=values.get("--policy", "cache_aware"),
        decode_policy=values.get("--decode-policy", ""),
        retries_max=1 if "--disable-retries" in values else max(int(retries), 1),
        pd="--pd-disaggregation" in values,
        dp_aware="--dp-aware" in values,
    )


def _pairs(words: Sequence[str]) -> list[tuple[str, str]]:
    """`--name value` and `--name=value`."""
    pairs = []
    for word, after in zip_longest(words, words[1:], fillvalue=""):
        name, equals, value = word.partition("=")
        pairs.append((name, value if equals else after))
    return pairs


def counted_of(exposition: Exposition) -> tuple[str, float]:
    """The policy by which smg chose the workers that answered, and the retries it made."""
    chosen = {
        one.labels.get("policy", "")
        for one in exposition.series
        if one.family == "worker_selection_total" and one.labels.get("worker_type") != "prefill"
    }
    return (chosen.pop() if len(chosen) == 1 else ""), exposition.total("worker_retries_total")


def metrics_of(exposition: Exposition) -> MetricsSeen:
    """What the doctor wants of an exposition that was read for `DOCTOR_FAMILIES`."""
    engines = {one.engine for one in exposition.series}
    engine = next((one for one in (Engine.SGLANG, Engine.VLLM) if one in engines), Engine.UNKNOWN)
    told = [*exposition.values("spec_accept_length"), *exposition.values("spec_decode_num_drafts_total")]
    return MetricsSeen(
        engine=engine,
        speculates=any(value > 0 for value in told),
        longest_prefill_s=_highest_bucket(exposition),
        prefill_tokens_per_s=_prefill_speed(exposition),
    )


def _highest_bucket(exposition: Exposition) -> float:
    """Upper edge of the last bucket that something fell into; infinite beyond the last edge."""
    edges: dict[float, float] = {}
    for one in exposition.series:
        if one.family == "per_stage_req_latency_seconds_bucket" and one.labels.get("stage") == PREFILL_STAGE:
            try:
                edge = float(one.labels.get("le", ""))
            except ValueError:
                continue
            edges[edge] = edges.get(edge, 0.0) + one.value
    rising = sorted(edges.items())
    total = rising[-1][1] if rising else 0.0
    return next((edge for edge, count in rising if count >= total > 0), math.nan)


def _prefill_speed(exposition: Exposition) -> float:
    seconds = sum(exposition.values("per_stage_req_latency_seconds_sum", stage=PREFILL_STAGE))
    tokens = sum(exposition.values("realtime_tokens_total", mode="prefill_compute"))
    return tokens / seconds if seconds > 0 and tokens > 0 else math.nan
