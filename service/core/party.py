"""Who takes part: a request as the index of k-grams knows it, what it says, and whose kin it is.

Requests are kin that

    name the same session (a header), or have the same prompt (client retries, parallel candidates),
    have half of the smaller prompt in common (the turns of a session; system messages and tools left out),
    or of which one has read what the other wrote: half of that answer, or of its own prompt (sub-agents).

Kinship is pairwise, and inherited one by one from whom a prompt continues; chained, one file that everybody
opens would make all of them one family. What two prompts share is estimated from their 128 smallest grams
(bottom-k sketches, Broder 1997); all of it is told exactly, half of it within a tenth for equal sizes. Cost:
10 us for the first question about a pair, then 0.1.
"""

from collections.abc import Iterable
from math import inf
from typing import Final, Protocol

import numpy as np

from service.core.kgrams import NO_GRAMS, Flags, Hashes, folded, open_escape
from service.core.origin import GRAM_BYTES, Hit

KIN_SHARE: Final = 0.5
AKIN_SHARE: Final = 0.1
"""Two prompts with a tenth in common are about the same thing: what one says the other may well say."""
KIN_MAX: Final = 64
SKETCH: Final = 128
SAID_CHARS: Final = 64 * 1024
"""Kept of an answer until it is looked at."""
LONG_BYTES: Final = 1024
"""The last quarter of a second of a longer answer waits for the tick, where nothing can be taken back anyway:
a look at one answer alone costs a tenth of a millisecond."""
ESCAPE_CHARS: Final = 64
"""Of a run of backslashes; more of them are no escape."""
TAIL_BYTES: Final = 2 * GRAM_BYTES - 1
"""A gram before the next may cover its beginning: their places are looked at again."""
HITS: Final = 64
LETTERS: Final = 12
WORDS: Final = 3
DISTINCT: Final = 8

_BLANK: Final = b" "
_DIGITS_END: Final = 0x39  # behind the digits come letters and what is not ASCII


class Ear(Protocol):
    """Where speech is looked at."""

    def listen(self, speech: "Speech") -> None: ...

    def look_at(self, batch: "list[Speech]", now: float) -> None: ...

    def short_grams(self, prompt: str) -> Hashes: ...


class Party:
    """One client's request, through all its generations."""

    __slots__ = (
        "_closest", "_ear", "_shares", "_unread", "body_grams", "body_name", "borrowed", "ended_at",
        "family", "held_grams", "kin", "number", "own", "own_short", "ready", "rid", "session", "sketch",
        "spoken_grams", "suspected", "tenant", "thorough",
    )  # fmt: skip

    def __init__(
        self, ear: Ear, number: int, rid: str, *, tenant: int = 0, session: int = 0, thorough: bool = True
    ) -> None:
        self._ear = ear
        self.thorough = thorough  # its answer is held back, so that a last look may still take it back
        self.sketch = NO_GRAMS
        self._shares: dict[int, float] = {}
        self._closest = 0
        self.number = self.family = number
        self.rid, self.tenant, self.session = rid, tenant, session
        self.ready = False  # its prompt has been read
        self.own: Hashes = NO_GRAMS  # grams of its prompt while it lives
        self.own_short: Hashes = NO_GRAMS
        self.held_grams = 0
        self._unread = ""  # a short prompt whose short grams nobody has asked for yet
        self.body_grams = self.spoken_grams = self.body_name = 0
        self.kin: set[int] = set()
        self.borrowed: list[int] = []  # grams of its answers that a stranger holds
        self.suspected = False
        self.ended_at = inf

    def __repr__(self) -> str:
        """Counts alone."""
        state = "over" if self.over else "ready" if self.ready else "unread"
        return f"<Party {self.number} {state} {len(self.own)} own grams, {self.spoken_grams} spoken>"

    @property
    def over(self) -> bool:
        return self.ended_at != inf

    # --- what the detector asks ---

    def speak(self) -> "Speech":
        return Speech(self)

    def suspect(self) -> None:
        self.suspected = True

    def take_back(self) -> None:
        """Its answer so far is void: what that had in common with strangers proves nothing."""
        self.borrowed = []

    # --- what the index notes ---

    def take_in(self, own: Hashes, own_short: Hashes, unread: str = "") -> None:
        """Its prompt has been read: the grams; or, of a short one, the text to read the short grams in."""
        self.held_grams = len(own) + len(own_short)
        self.own, self.own_short, self._unread, self.ready = own, own_short, unread, True

    def let_go(self) -> int:
        """It is over; the answer is how many grams it held."""
        held, self.held_grams = self.held_grams, 0
        self.own, self.own_short, self._unread, self.borrowed = NO_GRAMS, NO_GRAMS, "", []
        return held

    def describe(self, body: Hashes, name: int) -> None:
        """Its prompt without system messages and tools, as sorted grams and as a name for the whole."""
        self.body_grams, self.sketch, self.body_name = len(body), body[:SKETCH].copy(), name

    def join(self, other: "Party", shared: int) -> None:
        """This one continues the other, with which it has so many grams in common."""
        self.kin |= {other.number, *other.kin}
        if len(self.kin) > KIN_MAX:
            self.kin = set(sorted(self.kin)[-KIN_MAX:])
        if shared > self._closest:
            self._closest, self.family = shared, other.family

    def hear(self, speech: "Speech") -> None:
        self._ear.listen(speech)

    def look_at(self, speech: "Speech", now: float) -> None:
        if self.ready:
            self._ear.look_at([speech], now)

    # --- what explains a gram ---

    def owns(self, grams: Hashes) -> Flags:
        """Which of these stand in its own prompt; the table may have given their slots away."""
        return contains(self.own, grams)

    def owns_short(self, grams: Hashes) -> Flags:
        """The same of short grams, which are in no table. Few ask: a short prompt waits for it."""
        if self._unread:
            prompt, self._unread = self._unread, ""
            self.own_short = self._ear.short_grams(prompt)
        return contains(self.own_short, grams)

    def is_kin(self, other: "Party") -> bool:
        """By session, by the same prompt, or as noted when the later of the two was read."""
        return (
            other.number in self.kin
            or self.number in other.kin
            or 0 != self.session == other.session
            or 0 != self.body_name == other.body_name
        )

    def share(self, other: "Party") -> float:
        """How much of the smaller of two prompts both have; 1 for kin."""
        known = self._shares.get(other.number)
        if known is None:
            if len(self._shares) >= KIN_MAX:
                self._shares.clear()
            known = self._shares[other.number] = 1.0 if self.is_kin(other) else self._overlap(other)
        return known

    def _overlap(self, other: "Party") -> float:
        """Of the smaller prompt's grams below the sketches' reach, the share that the larger one has."""
        smaller, larger = sorted((self, other), key=lambda one: one.body_grams)
        reach = min((one.sketch[-1] for one in (self, other) if len(one.sketch) == SKETCH), default=None)
        few = smaller.sketch if reach is None else smaller.sketch[smaller.sketch <= reach]
        return float(np.mean(contains(larger.sketch, few))) if len(few) else 0.0


