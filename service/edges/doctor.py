"""Asks router and workers what they are, for `specguard doctor`. Changes nothing, and sends no prompt.

    ROUTER/workers, /readiness                     who is there
    ROUTER-METRICS                                 by which policy it has chosen, how often it retried
    WORKER/server_info, else /version; /metrics    flags, version, telemetry; the Date header is its clock

Every answer is bounded in size and time; what does not answer is a fact, not an error. A worker with
`--api-key` wants it as a bearer token, which goes to workers only.
"""

import asyncio
import math
from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Final

import httpx
import msgspec

from service.core.doctor.facts import (
    DOCTOR_FAMILIES,
    ROUTER_FAMILIES,
    Engine,
    Facts,
    Listed,
    MetricsSeen,
    RouterFlags,
    RouterKind,
    RouterSeen,
    ServerInfo,
    Workers,
    WorkerSeen,
    counted_of,
    metrics_of,
    router_kind,
    server_info,
)
from service.core.exposition import MAX_BYTES, read

ANSWER_S: Final = 10.0
"""For one whole answer; `/server_info` makes a round trip through the scheduler."""
AT_ONCE: Final = 16
DATE_ERROR_S: Final = 1.0
"""A Date header has whole seconds."""

Clock = Callable[[], datetime]


class Answer(msgspec.Struct, frozen=True):
    """One answer, or why there is none."""

    status: int = 0
    body: bytes = b""
    trouble: str = ""
    skew_s: float = math.nan
    skew_error_s: float = math.nan

    @property
    def ok(self) -> bool:
        return not self.trouble and self.status == httpx.codes.OK

    @property
    def why_not(self) -> str:
        return self.trouble or f"HTTP {self.status}"


class _Version(msgspec.Struct):
    """`GET /version` of vLLM."""

    version: str


