"""Loops: the end of the text repeats itself exactly, and still does at the moment of the verdict.

The tail's period p is the distance from its last 16 bytes back to where they stood before (one `rfind`);
a run grows by one slice compare, x[i-64:i] == x[i-64-p:i-p], and ends where that fails. Both happen on a
grid of the stream's own bytes, so the grouping of events does not show. Exact, incremental, no word objects:
0.1-0.3 us a token; memory is a few numbers, the text is the look's tail. Delay: the class's limit and at most
64 bytes more, as the run is measured back to where it began.

How much repetition is too much depends on what repeats (reference: measured on 7,650 windows of ordinary
files: exact tails of >= 48 tokens and 3 copies in .2 %, of >= 96 and 4 in .04 %, all of it test data):

    word    at least 30 % letters, not hex, more than `short_tokens` tokens
    short   as word, but of at most `short_tokens` tokens; "!" too: id 0 of the GPT-2 family, what NaN says
    long    a unit of more than `long_tokens` tokens
    filler  digits, rules, boxes, blanks, emoji: dividers and tables are made of it

Twice the limits inside a code fence, for table rows and for chants (units whose own words repeat, as refrains
do); twice again where the prompt holds the unit (a short one: twice in a row) or asks for a count. A second
pass reads digits as one sign: counters and numbered near-loops look like logs and lists: it asks more, leaves
rows alone, and is only a second witness to collapsed acceptance, as a short run of filler is. Strength grows
from a measured likelihood ratio at half the limit to "acts" at the limit: the first is calibration, the other
a decision.
"""

import re
from dataclasses import dataclass
from hashlib import blake2b
from typing import ClassVar, Final

from service.core.events import UNKNOWN, Channel, Finding, Kind, Look, RequestFacts, WorkerFacts

BLOCK: Final = 64
"""Bytes of the grid: about 16 tokens of English between two looks at the tail."""

NEEDLE: Final = 16
"""Bytes that must recur before a period is considered: short enough for one copy, long enough to be rare."""

FAR_BLOCK: Final = 8 * BLOCK
"""The coarser grid of long periods and of the second pass: it costs more, and long loops have time."""

NEAR_BYTES: Final = 1024
"""Periods looked for on every line of the fine grid."""

HALF: Final = 0.5
"""The share of its limit at which a run is reported at all."""

SPAN: Final = 8192
"""Bytes that the second pass may look back on."""

DIGIT: Final = re.compile(rb"[0-9]")
DIGITS: Final = bytes.maketrans(b"0123456789", b"##########")

LETTER: Final = re.compile(r"[^\W\d_]")
SOLID: Final = re.compile(r"\S")
TOKEN: Final = re.compile(r"[^\W\d_]{1,6}|\d{1,3}|[^\w\s]{1,3}|_+|\n+")
"""A pseudo-token, where the engine's own count is not known."""
WORD: Final = re.compile(r"\w+")
HEXISH: Final = re.compile(r"(?:0x)?+[0-9a-fA-F#]++(?:[\s,:;.|/\\\-]++(?:0x)?+[0-9a-fA-F#]*+)*+")
CJK: Final = re.compile(r"[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]")
COUNT: Final = re.compile(
    r"(?<!\d)\d{2,}+\s*+(?:(?:times|copies|rows|lines|repetitions)\b|[遍次行])|\brepeat|\bforever\b|重复|重複",
    re.IGNORECASE,
)
PROMPT_CHARS: Final = 65536
"""Of a long prompt the newest part is searched for a count."""

FENCE: Final = b"```"

HALF_CHARS: Final = 6
"""Half a unit of this length in the prompt is the unit, not a coincidence."""


@dataclass(frozen=True, slots=True)
class Unit:
    """What repeats."""

    text: str
    kind: str  # word | short | long | filler
    tokens: float  # pseudo-tokens in one copy
    regular: bool  # a table row, or a chant whose words repeat within it
    rows: bool  # holds a line break


