"""Stutter: the newest text has hardly any words of its own, though it never repeats exactly.

    poor     few different signs among the newest ones, mostly letters, and nothing new among the last dozen:
             near-loops, loops that vary, two lines in turns (`keys_name/keys/keys_name/keys`)
    echo     many different units, each said three times or more on the spot (`two two two doors doors doors`)
    one word most of all words are the same one
    lines    many short lines of words, most of them there before, whatever their order

Signs are words (identifiers whole), Han characters, numbers and single signs of punctuation. Measured on
24,611 windows of 2,000 characters of ordinary files (Python, JavaScript, C, JSON, CSV, Markdown, HTML, YAML):
none is as poor over 60 signs, one has six echoing units. Lists, logs and code repeat too, but with numbers
and punctuation; chants repeat with words, so that live text must stay poor for longer than text that has
ended. Near-loops that are not yet poor enough are a second witness to collapsed acceptance.

Looked at every 512 bytes of a stream and at its end, whatever the grouping of events; a first glance at how
many words differ spares most of them the rest. Cost: 5 us a grid line, 100 where words recur: 0.1 us a token.
State: a few numbers.
"""

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import ClassVar, Final
from zlib import compress

from service.core.detectors.units import COUNT, COUNT_CHARS
from service.core.events import UNKNOWN, Channel, Finding, Kind, Look, RequestFacts, WorkerFacts

BLOCK: Final = 512
"""Bytes of the grid: about 120 tokens of English."""

WINDOW_BYTES: Final = 1536
"""What is looked at: some 300 words, or 500 Han characters."""

ECHO_CHARS: Final = 400
"""What echoes are looked for in."""

SIGN: Final = re.compile(
    r"[\u3040-\u30ff\u3400-\u9fff\U00020000-\U0002ffff]|[\uac00-\ud7af]+|[^\W\d]\w*|\d\w*|[^\w\s]"
)
COPIED_BYTES: Final = 32
"""The newest text that the prompt holds word for word, where it was asked for."""

VARIED: Final = 0.5
"""Share of different words, or of bytes left by compression, that no sign below lets through."""

SHORT_BYTES: Final = 300
"""Where the text has ended, its last words are glanced at by themselves as well: fifty."""

PROBE_BYTES: Final = 640
"""What that share is taken of: a hundred words."""

ECHO: Final = re.compile(r"(\S.{0,11}?)\1\1+", re.DOTALL)
NEWEST: Final = 12
"""Signs at the very end that must bring nothing new: who recovers says something else."""


class StutterState:
    """Where one choice stands."""

    __slots__ = ("at", "facts", "read", "said", "seen")

    def __init__(self, facts: RequestFacts) -> None:
        self.facts = facts
        self.at = 0  # bytes examined
        self.seen = 0  # bytes so far
        self.read = 0  # bytes when the whole was read
        self.said = 0.0  # the strongest finding given out


