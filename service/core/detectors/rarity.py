"""Rarity: characters that do not belong where they stand.

Rarity by itself separates nothing (the rarest texts are lists of names and elements); what is not normal is
how rare signs sit among others:

    wedged   one or two signs of another script, symbols or Han beyond every legacy charset between two common
             Han characters, as when every tenth character is replaced; several different ones
    jumble   words of nothing but symbols of unlike blocks side by side, or letters of unlike scripts
    shift    running Chinese that was common for at least `shift_before` characters and then is not: a CUSUM
             over common and rare characters, W = max(0, W + ln(p1 / p0)); lists and tables are no running
             text, their clauses being short or endless
    babel    two scripts of the wide world in running words on one line, where the text has ended
    babble   four scripts among the newest 60 letters: a second witness to telemetry only

A prompt that holds what is rare explains it. Measured on 2,904 windows of files with many non-ASCII
characters: none but character tables has three wedged signs, or shifts. Looked at every 1,024 bytes of text
that is not ASCII, and at its end. Cost: 60 ns a character of such text, nothing for ASCII. State: numbers.
"""

import re
from dataclasses import dataclass
from typing import ClassVar, Final

from service.core.detectors.units import PROMPT_CHARS
from service.core.events import UNKNOWN, Channel, Finding, Kind, Look, RequestFacts, WorkerFacts
from service.core.scripts import CODES, OTHER_SCRIPTS

BLOCK: Final = 1024
"""Bytes of the grid: 340 Han characters."""

WINDOW_BYTES: Final = 3072
"""What is looked at: 1,000 Han characters."""

ALIENS: Final = frozenset("sxpjo")
RARE_MIN: Final = 4
"""Rare Han characters under which no shift can be."""

FAMILIES: Final = str.maketrans({"A": "a", "e": "a", "i": "h", "j": "h", "k": "h"})
"""Latin is one script, and so is Japanese with its Han and kana."""
NO_LETTERS: Final = dict.fromkeys(map(ord, " \ndFxpso"))

OTHER: Final = "\u0100-\uffff"
WEDGED: Final = re.compile(rf"(?<=h)[{OTHER}sxpj]{{1,2}}(?=h)")
ALIEN: Final = re.compile(rf"[{OTHER}sxpjo]{{2,}}")
QUOTES: Final = frozenset("\"'`,|\\[]")
"""Beside these a sign is quoted, listed or drawn."""

WORD_OF: Final = re.compile(rf"(?<!\S)([{OTHER}])\1{{2,}}(?=[\s.?!])")

WORD_SIGNS: Final = 20
"""Signs in a row that may be a word; tables of a charset are longer."""

LISTED: Final = re.compile(r"[|;,]")
LIST_SIGNS: Final = 6
"""A line with so many separators is a list."""

HAN: Final = re.compile(r"[hij]+")
RARE: Final = "ij"


class RarityState:
    """Where one choice stands."""

    __slots__ = ("at", "facts", "prompt", "read", "said", "seen")

    def __init__(self, facts: RequestFacts) -> None:
        self.facts = facts
        self.at = 0  # bytes examined
        self.seen = 0  # bytes so far
        self.read = 0  # bytes when the whole was read
        self.said = 0.0  # the strongest finding given out
        self.prompt: frozenset[str] | None = None


