"""Salad: oddities that each may happen, and together do not. Read once, when the text has ended.

    3    leaked control tokens; punctuation after punctuation all over the text
    2    a replacement character; letters of unlike scripts glued into one word; each further script on one
         line, in fragments (a line in one other language is a quotation)
    1    a fragment: up to six letters of a script that the text hardly uses, not quoted or bracketed
    1/2  an accent, a capital or digits inside a word, where any of the above is

`points_min` points, and so many for the length, are garble. Four more signs stand by themselves:

    wordy    running text without a favourite word: every language says a few words again and again, and those
             who list words put something between them
    closers  brackets that close on the line and were never opened: an answer begins with none open
    crossed  brackets closed by another kind, most of them without a partner
    forms    simplified and traditional (or Japanese) forms of Han characters on one line, beside glued Latin

A prompt that holds a script, or a control token, explains it. Measured on 24,611 windows of ordinary files
and 2,904 of files with many non-ASCII characters: see the rule set. Cost: 100 us a KB of text that is not
ASCII and 10 us a KB of other text, once a stream, for 8 KB at most. State: nothing.
"""

import re
from collections import Counter
from dataclasses import dataclass
from itertools import pairwise
from typing import ClassVar, Final

from service.core.detectors.garble import SPECIAL, readable
from service.core.detectors.units import PROMPT_CHARS
from service.core.events import UNKNOWN, Channel, Finding, Kind, Look, RequestFacts, WorkerFacts
from service.core.scripts import CODES, form, has_table

WINDOW_BYTES: Final = 8192
"""What is read: 2,000 tokens."""

RUN: Final = re.compile("[aAe]+|[hijk]+|g+|c+|y+|([\u0100-\uffff])\\1*")
FAMILY: Final = str.maketrans({"A": "a", "e": "a", "i": "h", "j": "h", "k": "h"})
"""Latin is one script, and so is Japanese with its Han and kana."""

QUOTES: Final = frozenset("\"'()[]`<>/=;,|\u201c\u201d\u2018\u2019\uff08\uff09\u300c\u300d\u00ab\u00bb")
CAMEL: Final = re.compile(r"(?<![A-Za-z])[a-z]{2,}[A-Z]+[a-z]")
DIGITS: Final = re.compile(r"[A-Za-z]{3,}[0-9]+[a-z]{2,}")
ACCENT: Final = re.compile("[a-z][\u00e0-\u00f6\u00f8-\u017f][a-z]")
STRAY: Final = re.compile(r"[,:;] [,:;.]|[,.:;]\s*[,;:](?![:;/])")
"""Punctuation that follows punctuation."""

LOST: Final = "\ufffd"

FRAGMENT_LETTERS: Final = 6
"""A longer run is a word that somebody quotes."""

FRAGMENTS: Final = 2
"""Fragments of one script that count: a list of names has many of one."""

EACH: Final = 3
"""Of each small oddity so many count."""

LITERAL: Final = re.compile(r"(['\"`])[^'\"`\n]{1,16}\1")
"""A short string of code, or a quoted word."""

OPENERS: Final = re.compile(r"[(\[{]")
INLINE: Final = re.compile(r"(?m)(?<![\s)\]}])[)\]}]+|(?<=[^\s)\]}]) [)\]}]+")
BRACKET: Final = re.compile(r"[()\[\]{}]")
PARTNER: Final = {")": "(", "]": "[", "}": "{"}
CONTROL: Final = re.compile("[\x00-\x08\x0e-\x1f]")
CROSSABLE: Final = 8
"""Brackets that must be there before their pairing says anything."""

MARKER: Final = re.compile(r"(?m)^\s*\w{1,3}[)\]]")
WORD: Final = re.compile(r"[A-Za-z][^\W\d_]*")
FORMS_CHARS: Final = 800
"""Forms are compared in the newest part of a text."""

WORDY_CHARS: Final = 2048
"""A first glance at favourite words takes these; nearly every text has them."""

NO_SCRIPT: Final = frozenset(" \ndFxpso")
"""Codes that name no script."""

FAVOURITE: Final = 5
"""The most frequent words of a text; in prose they are a sixth of it."""

