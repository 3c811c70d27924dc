"""SGLang's request log."""

import json

import pytest

from replay.importers import SourceError
from tests.replay.importers.conftest import Importing

OBJ = {
    "rid": "r1",
    "text": "hello",
    "input_ids": [1, 2],
    "sampling_params": {"max_new_tokens": 8, "temperature": None, "ignore_eos": True},
    "stream": True,
    "bootstrap_room": 77,
    "bootstrap_host": "10.0.0.1",
    "conversation_id": "talk",
}


def _line(event: str, second: str, **more: object) -> str:
    row = {"timestamp": f"2026-11-29T10:00:{second}", "event": event, **more}
    return f"[2026-11-29 10:00:{second}] {json.dumps(row)}\n"


def _finished(second: str, rid: str = "r1", **meta: object) -> str:
    out = {
        "text": "bye",
        "meta_info": {"prompt_tokens": 2, "completion_tokens": 3, "cached_tokens": 1, **meta},
    }
    return _line("request.finished", second, rid=rid, obj={**OBJ, "rid": rid}, out=out)


def _received(second: str, rid: str = "r1") -> str:
    return _line("request.received", second, rid=rid, obj={**OBJ, "rid": rid})


def test_a_request_is_told_by_its_start_and_its_end(importing: Importing) -> None:
    text = (
        _received("01")
        + "Decode batch, #running-req: 1\n"
        + _received("02", "r2")
        + _finished("05")
        + _finished("06", "r2")
    )
    read = importing("sglang-log", text)
    assert [(one.id, one.at_s) for one in read.requests] == [("r1", 0.0), ("r2", 1.0)]
    one = read[0]
    assert (one.path, one.session, one.expected) == ("/generate", "talk", "bye")
    assert (one.prompt_tokens, one.output_tokens, one.cached_tokens) == (2, 3, 1)
    assert read.imported.skipped == {"a line of another logger": 1}


def test_what_only_that_process_could_use_is_not_resent(importing: Importing) -> None:
    read = importing("sglang-log", _received("01") + _finished("05"))
    assert read[0].body == {"text": "hello", "stream": True, "sampling_params": {"max_new_tokens": 8}}
    assert {"bootstrap_room", "bootstrap_host"} <= read.imported.dropped.keys()
    assert any("ignore_eos" in note for note in read.imported.notes)


def test_an_end_without_a_start_is_dated_by_its_own_latency(importing: Importing) -> None:
    read = importing("sglang-log", _finished("05", e2e_latency=3.0) + _finished("06", "r2", e2e_latency=2.5))
    assert [one.at_s for one in read.requests] == [0.0, 1.5]


def test_a_client_that_left_is_remembered_with_when(importing: Importing) -> None:
    read = importing("sglang-log", _finished("05", e2e_latency=3.0, finish_reason={"type": "abort"}))
    assert (read[0].abort_after_s, read[0].expected) == (3.0, None)


def test_a_request_that_never_ended_is_kept_without_an_answer(importing: Importing) -> None:
    read = importing("sglang-log", _received("01"))
    assert (read[0].id, read[0].expected) == ("r1", None)


def test_a_log_without_prompts_says_which_level_has_them(importing: Importing) -> None:
    text = _line("request.finished", "05", rid="r1", obj={"rid": "r1"}, out={"meta_info": {}})
    with pytest.raises(
        SourceError, match=r"holds no request: 1 x its prompt was not logged \(level 3 logs it\)"
    ):
        importing("sglang-log", text)


def test_a_log_cut_in_a_line_says_so(importing: Importing) -> None:
    with pytest.raises(SourceError, match="given:2: is cut off"):
        importing("sglang-log", _received("01") + _finished("05")[:-30])
