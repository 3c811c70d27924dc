"""`/lab/control` and `/lab/ledger`: the switches of a decode worker and the truth about it.

    GET  /lab/control            the plan, the pace, and how much of the truth is still being worked out
    POST /lab/control            any of fault, rate, onset, seed, step_ms, stuck, drafter (model or ngram),
                                 race, waiting_s, drain_s; what is left out stays
    GET  /lab/ledger?since=N     JSON lines with seq > N

`race` is the protocol of giving up a slot that prefill may still write into: fixed, deferred or unfixed, see
`replay.lab.slot`; it holds for requests that come after. A prefill worker's switches are those of
`replay.lab.prefill_control`.

The ledger is complete for all requests that have ended once `pending` is 0.
"""

from dataclasses import replace
from typing import Any

import msgspec

from replay.lab.decode import DecodeWorker, Pace
from replay.lab.faults import FaultPlan, parse_mix
from replay.lab.intake import RequestError
from replay.lab.scheduler import Phase
from replay.lab.slot import Race


class Change(msgspec.Struct, forbid_unknown_fields=True):
    """What a POST may set."""

    fault: str | None = None
    rate: float | None = None
    onset: tuple[int, int] | None = None
    seed: int | None = None
    step_ms: float | None = None
    stuck: bool | None = None
    drafter: str | None = None
    race: Race | None = None
    waiting_s: float | None = None
    drain_s: float | None = None


_change = msgspec.json.Decoder(Change)


def show(worker: DecodeWorker) -> dict[str, Any]:
    """Return the plan, the pace and the state of the ledger."""
    plan, handovers, phases = worker.plan, worker.handovers, worker.live.phases()
    return {
        "worker": worker.name,
        "fault": plan.spec,
        "rate": plan.rate,
        "onset": plan.onset_tokens,
        "seed": plan.seed,
        "step_ms": worker.pace.step_ms,
        "stuck": worker.stuck,
        "drafter": worker.drafter,
        "race": handovers.race,
        "waiting_s": handovers.timeouts.waiting_s,
        "drain_s": handovers.timeouts.drain_s,
        "draining": handovers.draining,
        "late_writes": handovers.late_writes,
        "live": len(worker.live),
        "ready": phases[Phase.WAITING] + phases[Phase.RUNNING],
        "pending": worker.pending,
        "ledger_seq": worker.ledger.last_seq,
    }


def change(worker: DecodeWorker, body: bytes) -> dict[str, Any]:
    """Apply a POST whole or not at all; return what holds now."""
    old = worker.plan
    try:
        asked = _change.decode(body)
        plan = FaultPlan(
            mix=old.mix if asked.fault is None else parse_mix(asked.fault),
            rate=old.rate if asked.rate is None else asked.rate,
            onset_tokens=asked.onset or old.onset_tokens,
            seed=old.seed if asked.seed is None else asked.seed,
        )
        pace = worker.pace if asked.step_ms is None else Pace(asked.step_ms)
        given = {"waiting_s": asked.waiting_s, "drain_s": asked.drain_s}
        waits = {name: value for name, value in given.items() if value is not None}
        timeouts = replace(worker.handovers.timeouts, **waits)
        worker.drafter = asked.drafter or worker.drafter
    except (msgspec.DecodeError, ValueError) as error:
        raise RequestError(str(error)) from None
    worker.follow(plan)
    worker.pace = pace
    worker.stuck = worker.stuck if asked.stuck is None else asked.stuck
    worker.handovers.timeouts = timeouts
    worker.handovers.race = asked.race or worker.handovers.race
    return show(worker)


def ledger(worker: DecodeWorker, since: str) -> bytes:
    """Return the lines that a reader has not seen."""
    try:
        return worker.ledger.since(int(since))
    except ValueError:
        raise RequestError(f"since must be a number, got {since!r}") from None
