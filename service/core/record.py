"""A request's generations and what became of them: counters at their end, an incident where there is one.

Everything here happens once a generation or once a request, never once a chunk.
"""

from typing import Final

from msgspec import structs

from service.core.desk import Desk
from service.core.endings import ENGINE_NAN
from service.core.events import (
    UNKNOWN,
    Attempt,
    Channel,
    Incident,
    Judgement,
    Kind,
    Level,
    Outcome,
    Policy,
    RequestFacts,
)
from service.core.generation import Generation
from service.core.groundtruth import Word
from service.core.loglines import LogKind
from service.core.policy import RoutePolicy

UNNAMED: Final = "unknown"
"""The worker in a metric's label where no router named it."""


class Record:
    """What the monitor remembers of generations that are over."""

    __slots__ = (
        "_desk",
        "_facts",
        "_last",
        "_rid",
        "_route",
        "_started_at",
        "attempts",
        "bad_from",
        "signatures",
    )

    def __init__(self, rid: str, facts: RequestFacts, route: RoutePolicy, desk: Desk, now: float) -> None:
        self._rid, self._facts, self._route, self._desk, self._started_at = rid, facts, route, desk, now
        self.attempts: list[Attempt] = []
        self._last: Generation | None = None
        self.signatures: dict[tuple[str, str, str], int] = {}  # how often each was seen
        self.bad_from = UNKNOWN  # the token from which delivered text is known to be bad

    def __repr__(self) -> str:
        return f"<Record {len(self.attempts)} attempts>"

    @property
    def workers(self) -> tuple[str, ...]:
        """Who has answered so far."""
        return tuple(attempt.worker for attempt in self.attempts if attempt.worker)

    @property
    def suspected(self) -> bool:
        return any(attempt.judgement.level is Level.SUSPECT for attempt in self.attempts)

    @property
    def taken_back(self) -> bool:
        """Whether an earlier generation was taken back for what it said, not for a broken wire."""
        return any(attempt.judgement.level is not Level.CLEAN for attempt in self.attempts)

    def over(self, generation: Generation) -> Attempt:
        """A generation is over: remember and count it, once."""
        if generation is self._last:
            return self.attempts[-1]
        self._last = generation
        desk = self._desk
        attempt = self._with_the_engines_words(generation.attempt())
        self.attempts.append(attempt)
        judgement = attempt.judgement
        self._count(judgement)
        if generation.malformed:
            desk.count("malformed_events", by=generation.malformed)
        if generation.inspector is not None:
            for detector, times in generation.inspector.faults.items():
                desk.count("detector_faults", detector, by=times)
            for kind, error in generation.inspector.errors():
                desk.sample(f"acceptance_error:{kind}", error)
            desk.coverage.over(attempt.worker, attempt.telemetry)
            desk.watch.over(attempt, self._facts, self._route.name, generation.heard_at)
            self._blame_draft(attempt)
            desk.count("telemetry_streams", attempt.telemetry)
        if attempt.steps:
            desk.count("spec_verify_steps", by=attempt.steps)
            desk.count("spec_emitted_tokens", by=round(attempt.accept_length * attempt.steps))
            desk.sample(f"spec_accept_length:{attempt.worker or UNNAMED}", attempt.accept_length)
        return attempt

    def _blame_draft(self, attempt: Attempt) -> None:
        """Tell the fleet whether acceptance alone was suspected: of many streams, it is the draft's fault."""
        fusion, found, low = self._desk.fusion, False, False
        for finding in attempt.findings:
            if finding.channel is not Channel.TELEMETRY:
                found = found or finding.log10_e >= fusion.suspect_other
            elif finding.kind is Kind.LOW_ACCEPTANCE:
                low = low or finding.log10_e >= fusion.suspect_telemetry
        if self._desk.fleet.over(attempt.worker, low=low, found=found, accept_length=attempt.accept_length):
            self._desk.count("draft_faults", attempt.worker)

    def _with_the_engines_words(self, attempt: Attempt) -> Attempt:
        """Add what the engine's own checks said of this generation, or of its workers meanwhile."""
        ground = self._desk.ground
        if attempt.judgement.detector == ENGINE_NAN:
            ground.hear(Word(LogKind.NAN, self._started_at, attempt.worker, attempt.rid))
        if not ground.counts:
            return attempt
        workers = {worker for worker in (attempt.worker, attempt.prefill) if worker}
        said = ground.said(attempt.rid, workers, self._started_at)
        return structs.replace(attempt, engine_said=said) if said else attempt

    def _count(self, judgement: Judgement) -> None:
        if judgement.level is Level.CORRUPT:
            self._desk.count("verdicts", judgement.kind, judgement.detector)
            if self._route.policy is Policy.OBSERVE:
                self._desk.count("would_abort", judgement.kind)
            if judgement.foreign:
                self._desk.count("foreign_text")
        elif judgement.level is Level.SUSPECT:
            self._desk.count("suspects", judgement.detector)

    def again(self, generation: Generation) -> None:
        """A generation is taken back and will be made again."""
        if generation.judgement.level is not Level.CLEAN:
            signature = generation.judgement.signature
            self.signatures[signature] = self.signatures.get(signature, 0) + 1
        attempt = self.over(generation)
        self._desk.count("tokens", "discarded", by=max(attempt.tokens, 0))

    def close(
        self, outcome: Outcome, generation: Generation, delivered_tokens: int, now: float
    ) -> Incident | None:
        """The request is over: count it; the incident, where a verdict or a suspicion stood."""
        attempt = self.over(generation)
        desk, kind = self._desk, generation.judgement.kind
        desk.budget.completed(now)
        desk.count("streams", self._route.name, self._route.policy, outcome)
        desk.count("tokens", "delivered", by=max(delivered_tokens, 0))
        desk.sample("stream_duration_seconds", now - self._started_at)
        bad_tokens = max(0, delivered_tokens - self.bad_from) if self.bad_from != UNKNOWN else 0
        if bad_tokens:
            desk.count("delivered_bad_tokens", by=bad_tokens)
        if outcome is Outcome.MARKED:
            desk.count("escaped", kind)
        elif outcome is Outcome.FAILED and bad_tokens:
            desk.count("late_detections", kind)
        elif outcome is Outcome.CLEAN and attempt.judgement.level is Level.CLEAN:
            self._learn(attempt, generation)
        if not self.taken_back:
            return None
        return self._incident(outcome, bad_tokens, now)

    def _learn(self, attempt: Attempt, generation: Generation) -> None:
        """Nothing was found: what this stream was like is what healthy streams are like."""
        facts = self._facts
        self._desk.fleet.clean_stream(attempt.worker, facts, attempt.accept_length, attempt.steps)
        if facts.vocabulary is not None and generation.inspector is not None:
            facts.vocabulary.learn(generation.inspector.ids)

    def _incident(self, outcome: Outcome, bad_tokens: int, now: float) -> Incident:
        worst = max((a.judgement for a in self.attempts), key=lambda j: (j.level, j.log10_e))
        return Incident(
            rid=self._rid,
            route=self._route.name,
            policy=Policy(self._route.policy),
            model=self._facts.model,
            outcome=outcome,
            judgement=worst,
            attempts=tuple(self.attempts),
            delivered_bad_tokens=bad_tokens,
            duration_s=now - self._started_at,
        )
