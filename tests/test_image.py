"""The image is built from what the wheel is made of: nothing of it is left out of the build's context."""

import re
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
WHEEL = PROJECT["tool"]["hatch"]["build"]["targets"]["wheel"]
SOURCES = [
    "pyproject.toml",
    PROJECT["project"]["readme"],
    *PROJECT["project"]["license-files"],
    *WHEEL["packages"],
    *WHEEL["force-include"],
]
"""Paths that building the wheel reads."""


def copied() -> set[str]:
    """What the image's build stage copies out of its context."""
    lines = re.findall(
        r"^COPY (?!--from)(.+) \S+$", (ROOT / "docker" / "Dockerfile").read_text(), re.MULTILINE
    )
    return {path for line in lines for path in line.split()}


@pytest.mark.parametrize("path", SOURCES)
def test_what_the_wheel_is_made_of_reaches_the_build(path: str) -> None:
    assert path in copied()
    allowed = (ROOT / ".dockerignore").read_text().splitlines()
    assert f"!{path.partition('/')[0]}" in allowed


@pytest.mark.parametrize("path", sorted(copied()))
def test_what_the_build_copies_is_there(path: str) -> None:
    assert (ROOT / path).exists()
