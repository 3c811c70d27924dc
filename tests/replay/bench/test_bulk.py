from pathlib import Path

import pytest

from replay.bench import bulk, detectors
from service.core.recorded import Rules

RULES = Rules(*detectors.load())


def test_files_are_sorted_into_classes() -> None:
    names = ["a/b.py", "a/b.h", "a/b.json", "usr/share/i18n/locales/de_DE", "a/b.exe", "x/locale/de.js"]
    assert [bulk.class_of(Path("/") / name) for name in names] == [
        "python", "c", "json", "locale", "", "locale"
    ]  # fmt: skip


def test_windows_are_drawn_once_and_the_flagged_are_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "good.py").write_text("".join(f"value_{n} = {n * n}\n" for n in range(600)))
    (tmp_path / "bad.md").write_text("It goes on and on. " * 400)
    (tmp_path / "short.md").write_text("nothing")
    (tmp_path / "charset.md").write_text(("to be mapped: \ufffd " * 100)[:1500])
    (tmp_path / "binary.json").write_bytes(b"\xff\xfe" * 400)
    score = bulk.score(RULES, 40, roots=[tmp_path])
    assert score["python"]["flagged"] == 0
    assert 1 < score["python"]["windows"] <= 7
    assert score["markdown"]["flagged"] == score["markdown"]["windows"]
    assert score["all"]["windows"] == score["python"]["windows"] + score["markdown"]["windows"]
    assert score[bulk.MARKED_CLASS]["windows"] == 1
    assert "bad.md" in capsys.readouterr().out
