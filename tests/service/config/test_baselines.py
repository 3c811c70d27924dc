from pathlib import Path

import pytest

from service.config.baselines import read_baselines
from service.config.problem import ConfigProblem
from service.core.baseline import Baselines, key_of


def test_what_calibrate_wrote_is_read(tmp_path: Path) -> None:
    learned, file = Baselines(), tmp_path / "baselines.json"
    learned.learn(key_of("m", "http://w", 3, 0.0, grammar=False), [(3, 2)] * 20)
    file.write_bytes(learned.dump())
    assert read_baselines(str(file)).sheets == learned.sheets


def test_a_file_that_is_missing_or_wrong_is_named(tmp_path: Path) -> None:
    (tmp_path / "wrong.json").write_text("[]")
    for name in ("missing.json", "wrong.json"):
        with pytest.raises(ConfigProblem, match=name):
            read_baselines(str(tmp_path / name))
