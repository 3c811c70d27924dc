"""What we say when we refuse: a status, a reason for the metric label, and words that help the reader.

The body has the shape that the path's own SDKs parse. It names no host, no file and nothing of the request.
"""

from typing import Any, Final

import msgspec

from service.core.dialects.protocol import Dialect
from service.core.events import UNKNOWN, Guilty
from service.edges.headers import Headers

ANTHROPIC: Final = b"/v1/messages"
ANTHROPIC_TYPES: Final = {
    400: "invalid_request_error",
    404: "not_found_error",
    413: "request_too_large",
    503: "overloaded_error",
}
RETRY_AFTER_S: Final = 1
"""For a 503 of our own making: short, because what causes it passes quickly or not at all."""


class RefusedError(Exception):
    """A request that goes no further; `guilty` says whose doing that is."""

    def __init__(
        self, status: int, reason: str, message: str, guilty: Guilty, headers: Headers | None = None
    ) -> None:
        super().__init__(message)
        self.status = status
        self.reason = reason
        self.message = message
        self.guilty = guilty
        self.headers = headers or []


def refusal_body(path: bytes, dialect: Dialect | None, status: int, reason: str, message: str) -> bytes:
    """The error as this path's clients read errors."""
    if dialect is not None:
        return dialect.refusal(status, reason, message)
    if path.startswith(ANTHROPIC):
        kind = ANTHROPIC_TYPES.get(status, "api_error")
        return _json({"type": "error", "error": {"type": kind, "message": message}})
    kind = "invalid_request_error" if status < 500 else "server_error"  # noqa: PLR2004 - HTTP's own line
    return _json({"error": {"message": message, "type": kind, "code": reason}})


def refusal_headers(body: bytes, retry_after_s: int = UNKNOWN) -> Headers:
    headers = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(body))]
    if retry_after_s != UNKNOWN:
        headers.append((b"retry-after", b"%d" % retry_after_s))
    return headers


def _json(value: dict[str, Any]) -> bytes:
    return msgspec.json.encode(value)
