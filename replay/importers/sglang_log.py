"""SGLang's own request log: `--log-requests --log-requests-level 3 --log-requests-format json`.

    [2026-11-29 10:00:00] {"timestamp": "2026-11-29T10:00:00.1", "event": "request.finished", "rid": "...",
     "obj": {"text": "...", "sampling_params": {...}}, "out": {"text": "...", "meta_info": {...}}}

A request is told twice, when it came and when it had ended; the first gives its time, the second all else.
Requests that never ended are kept without an answer. Lines of other loggers in between are let be.
"""

from collections.abc import Iterator
from typing import Any, Final

import msgspec

from replay.importers.sglang_request import request_of
from replay.importers.source import Source
from replay.trace import TraceRequest

RECEIVED: Final = "request.received"
FINISHED: Final = "request.finished"
OPENAI: Final = "request.received.openai"
WAITING_MAX: Final = 100_000
"""Requests that came and have not ended; more cannot run at once."""


def fits(head: str) -> bool:
    return '"event": "request.' in head or '"event":"request.' in head


def read(source: Source) -> Iterator[TraceRequest]:
    source.tally.units["timestamp"] = "date and time"
    waiting: dict[str, tuple[float, dict[str, Any]]] = {}
    for line, row in _events(source):
        event, rid = row.get("event"), str(row.get("rid"))
        if event == OPENAI:
            source.tally.skipped["the OpenAI form of a request: it names no rid"] += 1
        elif event == RECEIVED and isinstance(row.get("obj"), dict):
            if len(waiting) >= WAITING_MAX:
                raise source.fault(f"more than {WAITING_MAX} requests have come and not ended", line)
            waiting[rid] = source.moment(row.get("timestamp"), "timestamp", line), row["obj"]
        elif event == FINISHED and isinstance(row.get("obj"), dict):
            yield from _finished(source, row, line, waiting.pop(rid, None))
    for at_s, asked in waiting.values():
        source.tally.note("requests without an end are kept without an answer")
        request = request_of(source, asked, {}, at_s, None)
        if request:
            yield request


def _events(source: Source) -> Iterator[tuple[int, dict[str, Any]]]:
    for number, line in source.lines():
        start = line.find("{")
        if start < 0 or '"event"' not in line:
            source.tally.skipped["a line of another logger"] += 1
            continue
        try:
            row = msgspec.json.decode(line[start:])
        except msgspec.DecodeError:
            if not line.endswith("\n"):
                raise source.fault("is cut off; the file is not whole", number) from None
            source.tally.skipped["a line of another logger"] += 1
            continue
        if isinstance(row, dict):
            yield number, row


def _finished(
    source: Source, row: dict[str, Any], line: int, came: tuple[float, dict[str, Any]] | None
) -> Iterator[TraceRequest]:
    out = row.get("out") if isinstance(row.get("out"), dict) else {}
    meta = out.get("meta_info") if isinstance(out, dict) and isinstance(out.get("meta_info"), dict) else {}
    at_s = came[0] if came else _arrival(source, row, meta or {}, line)
    answer = out.get("text") if isinstance(out, dict) else None
    request = request_of(source, row["obj"], meta or {}, at_s, answer if isinstance(answer, str) else None)
    if request:
        yield request


def _arrival(source: Source, row: dict[str, Any], meta: dict[str, Any], line: int) -> float:
    """Of a request whose start the log does not hold: its own clock's word, or its end less its time."""
    ended_s = source.moment(row.get("timestamp"), "timestamp", line)
    took_s = meta.get("e2e_latency")
    if isinstance(took_s, int | float) and 0 <= took_s < float("inf"):
        return max(0.0, ended_s - took_s)
    source.tally.note("requests whose arrival nothing tells stand at their end")
    return ended_s
