"""What commands print is what was given to them, a line at its end."""

import json

import pytest

from service.cli.options import print_json, print_line


def test_json_comes_out_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    print_json({"a": [1, None]})
    assert json.loads(capsys.readouterr().out) == {"a": [1, None]}


def test_a_line_ends(capsys: pytest.CaptureFixture[str]) -> None:
    print_line("done")
    assert capsys.readouterr().out == "done\n"
