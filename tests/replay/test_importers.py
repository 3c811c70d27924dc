"""Traffic of any origin, read into one trace."""

from contextlib import suppress
from pathlib import Path

import pytest

from replay.importers import FORMATS, Question, Source, SourceError, import_trace, sniff
from replay.trace import read_trace
from tests.replay.importers.samples import FORMS, JUNK, places, spoilt, value_of, written


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


def test_an_id_that_is_there_twice_is_named_with_its_place(tmp_path: Path) -> None:
    row = '{"timestamp": 0, "input_length": 4, "id": "a"}\n'
    with pytest.raises(SourceError, match="request 2: its id 'a' is there twice"):
        import_trace(Source(_file(tmp_path, row * 2)), FORMATS["mooncake"], tmp_path / "out")


def test_equal_times_out_of_order_keep_their_order(tmp_path: Path) -> None:
    rows = [(5, "a"), (1, "b"), (1, "c"), (0, "d")]
    text = "".join(f'{{"timestamp": {at}, "input_length": 4, "id": "{name}"}}\n' for at, name in rows)
    out = tmp_path / "out"
    import_trace(Source(_file(tmp_path, text)), FORMATS["mooncake"], out)
    assert [one.id for one in read_trace(out)[1]] == ["d", "b", "c", "a"]


@pytest.mark.parametrize("form", FORMS)
def test_a_sample_of_each_format_is_read(form: str, tmp_path: Path) -> None:
    path = tmp_path / "given"
    path.write_bytes(written(form, value_of(form)))
    assert sniff(path).name == form
    assert import_trace(Source(path), FORMATS[form], tmp_path / "out").summary.rows > 0


@pytest.mark.parametrize("form", FORMS)
def test_junk_in_any_field_is_read_or_refused_in_one_line(form: str, tmp_path: Path) -> None:
    path, out = tmp_path / "given", tmp_path / "out"
    sample = value_of(form)
    for place in places(sample):
        for junk in JUNK:
            path.write_bytes(written(form, spoilt(sample, place, junk)))
            with suppress(SourceError):
                import_trace(Source(path), FORMATS[form], out)
                list(read_trace(out)[1])


@pytest.mark.parametrize("form", FORMS)
def test_a_file_cut_off_anywhere_is_read_or_refused_in_one_line(form: str, tmp_path: Path) -> None:
    path, whole = tmp_path / "given", written(form, value_of(form))
    for end in range(1, len(whole), 7):
        path.write_bytes(whole[:end])
        with suppress(SourceError):
            import_trace(Source(path), FORMATS[form], tmp_path / "out")


def test_two_units_in_one_column_are_a_question_that_an_option_answers(tmp_path: Path) -> None:
    row = '{{"timestamp": {}, "input_length": 4}}\n'
    text = "".join(row.format(at * 100 if at % 2 else at / 10) for at in range(400))
    path, out = _file(tmp_path, text), tmp_path / "out"
    with pytest.raises(Question, match=r"timestamp seems to hold two units: .* rows, the first of them row"):
        import_trace(Source(path), FORMATS["mooncake"], out)
    assert not out.exists()
    assert import_trace(Source(path, unit="ms"), FORMATS["mooncake"], out).summary.rows == 400


BAILIAN = (
    '{{"chat_id": {0}, "parent_chat_id": -1, "timestamp": {0}, "turn": 1, "input_length": 9,'
    ' "output_length": 1, "hash_ids": []}}\n'
)
TIMED = '{{"timestamp": {0}, "body": {{"prompt": "a"}}}}\n'


@pytest.mark.parametrize(("form", "row"), [("bailian", BAILIAN), ("timed-bodies", TIMED)])
def test_a_rate_that_no_fleet_has_is_a_question_that_a_unit_answers(
    form: str, row: str, tmp_path: Path
) -> None:
    path, out = _file(tmp_path, "".join(row.format(at * 2_000_000) for at in range(40))), tmp_path / "out"
    with pytest.raises(Question, match="timestamp read as s, 40 requests come in"):
        import_trace(Source(path), FORMATS[form], out)
    assert import_trace(Source(path, unit="us"), FORMATS[form], out).summary.span_s == 78


def test_blocks_of_another_size_are_a_question_that_an_option_answers(tmp_path: Path) -> None:
    row = (
        '{{"chat_id": {0}, "parent_chat_id": -1, "timestamp": {0}, "input_length": 640, "output_length": 1, '
    )
    text = "".join(row.format(at) + '"turn": 1, "hash_ids": [1, 2, 3, 4, 5]}\n' for at in range(9))
    path, out = _file(tmp_path, text), tmp_path / "out"
    with pytest.raises(Question, match="prompts have some 128 tokens a block hash, not 16"):
        import_trace(Source(path), FORMATS["bailian"], out)
    assert import_trace(Source(path, block_tokens=128), FORMATS["bailian"], out).block_tokens == 128


def test_conversations_one_after_the_other_are_of_one_unit(tmp_path: Path) -> None:
    row = '{{"timestamp": {}, "session_id": "{}", "input_length": 4}}\n'
    times = [(at * 60_000, "long") for at in range(60)]
    times += [(at * 500, f"short-{number}") for number in range(20) for at in range(9)]
    path, out = _file(tmp_path, "".join(row.format(*one) for one in times)), tmp_path / "out"
    assert import_trace(Source(path), FORMATS["mooncake"], out).summary.sessions == 21
