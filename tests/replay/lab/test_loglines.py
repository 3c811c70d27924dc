"""The lab's log lines are read by the code that reads the real engine's."""

import re
from datetime import UTC, datetime

from replay.lab.loglines import EngineLog, Interval, PoolUse
from replay.lab.scheduler import Phase
from service.core.loglines import LogKind, read

PHASES = {Phase.RUNNING: 3, Phase.WAITING: 2, Phase.TRANSFER: 4, Phase.PREALLOC: 5, Phase.BOOTSTRAP: 6}
POOL = PoolUse(pages=1024, used=256)
FAILURE = (
    "Decode transfer failed for request rank=0 decode_req.req.rid='r1' decode_req.req.bootstrap_room=77"
    " with exception KVTransferError(bootstrap_room=77): Aborted by AbortReq."
)


def written() -> tuple[EngineLog, list[str]]:
    lines: list[str] = []
    return EngineLog(lines.append, lambda: datetime(2026, 11, 29, 16, 0, 5, tzinfo=UTC)), lines


def test_a_decode_line_tells_acceptance_queues_and_use() -> None:
    log, lines = written()
    log.decode_batch(Interval(3.849, 0.712, 512.0), PHASES, POOL)
    assert lines[0].startswith("[2026-11-29 16:00:05] Decode batch, #running-req: 3, #token: 4096, ")
    event = read(lines[0])
    assert event is not None
    assert event.kind is LogKind.DECODE_BATCH
    told = {"running": 3, "tokens": 4096, "token_usage": 0.25, "accept_len": 3.85, "accept_rate": 0.71}
    queues = {"prealloc": 5, "transfer": 4, "retracted": 0, "queue": 2, "gen_throughput": 512}
    assert event.numbers == {**told, "preallocated_usage": 0.25, **queues}


def test_a_prefill_line_tells_new_and_cached_tokens() -> None:
    log, lines = written()
    log.prefill_batch(100, 64, 0.5, PHASES, POOL)
    event = read(lines[0])
    assert event is not None
    assert event.kind is LogKind.PREFILL_BATCH
    assert event.numbers["new_tokens"] == 100
    assert event.numbers["cached_tokens"] == 64
    assert event.numbers["input_throughput"] == 200
    assert (event.numbers["bootstrap"], event.numbers["inflight"]) == (6, 4)


def test_failures_name_request_and_room() -> None:
    log, lines = written()
    log.failed(FAILURE)
    log.released_anyway(78, 30)
    transfer, deferred = (read(line) for line in lines)
    assert transfer is not None
    assert (transfer.kind, transfer.room, transfer.reason) == (LogKind.TRANSFER_FAILED, 77, "aborted")
    assert deferred is not None
    assert (deferred.kind, deferred.room) == (LogKind.DEFERRED_RELEASE_TIMEOUT, 78)
    assert deferred.numbers == {"after_s": 30.0}


def test_every_line_is_one_line() -> None:
    log, lines = written()
    log.abort_unknown("r9")
    log.decode_batch(Interval(1, 0, 0), {}, PoolUse(0, 0))
    assert all(re.fullmatch(r"\[[\d :-]{19}\] [^\n]+\n", line) for line in lines)


def test_without_a_place_to_write_to_nothing_happens() -> None:
    EngineLog().failed("x")
    assert repr(EngineLog()) == "<EngineLog off>"
