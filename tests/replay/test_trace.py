"""The trace, written and read back."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from replay.trace import FORMAT, TraceError, TraceHeader, TraceRequest, read_trace, write_trace

HEADER = TraceHeader(format=FORMAT, source="test", block_tokens=16)
requests = st.lists(
    st.builds(
        TraceRequest,
        id=st.uuids().map(str),
        at_s=st.floats(0, 1e9),
        session=st.text(max_size=5),
        prompt_tokens=st.none() | st.integers(0, 10**6),
        blocks=st.lists(st.integers(0, 2**63), max_size=4).map(tuple),
        body=st.none() | st.dictionaries(st.text(max_size=5), st.integers(-(2**31), 2**31)),
        abort_after_s=st.none() | st.floats(0, 100),
    ),
    max_size=8,
    unique_by=lambda request: request.id,
)


def _written(tmp_path: Path, *lines: str) -> Path:
    path = tmp_path / "trace.jsonl"
    path.write_text("".join(lines))
    return path


HEAD_LINE = f'{{"format": "{FORMAT}", "source": "test"}}\n'


@given(kept=requests)
def test_what_was_written_is_read_back(
    kept: list[TraceRequest], tmp_path_factory: pytest.TempPathFactory
) -> None:
    path = tmp_path_factory.mktemp("trace") / "trace.jsonl"
    assert write_trace(path, HEADER, kept) == len(kept)
    header, found = read_trace(path)
    assert (header, list(found)) == (HEADER, kept)


def test_a_trace_that_cannot_be_finished_leaves_the_old_one(tmp_path: Path) -> None:
    path = tmp_path / "trace.jsonl"
    write_trace(path, HEADER, [TraceRequest(id="1", at_s=0.0)])

    def failing() -> Iterator[TraceRequest]:
        yield TraceRequest(id="2", at_s=0.0)
        raise OSError("disk full")

    with pytest.raises(OSError, match="disk full"):
        write_trace(path, HEADER, failing())
    _, found = read_trace(path)
    assert [request.id for request in found] == ["1"]
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ('{"id": "1", "at_s": 1.0}', r"trace.jsonl:2: the last line is cut off"),
        ('{"id": "1", "at_s"\n', r"trace.jsonl:2: is not JSON"),
        ('{"id": "1"}\n', r"trace.jsonl:2: .*at_s"),
        ('{"id": "1", "at_s": -1}\n', r"trace.jsonl:2: at_s must be"),
        ('{"id": "1", "at_s": 1, "prompt": "x"}\n', r"trace.jsonl:2: .*unknown field"),
        ('{"id": "1", "at_s": 1}\n{"id": "1", "at_s": 2}\n', r"trace.jsonl:3: id '1' is there twice"),
    ],
)
def test_a_bad_line_is_named(line: str, says: str, tmp_path: Path) -> None:
    _, found = read_trace(_written(tmp_path, HEAD_LINE, line))
    with pytest.raises(TraceError, match=says):
        list(found)


def test_a_file_of_another_kind_says_how_to_import_it(tmp_path: Path) -> None:
    with pytest.raises(TraceError, match="specguard replay import"):
        read_trace(_written(tmp_path, '{"timestamp": 0}\n'))


def test_a_later_format_is_refused(tmp_path: Path) -> None:
    with pytest.raises(TraceError, match=r"specguard\.trace/9"):
        read_trace(_written(tmp_path, '{"format": "specguard.trace/9", "source": "x"}\n'))


def test_a_request_shows_none_of_its_text() -> None:
    assert "secret" not in repr(TraceRequest(id="1", at_s=0.0, body={"prompt": "secret"}))
