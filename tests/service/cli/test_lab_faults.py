"""`specguard lab faults`: one JSON line, a table, bad names refused."""

import json

import pytest

from service.cli import run
from service.cli.exits import BAD_INPUT, DONE

QUICK = ["lab", "faults", "--requests", "1", "--onset", "4", "--fault", "swap_both"]


def test_the_matrix_is_one_json_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert run([*QUICK, "--json"]) == DONE
    (line,) = capsys.readouterr().out.splitlines()
    (cell,) = json.loads(line)["cells"]
    assert (cell["fault"], cell["touched"], cell["onset_tokens"]) == ("swap_both", 1, 4)


def test_the_table_has_a_line_a_cell(capsys: pytest.CaptureFixture[str]) -> None:
    assert run([*QUICK, "--ngram"]) == DONE
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 2
    assert lines[1].startswith("swap_both")


@pytest.mark.parametrize(
    ("words", "named"),
    [
        (["--fault", "gremlins"], "gremlins"),
        (["--fault", "zero/half"], "half"),
        (["--onset", "0"], "onset"),
        (["--requests", "0"], "--requests"),
    ],
)
def test_bad_input_is_named(words: list[str], named: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["lab", "faults", *words]) == BAD_INPUT
    assert named in capsys.readouterr().err
