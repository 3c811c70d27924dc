from pathlib import Path

import pytest

from service.core.events import Drafter, Kind, Level, WorkerFacts
from service.core.recorded import dialect_of, is_stream, judge_capture, judge_text
from tests.service.core.detectors.texts import CORRUPTED, HEALTHY, RULES, prose

CAPTURES = Path(__file__).parents[2] / "fixtures" / "captures"
CLEAN = sorted(
    path
    for path in CAPTURES.iterdir()
    if path.suffix in {".sse", ".json"} and "fault-nan" not in path.name and "fault-zero" not in path.name
)
MODEL = WorkerFacts(drafter=Drafter.MODEL, draft_tokens=4)


def test_there_are_captures_to_judge() -> None:
    assert len(CLEAN) > 10


@pytest.mark.parametrize("path", CLEAN, ids=lambda path: path.name)
def test_every_clean_capture_stays_silent(path: Path) -> None:
    verdict = judge_capture(path.read_bytes(), RULES)
    assert (verdict.kind, verdict.level, verdict.score) == (Kind.NORMAL, Level.CLEAN, 0)


@pytest.mark.parametrize("path", CLEAN, ids=lambda path: path.name)
def test_no_clean_capture_is_acted_on_even_if_a_model_had_drafted(path: Path) -> None:
    assert judge_capture(path.read_bytes(), RULES, worker=MODEL).kind is Kind.NORMAL


@pytest.mark.parametrize("case", HEALTHY)
def test_healthy_texts_are_normal(case: str) -> None:
    assert judge_text(HEALTHY[case], RULES).kind is Kind.NORMAL


@pytest.mark.parametrize("case", CORRUPTED)
def test_corrupted_texts_have_their_kind(case: str) -> None:
    text, kind = CORRUPTED[case]
    verdict = judge_text(text, RULES)
    assert verdict.kind == kind
    assert verdict.score >= 5
    assert 0 < verdict.at_token <= len(text)


def test_no_text_is_normal() -> None:
    assert judge_text("", RULES).kind is Kind.NORMAL
    assert judge_capture(b"", RULES).kind is Kind.NORMAL
    assert judge_capture(b"not json, not sse", RULES).kind is Kind.NORMAL


def test_refused_drafts_alone_are_suspicion() -> None:
    verdict = judge_text(prose(1, 300), RULES, steps=[(4, 0)] * 150)
    assert (verdict.kind, verdict.level, verdict.detector) == (Kind.NORMAL, Level.SUSPECT, "acceptance")


def test_drafts_that_come_and_go_are_no_models() -> None:
    verdict = judge_text(prose(1, 300), RULES, steps=[(4, 0), (0, 0)] * 150)
    assert verdict.level is Level.CLEAN


def test_refused_drafts_and_a_second_witness_are_acted_on() -> None:
    text = prose(2, 40) + " =" * 80
    assert judge_text(text, RULES).kind is Kind.NORMAL
    assert judge_text(text, RULES, steps=[(4, 0)] * 180).kind is Kind.REPETITION


def test_the_prompt_is_heeded() -> None:
    text = prose(3, 30) + " [PAD] [PAD] [unused2] x"
    assert judge_text(text, RULES).kind is Kind.RARE_CHAR
    assert judge_text(text, RULES, prompt="What is [PAD] for?").kind is Kind.NORMAL


def test_a_stream_is_told_from_a_body_and_generate_from_chat() -> None:
    generate = CAPTURES / "sgl-ngram-generate-stream.sse"
    chat = CAPTURES / "sgl-ngram-chat.json"
    assert (is_stream(generate.read_bytes()), is_stream(chat.read_bytes())) == (True, False)
    assert dialect_of(generate.read_bytes()).path == b"/generate"
    assert dialect_of(chat.read_bytes()).path == b"/v1/chat/completions"


def test_growing_tokens_without_text_are_silence() -> None:
    events = [
        b'data: {"text":"a b","meta_info":{"id":"x","finish_reason":null,"completion_tokens":%d}}\n\n' % count
        for count in range(2, 60)
    ]
    assert judge_capture(b"".join(events), RULES).kind is Kind.SILENT


def test_every_choice_of_a_capture_is_judged() -> None:
    event = b'data: {"choices":[{"index":%d,"delta":{"content":"%s"},"finish_reason":null}]}\n\n'
    data = event % (0, b"fine ") + event % (3, b"[PAD] [PAD] [PAD] x")
    assert judge_capture(data, RULES).kind is Kind.RARE_CHAR


def test_a_capture_that_was_cut_is_truncated() -> None:
    whole = (CAPTURES / "sgl-ngram-chat-stream.sse").read_bytes()
    cut = whole[: whole.index(b'"finish_reason":"')]
    cut = cut[: cut.rindex(b"data:")]
    assert judge_capture(whole, RULES).kind is Kind.NORMAL
    assert judge_capture(cut, RULES).kind is Kind.TRUNCATED
    assert judge_capture(cut + b"data: [DONE]\n\n", RULES).kind is Kind.TRUNCATED
