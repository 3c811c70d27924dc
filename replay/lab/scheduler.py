"""The requests of one worker: each one's life as a phase, and the table that `/abort_request` searches.

    prefill    bootstrap -> waiting -> running -> transfer -> finished
    decode     prealloc  -> transfer -> waiting -> running -> finished

Prefill asks first where the KV must go and computes then; decode sets pages aside first and waits for the
KV. `/abort_request` behaves as in SGLang 0.5.23: the tokenizer side drops a rid that is not live, the
scheduler then ends every request whose rid *starts with* it. So "job" ends "job" and "job-1" alike, and
does nothing where only "job-1" is live.

A reader of a stream sees the newest state of its request, not a queue of events: one that falls behind
gets merged chunks, as SGLang merges them, and memory stays bounded by the answer's length.
"""

import asyncio
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import StrEnum
from time import monotonic

from replay.lab.intake import RequestError, Submission
from replay.lab.speculation import DRAFT_TOKENS, StepResult
from replay.lab.tokenizer import EOS, Detokenizer

MAX_LIVE_REQUESTS = 512
"""Requests that one worker holds, queued or running; the engine's --max-queued-requests."""


class Phase(StrEnum):
    """Where a request is."""

    BOOTSTRAP = "bootstrap"
    PREALLOC = "prealloc"
    TRANSFER = "transfer"
    WAITING = "waiting"
    RUNNING = "running"
    FINISHED = "finished"


@dataclass(frozen=True, slots=True)
class Stopped:
    """The model said <eos>."""

    matched: int = EOS


@dataclass(frozen=True, slots=True)
class LengthReached:
    """The answer has all the tokens that it may have; 0 is what a prefill worker reports."""

    length: int


@dataclass(frozen=True, slots=True)
class Aborted:
    """Ended from outside (no status), or failed with an HTTP status."""

    message: str
    status: int | None = None


Finish = Stopped | LengthReached | Aborted
RUNNING_ABORT = Aborted("Aborted")
WAITING_ABORT = Aborted("Abort in waiting queue")


def wall_s() -> float:
    """Seconds since the epoch, for the stamps that SGLang puts into `meta_info`."""
    return datetime.now(UTC).timestamp()


@dataclass(slots=True)
class Stamps:
    """When a request passed each station: wall clock for the wire, monotonic for spans."""

    received_wall: float = field(default_factory=wall_s)
    received: float = field(default_factory=monotonic)
    dispatched_wall: float = field(default_factory=wall_s)
    queued: float | None = None
    forward_wall: float | None = None
    forward: float | None = None
    prefill_finished_wall: float | None = None
    first_token: float | None = None
    first_sent_wall: float | None = None
    finished_wall: float | None = None
    finished: float | None = None


@dataclass(slots=True)
class SpecCounts:
    """Speculative decoding of one request, as SGLang counts it."""

    verify_steps: int = 0
    proposed: int = 0
    accepted: int = 0
    histogram: list[int] = field(default_factory=lambda: [0] * (DRAFT_TOKENS + 1))

    def add(self, step: StepResult) -> None:
        """Count one verify step."""
        self.verify_steps += 1
        self.proposed += step.drafted
        self.accepted += step.accepted
        self.histogram[step.accepted] += 1


@dataclass(frozen=True, slots=True)
class Cached:
    """Prompt tokens that prefill found in its prefix cache, by tier."""

    device: int = 0
    host: int = 0

    @property
    def total(self) -> int:
        """Of both tiers."""
        return self.device + self.host


class Generation:
    """One live request: what was asked, what has come out, and a flag that wakes its reader."""

    def __init__(self, asked: Submission, phase: Phase) -> None:
        """Start with nothing said."""
        self.asked = asked
        self.phase = phase
        self.stamps = Stamps()
        self.spec = SpecCounts()
        self.cached = Cached()
        self.output: list[int] = []
        self.text = ""
        self.finish: Finish | None = None
        self.aborting = False
        self.task: asyncio.Task[None] | None = None
        self.changed = asyncio.Event()
        self._detokenizer = Detokenizer()

    def __repr__(self) -> str:
        """Show phase and counts, never text."""
        return f"<Generation {self.asked.rid} {self.phase}, {len(self.output)} tokens, {self.finish}>"

    def enter_forward(self) -> None:
        """Stamp the first forward pass."""
        self.phase = Phase.RUNNING
        self.stamps.forward, self.stamps.forward_wall = monotonic(), wall_s()

    def say(self, tokens: Sequence[int]) -> None:
        """Append tokens, cut at <eos> and at the limit; set the finish where one of them ends the answer."""
        if self.stamps.first_token is None:
            self.stamps.first_token = monotonic()
        for token in tokens:
            self.output.append(token)
            self.text += self._detokenizer.feed(token)
            if token == EOS and not self.asked.ignore_eos:
                self.finish = Stopped()
            elif len(self.output) >= self.asked.max_new_tokens:
                self.finish = LengthReached(len(self.output))
            if self.finish:
                break
        self.changed.set()

    def hand_over(self, first: int) -> None:
        """End a prefill: one token, and the length of 0 that SGLang's prefill workers report."""
        self.say((first,))
        self.finish = None
        self.end(LengthReached(0))

    def end(self, finish: Finish) -> None:
        """Close it; the first reason stands."""
        self.finish = self.finish or finish
        self.phase = Phase.FINISHED
        self.stamps.finished, self.stamps.finished_wall = monotonic(), wall_s()
        self.changed.set()


class LiveRequests:
    """Every unfinished request of a worker by rid."""

    def __init__(self, limit: int = MAX_LIVE_REQUESTS) -> None:
        """Hold at most `limit` requests; one more is answered 503."""
        self._limit = limit
        self._live: dict[str, Generation] = {}

    def __repr__(self) -> str:
        """Count them by phase."""
        return f"<LiveRequests {dict(self.phases())}>"

    def __len__(self) -> int:
        """Return how many are live."""
        return len(self._live)

    def admit(self, asked: Submission, phase: Phase) -> Generation:
        """Take a request in."""
        if asked.rid in self._live:
            raise RequestError(f"Duplicate request ID detected: {asked.rid}")
        if len(self._live) >= self._limit:
            raise RequestError("The request queue is full.", status=503, kind="ServiceUnavailable")
        made = self._live[asked.rid] = Generation(asked, phase)
        return made

    def forget(self, generation: Generation) -> None:
        """Let a finished request go; its rid is free again."""
        self._live.pop(generation.asked.rid, None)

    def phases(self) -> Counter[Phase]:
        """Count the live requests by phase."""
        return Counter(generation.phase for generation in self._live.values())

    def abort(self, rid: str, end: Callable[[Generation], None], *, abort_all: bool = False) -> int:
        """Do what `/abort_request` does; return how many requests it ended."""
        if not abort_all and rid not in self._live:
            return 0
        hit = [live for live in self._live.values() if abort_all or live.asked.rid.startswith(rid)]
        for generation in hit:
            end(generation)
        return len(hit)
