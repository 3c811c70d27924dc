"""The bisection: a cause is told from a trigger, and chance is neither."""

from pathlib import Path

import msgspec
import pytest

from replay.bisect import Bisected, bisect
from replay.plan import Arm, PlanError, Send
from tests.replay.judging.made import CONTRAST, WRONG, Change, planned, ran, rules

ARMS = tuple(Arm(name=name, load=3.0) for name in ("fence", "timeout", "drafter", "control"))
ASKED = msgspec.structs.replace(CONTRAST, low="fence", high="control")


def _bisected(home: Path, change: Change) -> Bisected:
    header, sends = planned(home / "p", requests=320, arms=ARMS, contrast=ASKED)
    ran(home / "r", header, sends, change)
    return bisect(home / "p", home / "r", rules())


def _race(send: Send) -> dict[str, object]:
    """Timeouts everywhere but with a longer one; bad answers where there are timeouts and no fence."""
    number = int(send.id.split(".")[2])
    if send.arm != "timeout" and number % 8 == 0:
        return {"ending": "timeout"}
    spoilt = send.arm not in {"fence", "timeout"} and number % 10 == 3
    return {"text": WRONG} if spoilt else {}


def test_the_fence_is_the_cause_and_the_timeout_a_trigger(tmp_path: Path) -> None:
    found = _bisected(tmp_path, _race)
    assert (found.knob, found.role) == ("fence", "cause")
    assert {one.knob: one.role for one in found.findings} == {
        "fence": "cause",
        "timeout": "trigger",
        "drafter": "none",
    }
    assert found.control.events == 32
    assert "failures go on" in found.why


def test_of_two_causes_with_the_same_evidence_the_one_that_leaves_more_failures_is_named(
    tmp_path: Path,
) -> None:
    def drafter_halves_the_failures(send: Send) -> dict[str, object]:
        if send.arm != "drafter":
            return _race(send)
        return {"ending": "timeout"} if int(send.id.split(".")[2]) % 16 == 0 else {}

    found = _bisected(tmp_path, drafter_halves_the_failures)
    assert [one.role for one in found.findings if one.knob in {"fence", "drafter"}] == ["cause", "cause"]
    assert found.knob == "fence"


def test_without_a_cause_the_trigger_is_named_as_one(tmp_path: Path) -> None:
    found = _bisected(tmp_path, lambda send: _race(send) if send.arm != "fence" else _race(_as_control(send)))
    assert (found.knob, found.role) == ("timeout", "trigger")
    assert "most failures go with them" in found.why


def _as_control(send: Send) -> Send:
    return msgspec.structs.replace(send, arm="control")


def test_knobs_that_change_nothing_are_not_named(tmp_path: Path) -> None:
    found = _bisected(tmp_path, lambda send: _race(_as_control(send)))
    assert (found.knob, found.role) == (None, "none")
    assert "beyond chance" in found.why


def test_a_control_without_bad_answers_has_nothing_to_take_away(tmp_path: Path) -> None:
    found = _bisected(tmp_path, lambda _: {})
    assert found.knob is None
    assert "nothing to take away" in found.why


def test_a_control_that_is_no_arm_is_refused(tmp_path: Path) -> None:
    header, sends = planned(tmp_path / "p", arms=ARMS, contrast=ASKED)
    ran(tmp_path / "r", header, sends)
    with pytest.raises(PlanError, match="needs a control"):
        bisect(tmp_path / "p", tmp_path / "r", rules(), control="night")


def test_a_file_without_a_run_is_refused(tmp_path: Path) -> None:
    planned(tmp_path / "p", arms=ARMS, contrast=ASKED)
    (tmp_path / "r").write_bytes(b"")
    with pytest.raises(PlanError, match="holds no run"):
        bisect(tmp_path / "p", tmp_path / "r", rules())
