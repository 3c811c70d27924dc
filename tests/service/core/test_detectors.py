from dataclasses import MISSING, fields

import pytest

from service.core.detectors import DETECTORS, build

FUSION = {
    "weights": {"silence": 1.0},
    "act": 5.0,
    "factor": 1.0,
    "product_above": 2.0,
    "suspect_telemetry": 3.0,
    "suspect_other": 1.5,
    "second_opinion": 2.5,
}
SILENCE = {field.name: 1 for field in fields(DETECTORS["silence"])}


@pytest.mark.parametrize("name", list(DETECTORS))
def test_a_detector_is_found_by_the_name_it_goes_by(name: str) -> None:
    assert DETECTORS[name].name == name


@pytest.mark.parametrize("name", list(DETECTORS))
def test_no_number_of_a_detector_has_a_second_home(name: str) -> None:
    assert [f.name for f in fields(DETECTORS[name]) if f.default is not MISSING] == []


def test_a_rule_set_switches_on_what_it_names_and_nothing_else() -> None:
    detectors, fusion = build({"detectors": {"silence": SILENCE}, "fusion": FUSION})
    assert [detector.name for detector in detectors] == ["silence"]
    assert fusion.act == 5.0


def test_a_parameter_that_is_missing_is_an_error() -> None:
    with pytest.raises(TypeError):
        build({"detectors": {"silence": {}}, "fusion": FUSION})
