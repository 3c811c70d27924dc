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


DOCKERFILES = sorted((ROOT / "docker").glob("*Dockerfile"))
INSTRUCTIONS = {"FROM", "LABEL", "ENV", "WORKDIR", "COPY", "RUN", "USER", "HEALTHCHECK", "ENTRYPOINT", "CMD"}
"""Those that we need: no ADD, which fetches and unpacks, and no ARG or EXPOSE, which nothing here reads."""

each_dockerfile = pytest.mark.parametrize("path", DOCKERFILES, ids=lambda path: path.name)


def steps(path: Path) -> list[tuple[str, str]]:
    """Instructions and what they say, lines that go on joined."""
    text = "\n".join(line for line in path.read_text().splitlines() if not line.startswith("#"))
    lines = re.sub(r"\\\n\s*", "", text).splitlines()
    return [(word, rest) for word, _, rest in (line.partition(" ") for line in lines if line)]


@each_dockerfile
def test_a_dockerfile_has_instructions_that_exist_and_begins_with_a_release(path: Path) -> None:
    found = steps(path)
    assert {word for word, _ in found} <= INSTRUCTIONS
    assert found[0][0] == "FROM"
    for _, image in (step for step in found if step[0] == "FROM"):
        assert re.match(r"[\w./-]+:v?\d+\.\d[\w.-]*( AS \w+)?$", image)


@each_dockerfile
def test_what_is_copied_from_a_stage_was_made_in_one(path: Path) -> None:
    found = steps(path)
    stages = {rest.partition(" AS ")[2] for word, rest in found if word == "FROM"}
    assert set(re.findall(r"--from=(\w+)", path.read_text())) <= stages


@each_dockerfile
def test_packages_come_by_hash_or_out_of_our_own_build(path: Path) -> None:
    installs = [
        one for word, rest in steps(path) if word == "RUN" for one in rest.split("&&") if " install " in one
    ]
    assert [one for one in installs if "pip" in one]
    for one in (one for one in installs if "pip" in one):
        assert "--require-hashes" in one or "--no-deps /wheels/specguard-" in one


@pytest.mark.parametrize("name", ["Dockerfile", "router.Dockerfile"])
def test_an_image_of_ours_is_nobody_and_says_whether_it_is_well(name: str) -> None:
    words = [word for word, _ in steps(ROOT / "docker" / name)]
    last = words[len(words) - 1 - words[::-1].index("FROM") :]
    assert dict(steps(ROOT / "docker" / name))["USER"] == "10001"
    assert last.index("USER") < last.index("HEALTHCHECK") < last.index("ENTRYPOINT")


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
