"""Seams: a sentence that breaks off inside a word and goes on as something else.

That is in another language, or as prose inside code, as when the newest half of a cache is another request's.
Read once, when the text has ended.

    Latin to Han   eight plain words, the last one running straight into eight Han characters
    Han to Latin   twelve Han characters running straight into a small letter and eight plain words
    code to prose  an open bracket, right after a name, and then eight small words to the end of the line

Text that mixes languages on purpose has a term or a quotation on one side, a blank, a full stop or a quote
between, and comments have their signs. A seam within one language needs a language model: it is not seen.
Measured: none in 27,515 windows of ordinary files. Cost: 30 us a KB of text with Han, 10 us of other text,
once a stream, 8 KB at most. State: nothing.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar, Final

from service.core.events import UNKNOWN, Channel, Finding, Kind, Look, RequestFacts, WorkerFacts

WINDOW_BYTES: Final = 8192
"""What is read: 2,000 tokens."""

REACH: Final = 200
"""Characters looked at on either side."""

INTO_HAN: Final = re.compile("[a-z][,.;:]? [A-Za-z]+(?=[\u4e00-\u9fff]{3})")
OUT_OF_HAN: Final = re.compile("[\u4e00-\u9fff][a-z]+,? (?=[A-Za-z])")
HAN_RIGHT: Final = re.compile("[\u4e00-\u9fff\uff0c\u3001\uff1b\u30020-9]*")
HAN_LEFT: Final = re.compile("[\u4e00-\u9fff\uff0c\u3001\uff1b\u3002]*$")
PLAIN: Final = re.compile("[A-Za-z][A-Za-z'\u2019-]*[.,;:]?")
OPENED: Final = re.compile(r"\w[\[(]")
ASCII: Final = bytes(range(128))
COMMENTED: Final = frozenset("\"'`#*|<>/\\")


class SeamState:
    """Whether the text was read."""

    __slots__ = ("read",)

    def __init__(self) -> None:
        self.read = 0  # bytes of the text when it was


@dataclass(frozen=True, slots=True)
class Seam:
    """Parameters as they stand in the rule set under `seam`."""

    words: int
    han_after: int
    han_before: int
    acts_log10: float

    name: ClassVar[str] = "seam"
    channel: ClassVar[Channel] = Channel.TEXT

    def start(self, facts: RequestFacts, worker: WorkerFacts) -> SeamState:
        return SeamState()

    def look(self, state: SeamState, look: Look) -> Finding | None:
        if not look.ended or look.size == state.read:
            return None
        state.read = look.size
        tail = look.tail[-WINDOW_BYTES:]
        if tail.count(b" ") < self.words:
            return None
        text = tail.decode("utf-8", "ignore")
        if len(tail.translate(None, ASCII)) >= 3 * self.han_after:
            if self._into_han(text):
                return self._say(look, "into Han")
            if self._out_of_han(text):
                return self._say(look, "out of Han")
        return self._say(look, "out of code") if any(map(self._out_of_code, text.splitlines())) else None

    def _say(self, look: Look, sign: str) -> Finding:
        return Finding(self.name, self.channel, Kind.GARBLED, self.acts_log10, look.tokens, UNKNOWN, sign)

    def _into_han(self, text: str) -> bool:
        for match in INTO_HAN.finditer(text):
            end = match.end()
            start = max(0, end - REACH)
            after = HAN_RIGHT.match(text, end) if text.count(" ", start, end) >= self.words - 1 else None
            if after and len(after[0]) >= self.han_after:
                words = reversed(text[start:end].split())
                if _plain(words) >= self.words:
                    return True
        return False

    def _out_of_han(self, text: str) -> bool:
        for match in OUT_OF_HAN.finditer(text):
            start = match.start() + 1
            if text.count(" ", start, start + REACH) < self.words:
                continue
            before = HAN_LEFT.search(text[max(0, start - REACH) : start])
            words = text[start : start + REACH].split()[:-1]
            if before and len(before[0]) >= self.han_before and _plain(words) >= self.words:
                return True
        return False

    def _out_of_code(self, line: str) -> bool:
        if line.count("(") + line.count("[") <= line.count(")") + line.count("]"):
            return False
        if not OPENED.search(line) or not COMMENTED.isdisjoint(line):
            return False
        words = line[max(line.rfind("("), line.rfind("[")) + 1 :].split()[1 : self.words + 1]
        return _plain(words) >= self.words and sum(word[0].islower() for word in words) >= self.words - 1


def _plain(words: Iterable[str]) -> int:
    """How many plain words there are before anything else."""
    count = 0
    for word in words:
        if not PLAIN.fullmatch(word):
            break
        count += 1
    return count
