"""The parts of the path's cost: what is fed is what the worker sends, and differences add up."""

import json

import pytest

from replay.bench.load import EVENT
from replay.bench.mock_worker import MODEL
from replay.bench.path import Run, chunks_of, main, measure, parts, table
from replay.bench.texts import answer
from service.core.detectors.silence import Silence
from service.core.events import Policy
from service.core.fusion import Fusion

FUSION = Fusion(
    {},
    act=5.0,
    factor=1.0,
    product_above=1.0,
    suspect_telemetry=5.0,
    suspect_other=1.5,
    second_opinion=5.0,
)


def test_what_is_fed_is_what_the_worker_sends() -> None:
    chunks = chunks_of(answer(0, 5))
    assert [chunk.count(EVENT) for chunk in chunks] == [1] * 6
    first = json.loads(chunks[0].removeprefix(b"data: "))
    assert (first["model"], first["usage"]["prompt_tokens"]) == (MODEL, 44)
    assert chunks[-1].endswith(b"data: [DONE]\n\n")


def test_a_run_without_looks_looks_only_at_the_end_and_finds_nothing_in_clean_text() -> None:
    silence = Silence(2.0, 20.0, 30.0, 60.0, 32, 7.0, 2.0)
    for policy in (Policy.OBSERVE, Policy.PROTECT):
        run = Run((silence,), FUSION, policy)
        for looks in (False, True):
            assert run.seconds([chunks_of(answer(0, 40))] * 3, 2, b"", looks=looks) > 0
            assert run.findings == 0


def test_parts_are_differences() -> None:
    told = parts({"feed": 2.0, "look": 5.0, "loop": 6.5, "all": 8.0, "protect": 11.0})
    assert told == {"feed": 2.0, "look": 3.0, "loop": 1.5, "all": 3.0, "protect": 11.0, "observe": 8.0}


def test_every_detector_of_the_rule_set_is_a_part() -> None:
    told = measure(1, 2, b"", [chunks_of(answer(seed, 12)) for seed in range(3)])
    assert {"feed", "look", "loop", "garble", "silence", "all", "observe", "protect"} <= told.keys()


def test_the_table_has_a_line_a_part_and_a_column_a_way_of_arriving() -> None:
    told = table({"hot": {"feed": 1.25}, "cold": {"feed": 2.5}}).splitlines()
    assert [line.split() for line in told] == [["us", "a", "chunk", "hot", "cold"], ["feed", "1.25", "2.50"]]


def test_an_unknown_word_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["--fast"])
    assert "--rounds" in capsys.readouterr().err
