"""The dose: a backlog that is built at once and held."""

import pytest

from replay.plan import Arm, PlanError
from replay.planning.dose import Dose, dose_of, injections

DOSE = {"backlog_tokens": 40_000, "prompt_tokens": 10_000, "prefill_tokens_per_s": 5_000}


def test_the_backlog_stands_at_its_target() -> None:
    dose = dose_of(Arm(name="peak", knobs={"dose": DOSE}))
    assert dose == Dose(**DOSE)
    sends = list(injections(dose, "peak", 3, 100.0, 20.0, "/v1/chat/completions"))
    for at_s in (0.0, 7.0, 20.0):
        sent = sum(10_000 for send in sends if send.at_s <= 100 + at_s)
        assert 30_000 <= sent - 5_000 * at_s <= 45_000
    assert {send.role for send in sends} == {"dose"}
    assert len({send.id for send in sends}) == len(sends)


def test_an_arm_without_a_dose_has_none() -> None:
    assert dose_of(Arm(name="idle")) is None


@pytest.mark.parametrize("change", [{"prompt_tokens": 0}, {"more": 1}, {"backlog_tokens": "many"}])
def test_what_is_no_dose_is_refused(change: dict[str, object]) -> None:
    with pytest.raises(PlanError, match="arm peak: dose"):
        dose_of(Arm(name="peak", knobs={"dose": DOSE | change}))
