"""Refusals in the shape that each path's clients parse."""

import msgspec
import pytest

from service.core.dialects import DIALECTS
from service.edges.refusals import refusal_body, refusal_headers


def test_a_dialect_speaks_for_its_own_path() -> None:
    dialect = DIALECTS[b"/v1/chat/completions"]
    body = refusal_body(dialect.path, dialect, 503, "streams_full", "too many streams")
    assert body == dialect.refusal(503, "streams_full", "too many streams")


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (400, "invalid_request_error"),
        (413, "request_too_large"),
        (503, "overloaded_error"),
        (502, "api_error"),
    ],
)
def test_messages_get_anthropics_shape(status: int, kind: str) -> None:
    told = msgspec.json.decode(refusal_body(b"/v1/messages", None, status, "r", "words"))
    assert told == {"type": "error", "error": {"type": kind, "message": "words"}}


@pytest.mark.parametrize(("status", "kind"), [(404, "invalid_request_error"), (502, "server_error")])
def test_other_paths_get_openais_shape(status: int, kind: str) -> None:
    told = msgspec.json.decode(refusal_body(b"/v1/models", None, status, "reason", "words"))
    assert told == {"error": {"message": "words", "type": kind, "code": "reason"}}


def test_the_headers_frame_the_body_and_name_a_time_to_wait() -> None:
    assert dict(refusal_headers(b"{}", 1)) == {
        b"content-type": b"application/json",
        b"content-length": b"2",
        b"retry-after": b"1",
    }
    assert b"retry-after" not in dict(refusal_headers(b"{}"))
