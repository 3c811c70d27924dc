"""gen_ai spans of OpenTelemetry."""

import json
from typing import Any

import pytest

from replay.importers import SourceError
from tests.replay.importers.conftest import Importing


def _span(name: str, start: str, end: str, **told: object) -> dict[str, Any]:
    attributes = {
        "gen_ai.operation.name": "chat",
        "gen_ai.input.messages": '[{"role": "user", "content": "hi"}]',
    }
    return {
        "span_id": name,
        "parent_span_id": None,
        "start_time": f"2026-02-25T10:00:{start}",
        "end_time": f"2026-02-25T10:00:{end}",
        "attributes": attributes | {key.replace("_", "."): value for key, value in told.items()},
    }


def _file(*spans: dict[str, Any]) -> str:
    return json.dumps({"trace_id": "t", "spans": spans})


def test_a_span_that_started_after_another_ended_waited_for_it(importing: Importing) -> None:
    spans = _span("a", "00", "02"), _span("b", "00.5", "01"), _span("c", "02.5", "04")
    read = importing("otel", _file(*spans))
    assert [(one.id, one.at_s, one.parent) for one in read.requests] == [
        ("t/a", 0.0, ""),
        ("t/b", 0.5, ""),
        ("t/c", 2.5, "t/a"),
    ]


def test_sampling_answers_and_sessions_are_kept(importing: Importing) -> None:
    span = _span("a", "00", "02", session_id="s")
    span["attributes"] |= {
        "gen_ai.request.max_tokens": 50,
        "gen_ai.usage.input_tokens": 7,
        "gen_ai.output.messages": '[{"role": "assistant", "parts": [{"type": "text", "content": "yes"}]}]',
        "gen_ai.provider.name": "x",
    }
    read = importing("otel", _file(span))
    assert (read[0].session, read[0].prompt_tokens, read[0].expected) == ("s", 7, "yes")
    assert read[0].body == {"messages": [{"role": "user", "content": "hi"}], "max_tokens": 50}
    assert read.imported.dropped == {"gen_ai.provider.name": 1, "gen_ai.operation.name": 1}


def test_a_collectors_export_is_read_line_by_line(importing: Importing) -> None:
    def line(name: str, nano: str) -> str:
        told = [{"key": "gen_ai.input.messages", "value": {"stringValue": "hello"}}]
        span = {
            "traceId": "t",
            "spanId": name,
            "startTimeUnixNano": nano,
            "endTimeUnixNano": nano,
            "attributes": told,
        }
        return json.dumps({"resourceSpans": [{"scopeSpans": [{"spans": [span]}]}]}) + "\n"

    read = importing("otel", line("a", "1000000000") + line("b", "3000000000"))
    assert [one.at_s for one in read.requests] == [0.0, 2.0]
    assert read[0].body == {"messages": [{"role": "user", "content": "hello"}]}


def test_spans_around_requests_are_no_requests(importing: Importing) -> None:
    tool = _span("x", "00", "09")
    tool["attributes"] = {"gen_ai.operation.name": "execute_tool"}
    read = importing("otel", _file(tool, _span("a", "01", "02")))
    assert ([one.id for one in read.requests], read.imported.skipped) == (
        ["t/a"],
        {"a span that asks no model": 1},
    )


def test_messages_that_are_none_are_named_without_their_text(importing: Importing) -> None:
    span = _span("a", "00", "02")
    span["attributes"]["gen_ai.input.messages"] = '["secret"]'
    with pytest.raises(SourceError, match="span 'a': its messages are no list") as caught:
        importing("otel", _file(span))
    assert "secret" not in str(caught.value)
