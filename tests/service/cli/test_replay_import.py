"""`specguard replay import`."""

import json
from pathlib import Path

import pytest

from replay.trace import read_trace
from service.cli import run
from service.cli.exits import BAD_INPUT, DONE

ROWS = (
    '{"timestamp": 0, "input_length": 600, "output_length": 5, "hash_ids": [1, 2], "extra_column": 1}\n' * 3
)


@pytest.fixture
def given(tmp_path: Path) -> Path:
    path = tmp_path / "day.jsonl"
    path.write_text(ROWS)
    return path


def test_what_was_read_and_assumed_is_told(given: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["replay", "import", str(given)]) == DONE
    said = capsys.readouterr().out
    for told in (
        "mooncake",
        "3 in 0.0 s",
        "1 different times, 3 at most at once",
        "p50 600",
        "timestamp: ms",
    ):
        assert told in said
    assert "extra_column (3)" in said
    header, requests = read_trace(given.with_suffix(".trace"))
    assert (header.block_tokens, len(list(requests))) == (512, 3)


def test_json_tells_the_same(given: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "t"
    assert run(["replay", "import", str(given), "--out", str(out), "--json"]) == DONE
    told = json.loads(capsys.readouterr().out)
    assert (told["trace"], told["format"], told["summary"]["rows"]) == (str(out), "mooncake", 3)
    assert told["dropped"] == {"extra_column": 3}


@pytest.mark.parametrize(
    ("choices", "says"),
    [
        (["--format", "parquet"], "no format is called 'parquet'; there are aiperf-inputs, azure"),
        (["--format", "azure"], "has no column TIMESTAMP, ContextTokens, GeneratedTokens"),
        (["--out", "/nowhere/else/t"], "No such file or directory"),
    ],
)
def test_what_cannot_be_read_or_written_is_one_line(
    choices: list[str], says: str, given: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code = run(["replay", "import", str(given), *choices])
    said = capsys.readouterr().err
    assert code == BAD_INPUT
    assert says in said
    assert "Traceback" not in said


def test_an_open_question_writes_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "quick.jsonl"
    path.write_text("".join(f'{{"timestamp": {at / 10}, "input_length": 5}}\n' for at in range(30)))
    assert run(["replay", "import", str(path)]) == BAD_INPUT
    assert "--unit s" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == [path]


def test_a_missing_file_is_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["replay", "import", str(tmp_path / "none")]) == BAD_INPUT
    assert "No such file" in capsys.readouterr().err
