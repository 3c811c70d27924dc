"""The key's file is refused where the key would be no secret, and never quoted."""

from pathlib import Path

import pytest

from service.config.probe_key import read_probe_key
from service.config.problem import ConfigProblem

KEY = "sixteen bytes or more"


def written(folder: Path, text: str, mode: int) -> str:
    file = folder / "key"
    file.write_text(text)
    file.chmod(mode)
    return str(file)


def test_a_private_key_is_read_without_its_line_end(tmp_path: Path) -> None:
    assert read_probe_key(written(tmp_path, KEY + "\n", 0o600)) == KEY.encode()


@pytest.mark.parametrize(
    ("text", "mode", "why"),
    [(KEY, 0o640, "others may read it"), ("short", 0o600, "16 bytes at least, got 5")],
)
def test_a_key_that_is_no_secret_is_refused_and_not_quoted(
    tmp_path: Path, text: str, mode: int, why: str
) -> None:
    with pytest.raises(ConfigProblem, match=why) as refused:
        read_probe_key(written(tmp_path, text, mode))
    assert text not in str(refused.value)


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigProblem, match=r"telemetry\.key_file: .*nowhere: cannot be read: No such file"):
        read_probe_key(str(tmp_path / "nowhere"))
