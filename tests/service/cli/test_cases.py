"""Kept cases are listed, shown, taken away whole or without text, and deleted, over the real admin API."""

import json
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from service.cli import run
from service.cli.exits import BAD_INPUT, DONE, FOUND
from tests.service.admin_running import PROMPT, admin_port


def told(capsys: pytest.CaptureFixture[str], *words: str) -> Any:  # noqa: ANN401 - any JSON value
    """What a command prints with --json; it must have gone well."""
    assert run([*words, "--json"]) == DONE
    return json.loads(capsys.readouterr().out)


def ids(capsys: pytest.CaptureFixture[str], url: str) -> dict[str, str]:
    return {case["rid"]: case["id"] for case in told(capsys, "cases", "list", "--admin", url)}


def test_cases_are_listed_newest_first_and_narrowed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with admin_port(tmp_path) as port:
        assert run(["cases", "list", "--admin", port.url]) == DONE
        assert capsys.readouterr().out == "no cases\n"
        port.keep("r1", "r2", "r3")
        assert set(ids(capsys, port.url)) == {"r1", "r2", "r3"}
        assert [c["rid"] for c in told(capsys, "cases", "list", "--admin", port.url, "--rid", "r2")] == ["r2"]
        assert len(told(capsys, "cases", "list", "--admin", port.url, "--limit", "2")) == 2
        assert told(capsys, "cases", "list", "--admin", port.url, "--kind", "garbled") == []
        assert run(["cases", "list", "--admin", port.url]) == DONE
        head, *rows = capsys.readouterr().out.splitlines()
        assert head.split() == ["at", "kind", "capture", "bytes", "replay", "rid", "id"]
        assert len(rows) == 3


def test_a_case_is_shown_without_a_word_of_its_text(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with admin_port(tmp_path) as port:
        port.keep("r1")
        (case,) = ids(capsys, port.url).values()
        assert run(["cases", "show", case, "--admin", port.url]) == DONE
        said = capsys.readouterr().out
        assert "corrupt: repetition by loop" in said
        assert "attempt 2   unknown:" in said
        assert "possible    bad_gpu: token 0" in said
        assert PROMPT not in said
        assert PROMPT in json.dumps(told(capsys, "cases", "show", case, "--admin", port.url))


def test_an_exported_case_is_named_by_what_it_holds(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with admin_port(tmp_path) as port:
        port.keep("r1", "r2")
        cases = ids(capsys, port.url).values()
        out = tmp_path / "bundles" / "deep"
        written = told(capsys, "cases", "export", *cases, "--admin", port.url, "--out", str(out))
    assert {one["id"] for one in written} == set(cases)
    for one in written:
        content = Path(one["file"]).read_bytes()
        assert sha256(content).hexdigest() == one["id"]
        assert PROMPT.encode() in content


def test_an_exported_case_without_text_keeps_who_shares_a_prefix(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with admin_port(tmp_path) as port:
        port.keep("r1")
        (case,) = ids(capsys, port.url).values()
        where = ["--admin", port.url, "--out", str(tmp_path), "--text-free"]
        (one,) = told(capsys, "cases", "export", case, *where)
    content = Path(one["file"]).read_bytes()
    bundle = json.loads(content)
    assert PROMPT.encode() not in content
    assert (bundle["capture"], bundle["text_free_of"]) == ("hashes", case)
    assert bundle["request"]["messages"][0]["blocks"]
    assert bundle["attempts"][0]["answer_blocks"]
    assert one["id"] == sha256(content).hexdigest() != case


def test_a_deleted_case_is_gone(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with admin_port(tmp_path) as port:
        port.keep("r1", "r2")
        cases = ids(capsys, port.url)
        assert run(["cases", "delete", cases["r1"], "--admin", port.url]) == DONE
        assert capsys.readouterr().out.endswith("deleted 1\n")
        assert set(ids(capsys, port.url)) == {"r2"}
        assert run(["cases", "delete", cases["r1"], "--admin", port.url]) == BAD_INPUT
        assert f"has no cases/{cases['r1']}" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["cases", "show", "f" * 64], "has no cases/fff"),
        (["cases", "export"], "name the cases to export"),
        (["cases", "delete"], "name the cases to delete"),
        (["cases", "delete", "../incidents/1"], "is no id"),
    ],
)
def test_what_cannot_be_had_is_told_in_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], words: list[str], said: str
) -> None:
    with admin_port(tmp_path) as port:
        assert run([*words, "--admin", port.url]) == BAD_INPUT
    (line,) = capsys.readouterr().err.splitlines()
    assert said in line


def test_a_folder_that_cannot_be_written_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "file").write_text("no folder")
    with admin_port(tmp_path) as port:
        port.keep("r1")
        (case,) = ids(capsys, port.url).values()
        assert (
            run(["cases", "export", case, "--admin", port.url, "--out", str(tmp_path / "file")]) == BAD_INPUT
        )
    assert "cannot be written" in capsys.readouterr().err


def test_a_store_that_is_away_is_the_sidecars_failure(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with admin_port(tmp_path) as port:
        port.keep("r1")
        (tmp_path / "specguard.db").unlink()
        (tmp_path / "specguard.db").mkdir()
        assert run(["cases", "list", "--admin", port.url]) == FOUND
    assert "cannot use its store now" in capsys.readouterr().err
