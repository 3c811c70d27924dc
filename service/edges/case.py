"""The case bundle, version 1: what is kept of a corrupted request so that it can be replayed.

    {"v": 1, "capture", "at", "rid", "route", "policy", "outcome", "model", "duration_s",
     "delivered_bad_tokens", "judgement", "hints", "request", "attempts", "engine", "timing", "co_batched",
     "router"}

One canonical JSON (sorted keys, no spaces); its sha256 is its id. What `request` and an attempt's `answer`
hold of text depends on the capture mode:

    off      facts alone: counts, flags, sampling numbers
    hashes   and for each message its role, its length, and one hash for each 256 bytes of it, chained, so
             that equal prefixes give equal hashes: the shape of a prefix cache without its content
    full     and the request's own JSON and the answers' tails, secrets redacted

Hashes are SHA-256 of salt, the hash before and the block; the salt is not in the store. `text_free` makes of
a full case one without text, that names the one it was made of. What is not known is the word "unknown".
"""

from collections.abc import Iterator
from datetime import UTC, datetime
from hashlib import sha256
from math import isfinite
from typing import Any, Final

import msgspec

from service.config.settings import Capture
from service.core.events import UNKNOWN, Attempt, Finding, Incident, Judgement, RequestFacts
from service.edges.redact import redacted, redacted_json
from service.edges.rid import kept_rid
from service.edges.scene import UNSAID, Scene, described

VERSION: Final = 1
BLOCK_BYTES: Final = 256
"""About 64 tokens: the page size of SGLang's radix cache, as far as text can follow it."""
DIGEST_CHARS: Final = 16
ROLES: Final = frozenset({"system", "developer", "user", "assistant", "tool"})
SAMPLING: Final = frozenset(
    {
        "best_of", "frequency_penalty", "ignore_eos", "logprobs", "max_completion_tokens", "max_new_tokens",
        "max_tokens", "min_new_tokens", "min_p", "min_tokens", "n", "presence_penalty", "repetition_penalty",
        "seed", "stream", "temperature", "top_k", "top_logprobs", "top_p",
    }
)  # fmt: skip
"""Request fields kept in every mode, and only where they hold a number or a flag."""


class Kept(msgspec.Struct, frozen=True):
    """What the proxy hands over with an incident. Headers are not part of it: credentials travel there."""

    facts: RequestFacts
    body: bytes = b""
    answers: tuple[str, ...] = ()  # the tail of each attempt's text, in order
    scene: Scene = Scene()

    def __repr__(self) -> str:
        return f"<Kept {self.facts!r} body={len(self.body)} bytes>"

    @property
    def size_bytes(self) -> int:
        """What it weighs while it waits for the writer."""
        return len(self.body) + len(self.facts.prompt) + sum(map(len, self.answers))

    def without_text(self) -> "Kept":
        return Kept(facts=msgspec.structs.replace(self.facts, prompt="", rid=""), scene=self.scene)


def case_of(incident: Incident, kept: Kept, at_ms: int, capture: Capture, salt: bytes) -> bytes:
    """The bundle, canonical; its id is `case_id`."""
    bundle = {
        "v": VERSION,
        "capture": capture,
        "at": datetime.fromtimestamp(at_ms / 1000, UTC).isoformat(timespec="milliseconds"),
        "rid": incident.rid,
        "route": incident.route,
        "policy": incident.policy,
        "outcome": incident.outcome,
        "model": incident.model,
        "duration_s": round(incident.duration_s, 3),
        "delivered_bad_tokens": incident.delivered_bad_tokens,
        "judgement": judgement_of(incident.judgement),
        "hints": msgspec.to_builtins(incident.hints),
        "request": _request(kept, capture, salt),
        "attempts": [_attempt(one) | answer for one, answer in _answered(incident, kept, capture, salt)],
        "engine": described(kept.scene, _dp_rank(incident)),
        "timing": _timing(incident, kept.scene, at_ms),
        "co_batched": _co_batched(kept.scene, salt),
        "router": {"policy": kept.scene.policy},
    }
    return canonical(bundle)


def text_free(bundle: bytes, salt: bytes) -> bytes:
    """The bundle as `hashes` would have kept it, under an id of its own; one that holds no text as it is.

    A case in full has been redacted before, so its hashes are those of the redacted text.
    """
    case: dict[str, Any] = msgspec.json.decode(bundle)
    if case["capture"] != "full":
        return bundle
    body = case["request"].pop("body", None)
    if body is not None:
        case["request"]["messages"] = [_hashed(role, text, salt) for role, text in messages(body)]
    for attempt in case["attempts"]:
        answer = attempt.pop("answer", None)
        if answer is not None:
            attempt.update(_captured("answer", answer, "hashes", salt))
    return canonical(case | {"capture": "hashes", "text_free_of": case_id(bundle)})


def canonical(value: Any) -> bytes:  # noqa: ANN401 - any JSON value
    return msgspec.json.encode(value, order="sorted")


def case_id(bundle: bytes) -> str:
    return sha256(bundle).hexdigest()


def judgement_of(judgement: Judgement) -> dict[str, Any]:
    return {
        "level": judgement.level.name.lower(),
        "kind": judgement.kind,
        "detector": judgement.detector,
        "log10_e": known_float(judgement.log10_e),
        "at_token": known(judgement.at_token),
        "onset_token": known(judgement.onset_token),
        "unit": judgement.unit,
        "choice": judgement.choice,
        "foreign": judgement.foreign,
    }


def finding_of(finding: Finding) -> dict[str, Any]:
    return {
        "detector": finding.detector,
        "channel": finding.channel,
        "kind": finding.kind,
        "log10_e": known_float(finding.log10_e),
        "at_token": known(finding.at_token),
        "onset_token": known(finding.onset_token),
        "unit": finding.unit,
        "foreign": finding.foreign,
    }


