"""What repeats: how a unit is classed, and whether the prompt explains it.

    word    at least 30 % letters, no hex, no code, few digits; a run of "!" (id 0 of the GPT-2 family) too:
            what NaN says
    rows    code, comments or table rows: brackets, operators, quotes, bars, tabs; data repeat by nature
    filler  digits, rules, boxes, blanks, emoji: dividers and tables are made of it

A JSON member without its braces (`"key": 3.0,`) is no row: no object holds the same key twice, so that its
repetition is a loop whatever surrounds it.
"""

import re
from dataclasses import dataclass
from hashlib import blake2b
from typing import Final

LETTER: Final = re.compile(r"[^\W\d_]")
SOLID: Final = re.compile(r"\S")
TOKEN: Final = re.compile(r"[^\W\d_]{1,6}|\d{1,3}|[^\w\s]{1,3}|_+|\n+")
"""A pseudo-token, where the engine's own count is not known."""

WORD: Final = re.compile(r"\w+")
HEXISH: Final = re.compile(r"(?:0x)?+[0-9a-fA-F#]++(?:[\s,:;.|/\\\-]++(?:0x)?+[0-9a-fA-F#]*+)*+")
CJK: Final = re.compile(r"[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]")
CODE: Final = re.compile(r"[{}\[\]()<>;=|\t\"'`\\@$&^~*+%#]")
BRACKETS: Final = frozenset("()[]{}<>")
COMMENT: Final = re.compile(r"/\*|\*/|//|(?m:^\s*(?:#|--|%))")
LETTER_RUN: Final = 12
"""A run of one letter takes this many times as long to be a loop."""

MEMBER: Final = re.compile(r"\s*\"[^\"{}\[\]]*\"\s*:\s*[^{}\[\]]*")
COUNT: Final = re.compile(
    r"(?<!\d)\d{2,}+\s*+(?:(?:times|copies|repetitions)\b|[遍次])"
    r"|\b(?:write|print|output|generate|give|list|make|produce)\b[^.\n]{0,40}?(?<!\d)\d{2,}+\s*+(?:rows|lines)\b"
    r"|\brepeat\b[^.\n]{0,40}?(?:\d{2}|\btimes\b|\bforever\b|\bendless|\bover and over\b)"
    r"|\b(?:say|write|print|sing|go on|continue|loop)\b[^.\n]{0,40}?\bforever\b"
    r"|[写寫输輸打印生成列][^。\n]{0,20}?\d{2,}+\s*+行|重[复複][^。\n]{0,30}?(?:\d|[一二三四五六七八九十百千]+[遍次])",
    re.IGNORECASE,
)
"""A number of copies, or repetition without end, asked for; a mere "repeat" stands in any agent's prompt."""

COUNT_CHARS: Final = 4096
"""Of a long prompt the newest part is searched for a count: what is asked for stands at the end."""

PROMPT_CHARS: Final = 65_536
"""Of a long prompt the newest part is searched for scripts and control tokens."""

CHANT_WORDS: Final = 60
"""A refrain is no longer than this; the words of longer prose repeat anyway."""

PROSE: Final = 0.8
"""Share of letters among the signs of prose."""

SHORT_CHARS: Final = 40
"""Units of which several copies are counted together, as they may share tokens."""

SPACES: Final = 2
"""Blanks of a copy that make it running text."""

HALF_CHARS: Final = 6
"""Half a unit of this length in the prompt is the unit, not a coincidence."""


@dataclass(frozen=True, slots=True)
class Unit:
    """What repeats."""

    text: str
    kind: str  # word | rows | filler
    tokens: float  # pseudo-tokens in one copy
    chant: bool  # its words repeat within it, as refrains do
    lines: int  # line breaks, those of a quoted string included
    bangs: bool  # nothing but "!"
    plain: bool  # neither line breaks nor letters nor digits
    brackets: bool  # nothing else
    prose: bool  # letters and blanks, hardly anything else
    spaced: bool  # words with blanks between them, or a script that has none: no CSV row


def classify(text: str, letters_min: float, code_max: float, chant_distinct: float) -> Unit:
    """What one copy, cut anywhere, is made of."""
    solid, letters = len(SOLID.findall(text)), len(LETTER.findall(text))
    code, digits = len(CODE.findall(text)), sum(map(str.isdigit, text))
    tokens = _tokens(text) + len(CJK.findall(text)) / 2 or 1.0
    if len(set(text)) == 1 and text.isascii():
        tokens /= LETTER_RUN  # vocabularies know long runs of one letter, and base 64 has them
    words = WORD.findall(text.lower())[1:-1]  # the cut may have split the outer ones
    chant = len(words) <= CHANT_WORDS and len(set(words)) < chant_distinct * len(words)
    kind = "word"
    bangs = not text.strip("! \n") and solid > 0
    if MEMBER.fullmatch(_rotated(text)) or bangs:
        pass
    elif min(letters, solid - 2 * digits) < letters_min * solid or not solid or _is_hex(text.strip()):
        kind = "filler"
    elif code > max(code_max * solid, 1) or COMMENT.search(text):
        kind = "rows"
    lines = text.count("\n") + text.count("\\n")
    spaced = text.count(" ") >= SPACES or CJK.search(text) is not None
    prose = letters >= PROSE * solid and code <= (1 - PROSE) / 4 * solid and "_" not in text
    plain = not (lines or digits or letters)
    return Unit(text, kind, tokens, chant, lines, bangs, plain, set(text.strip()) <= BRACKETS, prose, spaced)


def asked(prompt: str, unit: Unit) -> bool:
    """Whether the prompt holds what repeats, or asks for a count.

    The unit is cut anywhere, so one of its halves stands in the prompt unbroken if the whole does. A word or
    two stand in any long prompt: a short unit must be there twice in a row.
    """
    if not prompt:
        return False
    text = unit.text.strip()
    halves = (text[: len(text) // 2], text[len(text) // 2 :])
    if unit.tokens <= HALF_CHARS // 2 or len(text) < 2 * HALF_CHARS:
        halves = (unit.text * 2).strip(), ""
    return any(half and half in prompt for half in halves) or bool(COUNT.search(prompt[-COUNT_CHARS:]))


def digest(unit: str) -> str:
    """A short name of the unit wherever the cut falls: a hash of its sorted characters."""
    return blake2b("".join(sorted(unit)).encode("utf-8", "replace"), digest_size=4).hexdigest()


def _is_hex(text: str) -> bool:
    return len(set(text)) > 1 and HEXISH.fullmatch(text) is not None


def _tokens(text: str) -> float:
    """Pseudo-tokens of one copy among others: neither the cut nor the seams between copies add any."""
    many = 6 if len(text) <= SHORT_CHARS else 1
    return (len(TOKEN.findall(text * (many + 1 + many))) - len(TOKEN.findall(text * (many + 1)))) / many


def _rotated(text: str) -> str:
    """The copy from its first comma on, so that a JSON member stands whole."""
    cut = text.find(",") + 1
    return text[cut:] + text[:cut]
