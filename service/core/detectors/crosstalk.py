"""Cross-talk: the answer goes on with somebody else's words, and reads well.

A slot of KV cache that two requests share leaves acceptance and language as they are. What tells is where the
words come from: k-grams that one other family of requests holds and nothing explains (`provenance.py` says
what counts). The index looks at all answers together, at each tick, and at each at its end and once it says
what stands in another's prompt: two that say the same at the same time show it within one tick only. Here is
judged what it found:

    log10 e = first + byte x (passage - 32)      passage: bytes that hits of ONE family cover, each once

Bytes that the own prompt holds (grams of 16 suffice), or many prompts, do not count, nor do fewer than 16 in
a row: a quotation changed in some words is a quotation. Bytes of other families are taken off: what many hold
in parts is common. Bytes that stood in the other's answer count for less than those of its prompt: two models
asked alike answer alike. Fewer than `acts_grams` hits, or prompts with a part in common, do not go beyond
suspicion.

A decision, not an e-value: there is no null model of what a model knows by heart. Measured: 100,000 clean
requests that share systems, files, sessions and retries (`replay/bench/crosstalk.py`) gave not one hit. But
where real files are prompts and what follows in them are the answers (3,000 of 470 projects), 4 % of answers
hold a gram of another project's file and 1.4 % enough to act on, 5 % enough of a sibling's: licences, copies,
idioms. Length says little about those; an index that has met such text twice knows better. Of the lab's
whole-slot swaps at an onset of 4 to 24 tokens .83 are acted on; of those that showed 96 bytes .95, of answers
that were to copy and showed 64 bytes .96, of those that showed fewer than 32 bytes none (rules/README.md).

Blind: a donor on another replica or forgotten, few foreign bytes, the same words in another order, numbers
and tables, what the own prompt holds too, kin, requests whose prompt is not all text.

Cost: on healthy chat +0.5 us an event of 2.6 tokens, ticks included; 0.1 ms a look once there are hits.
State: numbers here, some bytes of the answer's end and its unread text in the index.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import ClassVar, Final

from service.core.events import UNKNOWN, Channel, Finding, Kind, Look, RequestFacts, WorkerFacts
from service.core.origin import GRAM_BYTES, Hit, Origin, Voice

WAITING_CHARS: Final = 8192
"""More is not left to the tick: a whole body comes without one."""
RUN_BYTES: Final = 16
"""Less in a row is a changed word in a text of one's own, not a passage."""


class CrosstalkState:
    """Where one choice stands."""

    __slots__ = ("origin", "read", "said", "voice")

    def __init__(self, origin: Origin | None) -> None:
        self.origin = origin
        self.voice: Voice | None = origin.speak() if origin is not None else None
        self.read = 0  # how far it was judged
        self.said = 0.0


class Passage:
    """What this answer has of one family's words."""

    __slots__ = ("bytes", "hits", "weight")

    def __init__(self, hits: Sequence[Hit], explained: set[int], spoken_share: float) -> None:
        written = _covered((hit.place, GRAM_BYTES) for hit in hits if not hit.spoken)
        spoken = _covered((hit.place, GRAM_BYTES) for hit in hits if hit.spoken) - written
        self.bytes = _in_runs((written | spoken) - explained)
        self.hits = [hit for hit in hits if hit.place in self.bytes]
        self.weight = len(self.bytes & written) + spoken_share * len(self.bytes & spoken)


@dataclass(frozen=True, slots=True)
class Crosstalk:
    """Parameters as they stand in the rule set under `crosstalk`."""

    first_log10: float
    byte_log10: float
    acts_grams: int
    spoken_share: float
    suspects_log10: float
    acts_log10: float
    report_step: float

    name: ClassVar[str] = "crosstalk"
    channel: ClassVar[Channel] = Channel.PROVENANCE

    def start(self, facts: RequestFacts, worker: WorkerFacts) -> CrosstalkState:
        return CrosstalkState(facts.origin)

    def look(self, state: CrosstalkState, look: Look) -> Finding | None:
        voice = state.voice
        if voice is None:
            return None
        if look.text:
            voice.hear(look.text)
        if voice.chars > WAITING_CHARS or not all(hit.spoken for hit in voice.hits):
            voice.catch_up(look.at)
        elif look.ended:
            voice.finish(look.at)
        if not voice.hits or (voice.read == state.read and not look.ended):
            return None
        state.read = voice.read
        return self._finding(state, voice, look)

    def _finding(self, state: CrosstalkState, voice: Voice, look: Look) -> Finding | None:
        passages = self._passages(voice, look)
        first = max(passages, key=lambda one: one.weight, default=None)
        if first is None or not first.hits:
            return None
        alone = 2 * first.weight - sum(one.weight for one in passages)
        strength = self.first_log10 + self.byte_log10 * (alone - GRAM_BYTES)
        sure = len(first.hits) >= self.acts_grams and not any(hit.akin for hit in first.hits)
        strength = min(strength, self.acts_log10 if sure else self.suspects_log10)
        if strength < state.said + self.report_step:
            return None
        state.said = strength
        if state.origin is not None:
            state.origin.suspect()
        newest = first.hits[-1]
        onset = _token(look, min(first.bytes), voice)
        at = look.tokens
        return Finding(
            self.name, self.channel, Kind.CROSSTALK, strength, at, onset, newest.rid, newest.foreign
        )

    def _passages(self, voice: Voice, look: Look) -> list[Passage]:
        """What is certain by now: grams that follow may still explain the last bytes."""
        families: dict[int, list[Hit]] = {}
        for hit in voice.hits:
            if look.ended or hit.place + GRAM_BYTES <= voice.read:
                families.setdefault(hit.family, []).append(hit)
        explained = _covered(voice.explained)
        return [Passage(hits, explained, self.spoken_share) for hits in families.values()]


def _in_runs(places: set[int]) -> set[int]:
    """Those of these bytes that stand in a row of at least RUN_BYTES."""
    kept: set[int] = set()
    for start in (place for place in places if place - 1 not in places):
        stop = start
        while stop in places:
            stop += 1
        if stop - start >= RUN_BYTES:
            kept.update(range(start, stop))
    return kept


def _covered(grams: Iterable[tuple[int, int]]) -> set[int]:
    """The bytes of grams of these places and lengths."""
    return {byte for place, length in grams for byte in range(place, place + length)}


def _token(look: Look, place: int, voice: Voice) -> int:
    """The token at this place, taking tokens for equally long."""
    if look.tokens == UNKNOWN:
        return UNKNOWN
    return min(look.tokens, look.tokens * place // (voice.read + GRAM_BYTES))