def told_of(attempt: Attempt) -> dict[str, Any]:
    """What probe and engine told of where it was made, and from what."""
    return {
        "prefill": attempt.prefill or UNSAID,
        "dp_rank": known(attempt.dp_rank),
        "telemetry": attempt.telemetry,
        "engine_said": list(attempt.engine_said),
        "cached": {name: known(count) for name, count in msgspec.to_builtins(attempt.cached).items()},
    }


def known(count: int) -> int | None:
    return None if count == UNKNOWN else count


def known_float(value: float) -> float | None:
    return round(value, 4) if isfinite(value) else None


# --- parts of the bundle ---


def _timing(incident: Incident, scene: Scene, at_ms: int) -> dict[str, Any]:
    """When it began, and how long things took; the bundle's `at` is its end."""
    begun = datetime.fromtimestamp(at_ms / 1000 - incident.duration_s, UTC)
    return {
        "begun_at": begun.isoformat(timespec="milliseconds"),
        "head_s": known_float(scene.head_s) or UNSAID,
        "first_byte_s": known_float(scene.first_byte_s) or UNSAID,
    }


def _dp_rank(incident: Incident) -> int:
    """Of the worst attempt, whose engine the scene is."""
    worst = max(incident.attempts, key=lambda one: one.judgement.level, default=None)
    return worst.dp_rank if worst is not None else UNKNOWN


def _co_batched(scene: Scene, salt: bytes) -> list[str] | str:
    """Requests open on the same worker when the verdict fell: what one batch may have held."""
    return UNSAID if scene.beside is None else [kept_rid(rid, salt) for rid in scene.beside]


def _attempt(attempt: Attempt) -> dict[str, Any]:
    return {
        "rid": attempt.rid,
        "worker": attempt.worker or "unknown",
        "status": attempt.status,
        "ending": attempt.ending,
        "tokens": known(attempt.tokens),
        "steps": attempt.steps,
        "accept_length": known_float(attempt.accept_length),
        "accepted": list(attempt.accepted),
        **told_of(attempt),
        "judgement": judgement_of(attempt.judgement),
        "findings": [finding_of(finding) for finding in attempt.findings],
    }


def _answered(
    incident: Incident, kept: Kept, capture: Capture, salt: bytes
) -> Iterator[tuple[Attempt, dict[str, Any]]]:
    """Each attempt with what the mode keeps of its answer."""
    answers = (*kept.answers, *[""] * len(incident.attempts))
    for attempt, answer in zip(incident.attempts, answers, strict=False):
        yield attempt, _captured("answer", answer, capture, salt) if answer else {}


def _captured(key: str, text: str, capture: Capture, salt: bytes) -> dict[str, Any]:
    match capture:
        case "full":
            return {key: redacted(text)}
        case "hashes":
            return {f"{key}_chars": len(text), f"{key}_blocks": blocks(text, salt)}
        case "off":
            return {}


def _request(kept: Kept, capture: Capture, salt: bytes) -> dict[str, Any]:
    facts = kept.facts
    request: dict[str, Any] = {
        "dialect": facts.dialect,
        "stream": facts.stream,
        "choices": facts.choices,
        "max_tokens": known(facts.max_tokens),
        "temperature": known_float(facts.temperature),
        "json": facts.wants_json,
        "tools": facts.tools,
        "body_bytes": len(kept.body) or None,
    }
    body = _parsed(kept.body)
    if body is None or capture == "off":
        return request
    request["sampling"] = dict(sorted(_sampling(body)))
    if capture == "full":
        return request | {"body": redacted_json(body)}
    return request | {"messages": [_hashed(role, text, salt) for role, text in messages(body)]}


def _parsed(body: bytes) -> dict[str, Any] | None:
    try:
        value = msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def _sampling(body: dict[str, Any]) -> Iterator[tuple[str, bool | int | float]]:
    """Numbers and flags alone: text in one of these fields is nobody's sampling parameter."""
    nested = body.get("sampling_params")
    for fields in (nested if isinstance(nested, dict) else {}, body):
        for key in SAMPLING & fields.keys():
            if isinstance(fields[key], bool | int | float):
                yield key, fields[key]


def messages(body: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """Role and text of everything the model reads, in the dialect's own order."""
    for key in ("text", "prompt", "input_ids"):
        if key in body:
            yield "user", _text_of(body[key])
    if body.get("tools"):
        yield "tools", _text_of(body["tools"])
    listed = body.get("messages")
    for message in listed if isinstance(listed, list) else ():
        fields = message if isinstance(message, dict) else {}
        role = fields.get("role")
        yield role if role in ROLES else "other", _text_of({k: v for k, v in fields.items() if k != "role"})


def _text_of(value: Any) -> str:  # noqa: ANN401 - any JSON value
    """Every string and number in a JSON value, in order, a newline after each."""
    if isinstance(value, dict):
        return "".join(map(_text_of, value.values()))
    if isinstance(value, list):
        return "".join(map(_text_of, value))
    return f"{value}\n"


def _hashed(role: str, text: str, salt: bytes) -> dict[str, Any]:
    return {"role": role, "chars": len(text), "blocks": blocks(text, salt)}


def blocks(text: str, salt: bytes) -> list[str]:
    """One hash for each block, each covering the block and, through the hash before it, all before it."""
    data = text.encode("utf-8", "surrogatepass")
    found: list[str] = []
    before = salt
    for start in range(0, len(data), BLOCK_BYTES):
        before = sha256(salt + before + data[start : start + BLOCK_BYTES]).digest()
        found.append(before.hex()[:DIGEST_CHARS])
    return found
