"""The shape of the tree, held by arithmetic: sizes, mirrored tests, no trace of the machine it grew on."""

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
MAX_MODULE_LINES = 400
"""The largest module of the code bases we take as models; ours have a median near 120."""
MAX_FUNCTION_LINES = 60
"""Ten times the median function."""
SOURCES = sorted(path for top in ("service", "replay") for path in (ROOT / top).rglob("*.py"))

TESTED_ELSEWHERE: dict[str, str] = {
    "replay/lab/train.py": "needs torch and minutes; test_model.py holds what it makes",
}
"""Modules without a test file of their own, each with the reason. An entry that is no longer needed fails."""

MACHINE_PATHS = re.compile(
    r"(?<![\w.])/(?:work/(?:main|shared)|root/|tmp/team|home/\w+/|opt/(?:wheels|pypi))"
    r"|^\s*--(?:extra-)?index-url|^\s*--(?:find-links|trusted-host)",
    re.MULTILINE,
)


def _name(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def _tracked() -> list[Path]:
    listing = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],  # noqa: S607 - git is found on PATH
        cwd=ROOT,
        check=True,
        capture_output=True,
        text=True,
    )
    paths = (ROOT / name for name in listing.stdout.split("\0") if name)
    return [path for path in paths if path.is_file() and path != Path(__file__)]


def _functions(tree: ast.Module) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    return (node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef))


def _does_something(function: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    """Tell a body from the `...` or docstring of a protocol's method."""
    return not all(
        isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) for node in function.body
    )


def _mirror(path: Path) -> Path:
    """Return the test file of a module; a package's own code is tested under the package's name."""
    inside = path.relative_to(ROOT)
    stem = inside.parent.name if inside.stem == "__init__" else inside.stem.strip("_")
    home = inside.parent.parent if inside.stem == "__init__" else inside.parent
    return ROOT / "tests" / home / f"test_{stem}.py"


def _foreign_imports(source: str) -> set[str]:
    """Return the absolute imports that are neither the standard library nor the probe's own."""
    names: set[str] = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            names.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.level == 0:
            names.add(node.module or "")
    own = ("service.probe", *sys.stdlib_module_names)
    return {
        name for name in names if name not in own and not name.startswith(tuple(f"{top}." for top in own))
    }


def _has_code(path: Path) -> bool:
    return any(map(_does_something, _functions(ast.parse(path.read_text()))))


def test_no_module_outgrows_its_idea() -> None:
    lengths = {_name(path): len(path.read_text().splitlines()) for path in SOURCES}
    assert {name: lines for name, lines in lengths.items() if lines > MAX_MODULE_LINES} == {}


def test_no_function_outgrows_a_screen() -> None:
    lengths = {
        f"{_name(path)}:{function.lineno} {function.name}": (function.end_lineno or 0) - function.lineno + 1
        for path in SOURCES
        for function in _functions(ast.parse(path.read_text()))
    }
    assert {name: lines for name, lines in lengths.items() if lines > MAX_FUNCTION_LINES} == {}


def test_every_module_with_code_has_its_mirror_test() -> None:
    bare = {_name(path) for path in SOURCES if _has_code(path) and not _mirror(path).is_file()}
    assert bare == set(TESTED_ELSEWHERE)


def test_nothing_in_the_tree_names_a_machine() -> None:
    marks = [
        f"{_name(path)}: {match.group().strip()}"
        for path in _tracked()
        for match in MACHINE_PATHS.finditer(path.read_text(errors="ignore"))
    ]
    assert marks == []


@pytest.mark.parametrize(
    ("module", "mirror"),
    [
        ("service/core/sse.py", "tests/service/core/test_sse.py"),
        ("replay/lab/__init__.py", "tests/replay/test_lab.py"),
        ("service/__main__.py", "tests/service/test_main.py"),
    ],
)
def test_a_mirror_lies_where_a_reader_looks(module: str, mirror: str) -> None:
    assert _name(_mirror(ROOT / module)) == mirror


@pytest.mark.parametrize(
    "text", ["see /root/notes", "path=/home/ann/x", "--index-url example", "a /tmp/team/b"]
)
def test_a_machine_path_is_recognised(text: str) -> None:
    assert MACHINE_PATHS.search(text)


@pytest.mark.parametrize(
    "text", ["GET /workers", "service/work/mainly", "/homework/", "a --index-url option"]
)
def test_an_ordinary_path_is_let_be(text: str) -> None:
    assert not MACHINE_PATHS.search(text)


def test_the_probe_stands_alone_on_the_standard_library() -> None:
    probe = [path for path in SOURCES if "probe" in path.relative_to(ROOT).parts[1:2]]
    assert {name for path in probe for name in _foreign_imports(path.read_text())} == set()


def test_a_foreign_import_is_recognised() -> None:
    source = "import os.path\nfrom . import near\nimport numpy as np\nfrom service.core import events\n"
    assert _foreign_imports(source) == {"numpy", "service.core"}
