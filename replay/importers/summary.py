"""What an import read, in numbers that show a wrong unit at a glance."""

from array import array
from collections import Counter

import msgspec
import numpy as np

from replay.trace import TraceRequest

FEWEST_BLOCKS = 5
"""Requests with blocks that say something of their size."""


class Spread(msgspec.Struct, frozen=True):
    """Percentiles of a length, in tokens."""

    known: int
    p50: float
    p90: float
    p99: float
    most: int


class Summary(msgspec.Struct, frozen=True):
    """Numbers of a trace."""

    rows: int
    span_s: float
    rate_per_s: float
    moments: int  # different arrival times
    most_at_once: int
    sessions: int
    longest_session: int
    with_body: int
    with_answer: int
    aborted: int
    prompt_tokens: Spread | None
    output_tokens: Spread | None
    in_order: bool


class Counting:
    """Adds up requests as they pass; some 50 bytes each."""

    def __init__(self) -> None:
        self.at_s = array("d")
        self._prompt, self._output = array("q"), array("q")
        self._sessions: Counter[str] = Counter()
        self._before, self._followed = "", 0  # session of the row before; rows that go on with it
        self._block = array("d")  # prompt tokens a block hash
        self._bodies = self._answers = self._aborted = 0

    def add(self, request: TraceRequest) -> None:
        self.at_s.append(request.at_s)
        if request.prompt_tokens is not None:
            self._prompt.append(request.prompt_tokens)
            if request.blocks:
                self._block.append(request.prompt_tokens / len(request.blocks))
        if request.output_tokens is not None:
            self._output.append(request.output_tokens)
        if request.session:
            self._sessions[request.session] += 1
            self._followed += request.session == self._before
        self._before = request.session
        self._bodies += request.body is not None
        self._answers += request.expected is not None
        self._aborted += request.abort_after_s is not None

    @property
    def by_session(self) -> bool:
        """Whether rows lie session by session, so that their order says nothing of time."""
        return self._followed > len(self.at_s) / 2

    def tokens_a_block(self) -> float | None:
        """The median; None where hardly any request names its blocks."""
        return float(np.median(np.frombuffer(self._block))) if len(self._block) >= FEWEST_BLOCKS else None

    def summary(self) -> Summary:
        times = np.frombuffer(self.at_s) if self.at_s else np.zeros(0)
        span_s = float(np.ptp(times)) if len(times) else 0.0
        _, counts = np.unique(times, return_counts=True)
        return Summary(
            rows=len(times),
            span_s=round(span_s, 6),
            rate_per_s=round(len(times) / span_s, 6) if span_s else 0.0,
            moments=len(counts),
            most_at_once=int(counts.max(initial=0)),
            sessions=len(self._sessions),
            longest_session=max(self._sessions.values(), default=0),
            with_body=self._bodies,
            with_answer=self._answers,
            aborted=self._aborted,
            prompt_tokens=_spread(self._prompt),
            output_tokens=_spread(self._output),
            in_order=bool((np.diff(times) >= 0).all()),
        )


def _spread(lengths: "array[int]") -> Spread | None:
    if not lengths:
        return None
    values = np.frombuffer(lengths, dtype=np.int64)
    p50, p90, p99 = (float(found) for found in np.percentile(values, (50, 90, 99)))
    return Spread(len(values), p50, p90, p99, int(values.max()))
