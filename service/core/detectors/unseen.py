"""Unseen token ids: the answer begins to say tokens that no clean answer of this model has ever brought.

Where ids are visible (`/generate`) they show what text hides: an under-trained token may look like any word.
New ids alone prove nothing: a new language or new kind of work brings hundreds, but from its first token on.
So this is a shift: at most `before_most` new ids among the answer's first `before` tokens, and then so many
among the newest `window`. It seconds collapsed acceptance, or suspects, and never acts.

Said only once `learned_tokens` tokens of clean answers are known: with n tokens seen, the next one is new
with a chance of about (ids seen once) / n (Good, "The population frequencies of species", 1953). Whether a
shift tells as much as its strengths claim is not measured: no recorded corruption carries ids. Cost: 0.15 us
a token with ids, nothing without. State: the new ids and their places, for each is new once.
"""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Final

from service.core.events import Channel, Finding, Kind, Look, RequestFacts, WorkerFacts
from service.core.vocabulary import Vocabulary

NEW_MAX: Final = 256
"""New ids remembered: an answer of so many is in a language of its own, and judged by then."""


class UnseenState:
    """Where one choice stands."""

    __slots__ = ("early", "ids", "new", "places", "said", "vocabulary")

    def __init__(self, vocabulary: Vocabulary) -> None:
        self.vocabulary = vocabulary
        self.ids = 0  # so far
        self.early = 0  # new ones among the first
        self.new: set[int] = set()
        self.places: deque[int] = deque(maxlen=NEW_MAX)
        self.said = 0.0


@dataclass(frozen=True, slots=True)
class Unseen:
    """Parameters as they stand in the rule set under `unseen`."""

    learned_tokens: int
    before: int
    before_most: int
    window: int
    seconds_min: int
    seconds_log10: float
    suspects_min: int
    suspects_log10: float

    name: ClassVar[str] = "unseen"
    channel: ClassVar[Channel] = Channel.TEXT

    def start(self, facts: RequestFacts, worker: WorkerFacts) -> UnseenState | None:
        """Nothing where there are no ids, or too few were learnt."""
        known = facts.vocabulary
        return UnseenState(known) if known is not None and known.tokens >= self.learned_tokens else None

    def look(self, state: UnseenState | None, look: Look) -> Finding | None:
        if state is None or not look.ids:
            return None
        count = self._read(state, state.vocabulary, look.ids)
        strength = 0.0
        if count >= self.suspects_min:
            strength = self.suspects_log10
        elif count >= self.seconds_min:
            strength = self.seconds_log10
        if strength <= state.said:
            return None
        state.said = strength
        return Finding(self.name, self.channel, Kind.GARBLED, strength, look.tokens, state.places[0] + 1)

    def _read(self, state: UnseenState, vocabulary: Vocabulary, ids: Sequence[int]) -> int:
        """The most new ids that a window up to one of these tokens holds; 0 where the answer began so."""
        most = 0
        for token in ids:
            state.ids += 1
            if vocabulary.holds(token) or token in state.new or len(state.new) >= NEW_MAX:
                continue
            state.new.add(token)
            if state.ids <= self.before:
                state.early += 1
                continue
            places = state.places
            places.append(state.ids - 1)
            while places[0] <= state.ids - 1 - self.window:
                places.popleft()
            most = max(most, len(places))
        return most if state.early <= self.before_most else 0
