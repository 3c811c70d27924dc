"""A request's bytes in custody: held until judged, then released, taken back, or failed loudly.

                      clean, window passed
    WAITING --head--> OPEN, holding ------> OPEN, releasing --end--> DONE
       ^                 | corrupt             | corrupt
       |  restart        v                     v
       +------------ TAKEN_BACK             DONE: failed in-band

Here is what can be done with a generation; `monitor.py` hears what happens and decides when.
"""

from collections.abc import Sequence
from enum import Enum, auto
from typing import Final

from msgspec import structs

from service.core.desk import Desk
from service.core.dialects.protocol import Dialect, Outgoing
from service.core.events import (
    Action,
    Forward,
    Guilty,
    Judgement,
    Level,
    Outcome,
    Policy,
    Report,
    RequestFacts,
)
from service.core.generation import Generation
from service.core.holdback import HoldBack
from service.core.policy import RoutePolicy
from service.core.record import Record
from service.core.recourse import TOO_LARGE, Recourse, Words
from service.core.retry import Refusal
from service.core.wholebody import WholeBody

NOTHING: Final[tuple[Action, ...]] = ()


class State(Enum):
    WAITING = auto()  # for the response head of an attempt
    OPEN = auto()  # a response is flowing; bytes may or may not have gone out
    TAKEN_BACK = auto()  # a restart was ordered; the proxy is opening the next attempt
    DONE = auto()