@dataclass(frozen=True, slots=True)
class Rarity:
    """Parameters as they stand in the rule set under `rarity`."""

    wedged_min: int
    wedged_ended: int
    jumble_words: int
    jumble_signs: int
    babel_letters: int
    babble_letters: int
    babble_scripts: int
    babble_log10: float
    shift_before: int
    shift_before_share: float
    shift_rare: float
    shift_beyond: float
    shift_common: float
    shift_min: float
    clause_min: float
    clause_max: float
    acts_log10: float

    name: ClassVar[str] = "rarity"
    channel: ClassVar[Channel] = Channel.TEXT

    def start(self, facts: RequestFacts, worker: WorkerFacts) -> RarityState:
        return RarityState(facts)

    def look(self, state: RarityState, look: Look) -> Finding | None:
        state.seen = look.size
        if state.said >= self.acts_log10 or (state.at + BLOCK > state.seen and not look.ended):
            return None
        tail, found = look.tail, None
        while state.at + BLOCK <= state.seen:
            state.at += BLOCK
            end = len(tail) - (state.seen - state.at)
            found = self._read(state, look, tail[max(end - WINDOW_BYTES, 0) : end], ended=False) or found
        if look.ended and look.size != state.read:
            state.read = look.size
            found = self._read(state, look, tail[-WINDOW_BYTES:], ended=True) or found
        return found

    def _read(
        self, state: RarityState, look: Look, window: bytes | bytearray, *, ended: bool
    ) -> Finding | None:
        if window.isascii():
            return None
        text = window.decode("utf-8", "ignore")
        codes = text.translate(CODES)
        if len(codes) < len(text):  # combining marks have no code: let both be of one length
            text = "".join([char for char in text if CODES[ord(char)]])
        strange = {code for code in set(codes) if code in ALIENS or ord(code) >= OTHER_SCRIPTS}
        if not strange and "i" not in codes:
            return None
        if sign := self._sign(state, text, codes, ended=ended):
            return self._say(state, look, sign, self.acts_log10)
        babble = len(strange) > 1 and self._babbles(state, codes)
        return self._say(state, look, "babble", self.babble_log10) if babble else None

    def _say(self, state: RarityState, look: Look, sign: str, strength: float) -> Finding | None:
        if strength <= state.said:
            return None
        state.said = strength
        return Finding(self.name, self.channel, Kind.RARE_CHAR, strength, look.tokens, UNKNOWN, sign)

    def _sign(self, state: RarityState, text: str, codes: str, *, ended: bool) -> str:
        wedged = {char for match in WEDGED.finditer(codes) for char in text[match.start() : match.end()]}
        if len(wedged) >= (self.wedged_ended if ended else self.wedged_min) and not self._known(
            state, wedged
        ):
            return "wedged"
        if self._is_jumbled(state, text, codes):
            return "jumble"
        if self._shifts(state, codes):
            return "shift"
        lines = zip(text.split("\n"), codes.split("\n"), strict=False) if ended else ()
        return "babel" if any(self._babel(line, own) for line, own in lines) else ""

    def _is_jumbled(self, state: RarityState, text: str, codes: str) -> bool:
        words = []
        for match in ALIEN.finditer(codes):
            start, stop = match.span()
            beside = text[max(start - 1, 0) : start] + text[stop : stop + 1]
            plain = QUOTES.isdisjoint(beside) and (
                beside.isascii() or not HAN.sub("", beside.translate(CODES))
            )
            if plain and stop - start <= WORD_SIGNS and _jumbled(text[start:stop]):
                words.append(text[start:stop])
        signs = set("".join(words))
        return (
            len(words) >= self.jumble_words
            and len(signs) >= self.jumble_signs
            and not self._known(state, signs)
        )

    def _babel(self, line: str, codes: str) -> bool:
        """Two scripts of the wide world in running words on one line: nobody answers like that unasked."""
        if len(LISTED.findall(line)) >= LIST_SIGNS:
            return False
        scripts = {match[1] for match in WORD_OF.finditer(codes)}
        return sum(codes.count(script) >= self.babel_letters for script in scripts) > 1

    def _babbles(self, state: RarityState, codes: str) -> bool:
        """Many scripts among the newest letters, of which the prompt holds few."""
        scripts = set(codes.translate(NO_LETTERS)[-self.babble_letters :].translate(FAMILIES))
        if len(scripts) < self.babble_scripts:
            return False
        known = set(state.facts.prompt[-PROMPT_CHARS:].translate(CODES).translate(FAMILIES))
        return len(scripts & known) <= self.babble_scripts // 2

    def _known(self, state: RarityState, strange: set[str]) -> bool:
        """Whether the prompt holds a good part of these signs."""
        if state.prompt is None:
            state.prompt = frozenset(
                char for char in state.facts.prompt[-PROMPT_CHARS:] if not char.isascii()
            )
        return 3 * len(strange & state.prompt) >= len(strange)

    def _shifts(self, state: RarityState, codes: str) -> bool:
        clauses = [len(clause) for clause in HAN.findall(codes)]
        total = sum(clauses)
        if total <= self.shift_before or codes.count("i") + codes.count("j") < RARE_MIN:
            return False
        mean = sum(length * length for length in clauses) / total
        if not self.clause_min <= mean <= self.clause_max:
            return False
        weight = {"h": -self.shift_common, "i": self.shift_rare, "j": self.shift_beyond}
        level, onset, rare, before = 0.0, 0, 0, 0
        for place, code in enumerate(code for code in codes if code in weight):
            if level <= 0:
                level, onset, before = 0.0, place, rare
            rare += code in RARE
            level += weight[code]
        if level < self.shift_min or onset < self.shift_before or before > self.shift_before_share * onset:
            return False
        prompt = state.facts.prompt[-PROMPT_CHARS:].translate(CODES)
        known = sum(prompt.count(code) for code in RARE)
        return known <= self.shift_before_share * max(len(prompt), 1)


def _jumbled(word: str) -> bool:
    """Whether two signs side by side are of unlike blocks; box drawings and blocks are alike."""
    codes = word.translate(CODES)
    for place in range(1, len(word)):
        one, other = codes[place - 1], codes[place]
        if one in "so" and other in "so":
            if abs((ord(word[place - 1]) >> 7) - (ord(word[place]) >> 7)) > 1:
                return True
        elif one != other and not (one in "so" or other in "so"):
            return True
    return False
