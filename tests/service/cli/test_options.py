"""What commands print is what was given to them, a line at its end."""

import json
import os
import sys

import pytest

from service.cli.options import print_json, print_line, read_or_not


def test_json_comes_out_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    print_json({"a": [1, None]})
    assert json.loads(capsys.readouterr().out) == {"a": [1, None]}


def test_a_line_ends(capsys: pytest.CaptureFixture[str]) -> None:
    print_line("done")
    assert capsys.readouterr().out == "done\n"


def test_a_reader_that_has_left_changes_no_exit_code(monkeypatch: pytest.MonkeyPatch) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    with os.fdopen(writer, "w") as nobody_reads:
        monkeypatch.setattr(sys, "stdout", nobody_reads)
        with read_or_not():
            print_line("a verdict")
        print_line("and more")
        nobody_reads.flush()
