"""What is known of one incident, as the questions that hints ask."""

import re
from collections.abc import Sequence
from math import isfinite
from typing import Final

from service.core.changes import Change
from service.core.events import Attempt, Channel, Incident, Kind, Level, RequestFacts
from service.core.fleet_acceptance import State
from service.core.fleet_rates import Rate
from service.core.fleet_watch import FleetView, Reason, WorkerView

STEPS_MIN: Final = 16
"""Verify steps under which an accept length says nothing."""
FULL_SLACK: Final = 0.2
NONE_LENGTH: Final = 1.1
FELL: Final = 0.6
"""Of the worker's own accept length: two standard deviations of a hundred steps, and more."""
COLD: Final = 0.01
"""A temperature at which a model says the same again."""
PROMPT_CHARS: Final = 4096
"""Of a prompt, its end: what is asked for stands there."""
_REPEAT: Final = re.compile(
    r"\b(?:repeat|say|print|write|output)\b[^.\n]{0,80}\b(?:\d{2,}|hundred|thousand|many)\b"
    r"|\b\d{2,}\s*(?:times|x\b|mal\b|fois\b|veces\b)|\d+\s*(?:次|遍|回)|重复|繰り返",
    re.IGNORECASE,
)


class Evidence:
    """One incident in its surroundings."""

    def __init__(
        self,
        incident: Incident,
        facts: RequestFacts,
        view: FleetView,
        changes: Sequence[Change] = (),
        *,
        caches: bool = True,
    ) -> None:
        """`changes`: those near the onset. `caches`: False where its worker has told of no prefix cache."""
        self.incident = incident
        self.facts = facts
        self.view = view
        self.changes = changes
        self.caches = caches
        self.bad = tuple(one for one in incident.attempts if one.judgement.level is not Level.CLEAN)
        self.clean = tuple(
            one
            for one in incident.attempts
            if one.judgement.level is Level.CLEAN and one.status == 200  # noqa: PLR2004 - HTTP's own number
        )
        self.words = {word.rpartition(":")[2] for one in self.bad for word in one.engine_said}
        self.own_words = {word for one in self.bad for word in one.engine_said if ":" not in word}

    def __repr__(self) -> str:
        return f"<Evidence {self.kind} {len(self.bad)} bad, {len(self.clean)} clean>"

    # --- the generation itself ---

    @property
    def kind(self) -> Kind:
        return self.incident.judgement.kind

    def found(self, detector: str, unit: str = "") -> bool:
        """Whether this detector spoke, with this sign where one is named."""
        findings = (finding for one in self.bad for finding in one.findings)
        return any(one.detector == detector and unit in {"", one.unit} for one in findings)

    @property
    def text_found(self) -> bool:
        """Whether anything but telemetry speaks against the text."""
        return any(
            finding.channel is not Channel.TELEMETRY for one in self.bad for finding in one.findings
        ) or self.kind not in {Kind.LOW_ACCEPTANCE, Kind.NORMAL}

    def fully_accepted(self) -> bool:
        """Nearly every draft token was accepted."""
        return any(
            one.accept_length >= depth + 1 - FULL_SLACK
            for one in self.bad
            if one.steps >= STEPS_MIN and (depth := self._depth(one)) > 0
        )

    def hardly_accepted(self) -> bool:
        return any(one.accept_length <= NONE_LENGTH for one in self.bad if one.steps >= STEPS_MIN)

    def ordinarily_accepted(self) -> bool:
        """Acceptance is known, and is neither."""
        known = any(one.steps >= STEPS_MIN and isfinite(one.accept_length) for one in self.bad)
        return known and not self.fully_accepted() and not self.hardly_accepted()

    # --- where else ---

    @property
    def workers(self) -> tuple[str, ...]:
        """Who gave the bad answers, prefill workers included."""
        names = [name for one in self.bad for name in (one.worker, one.prefill) if name]
        return tuple(dict.fromkeys(names))

    @property
    def pd(self) -> bool:
        """Whether prefill and decode are known to be apart."""
        return bool(self.view.prefills) or any(one.prefill for one in self.incident.attempts)

    @property
    def same_elsewhere(self) -> bool:
        """Two workers gave the same bad answer."""
        seen: dict[tuple[str, str, str], set[str]] = {}
        for one in self.bad:
            if one.worker:
                seen.setdefault(one.judgement.signature, set()).add(one.worker)
        return any(len(workers) > 1 for workers in seen.values())

    @property
    def clean_elsewhere(self) -> bool:
        """Another worker answered the same prompt well."""
        bad = {one.worker for one in self.bad}
        return any(one.worker and one.worker not in bad for one in self.clean)

    @property
    def clean_here(self) -> bool:
        """The same worker answered it well at another time."""
        bad = {one.worker for one in self.bad if one.worker}
        return any(one.worker in bad for one in self.clean)

    @property
    def cold(self) -> bool:
        return self.facts.temperature <= COLD

    @property
    def tiers(self) -> set[str]:
        """Where the bad generations' prefixes came from, as far as told."""
        return {one.cached.tier for one in self.bad if one.cached.tier}

    @property
    def from_cache(self) -> bool:
        """A part of a bad generation's prompt came out of a prefix cache."""
        return any(one.cached.tokens > 0 for one in self.bad)

    # --- the request ---

    @property
    def asks_to_repeat(self) -> bool:
        """The end of the prompt names a number of times, or a repetition."""
        return _REPEAT.search(self.facts.prompt[-PROMPT_CHARS:]) is not None

    @property
    def grammar(self) -> bool:
        return self.facts.wants_json or self.facts.tools

    # --- the fleet ---

    def trouble(self, counter: str) -> float:
        """How far a counter of trouble moved on these workers within ten minutes."""
        return sum(one.trouble.get(counter, 0.0) for one in self._views())

    @property
    def scraped(self) -> bool:
        """Whether the counters of all of them are read: then one that did not move is evidence, too."""
        views = self._views()
        return bool(views) and len(views) == len(self._places) and all(view.scraped for view in views)

    def suspect(self, reason: Reason) -> bool:
        return any(reason in one.suspect for one in self._views())

    def suspect_group(self, dimension: str) -> Rate | None:
        """A group of this dimension with more bad answers than its peers, to which a bad one belongs."""
        values = {value for one in self.bad for value in _values(one, dimension)}
        return next(
            (r for r in self.view.suspect_groups() if r.dimension == dimension and r.value in values), None
        )

    @property
    def fallen_together(self) -> bool:
        return bool(self.view.fallen_models)

    @property
    def acceptance_as_ever(self) -> bool:
        """These workers' acceptance is known and has not fallen."""
        states = {seen.state for one in self._views() for seen in one.acceptance}
        return bool(states) and states <= {State.NO_EVIDENCE}

    @property
    def request_fell(self) -> bool:
        """Acceptance is low in this generation, and as ever on its worker."""
        return any(
            one.steps >= STEPS_MIN and one.accept_length <= FELL * seen.baseline
            for one in self.bad
            if (view := self.view.worker(one.worker)) is not None
            for seen in view.acceptance
            if seen.state is State.NO_EVIDENCE
        )

    @property
    def _places(self) -> tuple[str, ...]:
        """Where trouble may be: the bad answers' workers; all prefill workers where theirs is unknown."""
        unknown = any(not one.prefill for one in self.bad)
        return tuple(dict.fromkeys([*self.workers, *(self.view.prefills if unknown else ())]))

    def _views(self) -> list[WorkerView]:
        views = (self.view.worker(url) for url in self._places)
        return [view for view in views if view is not None]

    def _depth(self, attempt: Attempt) -> int:
        view = self.view.worker(attempt.worker)
        return view.draft_tokens if view is not None else -1


def _values(attempt: Attempt, dimension: str) -> tuple[str, ...]:
    match dimension:
        case "worker":
            return (attempt.worker,)
        case "prefill":
            return (attempt.prefill,)
        case "pair":
            return (f"{attempt.prefill} -> {attempt.worker}",)
        case "cache":
            return (attempt.cached.tier,)
        case _:
            return ()
