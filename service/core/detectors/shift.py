"""Shift: the text stops being like itself and like its prompt. A second witness, never more.

Three weak signs over the newest text, each to be found in honest answers too, so that none of them even
suspects; what they add is the factor that collapsed acceptance needs before it may act:

    stutter   near-loops that never repeat exactly: of the last words many 4-grams were there before, few
              words are different, most are letters (reference 3a; lists and logs look the same)
    rare      a sixth of the last 40 Han characters is rare, and neither the prompt's nor the stream's own
              earlier Han were (reference 3b: rarity alone separates nothing, the rarest texts are lists)
    babel     four scripts among the last 60 letters, of which the prompt holds at most two

Likelihood ratios: a judgement, not calibrated (on the 120 hard normals of the development corpus none speaks,
which bounds a false-alarm rate at 2.5 % and no lower). Looked at every 512 bytes of a stream and at its end,
whatever the grouping of events. Cost: 15-20 us a grid line, i.e. about 0.2 us a token. State: a few numbers.
"""

from dataclasses import dataclass
from typing import ClassVar, Final

from service.core.events import UNKNOWN, Channel, Finding, Kind, Look, RequestFacts, WorkerFacts
from service.core.scripts import CODES

BLOCK: Final = 512
"""Bytes of the grid: about 120 tokens of English."""

WINDOW_BYTES: Final = 1536
"""What is looked at: some 300 words, or 500 Han characters."""

STUTTER_BYTES: Final = 1280
"""What a near-loop is looked for in: 150 words of up to seven letters, as loops prefer."""

PROMPT_CHARS: Final = 65536
"""Of a long prompt the newest part is read: 3 ms at worst, once a stream."""

HAN: Final = "hij"
FAMILIES: Final = str.maketrans({"A": "a", "e": "a", "i": "h", "j": "h", "k": "h"})
"""Latin is one script, and so is Japanese with its Han and kana."""
NO_LETTERS: Final = dict.fromkeys(map(ord, " dFxps"))


class ShiftState:
    """Where one choice stands."""

    __slots__ = ("_prompt", "at", "facts", "said", "seen")

    def __init__(self, facts: RequestFacts) -> None:
        self.facts = facts
        self.at = 0  # bytes examined
        self.seen = 0  # bytes so far
        self.said = ""  # the sign given out
        self._prompt: tuple[int, int, frozenset[str]] | None = None

    def prompt(self) -> tuple[int, int, frozenset[str]]:
        """Han and rare Han of the prompt, and its scripts; read once, when a sign is about to speak."""
        if self._prompt is None:
            codes = self.facts.prompt[-PROMPT_CHARS:].translate(CODES)
            rare = codes.count("i") + codes.count("j")
            self._prompt = codes.count("h") + rare, rare, frozenset(codes.translate(FAMILIES))
        return self._prompt


@dataclass(frozen=True, slots=True)
class Shift:
    """Parameters as they stand in the rule set under `shift`."""

    stutter_words: int
    stutter_repeated: float
    stutter_distinct: float
    stutter_letters: float
    rare_window: int
    rare_min: int
    rare_before: float
    babel_letters: int
    babel_scripts: int
    witness_log10: float

    name: ClassVar[str] = "shift"
    channel: ClassVar[Channel] = Channel.TEXT

    def start(self, facts: RequestFacts, worker: WorkerFacts) -> ShiftState:
        return ShiftState(facts)

    def look(self, state: ShiftState, look: Look) -> Finding | None:
        if state.said:
            return None
        tail = look.tail
        state.seen = look.size
        while state.at + BLOCK <= state.seen or (look.ended and state.at < state.seen):
            state.at = min(state.at + BLOCK, state.seen)
            end = len(tail) - (state.seen - state.at)
            finding = self._signs(state, look, tail[max(end - WINDOW_BYTES, 0) : max(end, 0)])
            if finding is not None:
                return finding
        return None

    def _signs(self, state: ShiftState, look: Look, window: bytes | bytearray) -> Finding | None:
        kind = Kind.REPETITION
        sign = "stutter" if self._stutters(window) else ""
        if not sign and not window.isascii():
            kind, codes = Kind.RARE_CHAR, window.decode("utf-8", "ignore").translate(CODES)
            if self._is_rare(state, codes):
                sign = "rare"
            elif self._is_babel(state, codes):
                sign = "babel"
        if not sign:
            return None
        state.said = sign
        return Finding(self.name, self.channel, kind, self.witness_log10, look.tokens, UNKNOWN, sign)

    def _stutters(self, window: bytes | bytearray) -> bool:
        words = bytes(window[-STUTTER_BYTES:]).split()[-self.stutter_words :]
        if len(words) < self.stutter_words or len(set(words)) > self.stutter_distinct * len(words):
            return False
        grams = list(zip(words, words[1:], words[2:], words[3:], strict=False))
        repeated = 1 - len(set(grams)) / len(grams)
        letters = sum(word[:1].isalpha() or word[:1] > b"\x7f" for word in words)
        return repeated >= self.stutter_repeated and letters >= self.stutter_letters * len(words)

    def _is_rare(self, state: ShiftState, codes: str) -> bool:
        han = [code for code in codes if code in HAN]
        window = self.rare_window
        newest, earlier = han[-window:], han[: -2 * window] or han[:-window]  # between them the shift may lie
        if len(newest) < window or window - newest.count("h") < self.rare_min:
            return False
        known, rare, _ = state.prompt()
        if known < len(earlier):
            known, rare = len(earlier), len(earlier) - earlier.count("h")
        return known >= window // 2 and rare <= self.rare_before * known

    def _is_babel(self, state: ShiftState, codes: str) -> bool:
        letters = codes.translate(NO_LETTERS)[-self.babel_letters :].translate(FAMILIES)
        scripts = set(letters)
        if len(scripts) < self.babel_scripts:
            return False
        return len(scripts & state.prompt()[2]) <= self.babel_scripts // 2
