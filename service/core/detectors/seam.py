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

INTO_HAN: Final = re.compile("[A-Za-z](?=[\u4e00-\u9fff]{3})")
OUT_OF_HAN: Final = re.compile("(?<=[\u4e00-\u9fff]{3})[a-z]+,? ")
HAN_RIGHT: Final = re.compile("[\u4e00-\u9fff\uff0c\u3001\uff1b\u30020-9]*")
HAN_LEFT: Final = re.compile("[\u4e00-\u9fff\uff0c\u3001\uff1b\u3002]*$")
PLAIN: Final = re.compile("[A-Za-z][A-Za-z'\u2019-]*[.,;:]?")
OPENED: Final = re.compile(r"\w[\[(]")
COMMENTED: Final = frozenset("\"'`#*|<>/\\")


@dataclass(frozen=True, slots=True)
class Seam:
    """Parameters as they stand in the rule set under `seam`."""

    words: int
    han_after: int
    han_before: int
    acts_log10: float

    name: ClassVar[str] = "seam"
    channel: ClassVar[Channel] = Channel.TEXT

    def start(self, facts: RequestFacts, worker: WorkerFacts) -> None:
        return None

    def look(self, state: None, look: Look) -> Finding | None:
        if not look.ended or not look.tail:
            return None
        text = look.tail[-WINDOW_BYTES:].decode("utf-8", "ignore")
        if not text.isascii() and self._into_han(text):
            return self._say(look, "into Han")
        if not text.isascii() and self._out_of_han(text):
            return self._say(look, "out of Han")
        return self._say(look, "out of code") if any(map(self._out_of_code, text.splitlines())) else None

    def _say(self, look: Look, sign: str) -> Finding:
        return Finding(self.name, self.channel, Kind.GARBLED, self.acts_log10, look.tokens, UNKNOWN, sign)

    def _into_han(self, text: str) -> bool:
        for match in INTO_HAN.finditer(text):
            end = match.end()
            after = HAN_RIGHT.match(text, end)
            words = reversed(text[max(0, end - REACH) : end].split())
            if after and len(after[0]) >= self.han_after and _plain(words) >= self.words:
                return True
        return False

    def _out_of_han(self, text: str) -> bool:
        for match in OUT_OF_HAN.finditer(text):
            start = match.start()
            before = HAN_LEFT.search(text[max(0, start - REACH) : start])
            words = text[start : start + REACH].split()[:-1]
            if before and len(before[0]) >= self.han_before and _plain(words) >= self.words:
                return True
        return False

    def _out_of_code(self, line: str) -> bool:
        if not OPENED.search(line) or not COMMENTED.isdisjoint(line):
            return False
        if line.count("(") + line.count("[") <= line.count(")") + line.count("]"):
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