class Speech:
    """One choice of one generation, as it is looked at."""

    __slots__ = ("_begin", "_said", "_tail", "chars", "explained", "hits", "party", "read", "waits")

    def __init__(self, party: Party) -> None:
        self.party = party
        self.hits: list[Hit] = []
        self.explained: set[tuple[int, int]] = set()  # place and length, near hits, of what is its own to say
        self.read = 0  # every gram that begins before this place has been looked at
        self.chars = 0
        self.waits = False  # for a look, in the index's list
        self._begin = -1  # where the tail begins; the blank before the first byte is not of the answer
        self._said: list[str] = []
        self._tail = _BLANK  # what was looked at and may be part of a gram to come, or covered by one

    def __repr__(self) -> str:
        return f"<Speech {self.read} bytes read, {self.chars} chars to read, {len(self.hits)} hits>"

    # --- from the detector ---

    def hear(self, text: str) -> None:
        if not self.waits:
            self.waits = True
            self.party.hear(self)
        if self.chars < SAID_CHARS:
            self._said.append(text)
            self.chars += len(text)

    def catch_up(self, now: float) -> None:
        if self._said:
            self.party.look_at(self, now)

    def finish(self, now: float) -> None:
        if self.party.thorough or self.read < LONG_BYTES:
            self.catch_up(now)

    # --- from the index: places are those in what `take` gave ---

    def take(self) -> bytes:
        """What is to be looked at, folded, behind the end of what was looked at."""
        text = "".join(self._said)
        keep = text[len(text) - open_escape(text) :][:ESCAPE_CHARS]
        self._said, self.chars = [keep] if keep else [], len(keep)
        return self._tail + folded(text[: len(text) - len(keep)])

    def meet(self, other: Party, gram: int, place: int, *, spoken: bool) -> None:
        """The other holds what this one says there."""
        place += self._begin
        if place < self.read or len(self.hits) >= HITS:
            return
        party = self.party
        party.borrowed.append(gram)
        foreign = 0 != party.tenant != other.tenant != 0
        akin = party.share(other) >= AKIN_SHARE
        self.hits.append(Hit(place, other.family, other.rid, foreign, spoken, akin))

    def explain(self, places: Iterable[int], length: int = GRAM_BYTES) -> None:
        """Grams of this length are its own to say; kept are those that lie on a hit."""
        begin = self._begin
        hits = [hit.place - begin for hit in self.hits if hit.place > begin - GRAM_BYTES]
        for place in places:
            if any(-length < place - hit < GRAM_BYTES for hit in hits):
                self.explained.add((begin + place, length))

    def go_on(self, looked_at: bytes) -> None:
        """That, normalised, has been looked at."""
        self.read = max(self.read, self._begin + len(looked_at) - GRAM_BYTES + 1)
        self._begin += max(len(looked_at) - TAIL_BYTES, 0)
        self._tail = looked_at[-TAIL_BYTES:]


def contains(sorted_grams: Hashes, grams: Hashes) -> Flags:
    """Which of these grams are among the sorted ones."""
    if not len(sorted_grams):
        return np.zeros(len(grams), np.bool_)
    at = np.minimum(sorted_grams.searchsorted(grams), len(sorted_grams) - 1)
    found: Flags = sorted_grams[at] == grams
    return found


def is_telling(gram: bytes) -> bool:
    """Whether a gram can name its source: counts, rulers and table cells are everybody's."""
    letters = sum(byte > _DIGITS_END for byte in gram)
    words = not gram.isascii() or len(set(gram.split())) >= WORDS
    return letters >= LETTERS and words and len(set(gram)) >= DISTINCT
