"""Traces of conversations by lengths and block hashes: Qwen-Bailian's, and the agentic one of Weka.

    {"chat_id": 7, "parent_chat_id": -1, "timestamp": 0.5, "input_length": 90, "output_length": 20, "turn": 1,
     "type": "text", "hash_ids": [...]}                                      Bailian: seconds, blocks of 16
    {"id": "c1", "requests": [{"t": 0.0, "type": "n", "model": "m", "in": 900, "out": 20, "hash_ids": [...],
     "api_time": 1.5, "think_time": 0.5}, ...]}                              Weka: seconds, blocks of 64

aiperf, guidellm and inference-perf read the second; a sub-agent's requests lie nested in it.
"""

from collections.abc import Iterator
from typing import Any, Final

import msgspec

from replay.importers.source import Source
from replay.trace import TraceRequest

BAILIAN_BLOCK: Final = 16
WEKA_BLOCK: Final = 64
DEEP: Final = 16
"""Sub-agents within sub-agents; deeper is a file made to hurt."""


def fits_bailian(head: str) -> bool:
    first = head.lstrip().partition("\n")[0]
    return '"chat_id"' in first and '"parent_chat_id"' in first


def fits_weka(head: str) -> bool:
    return '"requests"' in head and '"hash_ids"' in head and ('"api_time"' in head or '"think_time"' in head)


def read_bailian(source: Source) -> Iterator[TraceRequest]:
    tick_s = source.seconds_of("timestamp", "s")
    source.block_size(BAILIAN_BLOCK)
    sessions: dict[str, str] = {}
    for line, row in source.json_lines():
        source.drop(row.keys() - {"chat_id", "parent_chat_id", "timestamp", "input_length", "output_length",
                                  "turn", "hash_ids"})  # fmt: skip
        name, parent = str(row.get("chat_id")), str(row.get("parent_chat_id", -1))
        known = parent in sessions
        sessions[name] = sessions.get(parent, name)
        yield TraceRequest(
            id=name,
            at_s=source.number(row.get("timestamp"), "timestamp", line) * tick_s,
            session=sessions[name],
            turn=max(source.count(row.get("turn", 1), "turn", line) - 1, 0),
            parent=parent if known else "",
            prompt_tokens=source.count(row.get("input_length"), "input_length", line),
            output_tokens=source.count(row.get("output_length"), "output_length", line),
            blocks=source.hashes(row.get("hash_ids"), "hash_ids", line),
        )


def read_weka(source: Source) -> Iterator[TraceRequest]:
    tick_s = source.seconds_of("t", "s")
    source.block_size(WEKA_BLOCK)
    for index, talk in enumerate(_talks(source)):
        session = str(talk.get("id", index))
        for one in _talk(source, session, session, talk.get("requests"), 0):
            yield msgspec.structs.replace(one, at_s=one.at_s * tick_s)


def _talks(source: Source) -> Iterator[dict[str, Any]]:
    """Conversations one a line, or all in one list."""
    with source.path.open("rb") as file:
        listed = file.read(64).lstrip()[:1] == b"["
    if not listed:
        yield from (row for _, row in source.json_lines())
        return
    for talk in source.whole():
        if not isinstance(talk, dict):
            raise source.fault("holds a conversation that is no object")
        yield talk


def _talk(source: Source, session: str, name: str, rows: object, depth: int) -> Iterator[TraceRequest]:
    """Times are as the file has them."""
    if not isinstance(rows, list) or depth > DEEP:
        raise source.fault(f"conversation {session!r} holds no list of requests")
    before = ""
    for turn, row in enumerate(rows):
        if not isinstance(row, dict):
            raise source.fault(f"conversation {session!r} holds a request that is no object")
        if "requests" in row:
            yield from _talk(source, session, f"{name}.{turn}", row["requests"], depth + 1)
            continue
        source.drop(row.keys() - {"t", "type", "in", "out", "hash_ids"})
        request = TraceRequest(
            id=f"{name}.{turn}",
            at_s=source.number(row.get("t"), "t", 0),
            session=session,
            turn=turn,
            parent=before,
            prompt_tokens=source.count(row.get("in"), "in", 0),
            output_tokens=source.count(row.get("out"), "out", 0),
            blocks=source.hashes(row.get("hash_ids"), "hash_ids", 0),
        )
        yield request
        before = request.id
