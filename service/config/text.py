"""YAML as people mean it: the core schema of YAML 1.2, and a key may stand once.

PyYAML speaks YAML 1.1, where `off` is false, `1e5` is text and `017` is fifteen; a capture mode is called
`off` and thresholds are written `1e5`, so those readings would be wrong answers without an error.
"""

import re
from collections.abc import Hashable
from pathlib import Path
from typing import Any, Final

import yaml

from service.config.problem import ConfigProblem

_FLOAT: Final = (
    r"^(?:[-+]?(?:\.[0-9]+|[0-9]+\.[0-9]*)(?:[eE][-+]?[0-9]+)?|[-+]?[0-9]+[eE][-+]?[0-9]+"
    r"|[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN))$"
)
_CORE: Final = (  # tag, pattern, first characters
    ("bool", r"^(?:true|false)$", [*"tf"]),
    ("int", r"^[-+]?(?:0|[1-9][0-9]*)$", [*"-+0123456789"]),
    ("float", _FLOAT, [*"-+.0123456789"]),
    ("null", r"^(?:null|~|)$", [*"n~", ""]),
)


class _CoreLoader(yaml.SafeLoader):
    yaml_implicit_resolvers: dict[str, Any] = {}  # noqa: RUF012 - PyYAML's own shape; filled below

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:
        seen: set[str] = set()
        for key, _ in node.value:
            if key.value in seen:
                line = key.start_mark.line + 1
                raise yaml.MarkedYAMLError(problem=f"line {line}: the key {key.value!r} stands twice")
            seen.add(key.value)
        return super().construct_mapping(node, deep)


for _tag, _pattern, _first in _CORE:
    _CoreLoader.add_implicit_resolver(f"tag:yaml.org,2002:{_tag}", re.compile(_pattern), _first)


def read_mapping(path: Path) -> dict[str, Any]:
    """The mapping in a YAML file. Raises `ConfigProblem` naming the file and, where known, the line."""
    try:
        parsed = yaml.load(path.read_bytes(), _CoreLoader)  # noqa: S506 - a SafeLoader with fewer readings
    except OSError as broken:
        raise ConfigProblem([f"{path}: cannot be read: {broken.strerror or broken}"]) from None
    except yaml.YAMLError as broken:
        raise ConfigProblem([f"{path}: not valid YAML: {_where(broken)}"]) from None
    if parsed is None:
        return {}
    if not isinstance(parsed, dict):
        raise ConfigProblem([f"{path}: expected a mapping of keys, got a {type(parsed).__name__}"])
    return {str(key): value for key, value in parsed.items()}


def _where(broken: yaml.YAMLError) -> str:
    mark = getattr(broken, "problem_mark", None)
    problem = getattr(broken, "problem", None) or str(broken).splitlines()[0]
    return f"line {mark.line + 1}, column {mark.column + 1}: {problem}" if mark else str(problem)
