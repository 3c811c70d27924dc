"""Who said it first: the k-grams of prompts and answers of live and recent requests, and whose they are.

A gram of an answer speaks against it when exactly one other *family* holds it. It does not when it stands in
the request's own prompt, when two families hold it (system prompts, licences, shared files: COMMON), or when
it stood in a clean answer although nobody's prompt explained it and another family says it too: that makes
it common. Requests are of one family (`party.py`) that are turns, retries, parallel candidates or sub-agents
of one piece of work.

Prompts are read on a thread of their own (`learn`); answers at the tick, those of all streams in one pass
(`read`), because numpy costs by the call. The table is the only thing that both write. Bounded: the table (8
bytes a word of distinct text; 2 ** 22 slots hold 25 MB), RECENT parties of 2 KB, own grams of live requests
up to LIVE_GRAMS. What does not fit is not judged (`Party.ready`). Only salted hashes are kept, of text and
of tenants alike, and the text of a short prompt while its request lives.

Cost: 0.5 us a word of prompt, off the loop; 0.4 us a word of answer and 0.3 ms a tick.
"""

from collections.abc import Sequence
from hashlib import blake2b
from itertools import permutations
from typing import Final

import numpy as np

from service.core.events import RequestFacts
from service.core.kgrams import NO_GRAMS, SHORT_BYTES, Flags, Grams, Hasher, Hashes, Places, distinct, folded
from service.core.origin import GRAM_BYTES
from service.core.party import KIN_SHARE, Party, Speech, contains, is_telling
from service.core.slots import NUMBER_MAX, SPOKEN, SlotTable, holder, is_common, number_of, numbers_of

BITS: Final = 22
RECENT: Final = 8192
"""Requests remembered; also the most that may be live at once without one being forgotten."""
RECENT_S: Final = 600.0
"""How long an ended request may be a donor: freed pages are written late, but not ten minutes late."""
LIVE_GRAMS: Final = 8 << 20
"""Own grams of all live requests together: 64 MiB."""
PIECE_CHARS: Final = 16 * 1024
"""Prompt hashed at a time: no call holds the interpreter lock for more than a fraction of a millisecond."""
READ_CHARS: Final = 32 * 1024
"""Of answers in one pass, which takes a millisecond: what more has come waits for the next."""
SPOKEN_SHIFT: Final = np.uint64(62)
"""Of the new grams of answers those are kept whose two highest bits are 0: a quarter of the memory and of the
time. Whose whole answer is said again is still found, one gram in 24 bytes."""
END_CHARS: Final = 2048
KIN_GRAMS: Final = 3

NO_PLACES: Final[Places] = np.empty(0, np.int64)

_SPOKEN: Final = np.uint64(SPOKEN)


