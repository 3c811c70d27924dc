"""Loops: the end of the text repeats itself, and still does at the moment of the verdict.

The tail's period p is the distance from its last 16 bytes back to where they stood before (one `rfind`);
a run grows by one slice compare, x[i-64:i] == x[i-64-p:i-p], and ends where that fails. Both happen on a
grid of the stream's own bytes, so the grouping of events does not show: every 64 bytes for periods up to
1 KiB, every 512 for longer ones. Exact, incremental, no word objects; memory is a few numbers, the text is
the look's tail. A run is measured back to where it began, so that it is found at its limit and 64 bytes.
Tokens are counted in the text (words of up to six letters, single signs): the engine's own count is known
only from event to event, and how events are grouped must not show.

How much repetition is too much depends on what repeats (`units`): words `word_tokens` and `word_copies`, a
long unit `long_copies`, code and table rows `rows_tokens`, blanks and filler more. Twice that inside a code
fence and for chants (units whose own words repeat, as refrains do); twice again where the prompt holds the
unit or asks for a count; half of it for words where the text has ended: nothing that follows explains it.

Counters: a second pass reads a number as one sign, on coarser grids the farther it looks back. Logs, lists
and code count too, so that a verdict needs more than the form: one number a unit, going up in equal steps, in
front of at least `label_tokens` of prose that say the same each time. Two numbers that change, or code, are
enumerations with something to tell; much of that is a second witness to telemetry and no more.

Strength grows from a measured likelihood ratio at half the limit to "acts" at the limit: the first is
calibration (reference: 7,650 windows of ordinary files), the other a decision. Cost: 0.2 us a token.
"""

import re
from dataclasses import dataclass
from typing import ClassVar, Final

from service.core.copying import CopyGuard
from service.core.detectors.units import Unit, asked, classify, digest
from service.core.events import UNKNOWN, Channel, Finding, Kind, Look, RequestFacts, WorkerFacts

BLOCK: Final = 64
"""Bytes of the grid: about 16 tokens of English between two looks at the tail."""

FAR_BLOCK: Final = 8 * BLOCK
"""The coarser grid of long periods and of counters: they cost more, and have time."""

NEAR_BYTES: Final = 1024
"""Periods looked for on every line of the fine grid."""

NEEDLE: Final = 16
"""Bytes that must recur before a period is considered: short enough for one copy, long enough to be rare."""

HALF: Final = 0.5
"""The share of its limit at which a run is reported at all."""

SERIES: Final = 5
"""Copies of which the numbers are looked at."""

LABELS: Final = 2
"""Numbers of a copy at most, one of them the counter: a log line has a time stamp."""

WHOLE: Final = 0.9
"""A run of this share of the text is all there is."""

ALONE_COPIES: Final = 6
ALONE_TOKENS: Final = 4.0
"""Where a text is nothing but so many copies, each counts as often as it has tokens, up to these."""

SHORT_LINE: Final = 4
"""Characters of a line of next to nothing: a bullet, an emoji, a bracket."""

COPIED_BYTES: Final = 2048
"""Of a run so much is looked for in the prompt."""

COUNTER_BLOCK: Final = 2 * BLOCK
TIERS: Final = ((4096, 32_768), (1024, 16_384), (256, 4096), (COUNTER_BLOCK, 1024))
"""Where counters are looked for: on every line of so many bytes, in so many; long periods have time."""

NUMBER: Final = re.compile(rb"[0-9]+")
NAMED: Final = re.compile(r"[A-Za-z_]0")
"""A number that belongs to a name: `guest_D7;` is a row of declarations, not a counter before a sentence."""

TO_ZERO: Final = bytes.maketrans(b"123456789", b"000000000")
FENCE: Final = b"```"


