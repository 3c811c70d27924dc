"""A dataclass of the core becomes a model that refuses wrong numbers, and comes back as itself."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

import pytest
from pydantic import ValidationError

from service.config.blueprint import build, model_of


class Colour(StrEnum):
    RED = "red"


@dataclass(frozen=True, slots=True)
class Inner:
    limit_tokens: int


@dataclass(frozen=True, slots=True)
class Rule:
    """What a rule looks like."""

    window_tokens: int
    low_share: float
    log10_low: float = field(metadata={"le": 0})
    grid: tuple[float, ...]
    weights: Mapping[str, float]
    inner: Inner
    inners: tuple[Inner, ...] = ()
    colour: Colour = Colour.RED
    odd: int = field(default=3, metadata={"ge": 1, "le": 9})
    name: str = "rule"

    def __post_init__(self) -> None:
        if self.odd % 2 == 0:
            raise ValueError("odd must be odd")


GOOD: dict[str, Any] = {
    "window_tokens": 8,
    "low_share": 0.5,
    "log10_low": -3,
    "grid": [0.1, 2],
    "weights": {"a": 0.5},
    "inner": {"limit_tokens": 1},
    "inners": [{"limit_tokens": 2}],
    "colour": "red",
}


def made(**changes: object) -> Rule:
    rule: Rule = build(Rule, model_of(Rule).model_validate({**GOOD, **changes}))
    return rule


def test_good_values_come_back_as_the_dataclass() -> None:
    assert made() == Rule(8, 0.5, -3, (0.1, 2), {"a": 0.5}, Inner(1), (Inner(2),))


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("window_tokens", 0), ("window_tokens", 1.5), ("window_tokens", "8"), ("window_tokens", True),
        ("low_share", 1.1), ("low_share", float("nan")), ("log10_low", float("inf")), ("grid", ["x"]),
        ("grid", [float("nan")]), ("weights", {"a": "b"}), ("weights", {"a": float("inf")}),
        ("inner", {"limit_tokens": -1}), ("inner", {"limit": 1}), ("inners", [{"limit_tokens": -1}]),
        ("low_share", -0.1), ("log10_low", 1), ("colour", "blue"),
        ("odd", 11), ("other", 1), ("name", "mine"),
    ],
)  # fmt: skip
def test_a_wrong_value_is_refused_at_its_key(key: str, value: object) -> None:
    with pytest.raises(ValidationError) as caught:
        made(**{key: value})
    assert {error["loc"][0] for error in caught.value.errors()} == {key}


def test_a_parameter_without_default_must_be_given() -> None:
    with pytest.raises(ValidationError, match="low_share"):
        model_of(Rule).model_validate({key: GOOD[key] for key in GOOD if key != "low_share"})


def test_what_the_dataclass_refuses_is_passed_on() -> None:
    with pytest.raises(ValueError, match="odd must be odd"):
        made(odd=4)


def test_the_model_carries_the_rules_own_words() -> None:
    assert model_of(Rule).__doc__ == "What a rule looks like."
