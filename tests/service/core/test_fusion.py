import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.core.events import CLEAN, Channel, Finding, Kind, Level
from service.core.fusion import Fusion

FUSION = Fusion(
    weights={"acceptance": 0.5, "loop": 0.3, "garble": 0.2},
    act=5.0,
    factor=1.0,
    product_above=2.0,
    suspect_telemetry=3.0,
    suspect_other=1.5,
    second_opinion=2.5,
)


def telemetry(log10_e: float) -> Finding:
    return Finding("acceptance", Channel.TELEMETRY, Kind.LOW_ACCEPTANCE, log10_e, 90, 40)


def text(log10_e: float, detector: str = "loop", kind: Kind = Kind.REPETITION, at: int = 120) -> Finding:
    return Finding(detector, Channel.TEXT, kind, log10_e, at, 60, "unit")


def test_nothing_said_is_clean() -> None:
    assert FUSION.judge([]) == CLEAN


@pytest.mark.parametrize("log10_e", [3.0, 6.0, 300.0, 1e6])
def test_acceptance_alone_never_acts(log10_e: float) -> None:
    judgement = FUSION.judge([telemetry(log10_e)])
    assert (judgement.level, judgement.kind) == (Level.SUSPECT, Kind.LOW_ACCEPTANCE)


def test_weak_acceptance_is_not_even_suspected() -> None:
    assert FUSION.judge([telemetry(2.5)]) == CLEAN


def test_strong_text_acts_by_itself() -> None:
    judgement = FUSION.judge([text(6.0)])
    assert (judgement.level, judgement.kind, judgement.detector) == (Level.CORRUPT, Kind.REPETITION, "loop")


def test_text_is_weighted_before_it_acts() -> None:
    assert FUSION.judge([text(5.2)]).level is Level.SUSPECT


def test_collapsed_acceptance_acts_with_a_second_witness() -> None:
    judgement = FUSION.judge([telemetry(6.0), text(1.0)])
    assert (judgement.level, judgement.kind, judgement.detector) == (Level.CORRUPT, Kind.REPETITION, "loop")
    assert FUSION.judge([telemetry(6.0), text(0.9)]).level is Level.SUSPECT


def test_both_above_a_hundred_multiply() -> None:
    judgement = FUSION.judge([telemetry(2.6), text(2.5)])
    assert judgement.level is Level.CORRUPT
    assert judgement.log10_e == pytest.approx(5.1)
    assert FUSION.judge([telemetry(2.0), text(4.0)]).level is Level.SUSPECT


def test_a_weak_witness_alone_is_clean() -> None:
    assert FUSION.judge([text(1.0)]) == CLEAN


def test_the_strongest_other_finding_names_kind_and_unit() -> None:
    judgement = FUSION.judge([text(5.8, "garble", Kind.GARBLED), text(6.0), telemetry(9.0)])
    assert judgement.signature == (Kind.REPETITION, "loop", "unit")


def test_onset_is_the_earliest_that_either_side_names() -> None:
    assert FUSION.judge([telemetry(4.0), text(6.0)]).onset_token == 40


def test_a_detector_without_a_weight_still_seconds() -> None:
    stranger = Finding("newcomer", Channel.STRUCTURE, Kind.TRUNCATED, 1.5, 10)
    assert FUSION.judge([telemetry(6.0), stranger]).kind is Kind.TRUNCATED


@pytest.mark.parametrize("weights", [{"loop": 0.7, "garble": 0.4}, {"loop": 0.0}, {"loop": -0.1}])
def test_weights_that_are_no_mean_are_refused(weights: dict[str, float]) -> None:
    with pytest.raises(ValueError, match="weights"):
        Fusion(weights, 5.0, 1.0, 2.0, 3.0, 1.5, 2.5)


@given(st.permutations([telemetry(3.5), text(2.5), text(5.8, "garble", Kind.GARBLED), text(5.8, at=119)]))
def test_the_order_of_findings_does_not_show(said: list[Finding]) -> None:
    assert FUSION.judge(said) == FUSION.judge(sorted(said, key=repr))


@given(st.floats(-10, 400), st.floats(-10, 400))
def test_to_act_takes_evidence_and_another_channel(low: float, high: float) -> None:
    judgement = FUSION.judge([telemetry(low), text(high)])
    if judgement.level is Level.CORRUPT:
        assert high >= FUSION.factor
        assert judgement.log10_e >= FUSION.act


def test_two_weak_witnesses_of_different_things_are_suspected_together() -> None:
    assert FUSION.judge([telemetry(2.0), text(1.0)]).level is Level.SUSPECT
    assert FUSION.judge([telemetry(1.5), text(1.0)]) == CLEAN
    assert FUSION.judge([telemetry(2.5), text(0.5)]) == CLEAN


@pytest.mark.parametrize(
    ("said", "doubt"),
    [
        ([], 0.0),
        ([telemetry(3.5)], 3.5),
        ([text(2.0), text(2.5, "garble", Kind.GARBLED)], 2.5),
        ([telemetry(2.0), text(1.5)], 3.5),
        ([telemetry(2.0), text(0.5)], 2.0),
    ],
)
def test_doubt_is_the_strongest_side_or_both_together(said: list[Finding], doubt: float) -> None:
    assert FUSION.doubt(said) == doubt


def test_full_acceptance_casts_no_doubt_but_on_repetition() -> None:
    full = Finding("saturation", Channel.TELEMETRY, Kind.REPETITION, 3.0, 90)
    assert FUSION.doubt([full]) == 0.0
    assert FUSION.doubt([full, text(1.0)]) == 4.0
