"""The command line: help with an example everywhere, one clear line for a mistake, exit codes that hold."""

import os
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import pytest
from cyclopts import App

from service.cli import app, run
from service.cli.exits import BAD_INPUT, DONE

COMMAND = Path(sys.prefix) / "bin" / "specguard"


def leaves(group: App, *before: str) -> list[tuple[str, ...]]:
    """Every command that does something, by the words that call it."""
    found: list[tuple[str, ...]] = []
    for name in group:
        if name.startswith("-"):
            continue
        inner = group[name]
        nested = leaves(inner, *before, name)
        found += nested or [(*before, name)]
    return found


COMMANDS = leaves(app)


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_every_command_has_help_with_an_example(
    words: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    assert run([*words, "--help"]) == DONE
    said = " ".join(capsys.readouterr().out.split())
    assert f"Example: specguard {' '.join(words)}" in said


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_no_command_offers_to_undo_an_option(
    words: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    run([*words, "--help"])
    assert [word for word in capsys.readouterr().out.split() if word.startswith(("--no-", "--empty-"))] == []


def test_the_groups_are_those_of_the_interface() -> None:
    assert {words[0] for words in COMMANDS} >= {"serve", "inspect", "rules", "demo", "lab"}


def test_the_version_is_the_packages(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["--version"]) == DONE
    assert capsys.readouterr().out.strip() == f"specguard {version('specguard')}"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["servee"], 'Did you mean "serve"?'),
        (["serve", "--nope"], "Unknown option: --nope"),
        (["serve", "--data-port", "many"], "--data-port"),
        (["rules", "check", "no-such-set"], "no rule set 'no-such-set'"),
        (["inspect", "no-such-file"], "cannot be read"),
    ],
)
def test_a_mistake_is_one_line_on_stderr_and_exit_2(
    words: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(words) == BAD_INPUT
    told = capsys.readouterr()
    assert told.out == ""
    (line,) = told.err.splitlines()
    assert line.startswith("specguard: ")
    assert said in line


@pytest.mark.e2e
def test_a_reader_that_has_seen_enough_is_no_error(tmp_path: Path) -> None:
    texts = tmp_path / "texts.jsonl"
    texts.write_text('{"id": 1, "text": "some words"}\n' * 3000)
    read, write = os.pipe()
    process = subprocess.Popen([COMMAND, "inspect", texts, "--json"], stdout=write, stderr=subprocess.PIPE)
    os.close(write)
    os.read(read, 10)
    os.close(read)
    assert process.communicate(timeout=50)[1] == b""
    assert process.returncode == DONE
