"""OpenTelemetry's gen_ai spans: a trace as a collector exports it, or one of the simpler files of spans.

    {"trace_id", "spans": [{"span_id", "parent_span_id", "start_time", "end_time", "attributes": {...}}]}
    {"resourceSpans": [{"scopeSpans": [{"spans": [{"spanId", "startTimeUnixNano", "attributes": [...]}]}]}]}

A span that asked a model is a request; spans around it (agents, tools) are not, and a request whose time
starts after another of its trace has ended waited for it. Conversations are sessions.
"""

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from replay.importers.source import Source
from replay.trace import TraceRequest

ASKS: Final = frozenset({"chat", "text_completion", "generate_content", "completion"})
SESSIONS: Final = ("gen_ai.conversation.id", "session.id", "exgentic.session.id")
SAMPLING: Final = {
    "gen_ai.request.max_tokens": "max_tokens",
    "gen_ai.request.temperature": "temperature",
    "gen_ai.request.top_p": "top_p",
    "gen_ai.request.seed": "seed",
    "gen_ai.request.model": "model",
}
IN_TOKENS: Final = ("gen_ai.usage.input_tokens", "gen_ai.usage.prompt_tokens")
OUT_TOKENS: Final = ("gen_ai.usage.output_tokens", "gen_ai.usage.completion_tokens")
INPUTS: Final = ("gen_ai.input.messages", "gen_ai.prompt", "gen_ai.request.messages")
OUTPUTS: Final = ("gen_ai.output.text", "gen_ai.completion", "gen_ai.output.messages")
CACHED: Final = ("gen_ai.usage.cache_read.input_tokens", "gen_ai.usage.cached_tokens")
READ: Final = frozenset({*SESSIONS, *SAMPLING, *IN_TOKENS, *OUT_TOKENS, *INPUTS, *OUTPUTS, *CACHED})


@dataclass(frozen=True, slots=True)
class _Span:
    trace: str
    name: str
    parent: str
    start_s: float
    end_s: float
    told: dict[str, Any]


def fits(head: str) -> bool:
    return ('"spans"' in head or '"resourceSpans"' in head) and "{" in head[:64]


def read(source: Source) -> Iterator[TraceRequest]:
    source.tally.units["start_time"] = "date and time or ns"
    asked: dict[str, list[_Span]] = {}
    for value in _documents(source):
        for span in _spans(source, value):
            if (
                str(span.told.get("gen_ai.operation.name", "chat")) in ASKS
                and _first(span.told, INPUTS) is not None
            ):
                asked.setdefault(span.trace, []).append(span)
            else:
                source.tally.skipped["a span that asks no model"] += 1
    for trace, spans in asked.items():
        yield from _requests(source, trace, sorted(spans, key=lambda span: (span.start_s, span.name)))


def _documents(source: Source) -> Iterator[dict[str, Any]]:
    """One JSON value, or one a line as a collector's file exporter writes them."""
    try:
        value = source.whole()
    except ValueError:
        yield from (row for _, row in source.json_lines())
        return
    for one in value if isinstance(value, list) else [value]:
        if isinstance(one, dict):
            yield one


def _spans(source: Source, value: dict[str, Any]) -> Iterator[_Span]:
    for row in source.objects(value.get("spans"), "spans"):
        yield _span(source, row, str(value.get("trace_id", "")))
    for resource in source.objects(value.get("resourceSpans"), "resourceSpans"):
        for scope in source.objects(resource.get("scopeSpans"), "scopeSpans"):
            for row in source.objects(scope.get("spans"), "spans"):
                yield _span(source, row, "")


def _span(source: Source, row: dict[str, Any], trace: str) -> _Span:
    told = row.get("attributes") or {}
    if isinstance(told, list):
        told = {str(one.get("key")): _any_value(one.get("value")) for one in told if isinstance(one, dict)}
    if not isinstance(told, dict):
        raise source.fault("the attributes of a span must be an object or a list")
    source.drop(told.keys() - READ)
    return _Span(
        trace=str(row.get("trace_id") or row.get("traceId") or trace),
        name=str(row.get("span_id") or row.get("spanId")),
        parent=str(row.get("parent_span_id") or row.get("parentSpanId") or ""),
        start_s=_time(source, row, "start_time", "startTimeUnixNano"),
        end_s=_time(source, row, "end_time", "endTimeUnixNano"),
        told=told,
    )


def _any_value(value: Any) -> Any:  # noqa: ANN401 - OTLP's AnyValue
    found = next(iter(value.values()), None) if isinstance(value, dict) else value
    if isinstance(found, dict) and isinstance(found.get("values"), list):
        return [_any_value(one) for one in found["values"]]
    return found


def _time(source: Source, row: dict[str, Any], plain: str, nano: str) -> float:
    if nano in row:
        return source.number(row[nano], nano, 0) * 1e-9
    return source.moment(row.get(plain), plain, 0)


def _requests(source: Source, trace: str, spans: list[_Span]) -> Iterator[TraceRequest]:
    for turn, span in enumerate(spans):
        ended = [one for one in spans[:turn] if one.end_s <= span.start_s]
        before = max(ended, key=lambda one: one.end_s, default=None)
        body: dict[str, Any] = {"messages": _messages(source, span)}
        body |= {key: span.told[name] for name, key in SAMPLING.items() if span.told.get(name) is not None}
        yield TraceRequest(
            id=f"{trace}/{span.name}",
            at_s=span.start_s,
            session=str(_first(span.told, SESSIONS) or trace),
            turn=turn,
            parent=f"{trace}/{before.name}" if before else "",
            prompt_tokens=_tokens(source, span, IN_TOKENS),
            output_tokens=_tokens(source, span, OUT_TOKENS),
            cached_tokens=_tokens(source, span, CACHED),
            body=body,
            expected=_answer(span),
        )


def _tokens(source: Source, span: _Span, names: tuple[str, ...]) -> int | None:
    found = _first(span.told, names)
    return None if found is None else source.count(found, names[0], 0)


def _first(told: dict[str, Any], names: tuple[str, ...]) -> Any:  # noqa: ANN401 - as it was read
    return next((told[name] for name in names if told.get(name) is not None), None)


def _messages(source: Source, span: _Span) -> list[dict[str, Any]]:
    told = _first(span.told, INPUTS)
    if isinstance(told, str):
        try:
            told = msgspec.json.decode(told)
        except msgspec.DecodeError:
            return [{"role": "user", "content": told}]
    if not isinstance(told, list) or not all(isinstance(one, dict) for one in told):
        raise source.fault(f"span {span.name!r}: its messages are no list of messages")
    return [{"role": one.get("role", "user"), "content": _content(one)} for one in told]


def _content(message: dict[str, Any]) -> Any:  # noqa: ANN401 - text, or parts
    parts = message.get("parts")
    if not isinstance(parts, list):
        return message.get("content", "")
    return "".join(str(part.get("content", "")) for part in parts if isinstance(part, dict))


def _answer(span: _Span) -> str | None:
    told: object = _first(span.told, OUTPUTS)
    if isinstance(told, str) and told.startswith("[{"):
        with suppress(msgspec.DecodeError):
            told = msgspec.json.decode(told)
    if isinstance(told, list):
        return "".join(str(_content(one)) for one in told if isinstance(one, dict))
    return told if isinstance(told, str) else None