class Run:
    """An exact tail run: the last `length` bytes have period `period`."""

    __slots__ = ("asked", "at", "length", "period", "since", "tokens", "unit")

    def __init__(self) -> None:
        self.period = 0  # bytes; 0 for none
        self.length = 0  # bytes, the first copy included
        self.at = 0  # bytes of the stream examined
        self.since = 0  # bytes of the stream where this period was found ...
        self.tokens = 0.0  # ... and the engine's tokens there
        self.unit: Unit | None = None  # classified once a run
        self.asked: bool | None = None  # whether the prompt explains it; found out once a run

    def advance(self, tail: bytes | bytearray, end: int, block: int, longest: int, token: float) -> None:
        """Examine the next `block` bytes, which end at `tail[end]` and at this token."""
        self.at += block
        p, start = self.period, end - block
        if p and start >= p and tail[start:end] == tail[start - p : end - p]:
            self.length += block
            return
        found = tail.rfind(tail[end - NEEDLE : end], max(end - NEEDLE - longest, 0), end - 1)
        self.period = end - NEEDLE - found if found >= 0 else 0
        self.length = self.period + _common(tail, end, self.period) if self.period else 0
        self.since, self.tokens = self.at, token
        self.unit = self.asked = None

    def unit_tokens(self, token: float) -> float:
        """Tokens in one copy: the engine's own where it counts, of the run itself from block two on."""
        watched = self.at - self.since
        if watched >= BLOCK and token > self.tokens:
            return (token - self.tokens) / watched * self.period
        if token > 0:
            return token / self.at * self.period
        return self.unit.tokens if self.unit else 1.0


class LoopState:
    """Where one choice stands."""

    __slots__ = ("exact", "facts", "fenced", "masked", "said", "seen", "tokens")

    def __init__(self, facts: RequestFacts) -> None:
        self.facts = facts
        self.exact = Run()
        self.masked = Run()
        self.fenced = False
        self.seen = 0  # bytes of the stream so far
        self.tokens = 0  # the engine's, at the last look; 0 while unknown
        self.said = 0.0  # the strongest finding given out


@dataclass(frozen=True, slots=True)
class Loop:
    """Parameters as they stand in the rule set under `loop`."""

    word_tokens: int
    word_copies: int
    short_tokens: int
    short_copies: int
    long_tokens: int
    long_copies: int
    filler_tokens: int
    letters_min: float
    chant_distinct: float
    period_bytes: int
    counter_factor: float
    counter_log10: float
    witness_tokens: int
    witness_log10: float
    half_log10: float
    acts_log10: float

    name: ClassVar[str] = "loop"
    channel: ClassVar[Channel] = Channel.TEXT

    def start(self, facts: RequestFacts, worker: WorkerFacts) -> LoopState:
        return LoopState(facts)

    def look(self, state: LoopState, look: Look) -> Finding | None:
        tail, new = look.tail, look.size - state.seen
        state.seen = look.size
        if "`" in look.text:
            self._fence(state, tail, new)
        found = None
        if state.exact.at + BLOCK <= state.seen:
            found = self._grid(state, look, new)
        elif look.ended and state.exact.at < state.seen:
            found = self._pass(state, state.exact, state.seen - state.exact.at, tail, len(tail), look.tokens)
        state.tokens = max(look.tokens, state.tokens)
        return found

    def _fence(self, state: LoopState, tail: bytes | bytearray, new: int) -> None:
        if tail.count(FENCE, max(len(tail) - new - len(FENCE) + 1, 0)) % 2:
            state.fenced = not state.fenced

    def _grid(self, state: LoopState, look: Look, new: int) -> Finding | None:
        """Both passes over the grid lines in the new text, in the order of the text."""
        found, tail = None, look.tail
        masked: bytes | bytearray = b""
        growth = (look.tokens - state.tokens) / new if look.tokens > state.tokens else 0.0
        while state.exact.at + BLOCK <= state.seen:
            ahead = state.seen - state.exact.at - BLOCK
            token = state.tokens + growth * max(new - ahead, 0)
            end = len(tail) - ahead
            found = self._pass(state, state.exact, BLOCK, tail, end, token) or found
            if state.exact.at % FAR_BLOCK == 0:
                if state.masked.period or DIGIT.search(tail, end - FAR_BLOCK, end):
                    masked = masked or tail[-(SPAN + len(tail) - end) :].translate(DIGITS)
                    at = end - len(tail) + len(masked)
                    found = self._pass(state, state.masked, FAR_BLOCK, masked, at, token) or found
                else:
                    state.masked.at = state.exact.at
        return found

    def _pass(
        self, state: LoopState, run: Run, block: int, tail: bytes | bytearray, end: int, token: float
    ) -> Finding | None:
        far = block > BLOCK or run.at % FAR_BLOCK == 0
        run.advance(tail, end, block, self.period_bytes if far else NEAR_BYTES, token)
        if not run.period or run.length < max(3 * run.period, BLOCK):
            return None
        if run.unit is None:
            run.unit = self._unit(_unit_text(tail, end, run.period))
        return self._weigh(state, run, run.unit, token)

    def _weigh(self, state: LoopState, run: Run, unit: Unit, token: float) -> Finding | None:
        share = self._share(state, run, unit, token)
        if run is state.masked:
            rows = unit.kind == "filler" or unit.rows
            if rows or run.period == state.exact.period or share < self.counter_factor:
                return None
            return self._say(state, run, self.counter_log10, token)
        if share >= 1:
            return self._say(state, run, self.acts_log10, token)
        if unit.kind != "filler":
            return self._say(state, run, self.half_log10, token) if share >= HALF else None
        witness = share * self.filler_tokens >= self.witness_tokens and run.length >= 4 * run.period
        return self._say(state, run, self.witness_log10, token) if witness else None

    def _unit(self, text: str) -> Unit:
        solid, letters = len(SOLID.findall(text)), len(LETTER.findall(text))
        tokens = len(TOKEN.findall(text)) + len(CJK.findall(text)) / 2 or 1.0
        words = WORD.findall(text.lower())[1:-1]  # the cut may have split the outer ones
        chant = len(set(words)) < self.chant_distinct * len(words)
        regular = chant or "|" in text or "\t" in text
        said_by_nan = solid > 0 and not text.strip("! \n")
        hexish = HEXISH.fullmatch(text.strip()) is not None
        kind = "short" if tokens <= self.short_tokens else "word"
        if not said_by_nan and (not solid or letters < self.letters_min * solid or hexish):
            kind = "filler"
        elif tokens > self.long_tokens:
            kind = "long"
        return Unit(text, kind, tokens, regular, "\n" in text)

    def _share(self, state: LoopState, run: Run, unit: Unit, token: float) -> float:
        """The run as a share of what its class is allowed; 1 is the verdict's limit."""
        copies = run.length / run.period
        match unit.kind:
            case "word":
                tokens = copies * run.unit_tokens(token)
                share = min(tokens / self.word_tokens, copies / self.word_copies)
            case "short":
                share = copies / self.short_copies
            case "long":
                share = copies / self.long_copies
            case _:
                share = copies * run.unit_tokens(token) / self.filler_tokens
        if state.fenced or unit.regular:
            share /= 2
        if share < HALF:
            return share
        if run.asked is None:
            run.asked = _asked(state.facts.prompt, unit)
        return share / 2 if run.asked else share

    def _say(self, state: LoopState, run: Run, strength: float, token: float) -> Finding | None:
        if strength <= state.said or run.unit is None:
            return None
        state.said = strength
        at = onset = UNKNOWN
        if token > 0:
            at = int(token)
            onset = max(int(token - run.length / run.period * run.unit_tokens(token)), 0)
        unit = _digest(run.unit.text)
        return Finding(self.name, self.channel, Kind.REPETITION, strength, at, onset, unit)


