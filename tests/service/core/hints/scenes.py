"""Incidents in their surroundings, made to measure."""

from collections.abc import Mapping, Sequence
from typing import Final

import msgspec

from service.core.changes import Change
from service.core.events import (
    Attempt,
    Cached,
    Channel,
    Drafter,
    Finding,
    Hint,
    Incident,
    Judgement,
    Kind,
    Level,
    Outcome,
    Policy,
    RequestFacts,
    WorkerFacts,
)
from service.core.fleet_acceptance import AcceptanceView, State
from service.core.fleet_rates import Rate
from service.core.fleet_watch import FleetView, Reason, WorkerView
from service.core.hints.evidence import Evidence
from service.core.hints.rank import explain

DEPTH: Final = 4
CHANNELS: Final = {
    "structure": Channel.STRUCTURE,
    "silence": Channel.SILENCE,
    "acceptance": Channel.TELEMETRY,
}


def bad(kind: Kind = Kind.GARBLED, detector: str = "garble", unit: str = "glue", **more: object) -> Attempt:
    """A generation with this found against it."""
    level = Level.SUSPECT if kind is Kind.LOW_ACCEPTANCE else Level.CORRUPT
    channel = CHANNELS.get(detector, Channel.TEXT)
    attempt = Attempt(
        "r",
        "http://d1",
        200,
        Judgement(level, kind, detector, 6.0, unit=unit),
        tokens=400,
        steps=100,
        accept_length=2.9,
        findings=(Finding(detector, channel, kind, 6.0, unit=unit),),
    )
    return msgspec.structs.replace(attempt, **more)


def good(worker: str = "http://d2") -> Attempt:
    return Attempt("r2", worker, 200, tokens=300, steps=100, accept_length=3.0)


def incident(*attempts: Attempt) -> Incident:
    return Incident(
        "r", "default", Policy.PROTECT, "m", Outcome.RECOVERED, attempts[0].judgement, attempts=attempts
    )


def seen(
    *reasons: Reason,
    url: str = "http://d1",
    trouble: Mapping[str, float] | None = None,
    state: State = State.NO_EVIDENCE,
    scraped: bool = True,
) -> WorkerView:
    """A worker as the fleet's judge sees it."""
    own = AcceptanceView(url, "m", "metrics", state, 3.0, 3.0, 50, 0.0, 0.0, 1)
    return WorkerView(url, Drafter.MODEL, DEPTH, reasons, (own,), {}, trouble or {}, scraped)


def group(dimension: str, value: str) -> Rate:
    return Rate(dimension, "m", value, 9, 100, 1, 1000, 1e-7, suspect=True)


def told(
    *attempts: Attempt,
    workers: Sequence[WorkerView] = (seen(),),
    groups: Sequence[Rate] = (),
    changes: Sequence[Change] = (),
    prompt: str = "",
    prefills: Sequence[str] = (),
    caches: bool = True,
    **facts: object,
) -> dict[str, Hint]:
    """The hints by cause, in their order."""
    request = msgspec.structs.replace(RequestFacts("openai_chat", "m", stream=True, prompt=prompt), **facts)
    view = FleetView(1.0, tuple(workers), tuple(groups), tuple(prefills))
    known = Evidence(incident(*attempts), request, view, changes, caches=caches)
    return {hint.cause: hint for hint in explain(known)}


WORKERS: Final = (WorkerFacts("http://d1"), WorkerFacts("http://d2"))
CACHED_HOST: Final = Cached(1000, 900, 600, 0)
