"""Streams and datagrams of the real engine, as `make test-sglang` kept them, joined again without it.

Each capture is what the engine sent to its client (`NAME.sse`) and what its probe sent beside it (`NAME.hex`,
a datagram a line). The truth is the engine's own last word: the histogram of drafts accepted a verify step.
"""

import json
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

import pytest

from service.core.desk import Desk
from service.core.dialects.protocol import Outgoing
from service.core.events import (
    Attempt,
    Channel,
    Ending,
    Finding,
    Kind,
    Look,
    RequestFacts,
    Step,
    WorkerFacts,
)
from service.core.fusion import Fusion
from service.core.generation import Generation
from service.core.probe_feed import ProbeFeed
from service.core.recorded import dialect_of, judge_capture
from service.core.sse import EventSplitter, payloads
from tests.service.core.detectors.texts import RULES

FOLDER = Path(__file__).parents[2] / "fixtures" / "probe"
NAMES = sorted(path.stem for path in FOLDER.glob("*.sse"))
KINDS = {"clean": Kind.NORMAL, "nan": Kind.SILENT, "zero": Kind.REPETITION}
"""What KV overwritten with NaN, or with zeros, makes of an answer."""
DRAFTS = 4
FUSION = Fusion({}, 5.0, 1.0, 2.0, 3.0, 1.5, 2.5)


@dataclass
class Recorder:
    """Keeps every step that detectors are shown."""

    steps: list[Step] = field(default_factory=list)
    name: ClassVar[str] = "recorder"
    channel: ClassVar[Channel] = Channel.TELEMETRY

    def start(self, facts: RequestFacts, worker: WorkerFacts) -> None:
        return None

    def look(self, state: None, look: Look) -> Finding | None:
        self.steps += look.steps
        return None


def truth(data: bytes) -> dict[str, Any]:
    """What the engine said of the request at its end."""
    for payload in reversed(payloads(EventSplitter().feed(data))):
        if payload == b"[DONE]":
            continue
        said = json.loads(payload)
        if said.get("sglext"):
            details = said["sglext"]["spec_tokens_details"]
            return dict(details[0] if isinstance(details, list) else details)
        if "spec_verify_ct" in said.get("meta_info", {}):
            return dict(said["meta_info"])
    raise LookupError("the capture has no totals")


def replay(name: str, ahead: float, rid: str = "ours") -> tuple[Attempt, list[Step], Desk]:
    """The stream, with its datagrams so far ahead of it (in datagrams; minus infinity: after its end)."""
    data = (FOLDER / f"{name}.sse").read_bytes()
    datagrams = [bytes.fromhex(line) for line in (FOLDER / f"{name}.hex").read_text().split()]
    recorder, feed = Recorder(), ProbeFeed()
    desk = Desk([recorder], FUSION)
    desk.probes = feed
    dialect = dialect_of(data)
    made = Generation(rid, RequestFacts(dialect.name, stream=True), dialect, Outgoing(b""), 0.0)
    made.open(200, WorkerFacts(draft_tokens=DRAFTS), streamed=True, desk=desk, now=0.0)
    events = EventSplitter().feed(data)
    told = 0
    for place, event in enumerate(events):
        due = len(datagrams) * (place + 1) / len(events) + ahead
        while told < min(due, len(datagrams)):
            feed.read(datagrams[told], 0.0)
            told += 1
        made.put(event, 0.0)
        made.look(0.0)
    for datagram in datagrams[told:]:
        feed.read(datagram, 0.0)
    made.close(Ending.COMPLETE, 1.0)
    return made.attempt(), recorder.steps, desk


def histogram(steps: list[Step], like: list[int]) -> list[int]:
    counts = Counter(step.accepted for step in steps)
    return [counts[accepted] for accepted in range(len(like))]


def test_both_endpoints_were_captured() -> None:
    assert {name.split("-")[-1] for name in NAMES} == {"chat", "generate"}


@pytest.mark.parametrize("ahead", [float("inf"), 2.0])
@pytest.mark.parametrize("name", NAMES)
def test_every_step_that_detectors_see_is_the_engines_own(name: str, ahead: float) -> None:
    attempt, steps, _ = replay(name, ahead)
    said = truth((FOLDER / f"{name}.sse").read_bytes())
    assert attempt.telemetry == "exact"
    assert histogram(steps, said["spec_correct_drafts_histogram"]) == said["spec_correct_drafts_histogram"]
    assert (attempt.steps, len(steps)) == (said["spec_verify_ct"], said["spec_verify_ct"])


@pytest.mark.parametrize("name", NAMES)
def test_datagrams_that_come_late_still_make_the_sums_exact(name: str) -> None:
    attempt, steps, _ = replay(name, float("-inf"))
    said = truth((FOLDER / f"{name}.sse").read_bytes())
    assert attempt.steps == said["spec_verify_ct"]
    assert len(steps) <= said["spec_verify_ct"]
    assert attempt.accept_length == pytest.approx(
        1 + said["spec_num_correct_drafts"] / said["spec_verify_ct"]
    )


@pytest.mark.parametrize("name", NAMES)
def test_the_captured_worker_is_named_though_no_header_does(name: str) -> None:
    attempt, _, _ = replay(name, float("inf"))
    assert attempt.worker.startswith("http://127.0.0.1:")


@pytest.mark.parametrize("name", NAMES)
def test_a_real_fault_is_found_in_the_stream_alone(name: str) -> None:
    verdict = judge_capture((FOLDER / f"{name}.sse").read_bytes(), RULES)
    assert verdict.kind is KINDS[name.split("-", maxsplit=1)[0]]