class Run:
    """An exact tail run: the last `length` bytes have period `period`."""

    __slots__ = ("asked", "at", "length", "period", "unit")

    def __init__(self) -> None:
        self.period = 0  # bytes; 0 for none
        self.length = 0  # bytes, the first copy included; 0 while not measured
        self.at = 0  # bytes of the stream examined
        self.unit: Unit | None = None  # classified once a run
        self.asked: bool | None = None  # whether the prompt explains it; found out once a run

    def advance(self, tail: bytes | bytearray, end: int, block: int, longest: int) -> None:
        """Examine the next `block` bytes, which end at `tail[end]`."""
        self.at += block
        p, start = self.period, end - block
        if p and start >= p and tail[start:end] == tail[start - p : end - p]:
            self.length = self.length + block if self.length else p + common(tail, end, p)
            return
        found = tail.rfind(tail[end - NEEDLE : end], max(end - NEEDLE - longest, 0), end - 1)
        self.unit = self.asked = None
        if found < NEEDLE or tail[found - NEEDLE : found] != tail[end - 2 * NEEDLE : end - NEEDLE]:
            self.period = 0  # a phrase that comes again
            return
        self.period = end - NEEDLE - found
        short = self.period <= 2 * BLOCK  # a longer one is measured once it has held for a block
        self.length = self.period + common(tail, end, self.period) if short else 0


class LoopState:
    """Where one choice stands."""

    __slots__ = ("copies", "facts", "fenced", "run", "said", "seen", "tokens")

    def __init__(self, facts: RequestFacts) -> None:
        self.facts = facts
        self.run = Run()
        self.copies = CopyGuard()
        self.fenced = False
        self.seen = 0  # bytes of the stream so far
        self.tokens = 0  # the engine's, at the last look; 0 while unknown
        self.said = 0.0  # the strongest finding given out


