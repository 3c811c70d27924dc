import random

from replay.bench.detectors import load, stream
from replay.bench.footprint import state_bytes
from service.core.events import Drafter, RequestFacts, WorkerFacts
from service.core.inspector import Inspector


def test_what_a_stream_holds_stays_within_8_kb_however_long_it_is() -> None:
    detectors, fusion = load()
    worker = WorkerFacts(drafter=Drafter.MODEL, draft_tokens=3)
    inspector = Inspector(RequestFacts(dialect="t"), worker, detectors, fusion)
    deltas, held = stream(random.Random(1), 0, 4000), []
    for at in range(0, len(deltas), 8):
        inspector.read(deltas[at : at + 8], 0.05 * at)
        held.append(state_bytes(inspector))
    assert 0 < held[0] <= held[-1] <= 8192
