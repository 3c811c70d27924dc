"""Traffic of any origin, read into one trace."""

from pathlib import Path

import pytest

from replay.importers import FORMATS, Source, SourceError, import_trace, sniff
from replay.trace import read_trace


def _file(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "given"
    path.write_text(text)
    return path


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "is empty"),
        (" \n", "is empty"),
        ("hello\n", "no format that is known; say --format, one of aiperf"),
    ],
)
def test_a_file_of_no_known_format_says_what_to_do(text: str, says: str, tmp_path: Path) -> None:
    with pytest.raises(SourceError, match=says):
        sniff(_file(tmp_path, text))


def test_a_file_that_cannot_be_read_to_its_end_writes_nothing(tmp_path: Path) -> None:
    path, out = _file(tmp_path, '{"timestamp": 0, "input_length": 4}\n{"timest'), tmp_path / "out"
    with pytest.raises(SourceError):
        import_trace(Source(path), FORMATS["mooncake"], out)
    assert not out.exists()


def test_equal_times_out_of_order_keep_their_order(tmp_path: Path) -> None:
    rows = [(5, "a"), (1, "b"), (1, "c"), (0, "d")]
    text = "".join(f'{{"timestamp": {at}, "input_length": 4, "id": "{name}"}}\n' for at, name in rows)
    out = tmp_path / "out"
    import_trace(Source(_file(tmp_path, text)), FORMATS["mooncake"], out)
    assert [one.id for one in read_trace(out)[1]] == ["d", "b", "c", "a"]
