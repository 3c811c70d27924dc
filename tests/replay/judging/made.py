"""Runs made up: a plan, and results as a client would have written them."""

from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import msgspec

from replay.plan import Arm, Contrast, PlanHeader, Send, write_plan
from replay.planning.make import Wishes, make
from replay.results import Result, RunHeader
from replay.trace import FORMAT, TraceHeader, TraceRequest
from service.config import load_rules
from service.core.recorded import Rules

ARMS = (Arm(name="idle"), Arm(name="peak", load=4.0))
CONTRAST = Contrast(
    low="idle", high="peak", margin_per_10k=400, incident_window_s=0.5, event="wrong", late_s=1.0
)
RIGHT, WRONG = "All of it is as it should be.", "Some of it is not as it should be."

Change = Callable[[Send], Mapping[str, Any]]


def planned(
    path: Path,
    *,
    requests: int = 200,
    rounds: int = 8,
    contrast: Contrast = CONTRAST,
    **wishes: Any,  # noqa: ANN401 - of several types
) -> tuple[PlanHeader, list[Send]]:
    """A plan of requests whose right answer is known."""
    trace = [
        TraceRequest(id=str(at), at_s=at / 10, body={"prompt": f"Question {at}?"}, expected=RIGHT)
        for at in range(requests)
    ]
    wishes = {"arms": ARMS, "rounds": rounds, "pause_s": 1.0, **wishes}
    header, sends = make(
        TraceHeader(format=FORMAT, source="made"), trace, Wishes(contrast=contrast, **wishes)
    )
    return write_plan(path, header, sends), sends


def result(send: Send, **fields: Any) -> Result:  # noqa: ANN401 - of several types
    """A good answer, changed as told."""
    usual: dict[str, Any] = {
        "id": send.id,
        "arm": send.arm,
        "block": send.block,
        "scheduled_s": send.at_s,
        "sent_s": send.at_s + 0.001,
        "ended_s": send.at_s + 0.3,
        "ending": "complete",
        "status": 200,
        "chunk_s": [0.05, 0.07, 0.1],
        "text": send.canary or RIGHT,
        "completion_tokens": 8,
        "decode": "d0",
        "spec": {"spec_accept_length": 3.5},
    }
    return Result(**(usual | fields))


def ran(path: Path, header: PlanHeader, sends: list[Send], change: Change = lambda _: {}) -> None:
    """Write the results of a run; `change` says what became of a send."""
    run = RunHeader(plan_hash=header.hash, target="http://backend", started_at="2026-01-01T00:00:00+00:00")
    lines = [run, *(result(send, **change(send)) for send in sends)]
    path.write_bytes(b"".join(msgspec.json.encode(line) + b"\n" for line in lines))


@cache
def rules() -> Rules:
    """The default set's."""
    loaded = load_rules("default")
    return Rules(loaded.detectors, loaded.fusion)
