"""Cases: the bad answer beside the good one, with its text or without."""

from pathlib import Path

import msgspec

from replay.judge import judge
from replay.plan import Send
from replay.reporting.cases import MAX_CASES, MAX_CHARS, Case, cases
from tests.replay.judging.made import CONTRAST, RIGHT, WRONG, Change, planned, ran, rules


def _cases(home: Path, change: Change, *, text: bool = True, **wishes: object) -> list[Case]:
    header, sends = planned(home / "p", **wishes)  # type: ignore[arg-type]
    ran(home / "r", header, sends, change)
    return cases(home / "p", home / "r", judge(home / "p", home / "r", rules()), text=text)


def _bad_at_peak(send: Send) -> dict[str, object]:
    return {"text": WRONG} if send.arm == "peak" and send.id.endswith("3") else {}


def test_a_case_stands_beside_the_expected_answer(tmp_path: Path) -> None:
    found = _cases(tmp_path, _bad_at_peak)
    assert len(found) == 8
    first = found[0]
    assert (first.bad, first.good, first.good_from) == (WRONG, RIGHT, "expected")
    assert first.same_chars == 0
    assert first.prompt.startswith("Question ")
    assert first.together > 1


def test_a_long_answer_is_cut_and_there_are_not_too_many(tmp_path: Path) -> None:
    contrast = msgspec.structs.replace(CONTRAST, incident_window_s=0.0)
    found = _cases(tmp_path, lambda _: {"text": f"{RIGHT[:5]}{'x' * 4_200}"}, contrast=contrast)
    assert len(found) == MAX_CASES
    assert len(found[0].bad) < MAX_CHARS + 40
    assert found[0].same_chars == 5


def test_without_text_only_lengths_are_left(tmp_path: Path) -> None:
    first = _cases(tmp_path, _bad_at_peak, text=False)[0]
    assert (first.bad, first.good) == (f"[{len(WRONG)} characters]", f"[{len(RIGHT)} characters]")
    assert "Question" not in first.prompt
