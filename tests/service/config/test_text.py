"""YAML means what it looks like."""

from pathlib import Path

import pytest

from service.config.problem import ConfigProblem
from service.config.text import read_mapping


def read(tmp_path: Path, text: str) -> dict[str, object]:
    path = tmp_path / "a.yaml"
    path.write_text(text)
    return read_mapping(path)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("off", "off"), ("no", "no"), ("true", True), ("1e5", 1e5), ("-3", -3), (".5", 0.5), ("017", "017"),
        ("1:30", "1:30"), ("2026-11-29", "2026-11-29"), ("null", None), ("", None), ("1_000", "1_000"),
    ],
)  # fmt: skip
def test_a_scalar_is_read_as_yaml_1_2_reads_it(tmp_path: Path, text: str, value: object) -> None:
    found = read(tmp_path, f"key: {text}")["key"]
    assert found == value
    assert type(found) is type(value)


def test_an_empty_file_is_an_empty_mapping(tmp_path: Path) -> None:
    assert read(tmp_path, "# nothing\n") == {}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a: 1\nb: 2\na: 3", "line 3: the key 'a' stands twice"),
        ("a: [1", "not valid YAML: line"),
        ("- 1", "expected a mapping of keys, got a list"),
        ("a: !!python/object:os.system x", "not valid YAML"),
    ],
)
def test_what_cannot_stand_is_named_with_its_file(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(ConfigProblem) as caught:
        read(tmp_path, text)
    assert str(caught.value).startswith(f"{tmp_path / 'a.yaml'}: ")
    assert message in str(caught.value)


def test_a_missing_file_is_a_problem_and_no_traceback(tmp_path: Path) -> None:
    with pytest.raises(ConfigProblem, match=r"gone\.yaml: cannot be read: No such file"):
        read_mapping(tmp_path / "gone.yaml")
