from collections.abc import Sequence

import pytest

from service.core.detectors.silence import Silence
from service.core.events import Finding, Kind, Look, RequestFacts, WorkerFacts

RULE = Silence(
    quiet_s=2.0,
    gap_factor=20.0,
    handoff_s=10.0,
    first_event_s=30.0,
    grown_tokens=32,
    acts_log10=6.1,
    suspects_log10=1.5,
)
EVENT = Look(text="a", tokens=1)


def said(looks: Sequence[Look]) -> list[Finding]:
    state = RULE.start(RequestFacts(dialect="test"), WorkerFacts())
    return [finding for look in looks if (finding := RULE.look(state, look))]


@pytest.mark.parametrize(
    ("quiet_s", "gap_s", "silent"),
    [(1.9, 0.02, False), (2.1, 0.02, True), (5.0, 0.3, False), (6.1, 0.3, True), (2.1, 0.099, True)],
)
def test_silence_is_two_seconds_or_twenty_gaps(quiet_s: float, gap_s: float, silent: bool) -> None:
    findings = said([EVENT, EVENT, Look(quiet_s=quiet_s, gap_s=gap_s)])
    assert [f.kind for f in findings] == [Kind.SILENT] * silent
    assert all(f.log10_e == 6.1 for f in findings)


def test_before_the_first_event_only_suspicion_and_only_late() -> None:
    assert said([Look(quiet_s=29.0)]) == []
    (finding,) = said([Look(quiet_s=31.0), Look(quiet_s=3600.0)])
    assert finding.log10_e == 1.5


def test_the_hand_off_to_decode_may_queue() -> None:
    assert said([EVENT, Look(quiet_s=9.0)]) == []
    assert said([EVENT, Look(quiet_s=11.0)])[0].log10_e == 6.1


def test_tokens_that_are_no_text_are_nans_face() -> None:
    assert said([EVENT, Look(tokens=33, grown=32)]) == []
    (finding,) = said([EVENT, Look(tokens=34, grown=33), Look(tokens=90, grown=89)])
    assert (finding.kind, finding.at_token, finding.onset_token) == (Kind.SILENT, 34, 1)


def test_a_final_count_far_above_the_last_seen_tells_at_the_end() -> None:
    assert said([EVENT, Look(tokens=57, grown=56, ended=True)])


def test_a_suspected_wait_can_still_become_silence() -> None:
    findings = said([Look(quiet_s=31.0), EVENT, EVENT, Look(quiet_s=3.0, gap_s=0.1)])
    assert [f.log10_e for f in findings] == [1.5, 6.1]


def test_it_is_said_once() -> None:
    assert len(said([EVENT, EVENT, *(Look(quiet_s=float(s), gap_s=0.1) for s in range(3, 60))])) == 1
