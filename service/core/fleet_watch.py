"""The fleet, judged every fifteen seconds: one view for the metrics, the API and the hints.

    samples of acceptance (scraped, and from streams)  -> fleet_acceptance: has a worker fallen, and alone?
    generations that are over                          -> fleet_rates: who gives more bad answers than peers?
    what engines said of themselves                    -> groundtruth, as it was counted
    counters of trouble that moved                     -> sums of the last ten minutes, for hints
    turns of sessions                                  -> passed on to the cache watch

A worker is suspect for reasons, each a word of `Reason`. Nothing here acts on a stream. Without a reason a
worker has no evidence against it, and is not called healthy: telemetry of a slot that holds another
request's valid KV looks like any other.

Cost: 6 us a generation, 14 us a scrape and 5 ms a look in a fleet of a hundred workers.
"""

from collections import deque
from collections.abc import Collection, Iterable, Mapping
from enum import StrEnum
from math import isfinite, nan
from typing import Final

import msgspec

from service.core.cache_watch import SessionTurn
from service.core.changes import Changes
from service.core.events import Attempt, Level, RequestFacts, WorkerFacts
from service.core.fleet_acceptance import Acceptance, AcceptanceView, State
from service.core.fleet_rates import Rate, Rates
from service.core.turns import Turns

LOOK_S: Final = 15.0
SAMPLE_STEPS: Final = 200
"""Verify steps of finished streams that make one sample: its error is a twentieth of a step's spread."""
TROUBLE_S: Final = 600.0
SCRAPED_S: Final = 120.0
STUCK_S: Final = 45.0
"""Requests run and no counter of tokens moves: three scrapes, and longer than any prefill chunk."""
WORKERS_MAX: Final = 1024
MOVES_MAX: Final = 4096


class Reason(StrEnum):
    """Why a worker is suspect."""

    ACCEPTANCE = "acceptance"  # fell below its own baseline, and its peers did not
    BELOW_PEERS = "below_peers"  # accepts far less than its peers, from the start
    CORRUPTION = "corruption"  # more bad answers than its peers
    ENGINE = "engine"  # its own checks said so
    NO_PROGRESS = "no_progress"  # requests run and no token comes


class Gauge(msgspec.Struct, frozen=True):
    """One scrape of one worker, as far as the fleet is judged by it."""

    worker: str
    at: float
    model: str = ""
    accept_length: float = nan
    fresh: bool = False  # the gauges say something new
    running: float = nan
    decodes: bool = True  # a prefill worker may wait long for decode, and is not stuck
    moved: Mapping[str, float] = {}  # counters of trouble, since the scrape before
    counted: bool = True  # these were read: one that is not there did not move


class WorkerView(msgspec.Struct, frozen=True):
    """One worker, for people."""

    url: str
    drafter: str
    draft_tokens: int
    suspect: tuple[Reason, ...]
    acceptance: tuple[AcceptanceView, ...]
    engine_said: Mapping[str, int]  # by kind, since the start
    trouble: Mapping[str, float]  # counters, over the last ten minutes
    scraped: bool = False  # its counters were read lately: one that is not in `trouble` did not move


class FleetView(msgspec.Struct, frozen=True):
    """The fleet at one look."""

    at: float = nan  # s, monotonic
    workers: tuple[WorkerView, ...] = ()
    groups: tuple[Rate, ...] = ()
    prefills: tuple[str, ...] = ()  # of the workers, those that prefill only

    def worker(self, url: str) -> WorkerView | None:
        return next((one for one in self.workers if one.url == url), None)

    def suspect_groups(self) -> tuple[Rate, ...]:
        return tuple(rate for rate in self.groups if rate.suspect)

    @property
    def fallen_models(self) -> tuple[str, ...]:
        """Models whose workers fell together: a draft, a deploy or the traffic."""
        shared = State.FALLEN_WITH_PEERS
        views = (view for worker in self.workers for view in worker.acceptance)
        return tuple(sorted({view.model for view in views if view.state is shared}))


class _Steps(msgspec.Struct):
    """Verify steps of finished streams that have not made a sample yet."""

    model: str
    steps: int = 0
    emitted: float = 0.0


