"""A log line holds what is on the list and nothing that a client, an engine or a library let slip."""

import io
import json
import logging
from collections.abc import Iterator
from typing import Any

import pytest
import structlog

from service.edges.logs import VALUE_CHARS, configure

CANARY = "Jane Doe 12345678"


@pytest.fixture
def out() -> Iterator[io.StringIO]:
    stream = io.StringIO()
    handlers, level = logging.root.handlers[:], logging.root.level
    server = logging.getLogger("uvicorn")  # a server of another test may have given it handlers of its own
    kept, propagated = server.handlers[:], server.propagate
    server.handlers[:], server.propagate = [], True
    configure("info", stream)
    yield stream
    logging.root.handlers[:] = handlers
    logging.root.setLevel(level)
    server.handlers[:], server.propagate = kept, propagated
    structlog.reset_defaults()


def lines(out: io.StringIO) -> list[dict[str, Any]]:
    return [json.loads(line) for line in out.getvalue().splitlines()]


def decode() -> None:
    raise ValueError(f"cannot decode {CANARY!r}")


def failure() -> ValueError:
    with pytest.raises(ValueError, match="cannot decode") as caught:
        decode()
    return caught.value


def test_a_line_is_json_with_a_utc_stamp_and_a_level(out: io.StringIO) -> None:
    structlog.get_logger("x").info("listening", port=8400)
    (line,) = lines(out)
    assert (line["event"], line["level"], line["port"]) == ("listening", "info", 8400)
    assert line["at"].endswith("+00:00")


def test_a_key_that_is_not_on_the_list_is_dropped(out: io.StringIO) -> None:
    structlog.get_logger("x").info("seen", rid="r1", prompt=CANARY, text=CANARY, body=CANARY, headers=CANARY)
    assert CANARY not in out.getvalue()
    assert lines(out)[0]["rid"] == "r1"


def test_a_value_is_bounded_and_valid(out: io.StringIO) -> None:
    structlog.get_logger("x").info("seen", path="x" * 10_000, worker="\ud800", status=200)
    (line,) = lines(out)
    assert len(line["path"]) == VALUE_CHARS
    assert line["worker"] == "?"


@pytest.mark.parametrize("as_tuple", [True, False])
def test_an_exception_is_its_type_and_place_never_its_message(out: io.StringIO, as_tuple: bool) -> None:
    error = failure()
    cause = (type(error), error, error.__traceback__) if as_tuple else error
    structlog.get_logger("x").error("request_crashed", exc_info=cause)
    (line,) = lines(out)
    assert line["error"] == "ValueError"
    assert line["where"][-1].startswith("test_logs.py:")
    assert CANARY not in out.getvalue()


def test_other_libraries_keep_level_logger_and_template(out: io.StringIO) -> None:
    log = logging.getLogger("asyncio")
    log.error("Task exception was never retrieved\nfuture: %s", CANARY, exc_info=failure())
    log.error(f"Task exception was never retrieved\nfuture: <Task {CANARY}>")  # noqa: G004 - as asyncio does
    logging.getLogger("uvicorn.error").warning("Invalid HTTP request received: %s", CANARY)
    logging.getLogger("httpx").info("HTTP Request: %s", CANARY)
    assert CANARY not in out.getvalue()
    assert [line["event"] for line in lines(out)] == [
        "Task exception was never retrieved",
        "Task exception was never retrieved",
        "Invalid HTTP request received: %s",
    ]


def test_the_level_is_kept(out: io.StringIO) -> None:
    structlog.get_logger("x").debug("detail")
    assert out.getvalue() == ""


def test_the_current_exception_is_found(out: io.StringIO) -> None:
    try:
        decode()
    except ValueError:
        structlog.get_logger("x").exception("failed")
    assert lines(out)[0]["error"] == "ValueError"
    assert CANARY not in out.getvalue()
