"""One of the n answers of a request, as the inspector follows it: from data events to looks.

The tail is one growing buffer, cut back now and then, so that a look costs O(new text). Long texts are cut
into pieces, so that the tail always holds history as well; detectors work on grids of their own, so neither
these cuts nor the grouping of events shows in the kind of a verdict. Cost: 0.5 us an event and 3 us a look.
"""

from array import array
from collections import deque
from collections.abc import Iterable, Sequence
from typing import Any, Final

from service.core.acceptance import StepCounter
from service.core.events import CLEAN, UNKNOWN, Delta, Finding, Look, Step, WorkerFacts
from service.core.vocabulary import IDS

TAIL_BYTES: Final = 32_768
"""What detectors may look back on: 8,192 tokens of four bytes."""

SLACK_BYTES: Final = 8192
"""How much longer the tail may grow before it is cut: one cut in a hundred looks."""

PIECE_CHARS: Final = 1024
"""Text of one look at most: 4 KiB of the widest UTF-8, an eighth of the tail."""

GAPS: Final = 9
"""Gaps kept for the median: it follows the stream within five events and costs 100 bytes."""

STEPS_KEPT: Final = 512
"""Verify steps that a case shows, the last ones: 1,500 tokens, and a slow fall of acceptance in them."""


IDS_KEPT: Final = 8192
"""Token ids kept until the end shows whether they are to be learnt, four bytes each."""


class Choice:
    """Where one answer stands."""

    __slots__ = (
        "_calls", "_gap_at", "_gaps", "_ids", "_last_at", "_prompt_tokens", "_size", "_steps", "_tail",
        "_text_tokens", "accepted", "chars", "counter", "ended", "findings", "finish", "history", "index",
        "judgement", "said", "states", "tokens", "verified",
    )  # fmt: skip

    def __init__(self, index: int, worker: WorkerFacts, states: list[Any]) -> None:
        self.index = index
        self.states = states
        self.counter = StepCounter(UNKNOWN if worker.adaptive else worker.draft_tokens)
        self.findings: dict[str, Finding] = {}
        self.judgement = CLEAN
        self.chars = 0
        self.tokens = UNKNOWN
        self.accepted = UNKNOWN  # the engine's own totals, from the final chunk
        self.verified = UNKNOWN
        self.ended = False
        self.finish = ""
        self._size = 0  # bytes of text so far
        self._tail = bytearray()
        self._steps: list[Step] = []
        self.history: deque[Step] = deque(maxlen=STEPS_KEPT)  # those that looks have taken
        self.said: array[int] | None = None  # token ids; None where the dialect shows none
        self._calls: list[tuple[int, str]] = []  # pieces of tool calls' arguments
        self._ids: list[int] = []
        self._prompt_tokens = UNKNOWN
        self._text_tokens = UNKNOWN  # tokens at the last event with text; UNKNOWN where it named none
        self._last_at = -1.0  # before the first event; a monotonic clock is never negative
        self._gaps: list[float] = []
        self._gap_at = 0

    def __repr__(self) -> str:
        return f"<Choice {self.index} tokens={self.tokens} chars={self.chars} {self.judgement.level.name}>"

    @property
    def tail(self) -> str:
        """The last text, at most what detectors may look back on."""
        return self._tail[-TAIL_BYTES:].decode("utf-8", "replace")

    def read(self, deltas: Sequence[Delta], now: float) -> Iterable[Look]:
        """The looks that these events make; one, unless the text is long."""
        before = tokens = self.tokens
        counter, steps, events = self.counter, self._steps, len(deltas)
        for delta in deltas:
            count = delta.tokens
            if delta.exact:
                counter.exact(delta.exact, steps)
            if delta.run:
                counter.rise(delta.run, steps)
                events += len(delta.run) - 1
                tokens = max(tokens, count)
            elif count > tokens:
                counter.grow(count, steps)
                tokens = count
            if delta.text:
                self._text_tokens = count
            if delta.finish or delta.calls or delta.steps > 0 or delta.prompt_tokens >= 0 or delta.ids:
                self._note(delta)
        self.tokens = tokens
        self._clock(now, events)
        text = "".join([delta.text for delta in deltas])
        if len(text) <= PIECE_CHARS:
            return (self.look(now, text),)
        return self._pieces(text, before, now)

    def _note(self, delta: Delta) -> None:
        """What few events bring, or those of one dialect."""
        self._calls += delta.calls
        self._ids += delta.ids
        if delta.prompt_tokens >= 0:
            self._prompt_tokens = delta.prompt_tokens
        if delta.finish:
            self.ended, self.finish = True, delta.finish
            self.counter.close(self._steps)
        if delta.steps > 0:
            self.accepted, self.verified = delta.accepted, delta.steps

    def look(self, now: float, text: str = "", quiet_s: float = 0.0) -> Look:
        """One look; takes the steps collected so far."""
        tail = self._tail
        if text:
            self.chars += len(text)
            size = len(tail)
            tail += text.encode("utf-8", "replace")
            self._size += len(tail) - size
            if size > TAIL_BYTES + SLACK_BYTES:
                del tail[:-TAIL_BYTES]
        steps: tuple[Step, ...] = ()
        if self._steps:
            steps = tuple(self._steps)
            self._steps.clear()
            self.history.extend(steps)
        calls: tuple[tuple[int, str], ...] = ()
        if self._calls:
            calls = tuple(self._calls)
            self._calls.clear()
        return Look(
            now, text, tail, self._size, self.chars, self.tokens, steps, self.counter.kind,
            quiet_s, self._gap_s() if quiet_s else 0.0, self._grown(), self.ended, self.finish,
            calls, self._prompt_tokens, self._new_ids() if self._ids else (),
        )  # fmt: skip

    def _new_ids(self) -> tuple[int, ...]:
        new = tuple(self._ids)
        self._ids.clear()
        if self.said is None:
            self.said = array("i")
        self.said.extend([token for token in new if 0 <= token < IDS])
        del self.said[:-IDS_KEPT]
        return new

    def close(self) -> None:
        self.counter.close(self._steps)
        self.ended = True

    def _pieces(self, text: str, before: int, now: float) -> Iterable[Look]:
        """Looks over a long text; tokens are spread evenly over it, the end of stream shows in the last."""
        tokens, ended, length = self.tokens, self.ended, len(text)
        self.ended = False
        for start in range(0, length, PIECE_CHARS):
            stop = min(start + PIECE_CHARS, length)
            if stop == length:
                self.tokens, self.ended = tokens, ended
            elif tokens != UNKNOWN:
                self.tokens = max(before, 0) + (tokens - max(before, 0)) * stop // length
            yield self.look(now, text[start:stop])

    def _clock(self, now: float, events: int) -> None:
        if self._last_at >= 0:
            gap = (now - self._last_at) / events
            if len(self._gaps) < GAPS:
                self._gaps.append(gap)
            else:
                self._gaps[self._gap_at] = gap
                self._gap_at = (self._gap_at + 1) % GAPS
        self._last_at = now

    def _gap_s(self) -> float:
        return sorted(self._gaps)[len(self._gaps) // 2] if self._gaps else 0.0

    def _grown(self) -> int:
        if self.tokens == UNKNOWN:
            return 0
        since_text = self.tokens - self._text_tokens if self._text_tokens != UNKNOWN else 0
        # A token that shows has at least one byte of text: what a whole body claims beyond that never showed.
        return max(since_text if self.chars else self.tokens, self.tokens - self._size)
