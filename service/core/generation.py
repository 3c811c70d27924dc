"""One generation of a request: its bytes split into events, read by the dialect, judged by the inspector.

Inspection is batched: bytes are put aside as they come and looked at together, because one pass over eight
events costs about what one pass over a single event does (state that has left the cache is most of it).
Where bytes wait for it, the first event is looked at alone and at once: a generation that is broken from the
start shows there.
"""

from zlib import crc32

from service.core.desk import Desk
from service.core.dialects.protocol import Dialect, Outgoing
from service.core.events import (
    CLEAN,
    UNKNOWN,
    Attempt,
    Delta,
    Ending,
    Judgement,
    Level,
    Policy,
    RequestFacts,
    WorkerFacts,
)
from service.core.inspector import Inspector
from service.core.probe_join import ProbeJoin, kind_of
from service.core.sse import EventSplitter, payloads


class Generation:
    """What is known of one attempt; the monitor decides about it."""

    __slots__ = (
        "_all_plain",
        "_cut",
        "_dialect",
        "_facts",
        "_fleet",
        "_joined",
        "_outgoing",
        "_reader",
        "_splitter",
        "cuts",
        "ending",
        "error",
        "events_seen",
        "finish",
        "heard_at",
        "inspector",
        "judgement",
        "malformed",
        "outgoing_rid",
        "pending",
        "pending_bytes",
        "pending_since",
        "sealed",
        "status",
        "streamed",
        "text_crc",
        "tokens",
        "tool_open",
        "worker",
    )

    def __init__(
        self, rid: str, facts: RequestFacts, dialect: Dialect, outgoing: Outgoing, now: float
    ) -> None:
        self.outgoing_rid = rid
        self._facts = facts
        self._dialect = dialect
        self._cut = dialect.cut
        self._outgoing = outgoing
        self._reader = dialect.reader(facts)
        self._joined: ProbeJoin | None = None  # None where nothing listens for probes
        self._splitter = EventSplitter()
        self._all_plain = True  # what is pending: one line of data each
        self.inspector: Inspector | None = None
        self.judgement: Judgement = CLEAN
        self.cuts = outgoing.asked_growth or outgoing.asked_usage or outgoing.asked_spec
        self.ending = Ending.COMPLETE
        self.error = ""
        self.events_seen = 0
        self.finish = ""
        self.heard_at = now
        self.malformed = 0
        self.pending: list[bytes] = []  # events set aside for the next look
        self.pending_bytes = 0  # of those that nobody has got yet
        self.pending_since = now
        self.sealed = False  # a success in a coding that we cannot read
        self.status = 0
        self.streamed = False
        self.text_crc = 0
        self.tokens = UNKNOWN
        self.tool_open = False
        self.worker = WorkerFacts()

    def __repr__(self) -> str:
        return f"<Generation status={self.status} events={self.events_seen} {self.judgement.level.name}>"

    def open(
        self,
        status: int,
        worker: WorkerFacts,
        *,
        streamed: bool,
        desk: Desk,
        now: float,
        policy: Policy = Policy.STRICT,
    ) -> None:
        """The response head is here; only a success is inspected, and by whom is the policy's to say."""
        self.status, self.worker, self.streamed, self.heard_at = status, worker, streamed, now
        if 200 <= status < 300:  # noqa: PLR2004 - HTTP's own number
            self.inspector = desk.inspector(policy, self._facts, worker)
            if desk.probes is not None:
                self._joined = ProbeJoin(desk.probes, self.outgoing_rid, self._facts.choices)
                self._fleet = desk.fleet

    def seal(self, status: int, worker: WorkerFacts, now: float) -> None:
        """The response head is here, and nobody can look into the body."""
        self.status, self.worker, self.heard_at, self.sealed = status, worker, now, True

    @property
    def unread(self) -> bool:
        """Some events could not be read (malformed, or too large): an end may have been missed."""
        return self.malformed > 0 or self._splitter.oversize > 0

    # --- bytes in ---

    def put(self, data: bytes, now: float) -> None:
        """Set bytes aside for the next look."""
        if not self.pending:
            self.pending_since = now
        if data[:1] != b":":  # comments (": ping") must not pass for a sign of life
            self.heard_at = now
        self.pending_bytes += len(data)
        if self._splitter.is_plain(data):
            self.pending.append(data)
        else:
            self._all_plain = False
            self.pending += self._splitter.feed(data)

    def put_cut(self, data: bytes, now: float) -> bytes:
        """As `put`; the answer is what may go out at once: whole events, less what only we asked for."""
        if self._splitter.is_plain(data):  # the usual read
            if not self.pending:
                self.pending_since = now
            self.heard_at = now
            self.pending.append(data)
            return self._cut(data, self._outgoing)
        known = len(self.pending)
        self.put(data, now)
        self.pending_bytes -= len(data)
        return b"".join([self._cut(event, self._outgoing) for event in self.pending[known:]])

    def wants_look(self, batch: int) -> bool:
        waiting = len(self.pending)
        return waiting >= batch or (self.events_seen == 0 and waiting > 0)

    # --- looks ---

    def look(self, now: float) -> Judgement:
        """Judge what was set aside (observe: the bytes themselves have gone)."""
        self._read(self._events(), now)
        return self.judgement

    def look_held(self, now: float) -> tuple[bytes, int]:
        """Judge what was set aside; the answer is its releasable bytes and how many events they are."""
        events = self._events()
        self._read(events, now)
        if self.cuts:
            cut, outgoing = self._dialect.cut, self._outgoing
            return b"".join([cut(event, outgoing) for event in events]), len(events)
        return b"".join(events), len(events)

    def whole(self, body: bytes, now: float) -> Judgement:
        """Judge a response that was not streamed."""
        self._note(self._with_steps([body], self._reader.whole(body)), now)
        return self.judgement

    def quiet(self, quiet_s: float, now: float) -> Judgement:
        if self.inspector is not None:
            self.judgement = self.inspector.quiet(quiet_s, now)
        return self.judgement

    def close(self, ending: Ending, now: float) -> Judgement:
        """No more bytes; the last look."""
        self.ending = ending
        if self._joined is not None and (rest := self._joined.rest()):
            self._note(rest, now)
        if self.inspector is not None:
            clean = ending is Ending.COMPLETE and bool(self.finish) and not self.error
            self.judgement = self.inspector.finish(now, clean)
        return self.judgement

    def rest(self) -> bytes:
        """Bytes of an event that never ended."""
        return self._splitter.rest()

    def attempt(self) -> Attempt:
        """What the incident keeps."""
        inspector = self.inspector
        if inspector is None:
            return Attempt(self.outgoing_rid, self.worker.url, self.status, ending=self.ending)
        joined = self._joined
        return Attempt(
            rid=self.outgoing_rid,
            worker=self.worker.url,
            status=self.status,
            judgement=self.judgement,
            tokens=self.tokens,
            steps=inspector.steps,
            accept_length=inspector.accept_length,
            findings=inspector.findings(),
            ending=self.ending,
            prefill=joined.pair.prefill if joined is not None else "",
            dp_rank=joined.dp_rank if joined is not None else UNKNOWN,
            telemetry=kind_of(joined, inspector.step_kind),
            cached=self._reader.cached,
            accepted=inspector.accepted if self.judgement.level is not Level.CLEAN else (),
        )

    # --- inside ---

    def _events(self) -> list[bytes]:
        """Take the complete events that were set aside."""
        pending, self.pending = self.pending, []
        self.pending_bytes = 0
        return pending

    def _read(self, events: list[bytes], now: float) -> None:
        found = [event[6:-2] for event in events] if self._all_plain else payloads(events)
        self._all_plain = True
        self.events_seen += len(found)
        if not found:
            return
        if self._joined is None:
            self._note(self._reader.brief(found), now)
        else:
            self._note(self._with_steps(found, self._reader.read(found)), now)

    def _with_steps(self, payloads: list[bytes], deltas: list[Delta]) -> list[Delta]:
        """The probe's exact verify steps go to the events they belong to; it may also name the worker."""
        joined = self._joined
        if joined is None:
            return deltas
        steps = joined.join(payloads, deltas)
        if not self.worker.url and self.inspector is not None and (url := joined.worker):
            self.worker = self._fleet.worker(url)
            self.inspector.answered_by(self.worker)
        return steps

    def _note(self, deltas: list[Delta], now: float) -> None:
        if not deltas:
            return
        for delta in deltas:
            if delta.text:
                self.tool_open = delta.tool
            self.tokens = max(self.tokens, delta.tokens)
            if delta.finish:
                self.finish, self.tool_open = delta.finish, False
            if delta.error:
                self.error = delta.error
            self.malformed += delta.malformed
        text = "".join([delta.text for delta in deltas])
        self.text_crc = crc32(text.encode("utf-8", "surrogatepass"), self.text_crc)
        if self.inspector is not None:
            self.judgement = self.inspector.read(deltas, now)