def _unit_text(tail: bytes | bytearray, end: int, period: int) -> str:
    """One copy, cut between characters."""
    while end < len(tail) and tail[end] & 0xC0 == 0x80:  # noqa: PLR2004 - a UTF-8 continuation byte
        end -= 1
    return tail[max(end - period, 0) : end].decode("utf-8", "ignore")


def _common(tail: bytes | bytearray, end: int, period: int) -> int:
    """How many bytes before `end` equal those one period earlier: coarse steps, then finer ones."""
    same = NEEDLE
    for step in (512, BLOCK, 8, 1):
        while (
            end - same - step - period >= 0
            and tail[end - same - step : end - same] == tail[end - same - step - period : end - same - period]
        ):
            same += step
    return same


def _asked(prompt: str, unit: Unit) -> bool:
    """Whether the prompt holds what repeats, or asks for a count.

    The unit is cut anywhere, so one of its halves stands in the prompt unbroken if the whole does. A word or
    two stand in any long prompt: a short unit must be there twice in a row.
    """
    if not prompt:
        return False
    text = unit.text.strip()
    halves = (text[: len(text) // 2], text[len(text) // 2 :])
    if unit.kind == "short" or len(text) < 2 * HALF_CHARS:
        halves = (unit.text * 2).strip(), ""
    return any(half and half in prompt for half in halves) or bool(COUNT.search(prompt[-PROMPT_CHARS:]))


def _digest(unit: str) -> str:
    """A short name of the unit wherever the cut falls: a hash of its sorted characters."""
    return blake2b("".join(sorted(unit)).encode("utf-8", "replace"), digest_size=4).hexdigest()
