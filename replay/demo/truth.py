"""The truth about a run: what the lab did, what the sidecar saw and what the client got, joined by rid.

A request's attempts are its own rid, the rids that its incident names, and the rid whose answer came. The
lab's ledger has a line for each. From that:

    hit                 a fault was applied to at least one of its attempts
    corrupted           ... and changed that attempt's answer (the lab answered it again without the fault)
    detected            a hit attempt has a verdict, or was taken back for a second opinion
    escaped             clean end, and the answer that came is a changed one
    failed loudly       corrupted, and no clean end: a status, an error in the stream, a broken end
    recovered           corrupted, clean end, right answer, from an attempt that no fault changed
    own error           corrupted, clean end, unchanged attempt, wrong answer: the model's own mistake
    false alarm         no attempt was hit, and one has a verdict; second opinions are counted apart

So corrupted = escaped + failed loudly + recovered + own error, always. In the rows by fault a request counts
under each fault that hit one of its attempts; an escape only under the fault of the answer that came.

Where the ledger could not compare (its queue of audits was full), a hit attempt counts as changed if it is
the one that was delivered and its answer is wrong.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from replay.demo.client import Delivery, End
from replay.demo.evidence import Seen, SeenAttempt
from replay.demo.sessions import Ask
from replay.lab.ledger import Line
from replay.lab.tasks import answer_ok
from replay.lab.tokenizer import encode
from service.core.events import Policy

LOUD = frozenset({"nan", "random"})
"""Faults that break text or acceptance in plain sight; the others may leave a fluent answer."""


class Fate(StrEnum):
    """What became of a request, the truth known."""

    RECOVERED = "recovered"
    FAILED_LOUDLY = "failed_loudly"
    ESCAPED = "escaped"
    OWN_ERROR = "own_error"
    RIGHT = "right"  # not corrupted, clean end, right answer
    WRONG = "wrong"  # not corrupted, clean end, wrong answer: the model's own mistake
    FAILED = "failed"  # not corrupted, and no clean end all the same


@dataclass(frozen=True, slots=True)
class AttemptTruth:
    """One attempt: what was done to it and what was seen of it."""

    rid: str
    worker: str = ""
    fault: str = ""  # "" where none was applied
    changed: bool = False
    first_changed_token: int | None = None
    fault_at_token: int | None = None
    tokens: int = 0
    in_ledger: bool = False
    seen: SeenAttempt = field(default_factory=SeenAttempt)

    @property
    def detected(self) -> bool:
        """Whether the sidecar had its doubts about it and acted on them."""
        return self.seen.verdict or self.seen.second_opinion


@dataclass(frozen=True, slots=True)
class Reckoning:
    """One request with everything known of it. No text."""

    rid: str
    policy: Policy
    shape: str
    end: End
    status: int
    error: str
    right: bool
    answered_by: str
    attempts: tuple[AttemptTruth, ...]
    fate: Fate
    bad_tokens: int

    @property
    def faults(self) -> frozenset[str]:
        """Faults that hit an attempt."""
        return frozenset(one.fault for one in self.attempts if one.fault)

    @property
    def changing_faults(self) -> frozenset[str]:
        """Faults that changed an attempt's answer."""
        return frozenset(one.fault for one in self.attempts if one.changed)

    @property
    def corrupted(self) -> bool:
        """Whether a fault changed an attempt's answer."""
        return any(one.changed for one in self.attempts)

    @property
    def detected_faults(self) -> frozenset[str]:
        """Faults of attempts that the sidecar acted on."""
        return frozenset(one.fault for one in self.attempts if one.fault and one.detected)

    @property
    def answer(self) -> AttemptTruth:
        """The attempt whose answer the client has; the last where it cannot be told."""
        return _answer(self.attempts, self.answered_by)

    @property
    def judged(self) -> bool:
        """Whether the ledger knows the answer that came."""
        return self.answer.in_ledger


def reckon(
    exchanges: Iterable[tuple[Ask, Delivery]], ledger: Iterable[Line], seen: Mapping[str, Seen]
) -> list[Reckoning]:
    """Join what was asked and delivered with the ledger and the incidents, by rid."""
    lines: dict[str, Line] = {}
    for line in ledger:
        if line.rid not in lines or line.applied:
            lines[line.rid] = line
    return [_reckon(ask, delivery, lines, seen.get(ask.rid, Seen(ask.rid))) for ask, delivery in exchanges]


def _reckon(ask: Ask, delivery: Delivery, lines: Mapping[str, Line], seen: Seen) -> Reckoning:
    right = answer_ok(ask.task, delivery.text)
    attempts = tuple(_attempts(delivery, lines, seen, wrong=delivery.end is End.CLEAN and not right))
    answer = _answer(attempts, delivery.answered_by)
    return Reckoning(
        rid=ask.rid,
        policy=ask.policy,
        shape=ask.shape,
        end=delivery.end,
        status=delivery.status,
        error=delivery.error,
        right=right,
        answered_by=delivery.answered_by,
        attempts=attempts,
        fate=_fate(delivery, answer, corrupted=any(one.changed for one in attempts), right=right),
        bad_tokens=_bad_tokens(delivery, answer),
    )


def _attempts(
    delivery: Delivery, lines: Mapping[str, Line], seen: Seen, *, wrong: bool
) -> Iterable[AttemptTruth]:
    """Every attempt that anybody names, in order, each once."""
    by_rid = {attempt.rid: attempt for attempt in seen.attempts}
    named = dict.fromkeys((delivery.rid, *by_rid, delivery.answered_by or delivery.rid))
    for rid in named:
        line, sight = lines.get(rid), by_rid.get(rid, SeenAttempt(rid))
        if line is None:
            yield AttemptTruth(rid, seen=sight)
        else:
            yield _attempt(line, sight, wrong=wrong and rid == (delivery.answered_by or delivery.rid))


def _attempt(line: Line, sight: SeenAttempt, *, wrong: bool) -> AttemptTruth:
    changed = wrong if line.answer_changed is None else line.answer_changed
    return AttemptTruth(
        rid=line.rid,
        worker=line.worker,
        fault=line.kind if line.applied else "",
        changed=line.applied and changed,
        first_changed_token=line.first_changed_token,
        fault_at_token=line.at_token,
        tokens=line.tokens_actual,
        in_ledger=True,
        seen=sight,
    )


def _answer(attempts: Sequence[AttemptTruth], answered_by: str) -> AttemptTruth:
    return next((one for one in attempts if one.rid == answered_by), attempts[-1])


def _fate(delivery: Delivery, answer: AttemptTruth, *, corrupted: bool, right: bool) -> Fate:
    if delivery.end is not End.CLEAN:
        return Fate.FAILED_LOUDLY if corrupted else Fate.FAILED
    if answer.changed:
        return Fate.ESCAPED
    if corrupted:
        return Fate.RECOVERED if right else Fate.OWN_ERROR
    return Fate.RIGHT if right else Fate.WRONG


def _bad_tokens(delivery: Delivery, answer: AttemptTruth) -> int:
    """Tokens that reached the client from the first changed one on; a clean end brought all there were."""
    if not answer.changed or not delivery.answered_by:
        return 0
    got = answer.tokens if delivery.end is End.CLEAN else len(encode(delivery.text))
    return max(0, got - (answer.first_changed_token or 0))
