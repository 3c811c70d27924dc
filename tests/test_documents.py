"""The commands in the documents are commands that we have: each parses, with the options it names."""

import re
import shlex
import subprocess
from pathlib import Path
from typing import Final

import pytest

from replay.lab.router import DEFAULT_BINARY
from service.cli import app

ROOT: Final = Path(__file__).parent.parent
DOCUMENTS: Final = [
    ROOT / "README.md",
    *(ROOT / "docker").rglob("README.md"),
    ROOT / "rules/README.md",
    ROOT / "replay/lab/README.md",
]


def lines_of(path: Path) -> list[str]:
    """What stands in a document's code blocks, lines that go on joined, remarks cut off."""
    blocks = re.findall(r"^```\w*\n(.*?)^```", path.read_text(), re.MULTILINE | re.DOTALL)
    lines = [line for block in blocks for line in re.sub(r"\\\n\s*", "", block).splitlines()]
    return [line.partition("   #")[0].strip() for line in lines if line.strip() and line[0] != "#"]


def commands(program: str) -> list[str]:
    """What follows a program's name, wherever it is run and whatever is set for it."""
    pattern = re.compile(rf"^(?:\w+=\S* )*(?:[\w./-]*/)?{program} (.*)$")
    found = [match[1] for path in DOCUMENTS for line in lines_of(path) if (match := pattern.match(line))]
    return list(dict.fromkeys(found))


@pytest.mark.parametrize("command", commands("specguard"))
def test_a_command_of_ours_parses(command: str) -> None:
    app.parse_args(shlex.split(command), exit_on_error=False, print_error=False)


@pytest.mark.e2e
def test_options_of_the_router_are_options_that_it_has() -> None:
    asked = [str(DEFAULT_BINARY), "launch", "--help"]
    known = subprocess.run(asked, capture_output=True, text=True, timeout=50, check=True).stdout
    named = {word for one in commands("smg") for word in one.split() if word.startswith("--")}
    assert "--decode-policy" in named
    assert named <= set(re.findall(r"--[a-z][a-z-]+", known))


def test_a_target_of_make_that_is_spoken_of_is_there() -> None:
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    text = "".join(path.read_text() for path in DOCUMENTS)
    spoken = {*re.findall(r"`make ([a-z-]+)", text), *re.findall(r"^make ([a-z-]+)", text, re.MULTILINE)}
    assert {"demo", "test", "check-dashboards"} <= spoken <= targets