class Provenance:
    """The index of one process."""

    __slots__ = (
        "_freed", "_hasher", "_learnt", "_live_most", "_number", "_parties", "_recent", "_recent_s", "_salt",
        "_speaking", "table",
    )  # fmt: skip

    def __init__(
        self,
        salt: bytes,
        *,
        bits: int = BITS,
        recent: int = RECENT,
        recent_s: float = RECENT_S,
        live_grams: int = LIVE_GRAMS,
    ) -> None:
        self.table = SlotTable(bits)
        self._hasher = Hasher(salt)
        self._salt = blake2b(salt, digest_size=32).digest()
        self._recent, self._recent_s, self._live_most = recent, recent_s, live_grams
        self._parties: dict[int, Party] = {}
        self._number = 0
        self._learnt = self._freed = 0  # own grams, each counted by one thread
        self._speaking: list[Speech] = []

    def __repr__(self) -> str:
        return f"<Provenance {len(self._parties)} parties, {self.live_grams} live grams, {self.table!r}>"

    @property
    def live_grams(self) -> int:
        return self._learnt - self._freed

    # --- on the data loop ---

    def open(self, rid: str, *, tenant: bytes = b"", session: bytes = b"", thorough: bool = True) -> Party:
        """A request has come; it is judged once its prompt is learnt."""
        self._number = number = self._number % NUMBER_MAX + 1
        party = Party(
            self,
            number,
            rid,
            tenant=self._name(tenant),
            session=self._name(tenant, session) if session else 0,
            thorough=thorough,
        )
        self._parties[number] = party
        self._parties.pop(number - self._recent, None)
        return party

    def close(self, party: Party, now: float, *, clean: bool) -> None:
        """The request is over. What its clean answer had in common with strangers is common from now on."""
        party.ended_at = now
        if not clean:
            party.suspect()
        elif party.borrowed:
            self._make_common(party)
        self._freed += party.let_go()

    @property
    def backlog(self) -> bool:
        """Whether the last pass left something that could have been read."""
        return any(speech.party.ready for speech in self._speaking)

    def listen(self, speech: Speech) -> None:
        """This one has something to be read."""
        self._speaking.append(speech)

    def read(self, now: float, *, most_chars: int = READ_CHARS) -> None:
        """Look at what all have said since the last tick."""
        waiting, self._speaking = self._speaking, []
        batch: list[Speech] = []
        chars = 0
        for speech in waiting:
            if speech.party.ready and chars < most_chars:
                chars += speech.chars
                speech.waits = False
                batch.append(speech)
            elif not speech.party.over:
                self._speaking.append(speech)
        if batch:
            self.look_at(batch, now)

    def look_at(self, batch: Sequence[Speech], now: float) -> None:
        """Look at what these have said: note what one stranger holds, hold what nobody does."""
        grams, texts = self._hasher.grams([speech.take() for speech in batch])
        held = self.table.held(grams.hashes)
        speakers = np.array([speech.party.number for speech in batch], np.uint64)[grams.text]
        numbers, common = numbers_of(held), is_common(held)
        known, own = common | self._remembered(numbers), ~common & (numbers == speakers)
        strange = known & ~common & ~own
        if strange.any():
            strange[strange] = self._strangers(batch, grams.text[strange], held[strange], now)
            self._meet(batch, texts, grams, held, strange)
        self._tie(batch, texts, grams, self._hold(batch, grams, ~known), now)
        explained = known & ~strange & ~(own & (held & _SPOKEN != 0))
        for place, speech in enumerate(batch):
            if speech.hits:
                self._explain(speech, texts[place], grams.place[explained & (grams.text == place)])
            speech.go_on(texts[place])

    # --- on the thread that reads prompts ---

    def learn(self, party: Party, facts: RequestFacts) -> bool:
        """Read a prompt; False where there is no room for it."""
        prompt = facts.prompt
        head, tail = facts.preamble_chars, len(prompt) - facts.tools_chars
        aside = [part for part in (prompt[:head], prompt[tail:]) if part]
        (body, *others), short = self._grams(prompt[head:tail], *aside)
        own = distinct(np.concatenate((body, *others))) if others else body
        if party.over or self.live_grams + len(own) + len(short) > self._live_most:
            return False
        party.describe(body, self._name_of(prompt[head:tail]))
        held = self.table.held(own)
        if held.any():
            self._find_kin(party, held[contains(body, own)] if others else held)
            self._claim(party, own, held)
        else:
            self.table.put(own, holder(party.number))
        self._learnt += len(own) + len(short)
        party.take_in(own, short, prompt if len(prompt) <= PIECE_CHARS else "")
        return True

    def short_grams(self, prompt: str) -> Hashes:
        """The short grams of a short prompt."""
        return distinct(self._hasher.short_grams(b" " + folded(prompt)).hashes)

    # --- within ---

    def _name(self, *parts: bytes) -> int:
        """A salted name; 0 for nothing."""
        if not any(parts):
            return 0
        digest = blake2b(digest_size=8, key=self._salt)
        for part in parts:
            digest.update(len(part).to_bytes(4, "little") + part)
        return int.from_bytes(digest.digest(), "little")

    def _name_of(self, prompt: str) -> int:
        """Ends and length name a prompt: a retry repeats it word for word, and a short one has no gram."""
        ends = (folded(end) for end in (prompt[:END_CHARS], prompt[-END_CHARS:]))
        return self._name(*ends, b"%d" % len(prompt)) if prompt else 0

    def _grams(self, *parts: str) -> tuple[list[Hashes], Hashes]:
        """The grams of each part of a prompt, and the short ones of all of a long one together, sorted."""
        if sum(map(len, parts)) <= PIECE_CHARS:
            grams, _ = self._hasher.grams([b" " + folded(part) for part in parts])
            if len(parts) == 1:
                return [distinct(grams.hashes)], NO_GRAMS
            return [distinct(grams.hashes[grams.text == place]) for place in range(len(parts))], NO_GRAMS
        found, brief = [], [NO_GRAMS]
        for part in parts:
            of_part, carry = [NO_GRAMS], b" "
            for start in range(0, len(part), PIECE_CHARS):
                piece = carry + folded(part[start : start + PIECE_CHARS])
                grams, short, (whole,) = self._hasher.both([piece])
                of_part.append(grams.hashes)
                brief.append(short.hashes)
                carry = whole[-GRAM_BYTES:]
            found.append(distinct(np.concatenate(of_part)))
        return found, distinct(np.concatenate(brief))

    def _find_kin(self, party: Party, held: Hashes) -> None:
        """Note whose turn or sub-agent this is, from who holds the grams of its prompt's body."""
        held = held[(held != 0) & ~is_common(held)]
        if not len(held):
            return
        holders, counts = np.unique(held, return_counts=True)
        for who, shared in zip(holders.tolist(), counts.tolist(), strict=True):
            other = self._parties.get(number_of(who))
            if other is None or other is party or shared < KIN_GRAMS:
                continue
            theirs = other.spoken_grams if who & SPOKEN else other.body_grams
            if shared >= KIN_SHARE * min(theirs, party.body_grams):
                party.join(other, shared)

    def _claim(self, party: Party, own: Hashes, held: Hashes) -> None:
        """Hold these grams: alone where nobody or only kin holds them, in common where anybody else does."""
        common = is_common(held) | self._strange(party, numbers_of(held))
        in_common, alone = holder(party.number, common=True), holder(party.number)
        self.table.put(own, np.where(common, np.uint64(in_common), np.uint64(alone)))

    def _make_common(self, party: Party) -> None:
        grams = np.array(party.borrowed, np.uint64)
        held = self.table.held(grams)
        grams = grams[~is_common(held) & self._strange(party, numbers_of(held))]
        self.table.put(grams, holder(party.number, common=True))

    def _strange(self, party: Party, numbers: Hashes) -> Flags:
        """Which of these numbers are those of requests that are no kin."""
        strangers = [number for number in distinct(numbers).tolist() if self._is_strange(party, number)]
        if not strangers:
            return np.zeros(len(numbers), np.bool_)
        return np.isin(numbers, np.array(strangers, np.uint64))

    def _is_strange(self, party: Party, number: int) -> bool:
        other = self._parties.get(number)
        return other is not None and other is not party and not party.is_kin(other)

    def _remembered(self, numbers: Hashes) -> Flags:
        """Which of these numbers are those of requests that are not forgotten."""
        oldest = max(self._number - self._recent, 0)
        return (numbers > np.uint64(oldest)) & (numbers <= np.uint64(self._number))

    def _strangers(self, batch: Sequence[Speech], texts: Places, held: Hashes, now: float) -> Flags:
        """Which of these grams are held by somebody of whom a speaker should not have them."""
        pairs = texts.astype(np.uint64) << np.uint64(32) | held
        strange = [
            pair
            for pair in distinct(pairs).tolist()
            if self._speaks(batch[pair >> 32].party, pair & 0xFFFFFFFF, now)
        ]
        return np.isin(pairs, np.array(strange, np.uint64))

    def _meet(
        self, batch: Sequence[Speech], texts: Sequence[bytes], grams: Grams, held: Hashes, strange: Flags
    ) -> None:
        """Note the grams that speak against somebody; what its own prompt has is taken from `strange`."""
        for at in np.flatnonzero(strange).tolist():
            who = int(held[at])
            other = self._parties[number_of(who)]
            strange[at] = self._note(batch, texts, grams, at, other, spoken=bool(who & SPOKEN))

    def _note(
        self,
        batch: Sequence[Speech],
        texts: Sequence[bytes],
        grams: Grams,
        at: int,
        other: Party,
        *,
        spoken: bool,
    ) -> bool:
        """That the other has this gram, too; False where the speaker's own prompt holds it."""
        text, place = int(grams.text[at]), int(grams.place[at])
        speech = batch[text]
        if speech.party.owns(grams.hashes[at : at + 1])[0]:
            return False
        if is_telling(texts[text][place : place + GRAM_BYTES]):
            speech.meet(other, int(grams.hashes[at]), place, spoken=spoken)
        return True

    def _explain(self, speech: Speech, text: bytes, places: Places) -> None:
        """Note what of this text is the speaker's to say."""
        speech.explain(places.tolist())
        short = self._hasher.short_grams(text)
        speech.explain(short.place[speech.party.owns_short(short.hashes)].tolist(), SHORT_BYTES)

    def _speaks(self, party: Party, who: int, now: float) -> bool:
        """Whether what this holder has speaks against the party."""
        other = self._parties.get(number_of(who))
        if other is None or now - other.ended_at > self._recent_s:
            return False
        return not (who & SPOKEN and other.suspected) and party.share(other) < KIN_SHARE

    def _hold(self, batch: Sequence[Speech], grams: Grams, new: Flags) -> Places:
        """Note who says first what nobody holds; the answer is which grams these are."""
        new &= grams.hashes >> SPOKEN_SHIFT == 0
        if not new.any():
            return NO_PLACES
        spoken = np.array([holder(speech.party.number, spoken=True) for speech in batch], np.uint64)
        self.table.put(grams.hashes[new], spoken[grams.text[new]])
        counts = np.bincount(grams.text[new], minlength=len(batch))
        for speech, count in zip(batch, counts.tolist(), strict=True):
            speech.party.spoken_grams += count
        return np.flatnonzero(new)

    def _tie(
        self, batch: Sequence[Speech], texts: Sequence[bytes], grams: Grams, new: Places, now: float
    ) -> None:
        """Strangers who say the same at the same time, as two do that share a slot: it is noted for both.

        Whose words they are tells the prompt that holds them in part: it explains them (`explain`).
        """
        held = self.table.held(grams.hashes[new])
        speakers = np.array([speech.party.number for speech in batch], np.uint64)
        lost = numbers_of(held) != speakers[grams.text[new]]
        if not lost.any():
            return
        lost &= np.isin(numbers_of(held), speakers)
        # Said at the same time: suspicion of one excuses neither.
        new, held = new[lost], held[lost] & ~_SPOKEN
        for at in new[self._strangers(batch, grams.text[new], held, now)].tolist():
            same = np.flatnonzero(grams.hashes == grams.hashes[at])
            for one, other in permutations(same.tolist(), 2):
                party = batch[int(grams.text[other])].party
                if party.number != batch[int(grams.text[one])].party.number:
                    self._note(batch, texts, grams, one, party, spoken=True)