class FleetWatch:
    """Fed from the data loop and looked at from anywhere: a view is replaced as a whole."""

    __slots__ = (
        "_looked_at", "_moves", "_rates", "_relearn", "_scraped", "_scraped_at", "_steps", "_streams",
        "_stuck", "changes", "turns", "view",
    )  # fmt: skip

    def __init__(self) -> None:
        self._scraped = Acceptance("metrics")
        self._streams = Acceptance("streams")
        self._rates = Rates()
        self._steps: dict[str, _Steps] = {}
        self._moves: deque[tuple[float, str, str, float]] = deque(maxlen=MOVES_MAX)
        self._stuck: dict[str, tuple[float, float]] = {}  # first and last scrape of work without progress
        self._scraped_at: dict[str, float] = {}
        self._relearn: deque[str] = deque(maxlen=WORKERS_MAX)
        self._looked_at = float("-inf")
        self.changes = Changes()
        self.turns = Turns()
        self.view = FleetView()

    def __repr__(self) -> str:
        return f"<FleetWatch {len(self.view.workers)} workers, {self._rates!r}>"

    def over(self, attempt: Attempt, facts: RequestFacts, route: str, now: float) -> None:
        """A generation is over."""
        model = facts.model
        self._rates.over(attempt, model, route, now)
        if attempt.judgement.level is Level.CLEAN:
            self.turns.offer(_turn(attempt, facts, now))
        if not attempt.worker or attempt.steps <= 0 or not isfinite(attempt.accept_length):
            return
        sums = self._steps.get(attempt.worker)
        if sums is None:
            if len(self._steps) >= WORKERS_MAX:
                return
            sums = self._steps[attempt.worker] = _Steps(model)
        sums.steps += attempt.steps
        sums.emitted += attempt.steps * attempt.accept_length
        if sums.steps >= SAMPLE_STEPS:
            self._streams.see(attempt.worker, sums.model, sums.emitted / sums.steps, now)
            self._steps[attempt.worker] = _Steps(model)

    def scraped(self, gauge: Gauge) -> None:
        """A worker has told its gauges."""
        if gauge.fresh:
            self._scraped.see(gauge.worker, gauge.model, gauge.accept_length, gauge.at)
        if gauge.fresh or not gauge.running > 0 or not gauge.decodes:
            self._stuck.pop(gauge.worker, None)
        elif gauge.worker in self._stuck or len(self._stuck) < WORKERS_MAX:
            since, _ = self._stuck.get(gauge.worker, (gauge.at, gauge.at))
            self._stuck[gauge.worker] = since, gauge.at
        if gauge.counted and (gauge.worker in self._scraped_at or len(self._scraped_at) < WORKERS_MAX):
            self._scraped_at[gauge.worker] = gauge.at
        self._moves.extend((gauge.at, gauge.worker, name, by) for name, by in gauge.moved.items())

    def look(
        self,
        now: float,
        workers: Iterable[WorkerFacts],
        said: Mapping[tuple[str, str], int],
        prefills: Collection[str] = (),
    ) -> FleetView | None:
        """Judge the fleet again if it is time; `said` counts engines' words by kind and worker."""
        if now - self._looked_at < LOOK_S:
            return None
        self._looked_at = now
        while self._relearn:
            self._learn_anew(self._relearn.popleft())
        facts = {one.url: one for one in workers}
        self._forget_all_but(facts)
        self.changes.see(facts.values(), now)
        rates = self._rates.judge(now)
        known = _Known(self, (*self._scraped.views(), *self._streams.views()), rates, said, now)
        urls = dict.fromkeys([*facts, *known.acceptance])
        views = tuple(self._worker(facts.get(url) or WorkerFacts(url), known) for url in urls)
        self.view = FleetView(now, views, rates, tuple(prefills))
        return self.view

    def relearn(self, worker: str) -> bool:
        """What this worker accepts from now on is what it should: done at the next look, from any thread.

        The answer: whether there is a worker of this name.
        """
        known = self.view.worker(worker) is not None
        if known:
            self._relearn.append(worker)
        return known

    # --- inside ---

    def _learn_anew(self, worker: str) -> None:
        self._scraped.forget(worker)
        self._streams.forget(worker)
        self._steps.pop(worker, None)

    def _worker(self, facts: WorkerFacts, known: "_Known") -> WorkerView:
        url, acceptance = facts.url, tuple(known.acceptance.get(facts.url, ()))
        states = {view.state for view in acceptance}
        words = known.words.get(url, {})
        since, until = self._stuck.get(url, (0.0, 0.0))
        told = {
            Reason.ACCEPTANCE: State.FALLEN in states,
            Reason.BELOW_PEERS: State.BELOW_PEERS in states,
            Reason.CORRUPTION: url in known.corrupting,
            Reason.ENGINE: bool(words),
            Reason.NO_PROGRESS: until - since >= STUCK_S,
        }
        return WorkerView(
            url=url,
            drafter=facts.drafter,
            draft_tokens=facts.draft_tokens,
            suspect=tuple(reason for reason, is_so in told.items() if is_so),
            acceptance=acceptance,
            engine_said=words,
            trouble=known.trouble.get(url, {}),
            scraped=known.at - self._scraped_at.get(url, float("-inf")) <= SCRAPED_S,
        )

    def trouble(self, now: float) -> dict[str, dict[str, float]]:
        """Counters of trouble that moved within ten minutes, by worker."""
        sums: dict[str, dict[str, float]] = {}
        for at, worker, name, by in self._moves:
            if now - at <= TROUBLE_S:
                own = sums.setdefault(worker, {})
                own[name] = own.get(name, 0.0) + by
        return sums

    def _forget_all_but(self, workers: Collection[str]) -> None:
        """Workers that are gone; where none is known the router may be away, and everything stays."""
        if not workers:
            return
        for kept in (self._scraped, self._streams):
            kept.keep(workers)
        for known in (self._stuck, self._steps, self._scraped_at):
            for gone in known.keys() - set(workers):
                del known[gone]


class _Known:
    """What one look goes by, sorted by worker once."""

    def __init__(
        self,
        watch: FleetWatch,
        acceptance: Iterable[AcceptanceView],
        rates: Iterable[Rate],
        said: Mapping[tuple[str, str], int],
        now: float,
    ) -> None:
        self.at = now
        self.acceptance: dict[str, list[AcceptanceView]] = {}
        for view in acceptance:
            self.acceptance.setdefault(view.worker, []).append(view)
        self.words: dict[str, dict[str, int]] = {}
        for (kind, worker), count in said.items():
            self.words.setdefault(worker, {})[kind] = count
        self.corrupting = {rate.value for rate in rates if rate.suspect and rate.dimension in _OF_WORKERS}
        self.trouble = watch.trouble(now)


def _turn(attempt: Attempt, facts: RequestFacts, now: float) -> SessionTurn:
    return SessionTurn(
        prompt=facts.prompt,
        model=facts.model,
        cached=attempt.cached,
        at=now,
        worker=attempt.worker,
        session=facts.session,
        preamble_chars=facts.preamble_chars,
        tools_chars=facts.tools_chars,
    )


_OF_WORKERS: Final = frozenset({"worker", "prefill"})
