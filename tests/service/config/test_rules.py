"""A rule file becomes detectors, or one clear line a mistake."""

import json
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml

from service.config.problem import ConfigProblem
from service.config.rules import _HOMES, find_rules, load_rules, packaged_sets, rules_schema
from service.core.detectors import DETECTORS

ROOT = Path(__file__).parents[3]

OURS = [name for name in DETECTORS if name != "zai"]


@pytest.fixture
def rules() -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load((ROOT / "rules/sets/default.yaml").read_text())
    return found


def written(folder: Path, rules: dict[str, Any]) -> str:
    path = folder / "mine.yaml"
    path.write_text(yaml.safe_dump(rules))
    return str(path)


def problem(folder: Path, rules: dict[str, Any]) -> str:
    with pytest.raises(ConfigProblem) as caught:
        load_rules(written(folder, rules))
    return str(caught.value)


@pytest.mark.parametrize("name", packaged_sets())
def test_a_packaged_set_is_valid_and_named_as_its_file(name: str) -> None:
    assert load_rules(name).name == name


def test_the_default_set_runs_every_detector_but_the_public_rule_it_is_measured_against() -> None:
    rules = load_rules()
    assert [detector.name for detector in rules.detectors] == OURS
    assert repr(rules).startswith("<RuleSet default ")


def test_a_file_of_ones_own_is_found_by_its_path(tmp_path: Path, rules: dict[str, Any]) -> None:
    loaded = load_rules(written(tmp_path, rules | {"name": "mine"}))
    assert loaded.name == "mine"
    assert loaded.fusion == load_rules().fusion
    assert loaded.digest != load_rules().digest


def test_a_detector_left_out_is_off(tmp_path: Path, rules: dict[str, Any]) -> None:
    del rules["detectors"]["garble"], rules["fusion"]["weights"]["garble"]
    assert "garble" not in {detector.name for detector in load_rules(written(tmp_path, rules)).detectors}


@pytest.mark.parametrize("detector", OURS)
@pytest.mark.parametrize("wrong", ["three", None, [1], True, float("nan"), float("inf")])
def test_a_wrong_number_is_named_with_file_key_and_what_stood_there(
    tmp_path: Path, rules: dict[str, Any], detector: str, wrong: object
) -> None:
    key = next(iter(rules["detectors"][detector]))
    rules["detectors"][detector][key] = wrong
    text = problem(tmp_path, rules)
    assert text.startswith(f"{tmp_path / 'mine.yaml'}: detectors.{detector}.{key}: expected ")
    assert ", got " in text


def test_a_number_out_of_range_is_refused(tmp_path: Path, rules: dict[str, Any]) -> None:
    rules["detectors"]["silence"]["quiet_s"] = -2
    text = problem(tmp_path, rules)
    assert (
        text
        == f"{tmp_path / 'mine.yaml'}: detectors.silence.quiet_s: expected greater than or equal to 0, got -2"
    )


@pytest.mark.parametrize(
    ("path", "said"),
    [
        (("detectors", "lop"), "detectors.lop: unknown key; did you mean loop?"),
        (
            ("detectors", "loop", "word_copis"),
            "detectors.loop.word_copis: unknown key; did you mean word_copies?",
        ),
        (("fusion", "weights", "lop"), "fusion.weights.lop: unknown key; did you mean loop?"),
        (("fusions",), "fusions: unknown key; did you mean fusion?"),
    ],
)
def test_an_unknown_key_is_named_with_its_neighbour(
    tmp_path: Path, rules: dict[str, Any], path: tuple[str, ...], said: str
) -> None:
    inner: Any = rules
    for key in path[:-1]:
        inner = inner[key]
    inner[path[-1]] = 0.01 if "weights" in path else {}
    assert said in problem(tmp_path, rules)


def test_a_missing_number_is_asked_for(tmp_path: Path, rules: dict[str, Any]) -> None:
    del rules["detectors"]["loop"]["word_copies"]
    assert "detectors.loop.word_copies: missing" in problem(tmp_path, rules)


def test_what_the_core_refuses_is_told_with_file_and_key(tmp_path: Path, rules: dict[str, Any]) -> None:
    rules["fusion"]["weights"]["loop"] = 5.0
    assert problem(tmp_path, rules).startswith(f"{tmp_path / 'mine.yaml'}: fusion: ")


def test_a_set_that_is_not_there_is_told_with_those_that_are() -> None:
    with pytest.raises(ConfigProblem, match=r"no rule set 'defualt'; packaged are: default"):
        load_rules("defualt")
    with pytest.raises(ConfigProblem, match=r"gone\.yaml: cannot be read"):
        load_rules("gone.yaml")


def test_a_packaged_set_is_found_by_name() -> None:
    assert find_rules("default").read_bytes() == (ROOT / "rules/sets/default.yaml").read_bytes()


def test_the_wheel_carries_the_sets_to_where_they_are_looked_for() -> None:
    wheel = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["hatch"]["build"]["targets"]["wheel"]
    assert {ROOT / target for target in wheel["force-include"].values()} == {_HOMES[0]}
    assert {ROOT / source for source in wheel["force-include"]} == {_HOMES[1]}


def test_the_schema_in_the_tree_is_fresh() -> None:
    stands = json.loads((ROOT / "rules/schema.json").read_text())
    assert stands == rules_schema(), "write it anew: specguard rules schema > rules/schema.json"
