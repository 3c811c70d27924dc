"""From an incident to rows: bounded, plain, and without anything a database could choke on."""

import secrets
from itertools import count
from typing import Any, Final

import msgspec

from service.config.settings import Capture
from service.core.events import Attempt, Incident, Level
from service.edges.case import (
    Kept,
    canonical,
    case_id,
    case_of,
    finding_of,
    judgement_of,
    known,
    known_float,
    told_of,
)
from service.edges.rid import anonymous

RID_CHARS: Final = 128
NAME_CHARS: Final = 256
_TURN: Final = count()


class Waiting(msgspec.Struct, frozen=True):
    """One incident on its way to the writer."""

    at_ms: int
    incident: Incident
    kept: Kept | None = None

    @property
    def size_bytes(self) -> int:
        return self.kept.size_bytes if self.kept else 0


class Rows(msgspec.Struct):
    """What one batch inserts."""

    incidents: list[dict[str, Any]] = []
    attempts: list[dict[str, Any]] = []
    cases: list[dict[str, Any]] = []

    def add(self, waiting: Waiting, capture: Capture, salt: bytes) -> None:
        """Append the rows of one incident; a case only where a verdict stood."""
        incident = anonymous(waiting.incident, salt)
        waiting = msgspec.structs.replace(waiting, incident=incident)
        case = self._case(waiting, capture, salt) if is_corrupt(incident) and waiting.kept else None
        own_id = new_id(waiting.at_ms)
        self.incidents.append(_incident(own_id, waiting.at_ms, incident, case))
        self.attempts.extend(
            _attempt(own_id, ordinal, attempt) for ordinal, attempt in enumerate(incident.attempts, 1)
        )

    def _case(self, waiting: Waiting, capture: Capture, salt: bytes) -> str:
        kept = waiting.kept
        assert kept is not None  # noqa: S101 - `add` has asked
        bundle = case_of(waiting.incident, kept, waiting.at_ms, capture, salt)
        own_id = case_id(bundle)
        self.cases.append(
            {
                "id": own_id,
                "at_ms": waiting.at_ms,
                "rid": plain(waiting.incident.rid, RID_CHARS),
                "kind": str(waiting.incident.judgement.kind),
                "capture": capture,
                "size_bytes": len(bundle),
                "bundle": bundle,
            }
        )
        return own_id


def is_corrupt(incident: Incident) -> bool:
    """Whether any generation had a verdict; a suspicion alone makes no case."""
    return any(attempt.judgement.level is Level.CORRUPT for attempt in incident.attempts)


def new_id(at_ms: int) -> str:
    """Sorts by time and, within a millisecond, by turn; unique without asking the database."""
    return f"{at_ms:012x}{next(_TURN) & 0xFFFF:04x}{secrets.token_hex(4)}"


def plain(text: str, limit: int) -> str:
    """Bounded, and valid UTF-8 even where a client sent half a surrogate."""
    return text[:limit].encode("utf-8", "replace").decode()


def _incident(own_id: str, at_ms: int, incident: Incident, case: str | None) -> dict[str, Any]:
    judgement = judgement_of(incident.judgement)
    del judgement["choice"]
    return {
        "id": own_id,
        "at_ms": at_ms,
        "rid": plain(incident.rid, RID_CHARS),
        "route": incident.route,
        "policy": str(incident.policy),
        "model": plain(incident.model, NAME_CHARS),
        "outcome": str(incident.outcome),
        **judgement,
        "kind": str(judgement["kind"]),
        "log10_e": judgement["log10_e"] or 0.0,
        "delivered_bad_tokens": incident.delivered_bad_tokens,
        "duration_s": known_float(incident.duration_s) or 0.0,
        "case_id": case,
        "hints": canonical(incident.hints).decode(),
    }


def _attempt(incident_id: str, ordinal: int, attempt: Attempt) -> dict[str, Any]:
    judgement = attempt.judgement
    return {
        "incident_id": incident_id,
        "ordinal": ordinal,
        "rid": plain(attempt.rid, RID_CHARS),
        "worker": plain(attempt.worker, NAME_CHARS) or "unknown",
        "status": attempt.status,
        "ending": str(attempt.ending),
        "level": judgement.level.name.lower(),
        "kind": str(judgement.kind),
        "detector": judgement.detector,
        "log10_e": known_float(judgement.log10_e) or 0.0,
        "tokens": known(attempt.tokens),
        "steps": attempt.steps,
        "accept_length": known_float(attempt.accept_length),
        "findings": canonical([finding_of(finding) for finding in attempt.findings]).decode(),
        "told": canonical(told_of(attempt)).decode(),
    }
