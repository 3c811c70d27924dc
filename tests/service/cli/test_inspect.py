"""`specguard inspect` judges texts and captures, loses no line, and says in its exit code what it found."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from service.cli import run
from service.cli.exits import BAD_INPUT, DONE, FOUND

COMMAND = Path(sys.prefix) / "bin" / "specguard"
CAPTURES = Path(__file__).parents[2] / "fixtures" / "captures"
KEYS = {"id", "kind", "score", "detector", "at_token", "level"}
CLEAN = "Put the record back in the drawer and tell nobody where it is."
LOOP = "I will check the file once more. " * 60


def inspected(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, list[dict[str, Any]], str]:
    code = run(["inspect", *words, "--json"])
    told = capsys.readouterr()
    return code, [json.loads(line) for line in told.out.splitlines()], told.err


def lines(folder: Path, *records: object) -> str:
    path = folder / "texts.jsonl"
    path.write_text("".join(f"{one if isinstance(one, str) else json.dumps(one)}\n" for one in records))
    return str(path)


def test_each_text_is_judged_under_its_own_id(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = lines(
        tmp_path, {"id": "a", "text": CLEAN, "lang": "en"}, {"id": "b", "text": LOOP}, {"text": CLEAN}
    )
    code, found, _ = inspected(capsys, file)
    assert code == FOUND
    assert [(one["id"], one["kind"]) for one in found] == [
        ("a", "normal"),
        ("b", "repetition"),
        (3, "normal"),
    ]
    assert all(set(one) == KEYS for one in found)
    assert found[0]["at_token"] is None
    assert found[1]["score"] >= 5


def test_texts_that_are_all_normal_end_with_zero(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    record = {"id": 1, "text": CLEAN, "prompt": "where?", "steps": [[3, 3], [3, 0]]}
    assert inspected(capsys, lines(tmp_path, record))[0] == DONE


@pytest.mark.parametrize(
    "name", ["sgl-ngram-chat-stream.sse", "sgl-ngram-generate-stream.sse", "sgl-plain-chat.json"]
)
def test_a_clean_capture_is_normal(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    code, (found,), _ = inspected(capsys, str(CAPTURES / name))
    assert (code, found["kind"], found["id"]) == (DONE, "normal", str(CAPTURES / name))


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("{broken", "malformed"),
        ('{"id": 1}', "missing required field `text`"),
        ('{"text": 3}', "Expected `str`"),
        ('{"text": "x", "steps": [[1]]}', "steps"),
        ('{"text": "x", "steps": [[2, 3]]}', "0 <= accepted <= drafted"),
        ("[1]", "Expected `object`"),
    ],
)
def test_a_bad_line_is_named_and_the_others_are_judged(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], line: str, said: str
) -> None:
    code, found, told = inspected(capsys, lines(tmp_path, {"text": CLEAN}, line, {"text": LOOP}))
    assert code == BAD_INPUT
    assert [one["id"] for one in found] == [1, 3]
    assert told.startswith(f"specguard: {tmp_path / 'texts.jsonl'}:2: ")
    assert said in told


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"", "is empty"),
        (b" \n", "is empty"),
        (b"hello", "is neither"),
        (b'{"a":' * 100_000, "maximum recursion depth"),
    ],
)
def test_what_is_no_input_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], data: bytes, said: str
) -> None:
    file = tmp_path / "x"
    file.write_bytes(data)
    code, found, told = inspected(capsys, str(file))
    assert (code, found) == (BAD_INPUT, [])
    assert said in told


def test_a_missing_file_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    assert inspected(capsys, "no-such-file.jsonl")[::2] == (
        BAD_INPUT,
        "specguard: no-such-file.jsonl: cannot be read: No such file or directory\n",
    )


def test_invalid_utf_8_costs_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "texts.jsonl"
    file.write_bytes(b'{"text": "\xff"}\n' + json.dumps({"text": CLEAN}).encode())
    code, found, told = inspected(capsys, str(file))
    assert (code, len(found)) == (BAD_INPUT, 1)
    assert "texts.jsonl:1: " in told


@pytest.mark.e2e
def test_without_a_file_standard_input_is_read() -> None:
    data = json.dumps({"id": "a", "text": LOOP}).encode()
    ended = subprocess.run([COMMAND, "inspect", "--json"], input=data, capture_output=True, check=False)
    assert ended.returncode == FOUND
    assert json.loads(ended.stdout)["kind"] == "repetition"


def test_people_get_a_table_and_a_count(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = lines(tmp_path, {"id": "a", "text": CLEAN}, {"id": "[bold]b", "text": LOOP})
    assert run(["inspect", file]) == FOUND
    told = capsys.readouterr().out
    assert "[bold]b" in told
    assert "repetition" in told
    assert told.splitlines()[-1] == "2 judged, 1 corrupted"


def test_a_long_name_is_whole_in_the_table(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / ("deep" * 30)
    folder.mkdir()
    (folder / "one.sse").write_bytes(b"data: [DONE]\n\n")
    run(["inspect", str(folder / "one.sse")])
    assert str(folder / "one.sse") in capsys.readouterr().out


def test_another_rule_set_judges_otherwise(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["inspect", lines(tmp_path, {"text": LOOP}), "--rules", "no-such-set"]) == BAD_INPUT
    assert "no rule set 'no-such-set'" in capsys.readouterr().err
