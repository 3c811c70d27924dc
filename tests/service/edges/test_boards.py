"""The shipped dashboards: fresh, importable, and asking only for what is exposed."""

import json
import re
from pathlib import Path
from typing import Any, Final

import pytest

from service.edges import catalogue
from service.edges.boards import BOARDS, main
from service.edges.grafana_board import Board, file_of, rendered, text_of
from tests.engine_metrics import ENGINE

ROOT: Final = Path(__file__).parents[3]
SHIPPED: Final = ROOT / "docker/grafana/dashboards"
OURS: Final = {
    *(f"specguard_{family.key}_total" for family in catalogue.counters((), ())),
    *(f"specguard_{family.key}" for family in catalogue.gauges()),
    *(f"specguard_{family.key}_bucket" for family in catalogue.histograms()),
}
RECORDED: Final = set(re.findall(r"record: (\S+)", (ROOT / "alerts.yaml").read_text()))

each_board = pytest.mark.parametrize("board", BOARDS, ids=lambda board: board.uid)


def expressions(board: Board) -> list[str]:
    return [query.expr for panel in board.panels for query in panel.queries]


@each_board
def test_the_shipped_file_is_fresh(board: Board) -> None:
    assert (SHIPPED / file_of(board)).read_bytes() == text_of(board)


def test_no_file_is_left_over() -> None:
    assert {path.name for path in SHIPPED.iterdir()} == {file_of(board) for board in BOARDS}


@each_board
def test_a_board_can_be_imported_anywhere(board: Board) -> None:
    made = rendered(board)
    assert made["id"] is None
    assert len(made["uid"]) <= 40
    for panel in made["panels"]:
        assert panel["datasource"]["uid"] == "${datasource}"
        assert all(target["datasource"]["uid"] == "${datasource}" for target in panel["targets"])


@each_board
def test_a_panel_says_what_it_is_for_and_in_which_unit(board: Board) -> None:
    for panel in board.panels:
        assert panel.says.endswith(".")
        assert panel.unit
        assert panel.queries


@each_board
def test_a_rate_fits_the_scrape(board: Board) -> None:
    for expr in expressions(board):
        assert not re.search(r"\[\d+[smhd]\]", expr)


@each_board
def test_a_panel_asks_only_for_what_somebody_exposes(board: Board) -> None:
    for expr in expressions(board):
        if expr.startswith("job:"):
            assert expr in RECORDED
            continue
        assert set(re.findall(r"\bspecguard_\w+", expr)) <= OURS
        engine = {*re.findall(r"sglang\[:_\](\w+)", expr), *re.findall(r"\bsglang[:_](\w+)", expr)}
        assert engine <= ENGINE


def test_the_files_are_written_by_one_command(tmp_path: Path) -> None:
    assert main([str(tmp_path / "new")]) == 0
    written: list[dict[str, Any]] = [json.loads(path.read_bytes()) for path in (tmp_path / "new").iterdir()]
    assert {one["uid"] for one in written} == {board.uid for board in BOARDS}
