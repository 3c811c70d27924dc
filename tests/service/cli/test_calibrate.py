import json
import random
from pathlib import Path

import pytest

from service.cli import run
from service.core.baseline import Baselines


def lines(streams: int, **more: object) -> str:
    rng = random.Random(1)
    out = []
    for _ in range(streams):
        steps = [[3, min(3, rng.choice((0, 1, 2, 3, 3, 3)))] for _ in range(80)]
        out.append(json.dumps({"steps": steps, "model": "m", "worker": "http://w", **more}))
    return "\n".join(out) + "\n"


def test_recorded_streams_become_baselines(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file, out = tmp_path / "clean.jsonl", tmp_path / "baselines.json"
    file.write_text(lines(60, temperature=0.0) + lines(60))
    assert run(["calibrate", str(file), "--out", str(out), "--json"]) == 0
    said = json.loads(capsys.readouterr().out)
    assert said["streams"] == 120
    assert {row["stratum"] for row in said["strata"]} == {"greedy/free/prose", "warm/free/prose"}
    anchors = Baselines.load(out.read_bytes()).anchors("http://w", 3)
    assert anchors is not None
    assert anchors.of("m", 0.0, grammar=False)


def test_a_run_goes_on_from_an_earlier_one(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file, out = tmp_path / "clean.jsonl", tmp_path / "baselines.json"
    file.write_text(lines(30))
    assert run(["calibrate", str(file), "--out", str(out)]) == 0
    assert run(["calibrate", str(file), "--from", str(out), "--out", str(out)]) == 0
    (sheet,) = Baselines.load(out.read_bytes()).sheets.values()
    assert 59 < sheet.streams < 60
    assert "30 streams learned" in capsys.readouterr().out


def test_only_clean_streams_teach_anything(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file, out = tmp_path / "mixed.jsonl", tmp_path / "baselines.json"
    bad = lines(1, text="and on and on " * 60)
    short = json.dumps({"steps": [[3, 1]]}) + "\n"
    file.write_text(lines(2, text="All is well here.") + bad + short + '{"steps": [[1, 2]]}\nno json\n')
    assert run(["calibrate", str(file), "--out", str(out), "--json"]) == 0
    streams = capsys.readouterr()
    said = json.loads(streams.out)
    assert [said[key] for key in ("streams", "not_clean", "too_short", "unreadable")] == [2, 1, 1, 2]
    assert f"{file}:5" in streams.err


@pytest.mark.parametrize(
    ("arguments", "code"),
    [([], 2), (["missing.jsonl"], 2), (["empty.jsonl"], 1), (["empty.jsonl", "--from", "empty.jsonl"], 2)],
)
def test_nothing_to_learn_from_is_told_in_one_line(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    arguments: list[str],
    code: int,
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "empty.jsonl").write_text("")
    assert run(["calibrate", *arguments]) == code
    assert capsys.readouterr().err.count("\n") == 1


def test_a_sidecar_that_does_not_answer_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["calibrate", "--live", "http://127.0.0.1:9", "--seconds", "1"]) == 2
    assert "127.0.0.1:9" in capsys.readouterr().err
