"""A kept case, put under load: from its bundle to a plan, and what that will cost.

    bundle -> trace of one request -> the same request again and again, idle and at peak, in rounds by lot

A bundle that holds its text gives the request itself; one of hashes gives a request as long, with the same
prefix blocks and other words: what the words did is not reproduced then, what the load did is.

What is told back to the case is counts, rates and hashes; the answers stay where the replay ran.
"""

from pathlib import Path
from typing import Any, Final

import msgspec

from replay.importers import FORMATS, Source, import_trace
from replay.judge import Judged
from replay.plan import Arm, Contrast, PlanHeader, Send, write_plan
from replay.planning.make import Wishes, make
from replay.stats.exact import PER
from replay.stats.power import power
from replay.trace import TraceHeader, TraceRequest, read_trace

IDLE: Final = "idle"
PEAK: Final = "peak"
WITHOUT_TEXT: Final = "the case holds no text: same lengths and prefixes, other words"
ESTIMATE_CHARS: Final = 4
"""Characters to a token, where only a body is known."""


class CaseWishes(msgspec.Struct, frozen=True, kw_only=True):
    """How a case is to be replayed."""

    requests: int = 2000  # an arm
    rate_per_s: float = 2.0  # of the idle arm
    peak: float = 8.0  # times the idle rate
    rounds: int = 8
    margin_per_10k: float = 20.0
    pause_s: float = 5.0
    seed: int = 0
    model: str = ""
    knobs: dict[str, Any] = {}  # of the peak arm


class Price(msgspec.Struct, frozen=True, kw_only=True):
    """What a replay costs before it is run."""

    requests: int
    seconds: float
    prompt_tokens: int  # in all; estimated where only the text is known
    output_tokens: int | None  # at most; None where nothing says
    power: float  # to see the margin, if it is there
    margin_per_10k: float
    plan_hash: str
    notes: list[str]


class Reproduction(msgspec.Struct, frozen=True, kw_only=True):
    """A plan in its file, and its price."""

    plan: Path
    header: PlanHeader
    price: Price


def reproduction(bundle: Path, folder: Path, wishes: CaseWishes) -> Reproduction:
    """Plan the replay of the case in `bundle`; files go to `folder`.

    Raises SourceError for what is no case, PlanError for wishes that cannot be.
    """
    header, request = _case(bundle, folder / "case.trace")
    made, sends = make(header, [request], _wishes(request, wishes))
    path = folder / "case.plan"
    written = write_plan(path, made, sends)
    return Reproduction(plan=path, header=written, price=_price(written, sends, request, wishes))


def told_of(judged: Judged, price: Price, seconds: float) -> dict[str, Any]:
    """What is posted back to the case: the body of `POST /api/cases/ID/replays`."""
    rates = {level.arm: level.per_10k for level in judged.levels}
    return {
        "verdict": judged.verdict.verdict.value,
        "reproduced": judged.verdict.reproduced,
        "p": min(max(judged.verdict.p, 0.0), 1.0),
        "low_per_10k": rates.get(IDLE),
        "high_per_10k": rates.get(PEAK),
        "requests": sum(level.trials for level in judged.levels),
        "seconds": round(seconds, 1),
        "plan_hash": price.plan_hash,
    }


def _case(bundle: Path, trace: Path) -> tuple[TraceHeader, TraceRequest]:
    source = Source(bundle)
    import_trace(source, FORMATS["case"], trace)
    header, requests = read_trace(trace)
    return header, next(requests)


def _wishes(request: TraceRequest, wishes: CaseWishes) -> Wishes:
    contrast = Contrast(low=IDLE, high=PEAK, margin_per_10k=wishes.margin_per_10k, incident_window_s=5.0)
    return Wishes(
        arms=(Arm(name=IDLE), Arm(name=PEAK, load=wishes.peak, knobs=wishes.knobs)),
        contrast=contrast,
        rounds=wishes.rounds,
        requests=wishes.requests,
        rate_per_s=wishes.rate_per_s,
        pause_s=wishes.pause_s,
        seed=wishes.seed,
        model=wishes.model,
        notes=() if request.body is not None else (WITHOUT_TEXT,),
    )


def _price(header: PlanHeader, sends: list[Send], request: TraceRequest, wishes: CaseWishes) -> Price:
    prompt = request.prompt_tokens
    if prompt is None:
        prompt = len(msgspec.json.encode(request.body)) // ESTIMATE_CHARS
    output = request.output_tokens
    return Price(
        requests=len(sends),
        seconds=header.duration_s,
        prompt_tokens=prompt * len(sends),
        output_tokens=None if output is None else output * len(sends),
        power=power(0, wishes.margin_per_10k / PER, wishes.requests),
        margin_per_10k=wishes.margin_per_10k,
        plan_hash=header.hash,
        notes=header.notes,
    )
