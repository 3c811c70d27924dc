"""Fusion: one judgement out of what every detector says, in e-values.

    E = sum of w_i e_i                      valid under any dependence (Vovk & Wang 2021), weights sum to 1
    E = e_telemetry * max e_other           once both exceed `product_above`; taken as built on disjoint
                                            evidence: accept counts on one side, characters on the other;
                                            full acceptance multiplies repetition, and nothing else
    CORRUPT  when E >= act and the best non-telemetry e is at least `factor`: acceptance alone never acts
    SUSPECT  when the telemetry e reaches `suspect_telemetry`, or any other `suspect_other`; or both are at
             least `factor` and their product reaches `suspect_telemetry`

A suspicion costs a client time; a second opinion, once the answer has ended and nothing of it is out, costs
one generation. Doubt is what that is weighed by: the strongest single side, or the product of both.

All in log10. The kind, detector, unit and onset are those of the strongest non-telemetry finding; with
telemetry alone the kind is `low_acceptance`. Ties go to the earliest token, then to the name, so that the
order of detectors and the grouping of events do not show. Cost: under 2 us, and only when a finding changed.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from math import log10

from service.core.events import CLEAN, UNKNOWN, Channel, Finding, Judgement, Kind, Level


@dataclass(frozen=True, slots=True)
class Fusion:
    """Parameters as they stand in the rule set under `fusion`; logarithms to base 10."""

    weights: Mapping[str, float]  # share of each detector; they sum to at most 1
    act: float
    factor: float
    product_above: float
    suspect_telemetry: float
    suspect_other: float
    second_opinion: float

    def __post_init__(self) -> None:
        if any(weight <= 0 for weight in self.weights.values()) or sum(self.weights.values()) > 1 + 1e-9:
            raise ValueError("fusion.weights must be positive and sum to at most 1")

    def judge(self, findings: Iterable[Finding], choice: int = 0) -> Judgement:
        """What these findings say together."""
        said = sorted(findings, key=_strength)
        other = next((f for f in said if f.channel is not Channel.TELEMETRY), None)
        said = [finding for finding in said if _counts(finding, other)]
        if not said:
            return CLEAN
        telemetry = next((f for f in said if f.channel is Channel.TELEMETRY), None)
        evidence = self._evidence(said, telemetry, other)
        level = self._level(evidence, telemetry, other)
        lead = (
            other if other and (level is Level.CORRUPT or other.log10_e >= self.suspect_other) else telemetry
        )
        if level is Level.CLEAN or lead is None:
            return CLEAN
        return Judgement(
            level=level,
            kind=Kind.LOW_ACCEPTANCE if lead is telemetry else lead.kind,
            detector=lead.detector,
            log10_e=evidence,
            at_token=lead.at_token,
            onset_token=_onset(telemetry, other),
            unit=lead.unit,
            choice=choice,
            foreign=lead.foreign,
        )

    def doubt(self, findings: Iterable[Finding]) -> float:
        """How strongly the strongest side speaks, or both together."""
        said = sorted(findings, key=_strength)
        other = next((f for f in said if f.channel is not Channel.TELEMETRY), None)
        telemetry = next((f for f in said if f.channel is Channel.TELEMETRY and _counts(f, other)), None)
        return max(_strongest(telemetry), _strongest(other), self._together(telemetry, other))

    def _together(self, telemetry: Finding | None, other: Finding | None) -> float:
        """Two weak witnesses of independent evidence; 0 unless both say something."""
        low, text = _strongest(telemetry), _strongest(other)
        return low + text if min(low, text) >= self.factor else 0.0

    def _evidence(self, said: list[Finding], telemetry: Finding | None, other: Finding | None) -> float:
        total = sum(self.weights.get(f.detector, 0.0) * 10.0 ** min(f.log10_e, 300.0) for f in said)
        average = log10(total) if total > 0 else -300.0
        if telemetry is None or other is None:
            return average
        if min(telemetry.log10_e, other.log10_e) <= self.product_above:
            return average
        return max(average, telemetry.log10_e + other.log10_e)

    def _level(self, evidence: float, telemetry: Finding | None, other: Finding | None) -> Level:
        text = _strongest(other)
        if evidence >= self.act and text >= self.factor:
            return Level.CORRUPT
        low = max(_strongest(telemetry), self._together(telemetry, other))
        if text >= self.suspect_other or low >= self.suspect_telemetry:
            return Level.SUSPECT
        return Level.CLEAN


def _strongest(finding: Finding | None) -> float:
    return finding.log10_e if finding else 0.0


def _strength(finding: Finding) -> tuple[float, int, str]:
    return -finding.log10_e, finding.at_token, finding.detector


def _counts(finding: Finding, other: Finding | None) -> bool:
    """Whether this says something here: full acceptance does beside repetition only."""
    if finding.channel is not Channel.TELEMETRY or finding.kind is not Kind.REPETITION:
        return True
    return other is not None and other.kind is Kind.REPETITION


def _onset(telemetry: Finding | None, other: Finding | None) -> int:
    """The earliest known token of trouble that either side names."""
    known = [f.onset_token for f in (telemetry, other) if f and f.onset_token != UNKNOWN]
    return min(known, default=UNKNOWN)
