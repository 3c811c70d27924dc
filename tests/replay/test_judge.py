"""The judge: from the files of a run to a verdict."""

from pathlib import Path

import msgspec
import pytest

from replay.canary import mark
from replay.judge import Judged, judge
from replay.judging.verdict import Outcome
from replay.plan import Arm, PlanError, Send
from replay.results import Closing, RunHeader
from tests.replay.judging.made import ARMS, CONTRAST, WRONG, Change, planned, ran, rules


def _judged(home: Path, change: Change = lambda _: {}, **wishes: object) -> Judged:
    header, sends = planned(home / "p", **wishes)  # type: ignore[arg-type]
    ran(home / "r", header, sends, change)
    return judge(home / "p", home / "r", rules())


def _bad_at_peak(send: Send) -> dict[str, object]:
    spoilt = send.arm == "peak" and send.id.endswith(("3", "7"))
    return {"text": WRONG, "spec": {"spec_accept_length": 1.1}} if spoilt else {}


def test_answers_that_break_under_load_alone_are_the_load(tmp_path: Path) -> None:
    found = _judged(tmp_path, _bad_at_peak)
    assert found.verdict.verdict is Outcome.LOAD_DEPENDENT
    assert found.verdict.p < 0.01
    idle, peak = found.levels
    assert (idle.events, peak.events, peak.trials) == (0, 40, 200)
    assert found.e_value > 20
    assert found.returned is not None
    assert found.returned.events == 0
    assert peak.accept_bad == [1.1] * 40


def test_the_same_run_without_bad_answers_is_not_the_load(tmp_path: Path) -> None:
    found = _judged(tmp_path)
    assert found.verdict.verdict is Outcome.NOT_LOAD_DEPENDENT
    assert not found.verdict.reproduced
    assert found.incidents == []
    assert found.coverage.planned == found.coverage.results == 425


def test_incidents_are_told_with_their_answers(tmp_path: Path) -> None:
    found = _judged(tmp_path, _bad_at_peak)
    assert sum(len(one.ids) for one in found.incidents) == 40
    assert {one.arm for one in found.incidents} == {"peak"}
    assert found.verdict.design_effect >= 1


def test_a_trend_is_told_over_three_arms(tmp_path: Path) -> None:
    arms = (*ARMS, Arm(name="busy", load=2.0))

    def rising(send: Send) -> dict[str, object]:
        last = {"idle": (), "busy": ("3",), "peak": ("3", "5", "7")}[send.arm]
        return {"text": WRONG} if last and send.id.endswith(last) else {}

    found = _judged(tmp_path, rising, arms=arms)
    assert found.trend is not None
    assert found.trend.p < 0.02
    busy = next(one for one in found.questions if one.name == "wrong: busy")
    assert busy.high == "20 of 200"
    assert _judged(tmp_path, rising).trend is None


def test_failures_are_a_question_of_their_own(tmp_path: Path) -> None:
    def failing(send: Send) -> dict[str, object]:
        return {"ending": "timeout"} if send.arm == "peak" and send.id.endswith("5") else {}

    found = _judged(tmp_path, failing)
    question = next(one for one in found.questions if one.name == "failures: peak")
    assert (question.low, question.high) == ("0 of 200", "20 of 200")
    assert question.p < 0.01
    assert found.verdict.verdict is Outcome.NOT_LOAD_DEPENDENT


def test_a_late_client_gives_no_verdict(tmp_path: Path) -> None:
    contrast = msgspec.structs.replace(CONTRAST, late_s=None)
    found = _judged(
        tmp_path, lambda send: {"sent_s": send.at_s + 0.2} if send.arm == "peak" else {}, contrast=contrast
    )
    assert found.verdict.verdict is Outcome.SCHEDULE_NOT_KEPT
    assert (found.schedule.arm, found.schedule.kept) == ("peak", False)
    assert "200.0 ms" in found.verdict.why


def test_marks_that_went_astray_are_named(tmp_path: Path) -> None:
    def leaking(send: Send) -> dict[str, object]:
        if send.id == "canary.1.0":
            return {"text": "no"}
        return {"text": mark(0, "canary.0.0")} if send.id == "2.peak.60" else {}

    found = _judged(tmp_path, leaking, canaries=1)
    assert found.canaries.leaks == {"2.peak.60": ["canary.0.0"]}
    assert (found.canaries.sent, found.canaries.answered, found.canaries.lost) == (17, 17, 1)


def test_a_run_of_another_plan_is_refused(tmp_path: Path) -> None:
    header, sends = planned(tmp_path / "p")
    ran(tmp_path / "r", msgspec.structs.replace(header, hash="0" * 64), sends)
    with pytest.raises(PlanError, match="is of the plan 000000000000"):
        judge(tmp_path / "p", tmp_path / "r", rules())


def test_a_run_that_was_cut_off_is_not_over_and_its_e_value_counts(tmp_path: Path) -> None:
    def cut(send: Send) -> dict[str, object]:
        return {"ending": "aborted", "error": "cut off"} if send.block > 12 else _bad_at_peak(send)

    found = _judged(tmp_path, cut)
    assert found.coverage.cut_off > 80
    assert all(one.failures == {} for one in found.levels)
    assert found.verdict.verdict is (Outcome.LOAD_DEPENDENT if found.e_value >= 20 else Outcome.UNDECIDED)
    assert "not over" in found.verdict.why


def test_what_ended_the_run_is_told(tmp_path: Path) -> None:
    header, sends = planned(tmp_path / "p")
    ran(tmp_path / "r", header, sends[:300])
    closing = Closing(kept=True, late_p99_ms=1.0, late_limit_ms=5.0, stopped="errors")
    with (tmp_path / "r").open("ab") as file:
        file.write(msgspec.json.encode(closing) + b"\n")
    assert judge(tmp_path / "p", tmp_path / "r", rules()).verdict.verdict is Outcome.BACKEND_FAILING


def test_a_verdict_goes_to_json_and_back(tmp_path: Path) -> None:
    found = _judged(tmp_path, _bad_at_peak)
    assert msgspec.json.decode(msgspec.json.encode(found), type=Judged) == found


def test_a_file_without_a_run_is_refused(tmp_path: Path) -> None:
    planned(tmp_path / "p")
    (tmp_path / "r").write_bytes(b"")
    with pytest.raises(PlanError, match="holds no run"):
        judge(tmp_path / "p", tmp_path / "r", rules())
    assert RunHeader.__struct_fields__


def test_changes_are_counted_against_a_control_arm(tmp_path: Path) -> None:
    contrast = msgspec.structs.replace(CONTRAST, event="changed")
    arms = (Arm(name="control"), *ARMS)
    found = _judged(tmp_path, _bad_at_peak, contrast=contrast, arms=arms)
    assert [(one.arm, one.events, one.trials) for one in found.levels] == [
        ("control", 0, 0),
        ("idle", 0, 200),
        ("peak", 40, 200),
    ]
    assert found.verdict.verdict is Outcome.LOAD_DEPENDENT
    with pytest.raises(PlanError, match="changed against what"):
        planned(tmp_path / "q", contrast=contrast)