class Questions:
    """One round of questions."""

    def __init__(
        self, client: httpx.AsyncClient, *, api_key: str = "", clock: Clock = lambda: datetime.now(UTC)
    ) -> None:
        self._client = client
        self._headers = {"authorization": f"Bearer {api_key}"} if api_key else {}
        self._clock = clock
        self._turns = asyncio.Semaphore(AT_ONCE)

    def __repr__(self) -> str:
        return f"<Questions {'with' if self._headers else 'without'} a key>"

    async def ask(
        self,
        router: str = "",
        workers: Iterable[str] = (),
        *,
        router_metrics: str = "",
        flags: RouterFlags | None = None,
    ) -> Facts:
        """Everything; workers that the router lists are asked beside those that are named."""
        seen = await self._router(router.rstrip("/"), router_metrics, flags) if router else RouterSeen()
        roles = {_base(one.url): one.worker_type for one in seen.workers if _speaks_http(one)}
        urls = dict.fromkeys([*roles, *(url.rstrip("/") for url in workers)])
        asked = await asyncio.gather(*[self._worker(url, roles.get(url, "")) for url in urls])
        return Facts(seen, tuple(asked))

    # --- router ---

    async def _router(self, url: str, metrics: str, flags: RouterFlags | None) -> RouterSeen:
        listing, readiness = await asyncio.gather(self._get(f"{url}/workers"), self._get(f"{url}/readiness"))
        if listing.trouble:
            return RouterSeen(url, RouterKind.OTHER, trouble=listing.trouble, flags=flags)
        listed = _listed(listing)
        counted = await self._get(metrics) if metrics else Answer()
        policy, retried = counted_of(read(_text(counted), ROUTER_FAMILIES)) if counted.ok else ("", math.nan)
        return RouterSeen(
            url,
            router_kind(listed),
            ready=readiness.status != httpx.codes.SERVICE_UNAVAILABLE,
            workers=tuple(listed or ()),
            flags=flags,
            counted_policy=policy,
            retried=retried,
            metrics_url=metrics,
            metrics_trouble="" if not metrics or counted.ok else counted.why_not,
        )

    # --- workers ---

    async def _worker(self, url: str, role: str) -> WorkerSeen:
        told, counted = await asyncio.gather(
            self._get(f"{url}/server_info", self._headers), self._get(f"{url}/metrics", self._headers)
        )
        if told.trouble or told.status in {httpx.codes.UNAUTHORIZED, httpx.codes.FORBIDDEN}:
            return WorkerSeen(url, role, trouble=told.why_not)
        metrics = metrics_of(read(_text(counted), DOCTOR_FAMILIES)) if counted.ok else None
        info = server_info(told.body) if told.ok else ""
        if not isinstance(info, ServerInfo):
            return await self._stranger(url, role, told, metrics, unreadable=info)
        return WorkerSeen(
            url,
            role,
            engine=Engine.SGLANG,
            version=info.version,
            info=info,
            metrics=metrics,
            skew_s=told.skew_s,
            skew_error_s=told.skew_error_s,
        )

    async def _stranger(
        self, url: str, role: str, told: Answer, metrics: MetricsSeen | None, *, unreadable: str
    ) -> WorkerSeen:
        """A worker without a `/server_info` that we can read: vLLM, or one more unknown."""
        version = _version(await self._get(f"{url}/version", self._headers))
        engine = Engine.VLLM if version else metrics.engine if metrics is not None else Engine.UNKNOWN
        return WorkerSeen(
            url,
            role,
            unreadable=unreadable,
            engine=engine,
            version=version,
            metrics=metrics,
            skew_s=told.skew_s,
            skew_error_s=told.skew_error_s,
        )

    # --- one question ---

    async def _get(self, url: str, headers: dict[str, str] | None = None) -> Answer:
        async with self._turns:
            began = self._clock()
            try:
                async with asyncio.timeout(ANSWER_S):
                    return await self._answer(url, headers or {}, began)
            except (TimeoutError, httpx.TimeoutException):
                return Answer(trouble="no answer in time")
            except httpx.ConnectError:
                return Answer(trouble="no connection")
            except (httpx.HTTPError, httpx.InvalidURL, UnicodeError) as error:
                return Answer(trouble=type(error).__name__)

    async def _answer(self, url: str, headers: dict[str, str], began: datetime) -> Answer:
        """The beginning of a body that is too long is enough to say so."""
        async with self._client.stream("GET", url, headers=headers) as response:
            skew_s, error_s = self._skew(response.headers.get("date", ""), began)
            parts: list[bytes] = []
            async for part in response.aiter_bytes():
                parts.append(part)
                if sum(map(len, parts)) > MAX_BYTES:
                    break
        return Answer(response.status_code, b"".join(parts), skew_s=skew_s, skew_error_s=error_s)

    def _skew(self, date: str, began: datetime) -> tuple[float, float]:
        """Their clock less ours in the middle of the exchange, and how far off that may be."""
        try:
            theirs = parsedate_to_datetime(date)
        except (ValueError, TypeError):
            return math.nan, math.nan
        if theirs.tzinfo is None:
            return math.nan, math.nan
        took_s = (self._clock() - began).total_seconds()
        skew_s = (theirs - began).total_seconds() + DATE_ERROR_S / 2 - took_s / 2
        return skew_s, DATE_ERROR_S + took_s / 2


def _listed(answer: Answer) -> Sequence[Listed] | None:
    if not answer.ok:
        return None
    try:
        return msgspec.json.decode(answer.body, type=Workers).workers
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None


def _version(answer: Answer) -> str:
    if not answer.ok:
        return ""
    try:
        return msgspec.json.decode(answer.body, type=_Version).version
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return ""


def _speaks_http(worker: Listed) -> bool:
    return worker.connection_mode.lower() != "grpc" and worker.url.startswith("http")


def _base(url: str) -> str:
    """Without the rank that a DP-aware router appends."""
    base, at, rank = url.rpartition("@")
    return (base if at and rank.isdigit() else url).rstrip("/")


def _text(answer: Answer) -> str:
    return answer.body.decode("utf-8", "replace")
