r"""SGLang's `--export-metrics-to-file`: one line a request that has ended.

    {"request_parameters": "{\"rid\": \"...\", \"text\": \"...\"}", "id": "...", "prompt_tokens": 9, ...}

It names times only where `--enable-metrics` was on (request_received_ts); answers are not in it.
"""

from collections.abc import Iterator
from typing import Any

from replay.importers.bodies import UNTIMED
from replay.importers.sglang_request import request_of
from replay.importers.source import Source
from replay.trace import TraceRequest


def fits(head: str) -> bool:
    return '"request_parameters"' in head.lstrip().partition("\n")[0]


def read(source: Source) -> Iterator[TraceRequest]:
    source.tally.units["request_received_ts"] = "s"
    timed = untimed = 0
    for line, row in source.json_lines():
        asked = row.get("request_parameters")
        if not isinstance(asked, str):
            raise source.fault("request_parameters must be text that holds JSON", line)
        at_s = _arrival(source, row, line)
        timed, untimed = timed + (at_s is not None), untimed + (at_s is None)
        if timed and untimed:
            raise source.fault("has lines with request_received_ts and lines without", line)
        request = request_of(source, source.parsed(asked + "\n", line), row, at_s or 0.0, None)
        if request:
            yield request
    if untimed:
        source.tally.timed = False
        source.tally.note(UNTIMED)


def _arrival(source: Source, row: dict[str, Any], line: int) -> float | None:
    told = row.get("request_received_ts")
    return None if told is None else source.number(told, "request_received_ts", line)
