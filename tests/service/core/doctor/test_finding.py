"""A finding has a reason and a remedy, and the worst one decides."""

import pytest

from service.core.doctor.finding import Finding, Severity, worst


def finding(severity: Severity) -> Finding:
    return Finding(severity, "c", "s", "what", "why", "fix")


def test_the_worst_decides() -> None:
    assert worst(()) is Severity.INFO
    assert worst((finding(Severity.WARNING), finding(Severity.INFO))) is Severity.WARNING


@pytest.mark.parametrize("left_out", [0, 1, 2])
def test_a_finding_without_reason_or_remedy_is_none(left_out: int) -> None:
    told = ["what", "why", "fix"]
    told[left_out] = ""
    with pytest.raises(AssertionError):
        Finding(Severity.INFO, "c", "s", *told)
