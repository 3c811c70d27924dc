"""Characters as one-letter codes of what they are: the alphabet on which the garble rules are written.

    a A   Latin small and capital (ASCII)      e   other Latin             d   digits
    h i j Han: common, rare, outside every legacy charset                  k   kana      g   Hangul
    y     Greek        c   Cyrillic            U+0100 ...   every other script, one code each
    F     U+FFFD       x   unassigned          p   private use             s   unusual symbols
    o     other symbols beyond ASCII, emoji apart
    (line break) itself    (blank) everything else: punctuation, blanks, emoji

`text.translate(CODES)` runs at 30-60 ns a character, as CODES remembers what it was asked; ordinary regular
expressions over the codes then see scripts. A combining mark vanishes: it belongs to its letter.

"Common" Han: level 1 of GB 2312 or Big5 or JIS X 0208, from Python's own codecs (reference: rarity alone
separates nothing, as lists of names and elements are the rarest texts there are; a shift does).
"""

import re
import unicodedata
from functools import lru_cache
from typing import Final

REMEMBERED: Final = 1 << 15
"""Code points kept at most; beyond it a character is classified anew each time (4 us)."""

OTHER_SCRIPTS: Final = 0x100
"""Codes from here on name scripts other than Latin, Greek, Cyrillic, Han, kana and Hangul."""

COMMON: Final = (("gb2312", 0xB0, 0xD7), ("big5", 0xA4, 0xC6), ("euc_jp", 0xB0, 0xCF))
"""Charset and lead bytes of its first level."""

KNOWN_CHARSETS: Final = ("gbk", "big5hkscs", "euc_jis_2004", "euc_kr")
"""Between them all that people type: names, dialects (Cantonese), old books."""

UNUSUAL: Final = (
    (0x2300, 0x23CE),  # APL and other technical signs
    (0x2440, 0x245F),  # OCR
    (0x2800, 0x28FF),  # Braille
    (0x27C0, 0x27EF),  # mathematics of specialists ...
    (0x2980, 0x2AFF),
    (0x2B00, 0x2B0F),
    (0x2B30, 0x2BFF),  # ... and arrows of none
    (0x1D000, 0x1D3FF),  # musical, counting rods
)
"""Symbols that running text does not put inside words. Arrows, operators, boxes and dingbats are not here."""

NEW_EMOJI: Final = range(0x1F000, 0x1FB00)
"""Newer Unicode fills this block faster than Python learns it: unassigned here means nothing."""

ROW: Final = re.compile("[\u00a1-\u2fff\ufb00-\ufdff]{24,}")
"""A row of signs beyond ASCII, Han, kana and Hangul left out: longer than the words of any alphabet."""

ROW_DISTINCT: Final = 0.9
"""Share of different signs that makes it a table; running text without blanks says its letters again."""

LETTERS: Final = frozenset({"Lu", "Ll", "Lt", "Lo", "Lm"})
SYMBOLS: Final = frozenset({"So", "Sm"})
PLAIN: Final = {"Co": "p", "Nd": "d", "Mn": "", "Mc": "", "Me": ""}
"""Codes of the categories that need no further look."""

SINGLE: Final = {
    "LATIN": "e", "GREEK": "y", "CYRILLIC": "c", "HIRAGANA": "k", "KATAKANA": "k", "KATAKANA-HIRAGANA": "k",
    "HANGUL": "g",
    # variants of other letters, not scripts of their own
    "MODIFIER": " ", "FEMININE": " ", "MASCULINE": " ", "MICRO": " ", "FULLWIDTH": " ", "HALFWIDTH": " ",
    "MATHEMATICAL": " ", "DOUBLE-STRUCK": " ", "SCRIPT": " ", "BLACK-LETTER": " ",
    "ANGSTROM": " ", "KELVIN": " ",
}  # fmt: skip
"""First words of Unicode names, and the codes of their letters; any other first word names a script."""


class Codes(dict[int, str]):
    """A translation table that classifies on demand."""

    def __init__(self) -> None:
        super().__init__()
        self._scripts: dict[str, str] = {}

    def __missing__(self, point: int) -> str:
        code = self._classify(point)
        if len(self) < REMEMBERED:
            self[point] = code
        return code

    def _classify(self, point: int) -> str:
        char = chr(point)
        if char.isascii():
            return _ascii(char)
        if any(low <= point <= high for low, high in UNUSUAL):
            return "s"
        category = unicodedata.category(char)
        if category in LETTERS:
            return self._letter(char)
        emoji = point >= NEW_EMOJI.start
        if category in SYMBOLS and not emoji:
            return "F" if char == "\ufffd" else "o"
        if category == "Cn":
            return " " if point in NEW_EMOJI else "x"
        return PLAIN.get(category, " ")

    def _letter(self, char: str) -> str:
        name = unicodedata.name(char, "")
        script = name.split(" ", 1)[0]
        if name.startswith("CJK ") or script in {"IDEOGRAPHIC", "KANGXI"}:
            return _han(char)
        if script in SINGLE:
            return SINGLE[script]
        return self._scripts.setdefault(script, chr(OTHER_SCRIPTS + len(self._scripts)))


def _ascii(char: str) -> str:
    if char == "\n":
        return char
    if char.islower():
        return "a"
    if char.isupper():
        return "A"
    return "d" if char.isdigit() else " "


def _han(char: str) -> str:
    for charset, low, high in COMMON:
        lead = _lead(char, charset)
        if low <= lead <= high:
            return "h"
    return "i" if any(_known(char, charset) for charset in KNOWN_CHARSETS) else "j"


def _lead(char: str, charset: str) -> int:
    try:
        code = char.encode(charset)
    except UnicodeEncodeError:
        return 0
    return code[0] if len(code) == 2 else 0  # noqa: PLR2004 - a double-byte character


def _known(char: str, charset: str) -> bool:
    try:
        char.encode(charset)
    except UnicodeEncodeError:
        return False
    return True


CODES: Final = Codes()
"""Shared by all streams: what a character is does not depend on who wrote it."""


def is_other(code: str) -> bool:
    """Whether a code names a script of its own, beyond Latin, Greek, Cyrillic, Han, kana and Hangul."""
    return ord(code) >= OTHER_SCRIPTS


def has_table(text: str) -> bool:
    """Whether there is a row in which hardly a sign comes twice: a charset, an alphabet."""
    return any(len(set(row)) >= ROW_DISTINCT * len(row) for row in ROW.findall(text))


@lru_cache(REMEMBERED)
def form(char: str) -> str:
    """Which reform a Han character shows: s simplified only, t traditional or Japanese only, or neither."""
    simplified, traditional = _known(char, "gb2312"), _known(char, "big5") or _known(char, "euc_jp")
    if simplified == traditional:
        return ""
    return "s" if simplified else "t"
