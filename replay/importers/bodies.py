"""Files of requests as they are sent: OpenAI's batches, bodies a line or timed, ShareGPT's conversations.

    {"custom_id": "1", "method": "POST", "url": "/v1/chat/completions", "body": {...}}       OpenAI batch
    {"messages": [...], "max_tokens": 100}                                                   a body a line
    {"timestamp": 1.5, "body": {...}, "request_id": "...", "completion_tokens": 80}          timed bodies
    [{"id": "1", "conversations": [{"from": "human", "value": "..."}, {"from": "gpt", ...}]}]       ShareGPT
    {"data": [{"session_id": "1", "payloads": [{...}, ...]}]}                             aiperf's inputs.json

All but the timed bodies say nothing of arrivals: a plan makes them.
"""

from collections.abc import Iterator
from typing import Any, Final

import msgspec

from replay.importers.source import Source
from replay.trace import TraceRequest

ROLES: Final = {
    "human": "user",
    "user": "user",
    "gpt": "assistant",
    "assistant": "assistant",
    "system": "system",
}
PATHS: Final = {"messages": "/v1/chat/completions", "prompt": "/v1/completions", "text": "/generate"}
NEVER: Final = frozenset({"user", "metadata", "store", "safety_identifier"})
"""Whom a request is for is nothing to replay."""
UNTIMED: Final = "no arrival times: the plan makes them"


def fits_batch(head: str) -> bool:
    first = head.lstrip().partition("\n")[0]
    return '"custom_id"' in first and '"body"' in first


def fits_timed(head: str) -> bool:
    first = head.lstrip().partition("\n")[0]
    return '"timestamp"' in first and '"body"' in first


def fits_bodies(head: str) -> bool:
    first = head.lstrip().partition("\n")[0]
    return first.startswith("{") and any(f'"{key}"' in first for key in PATHS) and '"timestamp"' not in first


def fits_sharegpt(head: str) -> bool:
    return head.lstrip()[:1] == "[" and '"conversations"' in head


def fits_inputs(head: str) -> bool:
    return head.lstrip()[:1] == "{" and '"payloads"' in head and '"data"' in head


def read_batch(source: Source) -> Iterator[TraceRequest]:
    _untimed(source)
    for line, row in source.json_lines():
        if row.get("method", "POST") != "POST":
            source.tally.skipped["is no POST"] += 1
            continue
        body = row.get("body")
        if not isinstance(body, dict):
            raise source.fault("has no body", line)
        source.drop(row.keys() - {"custom_id", "method", "url", "body"})
        yield _request(source, str(row.get("custom_id", line)), 0.0, body, path=str(row.get("url", "")))


def read_bodies(source: Source) -> Iterator[TraceRequest]:
    _untimed(source)
    for line, row in source.json_lines():
        yield _request(source, str(line), 0.0, row)


def read_timed(source: Source) -> Iterator[TraceRequest]:
    for line, row in source.json_lines():
        source.drop(row.keys() - {"timestamp", "body", "request_id", "completion_tokens"})
        body = row.get("body")
        if isinstance(body, str):
            body = source.parsed(body + "\n", line)
        if not isinstance(body, dict):
            raise source.fault("has no body", line)
        tokens = row.get("completion_tokens")
        yield _request(
            source,
            str(row.get("request_id") or line),
            _when(source, row.get("timestamp"), line),
            body,
            output_tokens=None if tokens is None else source.count(tokens, "completion_tokens", line),
        )


def read_sharegpt(source: Source) -> Iterator[TraceRequest]:
    _untimed(source)
    listed = source.whole()
    for index, talk in enumerate(listed if isinstance(listed, list) else ()):
        turns = talk.get("conversations") if isinstance(talk, dict) else None
        if not isinstance(turns, list):
            raise source.fault(f"conversation {index} holds no list of turns")
        session = str(talk.get("id", index))
        yield from _turns(source, f"{index}", session, turns)


def read_inputs(source: Source) -> Iterator[TraceRequest]:
    _untimed(source)
    value = source.whole()
    listed = value.get("data") if isinstance(value, dict) else None
    for index, talk in enumerate(listed if isinstance(listed, list) else ()):
        bodies = talk.get("payloads") if isinstance(talk, dict) else None
        if not isinstance(bodies, list) or not all(isinstance(body, dict) for body in bodies):
            raise source.fault(f"session {index} holds no list of payloads")
        session = str(talk.get("session_id", index))
        for turn, body in enumerate(bodies):
            request = _request(source, f"{index}.{turn}", 0.0, body)
            parent = f"{index}.{turn - 1}" if turn else ""
            yield msgspec.structs.replace(request, session=session, turn=turn, parent=parent)


def _turns(source: Source, name: str, session: str, turns: list[Any]) -> Iterator[TraceRequest]:
    """A request for each answer of a conversation, with all that was said before it."""
    said: list[dict[str, str]] = []
    count = 0
    for turn in turns:
        role = ROLES.get(str(turn.get("from", turn.get("role")))) if isinstance(turn, dict) else None
        if role is None:
            source.tally.skipped["a turn of nobody known"] += 1
            continue
        text = str(turn.get("value", turn.get("content", "")))
        if role == "assistant" and said:
            yield TraceRequest(
                id=f"{name}.{count}",
                at_s=0.0,
                session=session,
                turn=count,
                parent=f"{name}.{count - 1}" if count else "",
                body={"messages": [*said]},
                expected=text,
            )
            count += 1
        said.append({"role": role, "content": text})


def _untimed(source: Source) -> None:
    source.tally.timed = False
    source.tally.note(UNTIMED)


def _when(source: Source, value: Any, line: int) -> float:  # noqa: ANN401 - as it was read
    if isinstance(value, str):
        source.tally.units["timestamp"] = "date and time"
        return source.moment(value, "timestamp", line)
    return source.number(value, "timestamp", line) * source.seconds_of("timestamp", "s")


def _request(
    source: Source,
    name: str,
    at_s: float,
    body: dict[str, Any],
    *,
    path: str = "",
    output_tokens: int | None = None,
) -> TraceRequest:
    known = path or next((PATHS[key] for key in PATHS if key in body), "/v1/chat/completions")
    source.drop(NEVER & body.keys())
    kept = {key: value for key, value in body.items() if key not in NEVER}
    return TraceRequest(id=name, at_s=at_s, path=known, body=kept, output_tokens=output_tokens)
