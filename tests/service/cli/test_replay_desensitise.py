"""`specguard replay desensitise`."""

import json
from pathlib import Path

import pytest

from replay.trace import FORMAT, TraceHeader, TraceRequest, read_trace, write_trace
from service.cli import run
from service.cli.exits import BAD_INPUT, DONE


@pytest.fixture
def given(tmp_path: Path) -> Path:
    path = tmp_path / "day.trace"
    bodies = [
        {"messages": [{"role": "user", "content": f"Call Jane Doe about contract {n}"}]} for n in range(3)
    ]
    requests = [TraceRequest(id=str(n), at_s=n, body=body) for n, body in enumerate(bodies)]
    write_trace(path, TraceHeader(format=FORMAT, source="test"), requests)
    return path


def test_the_proof_is_printed_and_the_names_are_gone(
    given: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "safe"
    assert run(["replay", "desensitise", str(given), "--out", str(out)]) == DONE
    assert "holds: shape kept, wording gone" in capsys.readouterr().out
    assert "Jane" not in out.read_text()
    header, requests = read_trace(out)
    assert header.salted
    assert len(list(requests)) == 3


def test_one_salt_file_makes_two_traces_fit_each_other(
    given: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    salt = tmp_path / "salt"
    salt.write_bytes(b"0123456789abcdef")
    outs = [tmp_path / "one", tmp_path / "two"]
    for out in outs:
        command = ["replay", "desensitise", str(given), "--out", str(out), "--salt-file", str(salt), "--json"]
        assert run(command) == DONE
    assert outs[0].read_bytes() == outs[1].read_bytes()
    told = json.loads(capsys.readouterr().out.partition("}\n{")[0] + "}")
    assert (told["holds"], told["requests"]) == (True, 3)


@pytest.mark.parametrize(("salt", "says"), [(b"short", "16 bytes at least"), (None, "must be another file")])
def test_what_cannot_be_done_is_one_line(
    salt: bytes | None, says: str, given: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "salt"
    path.write_bytes(salt or b"0123456789abcdef")
    out = given if salt is None else tmp_path / "safe"
    assert (
        run(["replay", "desensitise", str(given), "--out", str(out), "--salt-file", str(path)]) == BAD_INPUT
    )
    assert says in capsys.readouterr().err


def test_a_file_that_is_no_trace_says_how_to_import_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "x"
    path.write_text("{}\n")
    assert run(["replay", "desensitise", str(path), "--out", str(tmp_path / "y")]) == BAD_INPUT
    assert "specguard replay import" in capsys.readouterr().err
