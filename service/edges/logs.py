"""Logs: one JSON object a line on stderr, from the edges alone, and only keys on a list.

A log must never carry a prompt, an answer or a credential, and the surest way to that is to let nothing
through that was not thought of: unknown keys are dropped, values are bounded, an exception is its type and
the place it came from but never its message (a decoder's message quotes what it could not decode). Records
of other libraries keep their level, their logger and the first line of their template, without arguments.
"""

import logging
import sys
from collections.abc import MutableMapping
from datetime import UTC, datetime
from pathlib import Path
from traceback import extract_tb
from types import TracebackType
from typing import Any, Final, TextIO

import msgspec
import structlog

KEYS: Final = frozenset(
    {
        "admin", "attempt", "data", "detector", "drain_s", "error", "event", "guilty", "host", "id", "key",
        "level", "logger", "outcome", "path", "peer", "pid", "policy", "port", "reason", "rid", "route",
        "router", "rules", "seconds", "settings", "signal", "status", "store", "streams", "task", "url",
        "verdict", "version", "where", "worker", "workers",
    }
)  # fmt: skip
VALUE_CHARS: Final = 200
FRAMES: Final = 4
"""The innermost frames of an exception; enough to find the line."""

Event = MutableMapping[str, Any]


def configure(level: str = "info", stream: TextIO | None = None) -> None:
    """Set up both structlog and the standard library's logging, once, at the composition root."""
    out = stream or sys.stderr
    number = logging.getLevelNamesMapping()[level.upper()]
    structlog.configure(
        processors=[structlog.processors.add_log_level, render],
        wrapper_class=structlog.make_filtering_bound_logger(number),
        logger_factory=structlog.WriteLoggerFactory(out),
        cache_logger_on_first_use=False,
    )
    handler = logging.StreamHandler(out)
    handler.setFormatter(_Foreign())
    logging.basicConfig(handlers=[handler], level=max(number, logging.WARNING), force=True)


def render(_: Any, __: str, event: Event) -> str:  # noqa: ANN401 - structlog's own logger
    """The last processor: stamp, keep what is on the list, one line."""
    cause = event.pop("exc_info", None)
    line = {"at": _stamp(), **{key: _bounded(value) for key, value in event.items() if key in KEYS}}
    return msgspec.json.encode(line | _cause(cause)).decode()


class _Foreign(logging.Formatter):
    """Records of other libraries, in the same shape and under the same rule."""

    def format(self, record: logging.LogRecord) -> str:
        template = str(record.msg).partition("\n")[0]
        line = {
            "at": _stamp(),
            "level": record.levelname.lower(),
            "logger": record.name,
            "event": template[:VALUE_CHARS],
        }
        return msgspec.json.encode(line | _cause(record.exc_info)).decode()


def _stamp() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds")


def _bounded(value: object) -> object:
    if isinstance(value, bool | int | float) or value is None:
        return value
    return str(value)[:VALUE_CHARS].encode("utf-8", "replace").decode()


def _cause(cause: object) -> dict[str, object]:
    """An exception's type and place; its message may quote what a client sent."""
    if cause is True:
        cause = sys.exc_info()
    if isinstance(cause, tuple):
        cause = cause[1]
    if not isinstance(cause, BaseException):
        return {}
    return {"error": type(cause).__name__, "where": _places(cause.__traceback__)}


def _places(trace: TracebackType | None) -> list[str]:
    frames = extract_tb(trace)[-FRAMES:]
    return [f"{Path(frame.filename).name}:{frame.lineno} {frame.name}" for frame in frames]
