"""One client's request under guard: the monitor decides, this obeys.

A request may take several attempts. Each has its own body (a new request id, what we ask for on top), its own
exchange, and from the second on a pin, so that the router sends it to a worker that has not failed yet. The
head of an attempt is kept back until the monitor releases the first byte, so that the client sees the head of
the attempt it gets and of no other; `x-specguard-attempts` says how many it took where it took several. Where
nothing is held (`observe`) the head goes at once.

The hot path is `on_data`: one call into the core, one into the outlet.
"""

from collections.abc import Callable, Sequence
from contextlib import suppress
from itertools import islice
from math import nan
from secrets import token_hex
from time import monotonic
from typing import Final

from service.core.custody import NOTHING
from service.core.dialects.protocol import Dialect, Outgoing
from service.core.events import (
    Action,
    Commit,
    Ending,
    Fail,
    Finish,
    Forward,
    Guilty,
    Incident,
    Level,
    Report,
    RequestFacts,
    Restart,
)
from service.core.monitor import Monitor
from service.core.policy import RoutePolicy
from service.edges.case import Kept, known, known_float
from service.edges.headers import (
    ATTEMPTS,
    ROUTED_WORKER,
    TARGET_WORKER,
    Headers,
    is_encoded,
    is_event_stream,
    towards_client,
    value_of,
)
from service.edges.live import LiveStream
from service.edges.origins import Enrolled
from service.edges.outlet import Send
from service.edges.refusals import refusal_headers
from service.edges.relay import Means, Relay
from service.edges.rid import shown_rid
from service.edges.scene import BESIDE_MAX, UNSAID, Engine, Scene
from service.edges.upstream import Request, ResponseHead, UpstreamError

ERRORS: Final = 300
"""From this status on an answer is no generation, and passes as it is."""
OWN_HEAD: Final = ResponseHead(
    200, [(b"content-type", b"text/event-stream; charset=utf-8"), (b"cache-control", b"no-cache")]
)
"""For a heartbeat that must go out before any attempt has answered."""


def new_rid() -> str:
    """Of fixed width and random: the engine aborts by prefix, so no id may be another's beginning."""
    return token_hex(16)


