"""Findings come worst first, and the worst is the diagnosis."""

from service.core.doctor.facts import Facts, WorkerSeen
from service.core.doctor.finding import Severity
from service.core.doctor.judge import diagnose
from tests.service.core.doctor.clinic import PROBED, RULE, pair, worker


def test_the_worst_comes_first() -> None:
    workers = (
        *pair(stream_interval=2),
        worker(decode_log_interval=40),
        WorkerSeen("http://w", trouble="gone"),
    )
    diagnosis = diagnose(Facts(workers=workers), RULE, probe_versions=PROBED)
    severities = [finding.severity for finding in diagnosis.findings]
    assert severities == sorted(severities, reverse=True)
    assert diagnosis.worst is Severity.ERROR


def test_a_sound_fleet_has_nothing_worse_than_a_note() -> None:
    assert diagnose(Facts(workers=pair()), RULE, probe_versions=PROBED).worst is Severity.INFO
