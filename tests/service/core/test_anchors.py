import pytest

from service.core.anchors import ANY, Anchors, stratum


@pytest.mark.parametrize(
    ("temperature", "name"), [(0.0, "greedy"), (0.3, "cool"), (0.7, "warm"), (1.0, "warm"), (1.5, "hot")]
)
def test_a_stratum_names_the_heat(temperature: float, name: str) -> None:
    assert stratum(temperature, grammar=False) == f"{name}/free/prose"
    assert stratum(temperature, grammar=True, copying=True) == f"{name}/grammar/copy"


def test_a_request_is_held_to_the_anchor_of_its_kind() -> None:
    anchors = Anchors({("m", "greedy/free/prose"): (0.6, 0.5), ("m", ANY): (0.4,)})
    assert anchors.of("m", 0.0, grammar=False) == (0.6, 0.5)
    assert anchors.of("m", 0.0, grammar=True) == (0.4,)
    assert anchors.of("n", 0.0, grammar=False) == ()
    assert Anchors({}).of("m", 1.0, grammar=False) == ()


def test_what_was_learned_without_a_models_name_holds_for_all_that_have_nothing_better() -> None:
    anchors = Anchors({("m", "greedy/free/prose"): (0.6,), ("", ANY): (0.3,)})
    assert anchors.of("m", 0.0, grammar=False) == (0.6,)
    assert anchors.of("m", 1.0, grammar=False) == (0.3,)
    assert anchors.of("n", 1.0, grammar=False) == (0.3,)
