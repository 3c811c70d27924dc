"""What is heard beside the streams, wired: probes, engines' logs, engines' metrics.

    probes    datagrams of verify steps  -> desk.probes: the streams they belong to take them
    logs      lines of the engines       -> desk.ground: what their own checks say of corruption
    metrics   /metrics of the workers    -> desk.watch; desk.ground where slots were let go too soon

Everything runs on the data loop, in slices of a few milliseconds, or on a thread. All of it is optional, and
none of it can stop a stream. Growth is asked for beside a probe as well: hold-back and the silence detector
count delivered tokens by it, and the probe runs ahead of what is delivered.
"""

import math
from collections import Counter
from collections.abc import Callable, Collection
from functools import partial
from pathlib import Path
from time import monotonic
from typing import Final

import httpx

from service.config.probe_key import read_probe_key
from service.config.problem import ConfigProblem
from service.config.settings import TelemetrySettings
from service.core.desk import Desk
from service.core.fleet_watch import Gauge
from service.core.groundtruth import Word
from service.core.loglines import LogEvent, LogKind
from service.core.probe_feed import ProbeFeed
from service.edges.catalogue import PROBE_LOSSES
from service.edges.collectors.logtail import LogTail
from service.edges.collectors.probe import ProbeReceiver
from service.edges.collectors.scrape import DEFERRED_TIMEOUT, Scrape, Scraper
from service.edges.tasks import Tasks

STEPS_MIN: Final = 50
"""Verify steps between two scrapes, where an engine counts them, under which their mean says too little."""
_TOLD: Final = {"datagrams": ("probe_datagrams",), "rows": ("probe_steps",)} | {
    loss: ("probe_dropped", loss) for loss in PROBE_LOSSES
}
"""What the feed counts, and as which metric it is told."""


class Telemetry:
    """Collectors of one process. Make it, `start` it, `tick` it, and `close` it on the data loop."""

    def __init__(
        self,
        settings: TelemetrySettings,
        desk: Desk,
        client: httpx.AsyncClient,
        workers: Callable[[], Collection[str]],
        prefills: Callable[[], Collection[str]] = tuple,
        *,
        router: str = "",
    ) -> None:
        """Workers: the URLs of those that decode, as far as they are known; beside them those that do not."""
        self._settings = settings
        self._desk = desk
        self._workers = workers
        self._prefills = prefills
        self._key = read_probe_key(settings.key_file) if settings.key_file else b""
        self._told: Counter[str] = Counter()
        self._logged = frozenset(log.worker for log in settings.logs)
        self.udp_port = 0
        self.receiver: ProbeReceiver | None = None
        self.scraper = Scraper((), client, every_s=settings.scrape_s, sink=self._scraped, router=router)
        if settings.socket or settings.udp:
            desk.probes = ProbeFeed()
            self.receiver = ProbeReceiver(desk.probes)

    def __repr__(self) -> str:
        return f"<Telemetry {self.receiver!r} {self.scraper!r}>"

    def start(self, tasks: Tasks) -> None:
        """Listen and follow. Raises `ConfigProblem` where that cannot be."""
        if self.receiver is not None:
            self._listen(self.receiver)
        for log in self._settings.logs:
            tail = LogTail([Path(log.path)], partial(self._said, log.worker))
            tasks.spawn(tail.run(), "engine-log")
        if self._settings.scrape_s > 0:
            tasks.spawn(self.scraper.run(), "scraper")

    def pull(self) -> None:
        """Read the probes' datagrams that have come: a stream is about to be judged for the last time."""
        if self.receiver is not None:
            self.receiver.pull()

    def tick(self, now: float) -> None:
        prefills, fleet = self._prefills(), self._desk.fleet
        workers = [*self._workers(), *prefills]
        self.scraper.retarget(workers)
        facts = [fleet.worker(url) for url in workers]
        view = self._desk.watch.look(now, facts, self._desk.ground.counts, prefills)
        if view is not None:
            fleet.freeze([worker.url for worker in view.workers if worker.suspect])
        for (kind, worker), by in self._desk.ground.drain().items():
            self._desk.count("engine_evidence", kind, worker or "unknown", by=by)
        feed = self._desk.probes
        if feed is None:
            return
        feed.tick(now)
        for name, key in _TOLD.items():
            if by := feed.counts[name] - self._told[name]:
                self._told[name] += by
                self._desk.count(*key, by=by)

    def close(self) -> None:
        if self.receiver is not None:
            self.receiver.close()

    # --- inside ---

    def _listen(self, receiver: ProbeReceiver) -> None:
        place = ""
        try:
            if place := self._settings.socket or "":
                receiver.listen_unix(Path(place))
            if self._settings.udp:
                place = self._settings.udp
                host, _, port = place.rpartition(":")
                self.udp_port = receiver.listen_udp(host.strip("[]"), int(port), self._key)
        except OSError as refused:
            receiver.close()
            raise ConfigProblem([f"telemetry: {place}: {refused.strerror or refused}"]) from None

    def _said(self, worker: str, _file: str, event: LogEvent) -> None:
        self._desk.ground.read(event, worker, monotonic())

    def _scraped(self, scrape: Scrape) -> None:
        """To the fleet's judgement, and to the engines' words; a log that we read has told these already."""
        self._desk.watch.scraped(
            Gauge(
                worker=scrape.url,
                at=scrape.at,
                model=scrape.model,
                accept_length=math.nan
                if 0 < scrape.sample.verify_steps < STEPS_MIN
                else scrape.sample.length,
                fresh=scrape.fresh,
                running=scrape.running,
                moved=scrape.moved,
                decodes=scrape.url not in self._prefills(),
                counted=scrape.counted,
            )
        )
        times = int(scrape.moved.get(DEFERRED_TIMEOUT, 0))
        if times and scrape.url not in self._logged:
            word = Word(LogKind.DEFERRED_RELEASE_TIMEOUT, scrape.at, scrape.url, times=times)
            self._desk.ground.hear(word)
