"""The extension is run as it is, with the options it is given."""

import sys
from pathlib import Path

import pytest

from replay.bench.sglang_rust import main


def test_the_module_gets_the_words(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    module = tmp_path / "_bench.py"
    module.write_text("def run_argv(words):\n    print(*words)\n")
    main(str(module), ["--num-prompts", "3"])
    assert capsys.readouterr().out == "sglang-bench --num-prompts 3\n"
    assert "_bench" not in sys.modules


def test_what_is_no_module_is_told(tmp_path: Path) -> None:
    with pytest.raises(SystemExit):
        main(str(tmp_path / "notes.txt"), [])
