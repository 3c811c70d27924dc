"""Mooncake's trace, and the dialects of it that aiperf, guidellm and Dynamo write and read.

    {"timestamp": 27482, "input_length": 6955, "output_length": 52, "hash_ids": [46, 47, ...]}

Timestamps are milliseconds in Mooncake's own files and in aiperf's; guidellm reads the same column as
seconds, and nothing in a file says which. Hashes stand for 512 tokens there, for 16 or 64 elsewhere. A file
whose rate or whose lengths do not fit is not guessed at: its user is asked.

Rows of one session are either the new messages alone (aiperf) or the whole history each time (Dynamo); a row
that starts as the one before it tells. New messages are put behind those before; the answers in between are
the fleet's and are not in the file.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final

from replay.importers.source import Question, Source
from replay.trace import TraceRequest

BLOCK_TOKENS: Final = 512
BLOCKS_KNOWN: Final = (16, 32, 64, 128, 256, 512, 1024)
RATE_MAX: Final = 1000.0
"""Requests a second that no published trace comes near: seconds read as milliseconds do."""
RATE_MIN: Final = 0.001
ROWS_MIN: Final = 20
"""Rows under which a rate says nothing."""
FIT_MIN: Final = 0.99
KNOWN: Final = frozenset(
    {
        "timestamp", "input_length", "output_length", "hash_ids", "session_id", "delay", "text_input",
        "messages", "tools", "payload", "extra", "id", "max_tokens",
    }
)  # fmt: skip
SHAPES: Final = ("payload", "messages", "text_input", "input_length")


def fits(head: str) -> bool:
    first = head.lstrip().partition("\n")[0]
    return '"timestamp"' in first and any(f'"{shape}"' in first for shape in SHAPES)


def read(source: Source) -> Iterator[TraceRequest]:
    """Requests as they stand; raises Question at the end of a file that can be read in two ways."""
    tick_s = source.seconds_of("timestamp", "ms")
    seen = _Seen(source.block_size(BLOCK_TOKENS))
    for index, (line, row) in enumerate(source.json_lines()):
        source.drop(row.keys() - KNOWN)
        if "timestamp" not in row and "delay" not in row:
            raise source.fault("has neither timestamp nor delay", line)
        session = str(row.get("session_id", ""))
        ticks = source.number(row.get("timestamp", row.get("delay")), "timestamp", line)
        at_s = ticks * tick_s
        if "timestamp" not in row:
            at_s += seen.last_s.get(session, 0.0)
            source.tally.note("rows with a delay come that long after the session's row before")
        request = _request(source, seen, row, line, str(row.get("id", index)), session, at_s)
        seen.add(request, ticks)
        yield request
    _ask(source, seen)


@dataclass(slots=True)
class _Seen:
    """What the rows so far say of units and blocks."""

    block_tokens: int
    rows: int = 0
    first_s: float = float("inf")
    newest_s: float = 0.0
    broken: bool = False  # a timestamp with a fraction
    hashed: int = 0
    fit: dict[int, int] = field(default_factory=lambda: dict.fromkeys(BLOCKS_KNOWN, 0))
    last_s: dict[str, float] = field(default_factory=dict)
    turns: dict[str, int] = field(default_factory=dict)
    newest: dict[str, str] = field(default_factory=dict)  # session -> id
    said: dict[str, list[Any]] = field(default_factory=dict)  # session -> messages

    def add(self, request: TraceRequest, ticks: float) -> None:
        self.rows += 1
        self.first_s, self.newest_s = min(self.first_s, request.at_s), max(self.newest_s, request.at_s)
        self.broken = self.broken or ticks != int(ticks)
        if request.session:
            self.last_s[request.session] = request.at_s
            self.turns[request.session] = request.turn + 1
            self.newest[request.session] = request.id
        if request.blocks and request.prompt_tokens is not None:
            self.hashed += 1
            for size in {*BLOCKS_KNOWN, self.block_tokens}:
                self.fit[size] = self.fit.get(size, 0) + (
                    -(-request.prompt_tokens // size) == len(request.blocks)
                )


def _request(
    source: Source, seen: _Seen, row: dict[str, Any], line: int, name: str, session: str, at_s: float
) -> TraceRequest:
    if not any(shape in row for shape in SHAPES):
        raise source.fault("has none of input_length, text_input, messages and payload", line)
    length, wanted = row.get("input_length"), row.get("output_length", row.get("max_tokens"))
    turn = seen.turns.get(session, 0)
    return TraceRequest(
        id=name,
        at_s=at_s,
        session=session,
        turn=turn if session else 0,
        parent=seen.newest.get(session, "") if session and "timestamp" not in row else "",
        prompt_tokens=None if length is None else source.count(length, "input_length", line),
        output_tokens=None if wanted is None else source.count(wanted, "output_length", line),
        blocks=source.hashes(row.get("hash_ids"), "hash_ids", line),
        body=_body(source, seen, row, session, line),
    )


def _body(source: Source, seen: _Seen, row: dict[str, Any], session: str, line: int) -> dict[str, Any] | None:
    if isinstance(row.get("payload"), dict):
        return dict(row["payload"])
    extra = row.get("extra") or {}
    if not isinstance(extra, dict):
        raise source.fault("extra must be an object", line)
    if "messages" in row:
        if not isinstance(row["messages"], list):
            raise source.fault("messages must be a list", line)
        tools = {"tools": row["tools"]} if row.get("tools") else {}
        return {"messages": _history(source, seen, session, row["messages"]), **tools, **extra}
    if "text_input" in row:
        if not isinstance(row["text_input"], str):
            raise source.fault("text_input must be text", line)
        return {"messages": [{"role": "user", "content": row["text_input"]}], **extra}
    return None


def _history(source: Source, seen: _Seen, session: str, messages: list[Any]) -> list[Any]:
    before = seen.said.get(session, []) if session else []
    whole = messages[: len(before)] == before
    if before and (source.session_rows == "delta" or (source.session_rows == "auto" and not whole)):
        source.tally.note(
            "rows hold new messages alone: put behind their session's, without the answers between"
        )
        messages = [*before, *messages]
    if session:
        seen.said[session] = messages
    return messages


def _ask(source: Source, seen: _Seen) -> None:
    span_s = seen.newest_s - seen.first_s
    if source.unit is None and seen.rows >= ROWS_MIN and span_s > 0:
        rate = seen.rows / span_s
        if rate > RATE_MAX or seen.broken:
            raise Question(
                f"{source.name}: read as milliseconds, {seen.rows} requests come in {span_s:.3f} s"
                f"{', with fractions' if seen.broken else ''}. If the column holds seconds say --unit s,"
                " if it holds milliseconds --unit ms"
            )
        if rate < RATE_MIN:
            raise Question(
                f"{source.name}: read as milliseconds, {seen.rows} requests take {span_s:.0f} s. If the"
                " column is finer say --unit us or --unit ns, if it holds milliseconds --unit ms"
            )
    if source.block_tokens is None and seen.hashed and seen.fit[seen.block_tokens] < FIT_MIN * seen.hashed:
        better = [size for size in BLOCKS_KNOWN if seen.fit[size] >= FIT_MIN * seen.hashed]
        hint = f"; they fit blocks of {better[0]}" if better else "; no common size fits them"
        raise Question(
            f"{source.name}: hash_ids do not fit input_length with blocks of {seen.block_tokens} tokens"
            f"{hint}. Say --block-tokens {better[0] if better else 'N'}"
        )
