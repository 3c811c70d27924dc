"""The lab's truth: which request was touched by what, and whether its answer changed.

One line for every request that a decode worker saw, written once and never altered, with counts and no
text. A request that was not touched has a cheap line. A touched one is audited after its end: the same
prompt, limit, temperature and seed run once more on private pools without the fault, and

    answer_changed = tokens differ      for an answer that ended by itself
                   = tokens differ up to the abort    for one that was cut short

`first_changed_token` counts answer tokens from 0. A late write of another request's KV is a fault like any
other (`kind` late_write, `donor_rid` the writer), found by the marks in the pool; the writer's own line,
which waits until its last write has come, says how its pages went back and how many layers came too late.

The audit takes one verify step at a time between decode
iterations, so that it never holds up the streams for longer than a step of one more request.
"""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass

import msgspec
import numpy as np

from replay.lab.intake import Submission
from replay.lab.model import MAX_POSITIONS, TinyLM
from replay.lab.speculation import (
    RequestState,
    Speculator,
    cut,
    pages_needed,
    private_request,
    private_speculator,
)
from replay.lab.tokenizer import EOS

MAX_LINES = 1 << 16
"""Lines kept; the oldest go first. A day of one request a second."""

MAX_AUDITS = 512
"""Touched requests that wait for their audit; beyond that a line is written without a verdict."""


class Line(msgspec.Struct, frozen=True):
    """What is known of one request."""

    seq: int
    worker: str
    rid: str
    kind: str
    applied: bool
    reason: str | None
    at_token: int | None
    at_step: int | None
    pages: tuple[int, ...]
    donor_rid: str | None
    answer_changed: bool | None
    first_changed_token: int | None
    tokens_reference: int | None
    tokens_actual: int
    aborted: bool
    finished: str
    release: str | None = None
    """How pages came back that prefill could still write: drained, timeout or abandoned; else None."""
    release_s: float | None = None
    late_layers: int = 0
    """Layers that prefill wrote into them after they had gone back."""


class Ledger:
    """Lines in the order in which requests came to be known, numbered from 1."""

    def __init__(self, worker: str) -> None:
        """Start empty."""
        self._worker = worker
        self._lines: deque[Line] = deque(maxlen=MAX_LINES)
        self._seq = 0

    def __repr__(self) -> str:
        """Name the worker and how far it has counted."""
        return f"<Ledger {self._worker}, {self._seq} lines>"

    @property
    def last_seq(self) -> int:
        """Number of the newest line."""
        return self._seq

    def write(self, account: "Account", verdict: "Verdict | None" = None) -> Line:
        """Add the line of one finished request."""
        self._seq += 1
        line = Line(
            seq=self._seq,
            worker=self._worker,
            rid=account.asked.rid,
            kind=account.kind,
            applied=account.applied,
            reason=account.reason,
            at_token=account.at_token,
            at_step=account.at_step,
            pages=account.pages,
            donor_rid=account.donor_rid,
            answer_changed=verdict.changed if verdict else None,
            first_changed_token=verdict.first_changed_token if verdict else None,
            tokens_reference=verdict.reference_tokens if verdict else None,
            tokens_actual=len(account.output),
            aborted=account.finished == "abort",
            finished=account.finished,
            release=account.release,
            release_s=account.release_s,
            late_layers=account.late_layers,
        )
        self._lines.append(line)
        return line

    def since(self, seq: int) -> bytes:
        """Return the lines after number `seq` as JSON lines."""
        return b"".join(msgspec.json.encode(line) + b"\n" for line in self._lines if line.seq > seq)


@dataclass(slots=True)
class Account:
    """One request's file while it is alive: the plan for it, and what became of it."""

    asked: Submission
    kind: str = "none"
    applied: bool = False
    reason: str | None = None
    at_token: int | None = None
    at_step: int | None = None
    pages: tuple[int, ...] = ()
    donor_rid: str | None = None
    output: Sequence[int] = ()
    finished: str = ""
    release: str | None = None
    release_s: float | None = None
    late_layers: int = 0

    def __repr__(self) -> str:
        """Leave tokens out."""
        return f"<Account {self.asked.rid} {self.kind} applied={self.applied}>"


@dataclass(frozen=True, slots=True)
class Verdict:
    """What the audit found."""

    changed: bool
    first_changed_token: int | None
    reference_tokens: int


def compare(actual: Sequence[int], reference: Sequence[int], *, aborted: bool) -> Verdict:
    """Compare an answer with its clean twin; an aborted one up to where it was cut."""
    if aborted:
        reference = reference[: len(actual)]
    first = next(
        (at for at, pair in enumerate(zip(actual, reference, strict=False)) if pair[0] != pair[1]), None
    )
    if first is None and len(actual) != len(reference):
        first = min(len(actual), len(reference))
    return Verdict(first is not None, first, len(reference))


def sampling_rng(asked: Submission, stage: int) -> np.random.Generator:
    """Return the random numbers of one stage of one request: 0 in prefill, 1 in decode."""
    return np.random.default_rng((asked.seed, stage))


class Auditor:
    """Answers touched requests again, step by step, one at a time."""

    def __init__(self, target: TinyLM, draft: TinyLM, ledger: Ledger) -> None:
        """Set private pools for one request of full length aside."""
        self._speculator: Speculator = private_speculator(target, draft, pages_needed(MAX_POSITIONS))
        self._ledger = ledger
        self._waiting: deque[Account] = deque()
        self._twin: RequestState | None = None

    def __repr__(self) -> str:
        """Count what is still to be audited."""
        return f"<Auditor {self.pending} pending>"

    @property
    def pending(self) -> int:
        """Requests whose line is not written yet."""
        return len(self._waiting)

    def submit(self, account: Account) -> None:
        """Queue a finished request; with a full queue its line says that nobody looked."""
        if len(self._waiting) < MAX_AUDITS:
            self._waiting.append(account)
        else:
            account.reason = "not audited: too many wait"
            self._ledger.write(account)

    def work(self) -> None:
        """Take one step: a prefill, a verify step, or the verdict."""
        if not self._waiting:
            return
        account = self._waiting[0]
        if self._twin is None:
            self._twin = self._begin(account.asked)
        elif not self._over(self._twin, account):
            self._speculator.step(self._twin)
        else:
            self._ledger.write(account, self._judge(self._twin, account))
            self._waiting.popleft()
            self._twin = None

    def _begin(self, asked: Submission) -> RequestState:
        twin = private_request(asked.prompt, asked.max_new_tokens)
        twin.temperature, twin.rng = asked.temperature, sampling_rng(asked, 0)
        self._speculator.prefill(twin)
        twin.rng = sampling_rng(asked, 1)
        return twin

    def _over(self, twin: RequestState, account: Account) -> bool:
        asked, aborted = account.asked, account.finished == "abort"
        limit = len(account.output) if aborted else asked.max_new_tokens
        ended = EOS in twin.answer and not asked.ignore_eos
        return ended or len(twin.answer) >= limit

    def _judge(self, twin: RequestState, account: Account) -> Verdict:
        asked = account.asked
        limit = asked.max_new_tokens
        reference = twin.answer[:limit] if asked.ignore_eos else cut(twin.answer, limit)
        return compare(account.output, reference, aborted=account.finished == "abort")
