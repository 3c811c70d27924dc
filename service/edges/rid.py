"""What a client calls its request and its model, as it may be kept.

Clients choose their ids, and some put into them what nobody should keep: a name, a number, a line of
a prompt. Kept as sent is what looks like an id (`looks_like_id`); anything else as a keyed hash, the same for
one id while the salt lives, so that who knows the id still finds its records. Model names are free text, too,
where the engine serves one model under any name. On the wire nothing changes.

    kept_rid("req-8f3a", salt)          req-8f3a
    kept_rid("ask Jane Doe", salt)      h- and 32 hex digits
"""

import re
from hashlib import blake2b
from typing import Final

import msgspec

from service.core.events import Attempt, Finding, Incident, Judgement, Kind

ID_CHARS: Final = 64
"""Twice a UUID; a sentence without blanks is soon longer."""
HASH_BYTES: Final = 16
HIDDEN: Final = "hidden"

_ID: Final = re.compile(rf"(?=[^A-Za-z]*[A-Za-z])[A-Za-z0-9._:-]{{1,{ID_CHARS}}}")
"""With a letter at least: digits alone may be somebody's number."""


MODEL: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:/@+-]{0,127}")
"""A name as hubs and launch commands have them, a LoRA's behind a colon."""
ODD: Final = "odd"


def kept_model(model: str) -> str:
    """The model as records, groups and pins name it; one name for all that is none."""
    return model if not model or MODEL.fullmatch(model) else ODD


def looks_like_id(rid: str) -> bool:
    return _ID.fullmatch(rid) is not None


def kept_rid(rid: str, salt: bytes) -> str:
    """The id as records name it."""
    if not rid or looks_like_id(rid):
        return rid
    data = rid.encode("utf-8", "surrogatepass")
    return f"h-{blake2b(data, digest_size=HASH_BYTES, key=salt[: blake2b.MAX_KEY_SIZE]).hexdigest()}"


def shown_rid(rid: str) -> str:
    """The id as who may watch live streams sees it."""
    return rid if looks_like_id(rid) else HIDDEN


def anonymous(incident: Incident, salt: bytes) -> Incident:
    """The incident with every id as it may be kept: its own, its attempts', and whose text was found."""
    return msgspec.structs.replace(
        incident,
        rid=kept_rid(incident.rid, salt),
        judgement=_judgement(incident.judgement, salt),
        attempts=tuple(_attempt(attempt, salt) for attempt in incident.attempts),
    )


def _attempt(attempt: Attempt, salt: bytes) -> Attempt:
    return msgspec.structs.replace(
        attempt,
        rid=kept_rid(attempt.rid, salt),
        judgement=_judgement(attempt.judgement, salt),
        findings=tuple(_finding(finding, salt) for finding in attempt.findings),
    )


def _judgement(judgement: Judgement, salt: bytes) -> Judgement:
    if judgement.kind is not Kind.CROSSTALK:
        return judgement
    return msgspec.structs.replace(judgement, unit=kept_rid(judgement.unit, salt))


def _finding(finding: Finding, salt: bytes) -> Finding:
    """Of cross-talk the unit is another request's id."""
    if finding.kind is not Kind.CROSSTALK:
        return finding
    return msgspec.structs.replace(finding, unit=kept_rid(finding.unit, salt))
