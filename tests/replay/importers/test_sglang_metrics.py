"""SGLang's exported request metrics."""

import json

import pytest

from replay.importers import SourceError
from tests.replay.importers.conftest import Importing


def _line(rid: str, **more: object) -> str:
    asked = {"rid": rid, "text": "hello", "sampling_params": {"max_new_tokens": 4}}
    return json.dumps({"request_parameters": json.dumps(asked), "id": rid, "prompt_tokens": 2, **more}) + "\n"


def test_times_are_kept_where_the_engine_measured_them(importing: Importing) -> None:
    read = importing(
        "sglang-metrics", _line("a", request_received_ts=10.5) + _line("b", request_received_ts=12.0)
    )
    assert [(one.id, one.at_s) for one in read.requests] == [("a", 0.0), ("b", 1.5)]
    assert read[0].body == {"text": "hello", "sampling_params": {"max_new_tokens": 4}}


def test_without_times_the_plan_makes_them(importing: Importing) -> None:
    assert "no arrival times: the plan makes them" in importing("sglang-metrics", _line("a")).header.notes


def test_a_mixture_is_refused(importing: Importing) -> None:
    with pytest.raises(SourceError, match="given:2: has lines with request_received_ts and lines without"):
        importing("sglang-metrics", _line("a", request_received_ts=1.0) + _line("b"))


def test_health_checks_are_no_requests(importing: Importing) -> None:
    read = importing("sglang-metrics", _line("HEALTH_CHECK_1") + _line("a"))
    assert ([one.id for one in read.requests], read.imported.skipped) == (["a"], {"a health check": 1})
