"""Cases that operators reported, and what we say of each: the table in `rules/README.md`."""

import json
from typing import Any

import pytest

from service.core.events import Kind, Level
from service.core.recorded import Verdict, judge_capture, judge_text
from tests.service.core.detectors.texts import RULES, prose

SENTENCE = "\uff5cbegin\u2581of\u2581sentence\uff5c"
LINE = "the same line again and again\n"


def body(content: str, finish: str, prompt_tokens: int, tokens: int, arguments: str = "") -> bytes:
    """A whole response."""
    message: dict[str, Any] = {"role": "assistant", "content": content}
    if arguments:
        function = {"name": "run", "arguments": arguments}
        message["tool_calls"] = [{"index": 0, "id": "a", "type": "function", "function": function}]
    choice = {"index": 0, "message": message, "finish_reason": finish}
    usage = {"prompt_tokens": prompt_tokens, "completion_tokens": tokens}
    return json.dumps({"object": "chat.completion", "choices": [choice], "usage": usage}).encode()


def block(lines: int) -> str:
    return "".join(
        f"line {n} of the block says {chr(97 + n % 26) * 3} and {n * 7 % 13}\n" for n in range(lines)
    )


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("rulfepvosn/losuxa" * 7 + "rul", Kind.REPETITION),
        ("the function classes <|reserved_token_163672|> 义绩 гюлд return", Kind.GARBLED),
        (f"<{SENTENCE}>" * 12, Kind.REPETITION),
        ("!" * 64, Kind.REPETITION),
        (block(92) * 5, Kind.REPETITION),
    ],
)
def test_texts_that_operators_called_broken_are(text: str, kind: Kind) -> None:
    assert judge_text(text, RULES).kind is kind


@pytest.mark.parametrize(
    ("data", "prompt", "kind"),
    [
        (body("", "length", 10, 0), "", Kind.TRUNCATED),
        (body("unrelated text", "stop", 1, 2), "word " * 280_000, Kind.TRUNCATED),
        (body("", "tool_calls", 10, 20, '{"code":"pri{"code":"print(1)"}'), "", Kind.GARBLED),
        (b'data: {"choices":[{"index":0,"delta":{"content":"def f("}}]}\n\n', "", Kind.TRUNCATED),
    ],
)
def test_responses_that_operators_called_broken_are(data: bytes, prompt: str, kind: Kind) -> None:
    assert judge_capture(data, RULES, prompt=prompt).kind is kind


def test_a_draft_that_never_hits_beside_right_text_is_no_more_than_suspected() -> None:
    verdict = judge_text(prose(1, 60), RULES, steps=[(3, 0)] * 80)
    assert (verdict.kind, verdict.level) == (Kind.NORMAL, Level.SUSPECT)


def test_full_acceptance_is_healthy_where_the_prompt_asks_for_the_line() -> None:
    verdict = judge_text(LINE * 40, RULES, prompt="Go on: " + LINE * 200, steps=[(4, 4)] * 80)
    assert verdict == Verdict(Kind.NORMAL, 0.0, "", -1, Level.CLEAN)


def test_more_accepted_than_drafted_is_merged_growth_and_never_a_rate_above_one() -> None:
    assert judge_text(prose(2, 80), RULES, steps=[(2, 5)] * 40).level is Level.CLEAN
