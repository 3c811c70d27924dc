import json
from pathlib import Path
from typing import Any

from replay.bench import detectors, quality
from service.core.events import Kind
from service.core.recorded import Rules

RULES = Rules(*detectors.load())
ROWS = [
    {"id": "a", "kind": "rare_char", "text": "so [PAD] [unused7] [control_3] it went"},
    {"id": "b", "kind": "garbled", "text": "a text that only its label calls garbled"},
    {"id": "c", "kind": "normal", "text": "all is well"},
    {"id": "d", "kind": "normal", "text": "na\ufffdve \ufffd \ufffd x"},
]


def test_the_score_sheet_counts_by_kind_and_half() -> None:
    score = quality.corpus(ROWS, RULES)
    assert (score["all"]["precision"], score["all"]["recall"]) == (0.5, 0.5)
    assert score["all"]["by_kind"]["rare_char"]["recall"] == 1
    assert score["all"]["false_alarms"] == ["d"]
    assert score["all"]["confusions"] == {"garbled as normal": 1, "normal as garbled": 1}
    assert sum(score[f"half_{name}"]["texts"] for name in "ab") == 4


def test_a_text_is_in_one_half_for_ever() -> None:
    assert [quality.half(own_id) for own_id in ("pos-001", "pos-003", "norm-001")] == ["a", "b", "a"]


def published() -> dict[str, Any]:
    figures: dict[str, Any] = json.loads((quality.RULES_HOME / quality.QUALITY).read_text(encoding="utf-8"))
    return figures


def test_what_a_run_did_not_measure_stays_published(tmp_path: Path) -> None:
    file, readme, figures = tmp_path / quality.QUALITY, tmp_path / quality.README, published()
    readme.write_text(f"before\n{quality.BEGIN}\nyesterday\n{quality.END}\nafter\n", encoding="utf-8")
    file.write_text(json.dumps({"corpus": figures["corpus"]}), encoding="utf-8")
    quality.publish({key: value for key, value in figures.items() if key != "corpus"}, tmp_path)
    assert json.loads(file.read_text(encoding="utf-8")) == figures
    text = readme.read_text(encoding="utf-8")
    assert text.startswith("before\n")
    assert text.endswith(quality.END + "\nafter\n")
    assert "yesterday" not in text
    assert "development corpus, half_a" in text


def test_the_published_tables_are_those_of_the_published_figures() -> None:
    readme = (quality.RULES_HOME / "README.md").read_text(encoding="utf-8")
    assert (
        readme.partition(quality.BEGIN)[2].partition(quality.END)[0].strip()
        == quality.tables(published()).strip()
    )


def test_the_published_figures_keep_their_floors() -> None:
    figures = published()
    telemetry, bulk = figures["telemetry"], figures["bulk"]["all"]
    assert telemetry["delay_steps_mean"] <= 25
    assert telemetry["delay_steps_p99"] <= 37
    assert telemetry["delay_free_mean"] <= 31
    assert telemetry["delay_safe_anchor_mean"] <= 135
    assert figures["loops"]["late"] == []
    assert bulk["windows"] >= 10_000
    assert bulk["flagged"] <= 1.5 * bulk["windows"] / 10_000
    assert figures["cost"]["us_per_token"] <= 5
    assert figures["cost"]["growth"] <= 1.5
    assert figures["cost"]["state_bytes_at_8000"] <= 8192
    assert figures["clean_requests"]["requests"] >= 99_900  # some of 100,000 have not ended
    assert figures["clean_requests"]["alarms"] <= 1
    assert figures["clean_requests"]["with_words_of_another"] == 0
    assert telemetry["learned"]["alike"]["delay_steps_mean"] <= 31
    assert all(kind["0.001"] <= 0.01 for kind in telemetry["learned"].values())
    joint, by_text = figures["joint"]["recall"]["calibrated"], figures["joint"]["by_text"]
    assert joint["verdicts_on_right"] == 0
    assert joint["recall"] >= 0.65
    assert figures["joint"]["decidable"]["recall"] >= 0.95
    assert by_text["silent"]["calibrated"] == by_text["silent"]["wrong"]
    assert by_text["loop"]["calibrated"] >= 0.95 * by_text["loop"]["wrong"]
    assert by_text["leak"]["calibrated"] >= 0.95 * by_text["leak"]["wrong"]
    assert figures["swaps"]["victim copy, shown >= 64"]["corrupt"] >= 0.89  # the rest loops or says few words
    assert figures["swaps"]["victim copy, shown >= 64"]["acted"] >= 0.93
    for name, rates in telemetry["false_alarms"].items():
        assert all(rate <= float(alpha) for alpha, rate in rates.items()), name


def test_a_tally_knows_what_it_saw() -> None:
    tally = quality.Tally()
    tally.add("x", Kind.GARBLED, Kind.RARE_CHAR)
    figures = tally.figures()
    assert (figures["recall"], figures["right_kind"]) == (1, 0)
