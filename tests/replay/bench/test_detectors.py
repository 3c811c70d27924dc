import json
from pathlib import Path

import pytest

from replay.bench import detectors
from service.core.events import Kind


def test_the_bench_streams_are_healthy_and_their_cost_is_counted() -> None:
    figures = detectors.cost(rounds=1)
    assert figures["alarms_on_clean"] == 0
    assert figures["tokens"] == detectors.STREAMS * detectors.TOKENS
    assert 0 < figures["us_per_token"] < figures["us_per_event"] < figures["us_per_look"]


def test_the_score_sheet_counts_by_kind(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = [
        {"id": "a", "kind": "rare_char", "text": "so [PAD] [PAD] [PAD] it went"},
        {"id": "b", "kind": "garbled", "text": "a text that only its label calls garbled"},
        {"id": "c", "kind": "normal", "text": "all is well"},
        {"id": "d", "kind": "normal", "text": "na\ufffdve \ufffd \ufffd x"},
    ]
    file = tmp_path / "corpus.jsonl"
    file.write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    figures = detectors.score([file])
    assert figures == {"recall": {"rare_char": 1.0, "garbled": 0.0}, "false_alarms": ["d"], "normals": 2}
    assert str(Kind.RARE_CHAR) in capsys.readouterr().out
