"""A complaint says where, what was expected, and what stood there."""

from pydantic import BaseModel, ConfigDict, ValidationError

from service.config.problem import GOT_CHARS, ConfigProblem, complaints, key_path, keys_at, unknown_key


class Leaf(BaseModel):
    model_config = ConfigDict(extra="forbid")
    size: int = 0


class Tree(BaseModel):
    model_config = ConfigDict(extra="forbid")
    leaf: Leaf | None = None
    leaves: tuple[Leaf, ...] = ()
    named: dict[str, Leaf] = {}
    word: int = 0


def said(**values: object) -> list[str]:
    try:
        Tree.model_validate(values)
    except ValidationError as failed:
        return complaints(Tree, failed, lambda _: "f.yaml")
    return []


def test_a_path_reads_as_yaml_is_written() -> None:
    assert key_path(("routes", 1, "match", "path")) == "routes[1].match.path"
    assert key_path(()) == "(whole file)"


def test_the_keys_of_nested_models_are_found() -> None:
    assert keys_at(Tree, ("leaf",)) == ("size",)
    assert keys_at(Tree, ("leaves", 3)) == ("size",)
    assert keys_at(Tree, ("named", "any")) == ("size",)
    assert keys_at(Tree, ("word",)) == ()


def test_a_neighbour_is_offered_only_where_one_is_near() -> None:
    assert "did you mean size?" in unknown_key("f", "leaf.sise", ["size"])
    assert "did you mean" not in unknown_key("f", "leaf.colour", ["size"])


def test_expected_and_got_stand_in_one_line() -> None:
    assert said(word="x" * 200)[0].startswith("f.yaml: word: expected a valid integer")
    assert len(said(word="x" * 200)[0]) < 120 + GOT_CHARS
    assert said(leaf=3) == ["f.yaml: leaf: expected a valid dictionary or instance of Leaf, got 3"]
    assert said(word=[1]) == ["f.yaml: word: expected a valid integer, got a list"]
    assert said(word={}) == ["f.yaml: word: expected a valid integer, got a mapping"]


def test_a_problem_is_one_line_a_complaint() -> None:
    assert str(ConfigProblem(["a", "b"])) == "a\nb"