@dataclass(frozen=True, slots=True)
class Loop:
    """Parameters as they stand in the rule set under `loop`."""

    word_tokens: int
    word_copies: float
    twice_tokens: int
    twice_copies: float
    alone_copies: int
    long_tokens: int
    long_copies: float
    rows_tokens: int
    rows_copies: int
    filler_tokens: int
    line_chars: int
    line_copies: int
    bracket_chars: int
    bang_copies: int
    blank_lines: int
    blank_bytes: int
    blank_ended: float
    letters_min: float
    code_max: float
    chant_distinct: float
    ended_share: float
    period_bytes: int
    label_tokens: int
    counter_copies: int
    counter_rows: int
    counter_tokens: int
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
        if "`" in look.text and tail.count(FENCE, max(len(tail) - new - len(FENCE) + 1, 0)) % 2:
            state.fenced = not state.fenced
        found = self._grid(state, look, new) if state.run.at + BLOCK <= state.seen else None
        if look.ended:
            found = self._close(state, look) or found
        state.tokens = max(look.tokens, state.tokens)
        return found

    # --- the two passes ---

    def _grid(self, state: LoopState, look: Look, new: int) -> Finding | None:
        """The grid lines in the new text, in the order of the text."""
        found, tail, run = None, look.tail, state.run
        growth = (look.tokens - state.tokens) / new if look.tokens > state.tokens else 0.0
        while run.at + BLOCK <= state.seen:
            ahead = state.seen - run.at - BLOCK
            token = state.tokens + growth * max(new - ahead, 0)
            end = len(tail) - ahead
            far = (run.at + BLOCK) % FAR_BLOCK == 0
            run.advance(tail, end, BLOCK, self.period_bytes if far else NEAR_BYTES)
            found = self._weigh(state, tail, end, token, ended=False) or found
            if run.at % COUNTER_BLOCK == 0:
                found = self._counters(state, tail, end, token) or found
        return found

    def _close(self, state: LoopState, look: Look) -> Finding | None:
        """The text has ended: the rest of the grid, and the lower limits."""
        tail, run = look.tail, state.run
        if state.seen > run.at:
            run.advance(tail, len(tail), state.seen - run.at, self.period_bytes)
        found = self._weigh(state, tail, len(tail), look.tokens, ended=True)
        if state.said < self.acts_log10 and has_digit(tail) and recurs(tail, 0, len(tail)):
            found = self._counter(state, tail, look.tokens) or found
        return found

    # --- exact repetition ---

    def _weigh(
        self, state: LoopState, tail: bytes | bytearray, end: int, token: float, *, ended: bool
    ) -> Finding | None:
        run = state.run
        if not run.period or run.length < max((self.twice_copies if ended else 3) * run.period, NEEDLE):
            return None
        if run.unit is None:
            run.unit = classify(
                unit_text(tail, end, run.period), self.letters_min, self.code_max, self.chant_distinct
            )
        unit = run.unit
        share = self._share(state, run, unit, ended=ended)
        if share >= HALF and is_copied(state.facts.prompt, tail, end, run.length):
            return None
        if share >= 1:
            return self._say(state, unit, self.acts_log10, token)
        if unit.kind == "word":
            return self._say(state, unit, self.half_log10, token) if share >= HALF else None
        witness = share * self.filler_tokens >= self.witness_tokens and run.length >= 4 * run.period
        return self._say(state, unit, self.witness_log10, token) if witness else None

    def _share(self, state: LoopState, run: Run, unit: Unit, *, ended: bool) -> float:
        """The run as a share of what its class is allowed; 1 is the verdict's limit."""
        share = self._plain_share(run, unit)
        close = share
        if ended and unit.kind == "word":
            close = self._ended_share(state, run, unit, share)
        elif ended and not unit.text.strip():
            close = share / self.blank_ended
        if close < HALF:
            return close
        if run.asked is None:
            run.asked = asked(state.facts.prompt, unit)
        excuses = run.asked + (state.fenced or unit.chant)
        return share / 2**excuses if excuses else close

    def _ended_share(self, state: LoopState, run: Run, unit: Unit, share: float) -> float:
        """Nothing that follows explains it: half the limit is enough.

        Less, where there is nothing else at all, or where so many tokens are said twice in a row.
        """
        copies = run.length / run.period
        if unit.prose and copies >= self.twice_copies and (copies - 1) * unit.tokens >= self.twice_tokens:
            return max(share, 1.0)
        if run.length >= WHOLE * state.seen:
            weight = min(max(unit.tokens, 1.0), ALONE_TOKENS) if copies >= ALONE_COPIES else 1.0
            share = max(share, copies * weight / self.alone_copies * self.ended_share)
        return share / self.ended_share if run.length >= self.word_copies * run.period else share

    def _plain_share(self, run: Run, unit: Unit) -> float:
        copies = run.length / run.period
        if unit.kind == "filler" or unit.bangs:
            return self._filler_share(run, unit, copies)
        tokens = copies * unit.tokens
        if unit.kind == "rows":
            if unit.lines == 1:
                return min(tokens / self.word_tokens, copies / self.rows_copies)
            return tokens / self.rows_tokens
        if unit.tokens > self.long_tokens or (unit.prose and tokens > self.long_tokens):
            return copies / self.long_copies
        return min(tokens / self.word_tokens, copies / self.word_copies)

    def _filler_share(self, run: Run, unit: Unit, copies: float) -> float:
        solid = unit.text.strip()
        if not solid:
            return max(copies * unit.text.count("\n") / self.blank_lines, run.length / self.blank_bytes)
        if unit.bangs:
            return copies * len(solid) / self.bang_copies
        if unit.lines == 1 and len(solid) <= SHORT_LINE and not any(map(str.isdigit, solid)):
            return copies / self.line_copies
        if unit.plain:
            return copies * len(unit.text) / (self.bracket_chars if unit.brackets else self.line_chars)
        return copies * unit.tokens / self.filler_tokens

    # --- counters ---

    def _counters(self, state: LoopState, tail: bytes | bytearray, end: int, token: float) -> Finding | None:
        """On a line of one of the tiers: look for counters as far back as it says."""
        at = state.run.at
        span = next(span for every, span in TIERS if at % every == 0)
        start = max(end - span, 0)
        if state.said >= self.acts_log10 or not has_digit(tail[max(end - span // 4, 0) : end]):
            return None
        return self._counter(state, tail[start:end], token) if recurs(tail, start, end) else None

    def _counter(self, state: LoopState, tail: bytes | bytearray, token: float) -> Finding | None:
        """Whether the text repeats once its numbers are read as one sign."""
        text = collapsed(tail)
        found = text.rfind(text[-NEEDLE:], 0, len(text) - 1)
        period = len(text) - NEEDLE - found
        if found < 0 or b"0" not in text[-period:]:
            return None
        copies = 1 + common(text, len(text), period) / period
        if copies < self.long_copies:
            return None
        unit = classify(
            unit_text(text, len(text), period), self.letters_min, self.code_max, self.chant_distinct
        )
        strength = self._counted(state, unit, copies, tail) if unit.kind != "filler" else 0.0
        acts = strength >= self.acts_log10 > state.said
        if acts and state.copies.excuses(state.facts.prompt, tail, state.run.at):
            return None
        return self._say(state, unit, strength, token)

    def _counted(self, state: LoopState, unit: Unit, copies: float, tail: bytes | bytearray) -> float:
        """How strongly so many copies speak, whose numbers differ."""
        word = unit.kind == "word"
        if unit.tokens <= self.long_tokens and copies < self.word_copies:
            return 0.0
        if word and not unit.lines and " " in unit.text and copies >= self.counter_copies:
            return self.acts_log10
        spoken = unit.spaced and unit.tokens >= self.label_tokens and not unit.chant
        label = spoken and not NAMED.search(2 * unit.text) and counts(tail, unit.text.count("0"))
        limit = self.word_tokens if word else self.counter_rows
        if copies * unit.tokens < (limit if label else self.counter_tokens) * (2 if state.fenced else 1):
            return 0.0
        if label and not asked(state.facts.prompt, unit):
            return self.acts_log10
        return self.counter_log10 if word and not unit.lines else 0.0

    def _say(self, state: LoopState, unit: Unit, strength: float, token: float) -> Finding | None:
        if strength <= state.said:
            return None
        state.said = strength
        at = onset = UNKNOWN
        if token > 0:
            at = int(token)
            run = state.run
            if run.unit is unit:
                onset = max(int(token - run.length / run.period * unit.tokens), 0)
        return Finding(self.name, self.channel, Kind.REPETITION, strength, at, onset, digest(unit.text))


def collapsed(text: bytes | bytearray) -> bytes | bytearray:
    """The text with every number read as one 0; five times faster than a regular expression."""
    text = text.translate(TO_ZERO)
    while b"00" in text:
        text = text.replace(b"00", b"0")
    return text


def recurs(tail: bytes | bytearray, start: int, end: int) -> bool:
    """Whether what `_counter` looks for may be there: the newest signs between numbers, a second time.

    A fifth of the cost of reading all numbers as one sign, and nearly always the answer is no.
    """
    newest = bytes(collapsed(tail[max(end - BLOCK, start) : end])[-NEEDLE:])
    piece: bytes = max(newest.split(b"0"), key=len)
    place = tail.rfind(piece, start, end)
    return tail.rfind(piece, start, max(place + len(piece) - 1, start)) >= 0


def has_digit(text: bytes | bytearray) -> bool:
    return len(text.translate(None, b"0123456789")) < len(text)


def is_copied(prompt: str, tail: bytes | bytearray, end: int, length: int) -> bool:
    """Whether the prompt holds the whole run as it stands here: its repetition is copied, not the model's."""
    if length > len(prompt):
        return False
    return bytes(tail[max(end - min(length, COPIED_BYTES), 0) : end]).decode("utf-8", "ignore") in prompt


def unit_text(tail: bytes | bytearray, end: int, period: int) -> str:
    """One copy, cut between characters."""
    while end < len(tail) and tail[end] & 0xC0 == 0x80:  # noqa: PLR2004 - a UTF-8 continuation byte
        end -= 1
    return tail[max(end - period, 0) : end].decode("utf-8", "ignore")


def common(tail: bytes | bytearray, end: int, period: int) -> int:
    """How many bytes before `end` equal those one period earlier: coarse steps, then finer ones."""
    same = NEEDLE
    for step in (512, BLOCK, 8, 1):
        while (
            end - same - step - period >= 0
            and tail[end - same - step : end - same] == tail[end - same - step - period : end - same - period]
        ):
            same += step
    return same


def counts(tail: bytes | bytearray, numbers: int) -> bool:
    """Whether just one of the numbers of a copy changes, going up in equal steps."""
    if numbers > LABELS:
        return False
    found = [int(number[:9]) for number in NUMBER.findall(tail)[-SERIES * numbers - 1 :]]
    if bytes(tail[-1:]).isdigit():
        found.pop()  # there may be more to come of it
    columns = [found[len(found) - 1 - column :: -numbers] for column in range(numbers)]
    moving = [column for column in columns if len(set(column)) > 1]
    if len(moving) != 1 or len(moving[0]) < 3:  # noqa: PLR2004 - two steps at least
        return False
    steps = {after - before for after, before in zip(moving[0], moving[0][1:], strict=False)}
    return len(steps) == 1
