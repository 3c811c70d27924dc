"""`/v1/completions` as SGLang 0.5.23 writes it: a chunk for each step, its keys, its usage."""

import json

from replay.lab.completions_wire import CompletionsWire
from replay.lab.scheduler import RUNNING_ABORT, Cached
from replay.lab.tokenizer import EOS, PAD
from tests.replay.lab.wirekit import ANSWER, WORDS, generation, spoken


def test_a_completion_has_a_chunk_for_each_step_and_null_usage() -> None:
    made = generation()
    got = [data for _, data in spoken(made, CompletionsWire(made), *ANSWER)]
    assert len(got) == 3
    assert list(got[0]) == ["id", "object", "created", "model", "choices", "usage"]
    assert list(got[0]["choices"][0]) == ["index", "text", "logprobs", "finish_reason", "matched_stop"]
    assert got[0]["usage"] is None
    assert "".join(data["choices"][0]["text"] for data in got) == made.text
    assert (got[-1]["choices"][0]["finish_reason"], got[-1]["choices"][0]["matched_stop"]) == ("stop", EOS)


def test_a_completions_growth_and_tokens_tell_each_step() -> None:
    made = generation(continuous_usage=True, include_usage=True, token_ids=True)
    got = [data for _, data in spoken(made, CompletionsWire(made), *ANSWER)]
    assert [data["usage"]["completion_tokens"] for data in got] == [1, 4, 7, 7]
    assert [len(data["choices"][0]["token_ids"]) for data in got[:-1]] == [1, 3, 3]
    assert got[0]["choices"][0]["prompt_token_ids"] == [1, 2, 3]
    assert got[-1]["choices"] == []
    assert None not in got[-1]["usage"].values()


def test_a_completion_without_text_is_seen() -> None:
    made = generation(max_new_tokens=6)
    got = spoken(made, CompletionsWire(made), WORDS[:1], [PAD] * 5)
    assert [data["choices"][0]["text"] for _, data in got] == [made.text, ""]


def test_what_the_cache_held_is_told_where_it_was_asked_for() -> None:
    made = generation(cached_details=True, spec_details=True, include_usage=True)
    made.cached = Cached(device=2, host=1)
    *_, (_, extension), (_, usage) = spoken(made, CompletionsWire(made), *ANSWER)
    assert extension["sglext"]["cached_tokens_details"] == {"device": 2, "host": 1}
    assert extension["sglext"]["spec_tokens_details"]["spec_verify_ct"] == 2
    assert usage["usage"]["prompt_tokens_details"] == {"cached_tokens": 3}


def test_a_whole_completion_echoes_its_prompt() -> None:
    made = generation(stream=False, echo="list: ")
    made.say(WORDS[:3])
    made.end(RUNNING_ABORT)
    status, raw = CompletionsWire(made).whole()
    told = json.loads(raw)
    assert status == 200
    assert list(told) == ["id", "object", "created", "model", "choices", "usage", "metadata"]
    assert told["choices"][0]["text"] == f"list: {made.text}"
    assert told["choices"][0]["finish_reason"] == "abort"