class Guard(Relay):
    """A request that the monitor watches."""

    __slots__ = (
        "_answers",
        "_attempts",
        "_avoid",
        "_beside",
        "_data_at",
        "_enrolled",
        "_facts",
        "_head",
        "_headed_at",
        "_holds",
        "_looking",
        "_pin",
        "_rid",
        "_sent",
        "_started_at",
        "_streamed",
        "_theirs",
        "monitor",
        "route",
    )

    def __init__(
        self,
        means: Means,
        send: Send,
        request: Request,
        *,
        facts: RequestFacts,
        dialect: Dialect,
        route: RoutePolicy,
    ) -> None:
        super().__init__(means, send, request)
        rid = facts.rid or new_rid()
        self._enrolled: Enrolled | None = None
        self._facts, self._theirs, self.route = facts, dialect, route
        self._head = OWN_HEAD
        self._holds = route.holds
        self._streamed = self._looking = False
        self._avoid: frozenset[str] = frozenset()
        self._pin: int | None = None
        self._attempts = 1
        self._started_at = monotonic()
        self._headed_at = self._data_at = 0.0
        self._answers: list[str] = []  # the tails of attempts taken back
        self._beside: tuple[str, ...] | None = None  # who was on the worker of the first bad attempt
        self._sent = self._outgoing(rid)
        self._rid = rid

    def __repr__(self) -> str:
        return f"<Guard attempt {self._attempts} {self.monitor!r} {self._outlet!r}>"

    @property
    def dialect(self) -> Dialect:
        return self._theirs

    def seen(self, now: float) -> LiveStream:
        """What the admin port shows of this request."""
        generation = self.monitor.generation
        inspector, judgement = generation.inspector, generation.judgement
        length = inspector.accept_length if inspector is not None else nan
        return LiveStream(
            rid=shown_rid(generation.outgoing_rid),
            route=self.route.name,
            policy=self.route.policy,
            worker=generation.worker.url or "unknown",
            attempt=self._attempts,
            tokens=known(generation.tokens),
            accept_length=known_float(length),
            level=judgement.level.name.lower(),
            kind=judgement.kind,
            held_bytes=self.monitor.held_bytes,
            age_s=round(now - self._started_at, 3),
        )

    # --- what happens to a request ---

    def begin(self, now: float) -> None:
        """The request goes out before anything is made ready for its answer."""
        self.open(self._attempt(), now)
        means, route = self._means, self.route
        if means.origins is not None:
            headers = self.request.headers
            self._enrolled = means.origins.enrol(self._rid, self._facts, headers, thorough=route.holds)
            self._facts = self._enrolled.facts
        self.monitor = Monitor(
            facts=self._facts,
            dialect=self._theirs,
            outgoing=self._sent,
            route=route,
            desk=means.desk,
            rid=self._rid,
            now=self._started_at,
        )
        self.monitor.defers = True

    def gone(self, now: float) -> None:
        if self.over.done():
            return
        drain = self._exchange is not None and self.monitor.drains(now, client_gone=True)
        self.leave(drain=drain, reason="client_gone")
        self._obey(self.monitor.gone(now), now)
        self.finish()

    def stop(self, now: float) -> None:
        if not self.over.done():
            self.leave(drain=False, reason="shutdown")
            self._obey(
                self.monitor.refuse(503, Guilty.OURS, "shutting_down", "the proxy is shutting down", now), now
            )

    def finish(self) -> None:
        origins, enrolled = self._means.origins, self._enrolled
        if origins is not None and enrolled is not None and not self.over.done():
            origins.leave(enrolled, clean=self.monitor.judgement.level is not Level.CORRUPT)
        super().finish()

    def tick(self, now: float) -> None:
        super().tick(now)
        if not self.over.done():
            self._obey(self.monitor.tick(now), now)

    # --- the upstream's calls ---

    def on_head(self, head: ResponseHead) -> None:
        self._opened_at = 0.0
        now = monotonic()
        self._head = head
        self._headed_at = self._headed_at or now
        self._streamed = is_event_stream(head.headers)
        worker = (value_of(head.headers, ROUTED_WORKER) or b"").decode("latin-1")
        self._means.pins.answered(self._facts.model, self._pin, worker)
        if worker in self._avoid:
            self._means.desk.count("retry_same_worker")
        facts = self._means.desk.fleet.worker(worker)
        if head.status < ERRORS and is_encoded(head.headers):
            self._hear(self.monitor.encoded, head.status, facts)
        else:
            self._hear(self.monitor.head, head.status, facts, self._streamed)
        if not self._holds and not self.over.done():
            self._commit(now)  # nothing will be taken back, so the client need not wait for the first byte

    def on_data(self, data: bytes) -> None:
        now = monotonic()
        monitor = self.monitor
        try:
            passed = monitor.pass_on(data, now) if self._head_sent else None
            actions = monitor.feed(data, now) if passed is None else NOTHING
            if monitor.look_due and not self._looking:
                self._looking = True
                self._means.looks.add(self._look)
        except Exception as error:  # noqa: BLE001 - a defect of ours must not take the process's other streams
            self.crash(error)
            return
        if passed is None:
            self._data_at = self._data_at or now
            self._obey(actions, now)
        elif passed:
            self._outlet.body(passed)

    def on_end(self) -> None:
        self._exchange = None
        self._read_prompt()
        if self._means.pull is not None:
            self._means.pull()
        self._hear(self.monitor.end, Ending.COMPLETE)

    def on_error(self, error: UpstreamError) -> None:
        self._exchange, self._opened_at = None, 0.0
        self._hear(self.monitor.end, error.ending)

    # --- the outlet's calls ---

    def on_blocked(self) -> None:
        super().on_blocked()
        self.monitor.paused(monotonic())

    def on_free(self) -> None:
        super().on_free()
        self.monitor.resumed(monotonic())

    # --- looking ---

    def _look(self, now: float) -> None:
        """The look that the last read called for."""
        self._looking = False
        if not self.over.done():
            self._hear(self.monitor.look)

    def _read_prompt(self) -> None:
        """Before the last look: whose words these may be depends on what was asked."""
        origins, enrolled = self._means.origins, self._enrolled
        if origins is not None and enrolled is not None and not enrolled.party.ready:
            origins.read_now(enrolled)

    # --- obeying ---

    def _hear(self, tell: Callable[..., Sequence[Action]], *what: object) -> None:
        """Tell the monitor, and obey."""
        now = monotonic()
        try:
            self._obey(tell(*what, now), now)
        except Exception as error:  # noqa: BLE001 - a defect of ours must not take the process's other streams
            self.crash(error)

    def crash(self, error: Exception) -> None:
        super().crash(error)
        with suppress(Exception):  # the monitor may be what is broken; what it held must be given back
            self.monitor.gone(monotonic())

    def _obey(self, actions: Sequence[Action], now: float) -> None:
        for action in actions:
            match action:
                case Forward(data) | Commit(data):
                    self._commit(now)
                    if data:
                        self._outlet.body(data)
                case Restart():
                    self._restart(action, now)
                case Finish():
                    self._commit(now)
                    self._outlet.end()
                    self.finish()
                case Fail():
                    self._fail_loudly(action)
                case Report(incident):
                    answers = (*self._answers, self._tail())
                    kept = Kept(self._facts, self.request.body, answers, self._scene(incident))
                    self._means.keep(incident, kept)

    def _commit(self, now: float) -> None:
        """The response head goes out, once; from here on there is no other attempt to show."""
        if self._head_sent:
            return
        if self._headed_at:
            self._means.desk.sample("added_latency_seconds:first_byte", now - self._headed_at)
        if self._data_at:
            self._means.desk.sample("added_latency_seconds:hold", now - self._data_at)
        sent = self._sent
        changes = self._streamed or sent.asked_growth or sent.asked_usage or sent.asked_spec
        headers = towards_client(self._head.headers, keep_length=not changes)
        self.send_head(self._head.status, headers + self._told_attempts())

    def _told_attempts(self) -> Headers:
        return [(ATTEMPTS, b"%d" % self._attempts)] if self._attempts > 1 else []

    def _scene(self, incident: Incident) -> Scene:
        """Where the worst of its attempts ran."""
        worst = max(incident.attempts, key=lambda attempt: attempt.judgement.level)
        return Scene(
            self._means.engines.get(worst.worker, Engine()),
            self._neighbours() if self._beside is None else self._beside,
            self._headed_at - self._started_at if self._headed_at else nan,
            self._data_at - self._started_at if self._data_at else nan,
            self._means.policy() or UNSAID,
        )

    def _neighbours(self) -> tuple[str, ...] | None:
        """Requests that are open on the same worker now; None where the router does not name it."""
        here = self.monitor.generation.worker.url
        if not here:
            return None
        others = (
            one.monitor.generation for one in self._means.live if type(one) is Guard and one is not self
        )
        return tuple(islice((one.outgoing_rid for one in others if one.worker.url == here), BESIDE_MAX))

    def _tail(self) -> str:
        inspector = self.monitor.generation.inspector
        return inspector.tail if inspector is not None else ""

    def _restart(self, restart: Restart, now: float) -> None:
        self._answers.append(self._tail())
        if self._beside is None and self.monitor.record.taken_back:
            self._beside = self._neighbours()
        self.leave(drain=restart.drain, reason="verdict")
        rid = new_rid()
        self._sent = self._outgoing(rid)
        self._avoid = frozenset(restart.avoid)
        self._pin = self._means.pins.choose(self._facts.model, self._avoid)
        self._attempts += 1
        if self._enrolled is not None:
            self._enrolled.party.take_back()
        self.monitor.retry(rid, self._sent, now)
        self.open(self._attempt(), now)

    def _fail_loudly(self, fail: Fail) -> None:
        self.leave(drain=fail.drain, reason="verdict")
        if self._head_sent:
            if fail.in_band:
                self._outlet.body(fail.in_band)
        else:
            headers = refusal_headers(fail.body, fail.retry_after_s)
            self.send_head(fail.status, headers + self._told_attempts())
            self._outlet.end(fail.body)
        self.finish()

    # --- attempts ---

    def _outgoing(self, rid: str) -> Outgoing:
        return self._theirs.outgoing(self.request.body, self._facts, rid, ask_growth=self._means.ask_growth)

    def _attempt(self) -> Request:
        """The request as this attempt sends it."""
        request = self.request
        headers: Headers = request.headers
        if self._pin is not None:
            headers = [*headers, (TARGET_WORKER, b"%d" % self._pin)]
        return Request(request.method, request.target, headers, self._sent.body)
