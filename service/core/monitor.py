"""One client's request through all its generations: bytes in, actions out.

Hears what the proxy tells (head, bytes, ticks, ends) and answers with actions for it to obey. Until the first
release a bad generation is taken back unseen and made again; after it the held tail is dropped and the stream
fails loudly (`custody.py`). `observe` lets every byte through as it comes and only says what it saw.

The order of a tick: judge, act on the judgement, release what is older than the window, keep alive.
Nothing here reads a clock or touches a socket.
"""

from collections.abc import Sequence
from typing import Final

from service.core.custody import NOTHING, Custody, State
from service.core.endings import LOST, judge_ending
from service.core.events import (
    CLEAN,
    UNKNOWN,
    Action,
    Commit,
    Ending,
    Finish,
    Forward,
    Guilty,
    Judgement,
    Level,
    Outcome,
    Policy,
    WorkerFacts,
)
from service.core.recourse import TOO_LARGE, UNREADABLE

QUIET_S: Final = 1.0
"""Silence shorter than this is not put to the detectors at all."""
STALL_S: Final = 0.75
"""A tick so late is our own stall, or the whole machine's: it says nothing about the engine."""
RETRYABLE_STATUS: Final = frozenset({500, 502, 503, 504})


class Monitor(Custody):
    """The stream's life. Create it with the client's request; feed it; obey it."""

    __slots__ = ()

    def __repr__(self) -> str:
        return (
            f"<Monitor {self.state.name} generation {len(self.record.attempts) + 1}"
            f" {self.judgement.level.name} held={self.held_bytes} released={self.released}>"
        )

    # --- what the proxy tells us ---

    def head(self, status: int, worker: WorkerFacts, streamed: bool, now: float) -> Sequence[Action]:
        """The response head of the current attempt arrived."""
        self.state = State.OPEN
        policy = self._route.policy
        self.generation.open(status, worker, streamed=streamed, desk=self._desk, now=now, policy=policy)
        if status in RETRYABLE_STATUS and self.holds:
            return self._again(f"status_{status}", now) or NOTHING
        return NOTHING

    def encoded(self, status: int, worker: WorkerFacts, now: float) -> Sequence[Action]:
        """The response head arrived, and the body is in a coding that nobody asked for: it cannot be read."""
        self.state = State.OPEN
        self.generation.seal(status, worker, now)
        self._desk.count("uninspected", "encoding")
        if self._route.policy is Policy.STRICT:
            return self._again("unreadable", now) or self._fail(UNREADABLE, Outcome.UPSTREAM_ERROR, now)
        return NOTHING

    def feed(self, data: bytes, now: float) -> Sequence[Action]:
        """Bytes of the response body."""
        passed = self.pass_on(data, now)
        if passed is not None:
            return (Forward(passed),) if passed else NOTHING
        if self.generation.inspector is None:
            return self._pass(data)
        if not self.generation.streamed:
            return self._feed_whole(data, now)
        return self._feed_held(data, now)

    def pass_on(self, data: bytes, now: float) -> bytes | None:
        """As `feed` where an answer streams and nothing is held, without the wrapping: what goes out at once.

        None where that is not so, and nothing has been done.
        """
        generation = self.generation
        if (
            (self._route_holds and not self._waived)
            or generation.inspector is None
            or not generation.streamed
        ):
            return None
        if generation.cuts:
            data = generation.put_cut(data, now)
        else:
            generation.put(data, now)
        if (
            len(generation.pending) >= self._look_events
            or generation.pending_bytes > self._route.stream_bytes  # `/generate` repeats its text in each
        ):
            if self.defers:
                self.look_due = True
            else:
                generation.look(now)
        if data:
            self.released = self.committed = True
        return data

    def look(self, now: float) -> Sequence[Action]:
        """The look that `feed` called for and put off."""
        self.look_due = False
        if not self.is_open or self.generation.inspector is None:
            return NOTHING
        return self._look(now)

    def tick(self, now: float) -> Sequence[Action]:
        """Time has passed; called every 250 ms."""
        generation = self.generation
        stalled_s, self._ticked_at = now - self._ticked_at, now
        self._note_silence(now)
        if stalled_s > STALL_S:
            generation.heard_at += stalled_s  # what came meanwhile still waits in the socket
        if not self.is_open or generation.inspector is None:
            return NOTHING
        overdue = generation.pending and now - generation.pending_since >= self._route.inspect_s
        looked = self._look(now) if overdue else NOTHING
        actions = (*looked, *self._quiet(now))
        return actions or self._keep_alive(now)

    def end(self, ending: Ending, now: float) -> Sequence[Action]:
        """The response body ended, one way or another; also: no response came at all."""
        if self.state is State.DONE:
            return NOTHING
        if self.state is State.WAITING:
            self.generation.close(ending, now)
            return self._lost(ending, now)
        if self.generation.inspector is None:
            return self._end_uninspected(ending, now)
        return self._end_stream(ending, now) if self.generation.streamed else self._end_whole(ending, now)

    def paused(self, now: float) -> None:
        """The client reads slower than the engine writes; silence from here on is ours."""
        self._paused_at = now

    def resumed(self, now: float) -> None:
        if self._paused_at is not None:
            self.generation.heard_at += now - self._paused_at
            self._beat_at += now - self._paused_at
            self._paused_at = None

    def gone(self, now: float) -> Sequence[Action]:
        """The client went away."""
        if self.state is State.DONE:
            return NOTHING
        if self.state is State.OPEN and self.generation.inspector is not None:
            self.generation.look(now)
        return self._close(Outcome.CLIENT_GONE, now)

    def refuse(self, status: int, guilty: Guilty, reason: str, message: str, now: float) -> Sequence[Action]:
        """The proxy cannot go on (no upstream, shutting down): end loudly."""
        if self.state is State.DONE:
            return NOTHING
        return self._fail((status, guilty, reason, message), Outcome.UPSTREAM_ERROR, now)

    def drains(self, now: float, *, client_gone: bool) -> bool:
        """Whether the current upstream should run out unread instead of being closed: the governor's word."""
        generation = self.generation
        seen = generation.events_seen > 0 or any(event[:1] != b":" for event in generation.pending)
        return self._desk.governor.drains(now, first_item_seen=seen, client_gone=client_gone)

    # --- protect and strict ---

    def _feed_held(self, data: bytes, now: float) -> Sequence[Action]:
        self.generation.put(data, now)
        if self.held_bytes > self._route.stream_bytes or self._desk.held_bytes > self._desk.held_max:
            return self._overflow(now)
        if self.generation.wants_look(self._look_events):
            if not self.defers:
                return self._look(now)
            self.look_due = True
        return NOTHING

    def _look(self, now: float) -> Sequence[Action]:
        if not self.holds:
            self.generation.look(now)
            return NOTHING
        self._take_in(now)
        return self._act(now)

    # --- responses that are not streamed ---

    def _feed_whole(self, data: bytes, now: float) -> Sequence[Action]:
        """Non-streamed bodies are judged whole; observe lets them through and keeps a copy up to the cap."""
        self.generation.heard_at = now
        fits = self._whole.add(data)
        self._account()
        if not self.holds:
            return self._pass(data)
        if fits:
            return NOTHING
        self._desk.count("hold_overflow", self._route.policy)
        if self._route.policy is Policy.STRICT:
            return self._fail(TOO_LARGE, Outcome.REFUSED, now)
        self._desk.count("uninspected", "too_large")
        self._waived = True
        return self._release(self._whole.give_up(), now)

    def _end_whole(self, ending: Ending, now: float) -> Sequence[Action]:
        body = self._whole.take()
        if ending is Ending.COMPLETE and body:
            self.generation.whole(body, now)
        self.generation.close(ending, now)
        if not self.holds:
            return self._end_seen(ending, now)
        if ending is not Ending.COMPLETE:
            return self._lost(ending, now)
        if self.generation.malformed and self._route.policy is Policy.STRICT:
            return self._again("unreadable", now) or self._fail(UNREADABLE, Outcome.UPSTREAM_ERROR, now)
        self._hold.push(body, events=1, tokens=self.generation.tokens, at=now, tool_open=False)
        return self._end_judged(now)

    # --- ends ---

    def _end_uninspected(self, ending: Ending, now: float) -> Sequence[Action]:
        """A response that nobody looked into, passed on as it is: no success, or sealed to us."""
        self.generation.ending = ending
        if ending is not Ending.COMPLETE:
            return self._lost(ending, now)
        outcome = Outcome.UNINSPECTED if self.generation.sealed else Outcome.UPSTREAM_ERROR
        return (Finish(), *self._close(outcome, now))

    def _end_stream(self, ending: Ending, now: float) -> Sequence[Action]:
        generation = self.generation
        if self.holds:
            self._take_in(now)
            self._hold.push(generation.rest(), events=0, tokens=generation.tokens, at=now, tool_open=False)
        else:
            generation.look(now)
        generation.close(ending, now)
        if ending is Ending.COMPLETE and generation.judgement.level is not Level.CORRUPT:
            verdict = judge_ending(generation)
            generation.judgement = generation.judgement if verdict is CLEAN else verdict
        if not self.holds:
            return self._end_seen(ending, now)
        return self._end_judged(now) if ending is Ending.COMPLETE else self._lost(ending, now)

    def _end_seen(self, ending: Ending, now: float) -> Sequence[Action]:
        """The end of a stream whose bytes went out as they came."""
        generation = self.generation
        corrupt = generation.judgement.level is Level.CORRUPT
        if corrupt and self.record.bad_from == UNKNOWN:
            self.record.bad_from = max(generation.judgement.onset_token, 0)
        rest = generation.rest() if generation.cuts and generation.streamed else b""
        tail: tuple[Action, ...] = (Forward(rest),) if rest else NOTHING
        if ending is not Ending.COMPLETE:
            return (*tail, *self._lost(ending, now))
        outcome = Outcome.MARKED if corrupt or self._waived else self._clean_outcome()
        return (*tail, Finish(), *self._close(outcome, now))

    def _end_judged(self, now: float) -> Sequence[Action]:
        """The end of a complete response whose last bytes are still held."""
        judgement = self.judgement
        if judgement.level is Level.CORRUPT:
            actions = self._corrupt(now)
            return (*actions, Finish(), *self._close(Outcome.MARKED, now)) if self._waived else actions
        again: Sequence[Action] = NOTHING
        if self.generation.error and not self.released:
            again = self._again("engine_error", now)
        elif self._wants_second_opinion(judgement):
            again = self._again("second_opinion", now)
        if again:
            return again
        actions = self._release(self._hold.drain(), now)
        return (*actions, Finish(), *self._close(self._clean_outcome(), now))

    def _wants_second_opinion(self, judgement: Judgement) -> bool:
        """At the end of an answer of which nothing is out, suspicion buys one more generation elsewhere.

        The same prompt is the fairest control. It never takes a running generation back.
        """
        if judgement.level is not Level.SUSPECT or self.released or self.record.suspected:
            return False
        inspector = self.generation.inspector
        return inspector is not None and inspector.doubt >= self._desk.fusion.second_opinion

    def _lost(self, ending: Ending, now: float) -> Sequence[Action]:
        """Router or engine failed us before the response was complete."""
        _, guilty, reason, _ = LOST[ending]
        self._desk.count("upstream_errors", guilty, reason)
        if self.holds and ending is not Ending.REFUSED:
            again = self._again(reason, now)
            if again:
                return again
        return self._fail(LOST[ending], Outcome.UPSTREAM_ERROR, now)

    # --- time ---

    def _quiet(self, now: float) -> Sequence[Action]:
        """Nothing came for a while: let the detectors judge the silence."""
        quiet_s = now - self.generation.heard_at
        if not self.is_open or self._paused_at is not None or quiet_s < QUIET_S:
            return NOTHING
        before = self.judgement.level
        after = self.generation.quiet(quiet_s, now).level
        return self._act(now) if self.holds and after is not before else NOTHING

    def _keep_alive(self, now: float) -> Sequence[Action]:
        """Heartbeats while we are the ones who hold: clients give up on a stream without bytes."""
        waits_s = self._route.beat_every_s if self.committed else self._route.commit_wait_s
        ours = self.is_open and self.generation.streamed and self.holds and self.held_bytes > 0
        if not ours or now - self._beat_at < waits_s:
            return NOTHING
        self._beat_at, self.committed = now, True
        return (Commit(self._dialect.beat()),)