class Custody:
    """What is held of one request, and the means to end it."""

    __slots__ = (
        "_beat_at",
        "_desk",
        "_dialect",
        "_facts",
        "_held_before",
        "_hold",
        "_look_events",
        "_paused_at",
        "_recourse",
        "_route",
        "_route_holds",
        "_silence_s",
        "_suspect_at",
        "_ticked_at",
        "_waived",
        "_whole",
        "committed",
        "defers",
        "generation",
        "look_due",
        "outcome",
        "record",
        "released",
        "rid",
        "state",
    )

    def __init__(
        self,
        *,
        facts: RequestFacts,
        dialect: Dialect,
        outgoing: Outgoing,
        route: RoutePolicy,
        desk: Desk,
        rid: str,
        now: float,
    ) -> None:
        if facts.shows_ids:
            facts = structs.replace(facts, vocabulary=desk.vocabularies.of(facts.model))
        self._facts, self._dialect, self._route, self._desk, self.rid = facts, dialect, route, desk, rid
        self._beat_at = self._ticked_at = now
        self._held_before = 0
        self._look_events = route.look_events
        self._route_holds = route.holds
        self._paused_at: float | None = None
        self._silence_s = 0.0  # the longest that the client was without a byte, as far as ticks saw
        self._waived = False  # a verdict stands and the text goes out all the same
        self.committed = False  # the response head is with the client
        self.defers = False  # True: `feed` only says that a look is due, and the proxy asks for it later
        self.look_due = False
        self.released = False  # bytes of an answer are with the client
        self.outcome: Outcome | None = None
        self.record = Record(rid, facts, route, desk, now)
        self._recourse = Recourse(self.record, route, dialect, desk)
        self.retry(rid, outgoing, now)

    @property
    def held_bytes(self) -> int:
        return self._hold.bytes + self.generation.pending_bytes + self._whole.held

    @property
    def is_open(self) -> bool:
        return self.state is State.OPEN

    @property
    def judgement(self) -> Judgement:
        return self.generation.judgement

    @property
    def holds(self) -> bool:
        """Whether bytes wait for a judgement."""
        return self._route.holds and not self._waived

    def retry(self, rid: str, outgoing: Outgoing, now: float) -> None:
        """An attempt is being opened: the first, or the next after a Restart."""
        self.state = State.WAITING
        self.generation = Generation(rid, self._facts, self._dialect, outgoing, now)
        self._hold = HoldBack()
        self._whole = WholeBody(self._route.whole_bytes)
        self._suspect_at: float | None = None
        self._desk.governor.opened(now)

    def _take_in(self, now: float) -> None:
        """Judge what has come and put it behind what is held."""
        generation = self.generation
        data, events = generation.look_held(now)
        if data:
            tokens, tool_open = generation.tokens, generation.tool_open
            self._hold.push(data, events=events, tokens=tokens, at=now, tool_open=tool_open)
        self._account()

    def _act(self, now: float) -> Sequence[Action]:
        level = self.generation.judgement.level
        if level is Level.CORRUPT:
            return self._corrupt(now)
        if level is Level.SUSPECT and not self._suspected_long_enough(now):
            return NOTHING
        route = self._route
        late = route.policy is Policy.STRICT and not self.released
        if late and not self._hold.spans(route.first_tokens, route.first_s):
            return NOTHING
        due = self._hold.due(
            window_tokens=route.window_tokens,
            window_s=route.window_s,
            tool_bytes=route.tool_bytes,
            tool_s=route.tool_s,
        )
        return self._release(due, now)

    def _suspected_long_enough(self, now: float) -> bool:
        if self._suspect_at is None:
            self._suspect_at = now
        return now - self._suspect_at >= self._route.suspect_hold_s

    def _release(self, data: bytes, now: float) -> Sequence[Action]:
        self._account()
        if not data:
            return NOTHING
        self._beat_at = now
        return self._pass(data)

    def _corrupt(self, now: float) -> Sequence[Action]:
        """A verdict stands against the current generation."""
        again = self._again("verdict", now)
        if again:
            return again
        if self.released:
            return self._fail_corrupt("generation taken back: its text is corrupted", now)
        if self._exhausted() or self._route.policy is Policy.STRICT:
            return self._fail_corrupt("no clean generation could be had", now)
        return self._waive(now)

    def _exhausted(self) -> bool:
        refusal = self._recourse.refusal(self.generation, released=self.released)
        return refusal is Refusal.GENERATIONS

    def _waive(self, now: float) -> Sequence[Action]:
        """Out of means on `protect`: deliver and mark, from here on as in observe."""
        self._waived = True
        self.record.bad_from = max(self.judgement.onset_token, 0)
        return self._release(self._hold.drain(), now)

    def _overflow(self, now: float) -> Sequence[Action]:
        """More is held than may be: `protect` releases what nothing speaks against, `strict` refuses."""
        self._take_in(now)
        if self.judgement.level is Level.CORRUPT:
            return self._corrupt(now)
        self._desk.count("hold_overflow", self._route.policy)
        if self._route.policy is Policy.STRICT:
            return self._fail(TOO_LARGE, Outcome.REFUSED, now)
        return self._release(self._hold.drain(), now)

    def _pass(self, data: bytes) -> Sequence[Action]:
        self.released = self.committed = True
        return (Forward(data),)

    def _again(self, reason: str, now: float) -> Sequence[Action]:
        """Order another generation; nothing where there is none to be had."""
        restart = self._recourse.again(self.generation, reason, now, released=self.released)
        if restart is None:
            return NOTHING
        self._hold.drop()
        self._whole.take()
        self._account()
        self.state = State.TAKEN_BACK
        return (restart,)

    def _fail_corrupt(self, message: str, now: float) -> Sequence[Action]:
        if self.released:
            self.record.bad_from = max(self.judgement.onset_token, 0)
        reason = f"corrupted_{self.judgement.kind}"
        return self._fail((502, Guilty.ENGINE, reason, message), Outcome.FAILED, now)

    def _fail(self, words: Words, outcome: Outcome, now: float) -> Sequence[Action]:
        """End loudly; what is held is never sent."""
        fail = self._recourse.fail(words, self.generation, now)
        return (fail, *self._close(outcome, now))

    def _note_silence(self, now: float) -> None:
        """Once a tick: how long the client has been without a byte, unless it does not read them."""
        if self.committed and self._paused_at is None:
            sent_at = self._beat_at if self.holds else self.generation.heard_at
            self._silence_s = max(self._silence_s, now - sent_at)

    def _close(self, outcome: Outcome, now: float) -> Sequence[Action]:
        """The request is over: give everything back and keep an incident where there is one."""
        self.state, self.outcome = State.DONE, outcome
        generation = self.generation
        if self.committed and generation.streamed:
            self._desk.sample("client_silence_seconds", self._silence_s)
        streamed_through = not self._route.holds or self._waived
        delivered = generation.tokens if streamed_through else self._hold.released_tokens
        incident = self.record.close(outcome, generation, delivered if self.released else 0, now)
        self._hold.drop()
        self._whole.take()
        generation.pending_bytes = 0
        self._account()
        return (Report(incident),) if incident is not None else NOTHING

    def _clean_outcome(self) -> Outcome:
        """What a delivery with nothing against it is called, after what came before it."""
        if self.generation.error:
            return Outcome.UPSTREAM_ERROR
        return Outcome.RECOVERED if self.record.taken_back else Outcome.CLEAN

    def _account(self) -> None:
        """Keep the process-wide account of held bytes in step with ours."""
        held = self.held_bytes
        self._desk.held_bytes += held - self._held_before
        self._held_before = held