ORDERED: Final = 0.7
"""Share of words that follow in the alphabet: a half in any text, all in an index."""

Run = tuple[int, int, str]
"""Where a run of one script begins and ends, and the script."""

HAN: Final = re.compile("[\u4e00-\u9fff]")
PATCH: Final = re.compile("[\u4e00-\u9fff][A-Za-z]{2,}|[A-Za-z]{2,}[\u4e00-\u9fff]")


class SaladState:
    """Whether the text was read."""

    __slots__ = ("facts", "read")

    def __init__(self, facts: RequestFacts) -> None:
        self.facts = facts
        self.read = 0  # bytes of the text when it was


@dataclass(frozen=True, slots=True)
class Salad:
    """Parameters as they stand in the rule set under `salad`."""

    points_min: float
    points_per_100: float
    script_letters: int
    stray_per_100: float
    closers_min: int
    closers_per_100: float
    closers_opened: float
    wordy_min: int
    wordy_line: float
    wordy_spaced: float
    wordy_capitals: float
    wordy_capitals_max: float
    wordy_share: float
    crossed_min: int
    crossed_share: float
    crossed_chars: int
    forms_min: int
    patches_min: int
    acts_log10: float

    name: ClassVar[str] = "salad"
    channel: ClassVar[Channel] = Channel.TEXT

    def start(self, facts: RequestFacts, worker: WorkerFacts) -> SaladState:
        return SaladState(facts)

    def look(self, state: SaladState, look: Look) -> Finding | None:
        if not look.ended or look.size == state.read:
            return None
        state.read = look.size
        text = look.tail[-WINDOW_BYTES:].decode("utf-8", "ignore")
        sign = self._sign(state.facts.prompt, text, whole=look.size <= WINDOW_BYTES)
        if not sign:
            return None
        return Finding(self.name, self.channel, Kind.GARBLED, self.acts_log10, look.tokens, UNKNOWN, sign)

    def _sign(self, prompt: str, text: str, *, whole: bool) -> str:
        if whole:
            opened, closed = sum(map(text.count, "([{")), sum(map(text.count, ")]}"))
            if closed >= self.closers_min and opened <= self.closers_opened * closed and self._closes(text):
                return "closers"
            if opened + closed >= CROSSABLE and len(text) <= self.crossed_chars and self._crosses(text):
                return "crossed"
        used = {} if text.isascii() else scripts_of(text)
        points = self._points(prompt[-PROMPT_CHARS:], text, used)
        if points >= max(self.points_min, self.points_per_100 * len(text) / 100) and not has_table(text):
            return "points"
        if self._wordy(text):
            return "wordy"
        mixed = "h" in used and "a" in used and any(map(self._mixes, text[-FORMS_CHARS:].splitlines()))
        return "forms" if mixed else ""

    # --- points ---

    def _points(self, prompt: str, text: str, used: dict[str, int]) -> float:
        points = 0.0
        if ("<" in text or "[" in text) and SPECIAL.search(text) and not SPECIAL.search(prompt):
            points = 3.0
        if LOST in text and LOST not in prompt:
            points += 2.0 * min(text.rstrip(LOST).count(LOST), EACH)
        if strange := self._strange(used):
            strange -= scripts_of(prompt).keys()
            points += self._fragments(text, {script: used[script] for script in strange})
        if not points:
            return 0.0
        points += 0.5 * sum(min(len(odd.findall(text)), EACH) for odd in (CAMEL, DIGITS, ACCENT))
        stray = len(STRAY.findall(text)) >= self.stray_per_100 * len(text) / 100
        return points + 3.0 * stray

    def _strange(self, used: dict[str, int]) -> set[str]:
        """Scripts that the text hardly uses; its main one, Latin and Greek are none of them."""
        main = max(used, key=used.__getitem__, default="")
        return {
            script
            for script, letters in used.items()
            if script not in (main, "a", "y") and letters <= self.script_letters
        }

    def _fragments(self, text: str, used: dict[str, int]) -> float:
        rare = {script for script in used if used[script] <= FRAGMENT_LETTERS * (2 - (script in "hg"))}
        told = dict.fromkeys(used, 0)
        bare = LITERAL.sub(" ", readable(text))
        lines = [line for line in bare.splitlines() if not line.isascii()]
        points = sum(_line_points(*self._line(line), told, rare) for line in lines)
        return points + sum(min(times, FRAGMENTS) for times in told.values())

    def _line(self, line: str) -> tuple[str, list[Run]]:
        """The line, and its runs of one script."""
        codes = line.translate(CODES)
        return line, [
            (match.start(), match.end(), match[0][0].translate(FAMILY)) for match in RUN.finditer(codes)
        ]

    # --- other signs ---

    def _closes(self, text: str) -> bool:
        """More brackets close within lines than ever opened; list markers such as `a)` apart."""
        opened = len(OPENERS.findall(text))
        closed = sum(len(match.strip()) for match in INLINE.findall(text)) - len(MARKER.findall(text))
        return (
            closed >= self.closers_min
            and opened <= self.closers_opened * closed
            and closed - opened >= self.closers_per_100 * len(text) / 100
        )

    def _crosses(self, text: str) -> bool:
        if CONTROL.search(text):
            return False
        stack: list[str] = []
        brackets, crossed, alone = BRACKET.findall(text), 0, 0
        for bracket in brackets:
            if bracket in PARTNER.values():
                stack.append(bracket)
            elif not stack:
                alone += 1
            elif stack[-1] == PARTNER[bracket]:
                stack.pop()
            else:
                crossed += 1
        if len(brackets) < CROSSABLE or crossed < self.crossed_min:
            return False
        return crossed + alone + len(stack) >= self.crossed_share * len(brackets)

    def _wordy(self, text: str) -> bool:
        newest = text[-WORDY_CHARS:].split()
        favourite = sum(times for _, times in Counter(newest).most_common(FAVOURITE))
        if len(newest) < self.wordy_min or favourite > 2 * self.wordy_share * len(newest):
            return False
        words = WORD.findall(text)
        if text.count(" ") < self.wordy_spaced * len(words):
            return False
        if len(words) < self.wordy_min or len(words) < self.wordy_line * (text.count("\n") + 1):
            return False
        capitals = sum(word[0].isupper() for word in words)
        if not self.wordy_capitals <= capitals / len(words) <= self.wordy_capitals_max:
            return False
        ordered = sum(one <= other for one, other in pairwise(words))
        if ordered > ORDERED * len(words):
            return False
        favourite = sum(times for _, times in Counter(map(str.lower, words)).most_common(FAVOURITE))
        return favourite <= self.wordy_share * len(words)

    def _mixes(self, line: str) -> bool:
        if len(PATCH.findall(line)) < self.patches_min:
            return False
        forms = Counter(map(form, HAN.findall(line)))
        return forms["s"] >= self.forms_min and forms["t"] >= self.forms_min


def _line_points(line: str, runs: list[Run], told: dict[str, int], rare: set[str]) -> float:
    """Glue and further scripts on one line; each fragment of a strange script is told."""
    points, fragments, before = 0.0, set[str](), (0, -1, "")
    here: Counter[str] = Counter()
    for start, stop, script in runs:
        here[script] += stop - start
    guests = {script for script in told if 3 * here[script] <= here.total()}
    for start, stop, script in runs:
        around = line[max(start - 1, 0) : start] + line[stop : stop + 1]
        if script in guests and stop - start <= FRAGMENT_LETTERS and QUOTES.isdisjoint(around):
            fragments.add(script)
            told[script] += script not in "hg"  # a word of Han or Hangul is quoted freely
        if before[1] == start and script != before[2] and {script, before[2]} & rare:
            points += 2
        before = start, stop, script
    return points + 2 * max(len(fragments) - 1, 0)


def scripts_of(text: str) -> dict[str, int]:
    """Letters by script; Latin is one, and so is Japanese with its Han and kana."""
    codes, used = text.translate(CODES), Counter[str]()
    for code in set(codes) - NO_SCRIPT:
        used[code.translate(FAMILY)] += codes.count(code)
    return used
