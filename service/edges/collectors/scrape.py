"""Scrapes `/metrics` of workers: how each is accepting, how long its queues are, what went wrong.

A worker's gauges are means over its whole batch, so they say something of the worker and nothing of a
request; and they stay at their last value when it rests, so each scrape says whether they are fresh. Counters
come as how far they moved since the scrape before (from zero after a restart).

    WORKER/metrics            what it tells, first hand
    WORKER/v1/loads           where it refuses that (its metrics are off): its load, and no counter of trouble
    ROUTER/engine_metrics     of workers that only the router reaches; it adds their URLs as `worker_addr`

An answer is read up to `exposition.MAX_BYTES` and parsed off the loop that serves streams. A target that
answers none of these is a count, never an error.
"""

import asyncio
import math
import time
from collections import Counter
from collections.abc import Callable, Iterable
from typing import Final

import httpx
import msgspec
import structlog

from service.core.exposition import MAX_BYTES, Exposition, by_worker, read
from service.core.loads import PATH as LOADS_PATH
from service.core.loads import Loads, loads_of
from service.core.spec_series import Freshness, Reading, SpecSample, judge
from service.edges.asking import UnansweredError, ask

EVERY_S: Final = 5.0
"""SGLang's acceptance gauges move every 40 decode iterations: about as often."""
_PROGRESS: Final = ("realtime_tokens_total", "generation_tokens_total", "spec_decode_num_drafts_total")
"""Counters that move when a worker decodes."""
_TROUBLE: Final = (
    "num_transfer_failed_reqs_total",
    "num_bootstrap_failed_reqs_total",
    "num_aborted_requests_total",
    "num_retracted_requests_total",
    "load_back_tokens_total",
)
ACCEPTED: Final = "spec_decode_num_accepted_tokens_total"
PROPOSED: Final = "spec_decode_num_draft_tokens_total"
PER_POSITION: Final = "spec_decode_num_accepted_tokens_per_pos_total"
_PLACES: Final = range(32)
"""Draft positions of vLLM that are told apart; real drafts have up to ten."""
DEFERRED_TIMEOUT: Final = "decode_deferred_kv_release_timeout"

_log = structlog.get_logger(__name__)


class Scrape(msgspec.Struct, frozen=True):
    """One target, as it described itself."""

    url: str
    at: float
    sample: SpecSample
    reading: Reading
    fresh: bool  # its gauges say something new
    running: float  # requests; NaN: not told
    waiting: float
    moved: dict[str, float]  # counters of trouble, since the scrape before
    model: str = ""
    counted: bool = True  # counters of trouble were read: one that is not in `moved` did not move


class Scraper:
    """Asks its targets in turn; `run` it as a task. The newest scrape of each is kept."""

    def __init__(
        self,
        targets: Iterable[str],
        client: httpx.AsyncClient,
        clock: Callable[[], float] = time.monotonic,
        *,
        every_s: float = EVERY_S,
        sink: Callable[[Scrape], None] = lambda _: None,
        router: str = "",
    ) -> None:
        self.scrapes: dict[str, Scrape] = {}
        self.counts: Counter[str] = Counter()  # answered, unanswered, and what expositions left out
        self._targets = {url.rstrip("/"): _Target() for url in targets}
        self._client = client
        self._clock = clock
        self._every_s = every_s
        self._sink = sink
        self._router = router.rstrip("/")

    def __repr__(self) -> str:
        return f"<Scraper {len(self._targets)} targets, {len(self.scrapes)} answered>"

    def retarget(self, urls: Iterable[str]) -> None:
        """Workers come and go; what is known of those that stay is kept."""
        wanted = [url.rstrip("/") for url in urls]
        self._targets = {url: self._targets.get(url) or _Target() for url in wanted}
        self.scrapes = {url: scrape for url, scrape in self.scrapes.items() if url in self._targets}

    async def run(self) -> None:
        """Until cancelled."""
        while True:
            await self.poll()
            await asyncio.sleep(self._every_s)

    async def poll(self) -> None:
        """Ask everybody once. Never raises."""
        targets = tuple(self._targets.items())
        answered = await asyncio.gather(*[self._ask(url, target) for url, target in targets])
        silent = [one for one, spoke in zip(targets, answered, strict=True) if not spoke]
        relayed = await self._ask_router() if silent and self._router else {}
        for url, target in silent:
            if url in relayed:
                self.counts["relayed"] += 1
                self._seen(target.see(url, self._clock(), relayed[url]))
            else:
                self.counts["unanswered"] += 1
                self.scrapes.pop(url, None)

    async def _ask(self, url: str, target: "_Target") -> bool:
        """Whether it answered."""
        try:
            body = await ask(self._client, f"{url}/metrics", most_bytes=MAX_BYTES + 1)
        except UnansweredError as error:
            _log.debug("scrape_unanswered", url=url, error=str(error))
            return error.status != 0 and await self._ask_load(url, target)
        exposition = await asyncio.to_thread(_read, body)
        self.counts["answered"] += 1
        self.counts.update(exposition.counts)
        self._seen(target.see(url, self._clock(), exposition))
        return True

    async def _ask_load(self, url: str, target: "_Target") -> bool:
        try:
            loads = loads_of(await ask(self._client, url + LOADS_PATH))
        except UnansweredError:
            return False
        if loads is None:
            return False
        self.counts["loads"] += 1
        self._seen(target.see_loads(url, self._clock(), loads))
        return True

    async def _ask_router(self) -> dict[str, Exposition]:
        """What the router relays, by worker; nothing where it has no such path."""
        try:
            body = await ask(self._client, f"{self._router}/engine_metrics", most_bytes=MAX_BYTES + 1)
        except UnansweredError as error:
            _log.debug("scrape_unanswered", url=self._router, error=str(error))
            return {}
        return await asyncio.to_thread(_read_relayed, body)

    def _seen(self, scrape: Scrape) -> None:
        """Unless its target has left meanwhile."""
        if scrape.url in self._targets:
            self.scrapes[scrape.url] = scrape
            self._sink(scrape)


