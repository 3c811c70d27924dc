"""A toy dialect and scripted detectors, so that tests of the stream path say only what they are about.

Wire: `data: {"t": text, "n": tokens, "f": finish, "e": error, "x": tool}` events; `"u"` is what we asked for.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from service.core.desk import Desk
from service.core.dialects.protocol import Outgoing
from service.core.events import (
    UNKNOWN,
    Action,
    Cached,
    Channel,
    Delta,
    Finding,
    Forward,
    Kind,
    Look,
    Policy,
    RequestFacts,
    WorkerFacts,
)
from service.core.fusion import Fusion
from service.core.governor import AbortMode, Governor
from service.core.monitor import Monitor
from service.core.policy import RoutePolicy

Some = TypeVar("Some")

WORKER = WorkerFacts("http://decode-1")
OTHER = WorkerFacts("http://decode-2")
PLAIN = Outgoing(b"{}")
ASKED = Outgoing(b"{}", asked_growth=True, asked_usage=True)
FUSION = Fusion(
    weights={"text": 0.5, "steps": 0.5},
    act=5.0,
    factor=1.0,
    product_above=2.0,
    suspect_telemetry=3.0,
    suspect_other=1.0,
    second_opinion=5.0,
)


class ToyReader:
    cached = Cached()

    def read(self, payloads: Sequence[bytes]) -> list[Delta]:
        return [self._delta(payload) for payload in payloads if payload != b"[DONE]"]

    brief = read

    def whole(self, body: bytes) -> list[Delta]:
        return [self._delta(body)]

    def _delta(self, payload: bytes) -> Delta:
        try:
            said = json.loads(payload)
        except ValueError:
            return Delta(malformed=True)
        return Delta(
            text=said.get("t", ""),
            tokens=said.get("n", UNKNOWN),
            finish=said.get("f", ""),
            error=said.get("e", ""),
            tool=said.get("x", False),
        )


@dataclass(frozen=True)
class ToyDialect:
    name: str = "toy"
    path: bytes = b"/toy"

    def request(self, body: bytes) -> RequestFacts:
        return RequestFacts("toy", stream=True)

    def outgoing(self, body: bytes, facts: RequestFacts, rid: str, *, ask_growth: bool) -> Outgoing:
        return Outgoing(body)

    def reader(self, facts: RequestFacts) -> ToyReader:
        return ToyReader()

    def cut(self, event: bytes, outgoing: Outgoing) -> bytes:
        return event.replace(b', "u": 1', b"")

    def beat(self) -> bytes:
        return b": beat\n\n"

    def refusal(self, status: int, reason: str, message: str) -> bytes:
        return f"{status} {reason}".encode()

    def in_band(self, reason: str, message: str) -> bytes:
        return f"data: error {reason}\n\n".encode()


@dataclass(frozen=True)
class SaysBad:
    """Fires on the word BAD in the text, or on a silence of two seconds."""

    name: str = "text"
    channel: Channel = Channel.TEXT
    log10_e: float = 8.0

    def start(self, facts: RequestFacts, worker: WorkerFacts) -> None:
        return None

    def look(self, state: None, look: Look) -> Finding | None:
        if b"BAD" in look.tail or look.quiet_s >= 2:
            kind = Kind.SILENT if look.quiet_s >= 2 else Kind.GARBLED
            unit = "" if kind is Kind.SILENT else "bad"
            onset = max(look.tokens - 1, 0)
            return Finding(self.name, self.channel, kind, self.log10_e, look.tokens, onset, unit)
        return None


@dataclass(frozen=True)
class SaysLow:
    """Suspects (telemetry) on the word LOW."""

    name: str = "steps"
    channel: Channel = Channel.TELEMETRY
    log10_e: float = 6.0

    def start(self, facts: RequestFacts, worker: WorkerFacts) -> None:
        return None

    def look(self, state: None, look: Look) -> Finding | None:
        low = b"LOW" in look.tail
        return (
            Finding(self.name, self.channel, Kind.LOW_ACCEPTANCE, self.log10_e, look.tokens) if low else None
        )


def desk(*, mode: AbortMode = AbortMode.CLOSE, held_max: int = 1 << 20) -> Desk:
    return Desk((SaysBad(), SaysLow()), FUSION, governor=Governor(mode), held_max=held_max)


def event(
    text: str = "", tokens: int = UNKNOWN, *, finish: str = "", asked: bool = False, **more: object
) -> bytes:
    """One data event of the toy wire."""
    said: dict[str, object] = {"t": text}
    if tokens != UNKNOWN:
        said["n"] = tokens
    if finish:
        said["f"] = finish
    said |= more
    raw = json.dumps(said)
    if asked:
        raw = raw[:-1] + ', "u": 1}'
    return f"data: {raw}\n\n".encode()


DONE = b"data: [DONE]\n\n"


def monitor(
    policy: Policy = Policy.PROTECT,
    *,
    at: Desk | None = None,
    outgoing: Outgoing = PLAIN,
    facts: RequestFacts | None = None,
    **route: Any,  # noqa: ANN401 - the fields of RoutePolicy, each test names its own
) -> Monitor:
    """A monitor whose head is still to come, at time 0."""
    return Monitor(
        facts=facts or RequestFacts("toy", stream=True),
        dialect=ToyDialect(),
        outgoing=outgoing,
        route=RoutePolicy(policy=policy, **route),
        desk=at or desk(),
        rid="r" * 32,
        now=0.0,
    )


def sent(actions: Sequence[Action]) -> bytes:
    """What these actions let the client have."""
    return b"".join(action.data for action in actions if isinstance(action, Forward))


def only(actions: Sequence[Action], kind: type[Some]) -> Some:
    """The one action of this kind."""
    (found,) = [action for action in actions if isinstance(action, kind)]
    return found
