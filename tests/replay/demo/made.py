"""Made runs: exchanges, ledger lines and incidents as short as a promise about them can be."""

from collections.abc import Sequence

import msgspec
import numpy as np

from replay.demo.client import Delivery, End
from replay.demo.evidence import Seen, SeenAttempt
from replay.demo.sessions import Ask
from replay.demo.truth import Reckoning, reckon
from replay.lab.ledger import Line
from replay.lab.tasks import Task, sample
from service.core.events import Policy

TASK: Task = sample(np.random.default_rng(5), "edit")
RIGHT = TASK.answer
WRONG = "other words"


def ask(rid: str, policy: Policy = Policy.PROTECT) -> Ask:
    return Ask(rid, 0, "chat", policy, TASK, "/v1/chat/completions", b"{}", 0.0)


def delivery(rid: str, text: str = RIGHT, *, by: str | None = None, end: End = End.CLEAN) -> Delivery:
    """Make a request's end; `by` is the attempt that answered, its own rid unless told."""
    finish = "stop" if end is End.CLEAN else ""
    return Delivery(rid, end, 200, text, rid if by is None else by, finish)


def line(
    rid: str, kind: str = "none", *, changed: bool | None = None, first: int = 3, tokens: int = 10
) -> Line:
    """Make a ledger line; a kind means that the fault was applied."""
    touched = kind != "none"
    return Line(
        seq=1,
        worker="decode-0",
        rid=rid,
        kind=kind,
        applied=touched,
        reason=None,
        at_token=first if touched else None,
        at_step=1 if touched else None,
        pages=(),
        donor_rid=None,
        answer_changed=changed,
        first_changed_token=first if changed else None,
        tokens_reference=tokens if touched else None,
        tokens_actual=tokens,
        aborted=False,
        finished="stop",
    )


def planned(rid: str, kind: str) -> Line:
    """Make the line of a request whose fault was planned and never struck."""
    return msgspec.structs.replace(line(rid), kind=kind, reason="the answer ended before its onset")


def attempt(rid: str, level: str = "clean", *, second_opinion: bool = False) -> SeenAttempt:
    return SeenAttempt(rid, level, second_opinion=second_opinion)


def seen(rid: str, *attempts: SeenAttempt) -> Seen:
    return Seen(rid, "", attempts)


def one(asked: Ask, got: Delivery, lines: Sequence[Line], *incidents: Seen) -> Reckoning:
    """Reckon a run of one request."""
    (reckoning,) = reckon([(asked, got)], lines, {incident.rid: incident for incident in incidents})
    return reckoning