@dataclass(frozen=True, slots=True)
class Stutter:
    """Parameters as they stand in the rule set under `stutter`."""

    live_signs: int
    live_distinct: int
    ended_signs: int
    ended_distinct: int
    wordy_signs: int
    wordy_distinct: int
    wordy_letters: float
    one_words: int
    one_share: float
    one_letters: float
    witness_signs: int
    witness_distinct: int
    witness_log10: float
    letters_min: float
    news_max: int
    echo_units: int
    echo_share: float
    one_line: int
    lines_min: int
    lines_distinct: float
    lines_letters: float
    acts_log10: float

    name: ClassVar[str] = "stutter"
    channel: ClassVar[Channel] = Channel.TEXT

    def start(self, facts: RequestFacts, worker: WorkerFacts) -> StutterState:
        return StutterState(facts)

    def look(self, state: StutterState, look: Look) -> Finding | None:
        state.seen = look.size
        if state.said >= self.acts_log10 or (state.at + BLOCK > state.seen and not look.ended):
            return None
        tail, found = look.tail, None
        while state.at + BLOCK <= state.seen:
            state.at += BLOCK
            end = len(tail) - (state.seen - state.at)
            window = tail[max(end - WINDOW_BYTES, 0) : end]
            if is_varied(window):
                continue
            found = self._say(state, look, *self._running(window)) or found
        if look.ended and look.size != state.read:
            state.read = look.size
            if look.size > PROBE_BYTES and is_varied(tail) and is_varied(tail[-SHORT_BYTES:]):
                return found
            text = tail[-WINDOW_BYTES:].decode("utf-8", "ignore")
            found = self._say(state, look, self._ended(text, SIGN.findall(text)), self.acts_log10) or found
        return found

    def _say(self, state: StutterState, look: Look, sign: str, strength: float) -> Finding | None:
        if not sign or strength <= state.said:
            return None
        state.said = strength
        tail = look.tail[-COPIED_BYTES:].decode("utf-8", "ignore")
        prompt = state.facts.prompt
        if prompt and (tail in prompt or COUNT.search(prompt[-COUNT_CHARS:])):
            return None
        return Finding(self.name, self.channel, Kind.REPETITION, strength, look.tokens, UNKNOWN, sign)

    def _running(self, window: bytes | bytearray) -> tuple[str, float]:
        """What the text says while it runs, and how strongly."""
        text = window.decode("utf-8", "ignore")
        signs = SIGN.findall(text)
        if self._poor(signs, self.live_signs, self.live_distinct, self.letters_min):
            return "poor", self.acts_log10
        if self._echoes(text):
            return "echo", self.acts_log10
        poor = self._poor(signs, self.witness_signs, self.witness_distinct, self.wordy_letters)
        return ("poor", self.witness_log10) if poor else ("", 0.0)

    def _ended(self, text: str, signs: Sequence[str]) -> str:
        poor = self._poor(signs, self.ended_signs, self.ended_distinct, self.letters_min)
        if poor or self._poor(signs, self.wordy_signs, self.wordy_distinct, self.wordy_letters):
            return "poor"
        if self._dominated(signs):
            return "one word"
        if self._echoes(text):
            return "echo"
        return "lines" if self._lines(text, signs) else ""

    def _poor(self, signs: Sequence[str], enough: int, distinct: int, letters_min: float) -> bool:
        signs = signs[-enough:]
        if len(signs) < enough or len(set(signs)) > distinct:
            return False
        letters = sum(map(str.isalpha, signs))
        known = set(signs[:-NEWEST])
        news = sum(sign not in known for sign in signs[-NEWEST:])
        return letters >= letters_min * len(signs) and news <= self.news_max

    def _dominated(self, signs: Sequence[str]) -> bool:
        """One word is most of all words, in whatever company."""
        words = [sign for sign in signs if sign.isalpha()]
        if len(words) < max(self.one_words, self.one_letters * len(signs)):
            return False
        word, times = Counter(words).most_common(1)[0]
        return times >= self.one_share * len(words) and len(word) > 1

    def _echoes(self, text: str) -> bool:
        text = text[-ECHO_CHARS:]
        units, covered = set(), 0
        for match in ECHO.finditer(text):
            unit = match[1].strip()
            if unit.isalpha() and (len(set(unit)) > 1 or not unit.isascii()):
                units.add(unit)
                covered += match.end() - match.start()
        return len(units) >= self.echo_units and covered >= self.echo_share * len(text)

    def _lines(self, text: str, signs: Sequence[str]) -> bool:
        lines = [line.strip() for line in text.split("\n") if line.strip()]
        if any(
            len(list(same)) >= self.one_line
            for line, same in groupby(lines)
            if line.isascii() and line.isalpha()
        ):
            return True
        if len(lines) < self.lines_min or len(set(lines)) > self.lines_distinct * len(lines):
            return False
        return sum(map(str.isalpha, signs)) >= self.lines_letters * len(signs)


def is_varied(window: bytes | bytearray) -> bool:
    """Whether one glance shows that nothing recurs here: different words, or what compression leaves."""
    newest = bytes(window[-PROBE_BYTES:])
    words = newest.split()
    if len(words) >= len(newest) // 12:
        return len(set(words)) > VARIED * len(words)
    return len(compress(newest, 1)) > VARIED * len(newest)