class _Target:
    """What is remembered of a target from scrape to scrape."""

    __slots__ = ("_counters", "_freshness")

    def __init__(self) -> None:
        self._freshness = Freshness()
        self._counters: dict[str, float] | None = None

    def see(self, url: str, at: float, exposition: Exposition) -> Scrape:
        before, self._counters = self._counters, _counters(exposition)
        moved = _moved(before, self._counters)
        sample = _sample(exposition, moved)
        return Scrape(
            url,
            at,
            sample,
            judge(sample),
            self._freshness.see({name: self._counters.get(name, math.nan) for name in _PROGRESS}),
            _either(exposition, "num_running_reqs", "num_requests_running"),
            _either(exposition, "num_queue_reqs", "num_requests_waiting"),
            {name: moved[name] for name in (*_TROUBLE, DEFERRED_TIMEOUT) if moved.get(name)},
            next((name for one in exposition.series if (name := one.labels.get("model_name"))), ""),
        )

    def see_loads(self, url: str, at: float, loads: Loads) -> Scrape:
        """Without a counter of progress, a worker that runs cannot be told from one that is stuck."""
        sample = SpecSample(accept_rate=loads.accept_rate)
        running = loads.running if loads.progress else math.nan
        fresh = self._freshness.see(loads.progress)
        return Scrape(url, at, sample, judge(sample), fresh, running, loads.waiting, {}, counted=False)


def _read(body: bytes) -> Exposition:
    return read(body.decode("utf-8", "replace"))


def _read_relayed(body: bytes) -> dict[str, Exposition]:
    """Nothing of one that is cut off: its families go across workers, and some would be missing of all."""
    if len(body) > MAX_BYTES:
        return {}
    parts = by_worker(body.decode("utf-8", "replace"))
    return {url.rstrip("/"): read(text) for url, text in parts.items()}


def _counters(exposition: Exposition) -> dict[str, float]:
    names = (*_PROGRESS, *_TROUBLE, "spec_verify_calls_total", ACCEPTED, PROPOSED)
    counters = {name: exposition.total(name) for name in names}
    counters |= {
        f"{PER_POSITION}{place}": exposition.total(PER_POSITION, position=str(place)) for place in _PLACES
    }
    counters[DEFERRED_TIMEOUT] = exposition.total("decode_deferred_kv_release_total", outcome="timeout")
    return {name: value for name, value in counters.items() if not math.isnan(value)}


def _moved(before: dict[str, float] | None, now: dict[str, float]) -> dict[str, float]:
    """Since the scrape before; a counter that fell has begun anew."""
    if before is None:
        return {}
    return {
        name: value - before.get(name, 0.0) if value >= before.get(name, 0.0) else value
        for name, value in now.items()
    }


def _sample(exposition: Exposition, moved: dict[str, float]) -> SpecSample:
    """SGLang tells gauges, vLLM counters; both become one sample."""
    steps = moved.get("spec_decode_num_drafts_total", 0.0)
    placed = [moved[name] for place in _PLACES if (name := f"{PER_POSITION}{place}") in moved]
    proposed = moved.get(PROPOSED, math.nan)
    return SpecSample(
        accept_length=exposition.mean("spec_accept_length"),
        accept_rate=exposition.mean("spec_accept_rate"),
        verify_steps=int(steps),
        correct_drafts=int(moved.get(ACCEPTED, 0.0)) if steps else 0,
        draft_tokens=_whole(exposition.mean("spec_num_draft_tokens")),
        mean_width=1 + proposed / steps if steps else math.nan,
        per_position=tuple(accepted / steps for accepted in placed) if steps else (),
    )


def _either(exposition: Exposition, *families: str) -> float:
    """A count over all ranks, under the first of the names that is there."""
    totals = (exposition.total(family) for family in families)
    return next((total for total in totals if not math.isnan(total)), math.nan)


def _whole(number: float) -> int:
    return 0 if math.isnan(number) else int(number)
