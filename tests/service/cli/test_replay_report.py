"""`specguard replay report`: the files, and the code of the verdict."""

import json
from pathlib import Path

import pytest

from service.cli import run
from service.cli.exits import BAD_INPUT, FOUND
from tests.replay.judging.made import WRONG, planned, ran


def _files(home: Path) -> list[str]:
    header, sends = planned(home / "p")
    ran(home / "r", header, sends, lambda send: {"text": WRONG} if send.arm == "peak" else {})
    return [str(home / "p"), str(home / "r")]


def test_page_json_and_junit_are_written(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    page, told, junit = (tmp_path / name for name in ("a.html", "a.json", "a.xml"))
    words = ["--out", str(page), "--json-file", str(told), "--junit", str(junit), "--text-free"]
    assert run(["replay", "report", *_files(tmp_path), *words]) == FOUND
    assert "LOAD-DEPENDENT" in capsys.readouterr().out
    assert page.read_text().startswith("<!doctype html>")
    assert WRONG not in page.read_text() + told.read_text() + junit.read_text()
    assert json.loads(told.read_text())["verdict"]["verdict"] == "LOAD-DEPENDENT"
    assert 'failures="1"' in junit.read_text()


def test_a_place_that_cannot_be_written_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    away = str(tmp_path / "absent" / "a.html")
    assert run(["replay", "report", *_files(tmp_path), "--out", away]) == BAD_INPUT
    assert "a.html: No such file" in capsys.readouterr().err
