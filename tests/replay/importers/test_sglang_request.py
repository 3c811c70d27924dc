"""What SGLang notes of a request."""

from pathlib import Path
from typing import Any

import pytest

from replay.importers.sglang_request import request_of
from replay.importers.source import Source
from replay.trace import TraceRequest


def _of(asked: dict[str, Any], **meta: object) -> TraceRequest:
    made = request_of(Source(Path("given")), {"rid": "r", "text": "hi"} | asked, meta, 1.0, "answer")
    assert made is not None
    return made


def test_text_goes_before_the_ids_it_was_made_of() -> None:
    assert _of({"input_ids": [1]}).body == {"text": "hi", "sampling_params": {}}
    assert _of({"input_ids": [1], "text": None}).body == {"input_ids": [1], "sampling_params": {}}


@pytest.mark.parametrize("count", [True, -1, "7", None, 2.5])
def test_a_count_that_is_none_is_not_kept(count: object) -> None:
    assert _of({}, prompt_tokens=count).prompt_tokens is None


def test_a_batch_is_no_single_request_and_is_tallied() -> None:
    source = Source(Path("given"))
    assert request_of(source, {"rid": ["a", "b"], "text": ["x", "y"]}, {}, 0.0, None) is None
    assert source.tally.skipped == {"a batch: its rid is a list": 1}
