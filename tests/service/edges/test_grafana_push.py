"""A push brings what is missing, mends what was changed, and leaves the rest alone."""

from typing import Any, Final

import pytest

from service.edges.boards import BOARDS, OVERVIEW
from service.edges.grafana import Grafana, GrafanaProblem
from service.edges.grafana_board import rendered
from service.edges.grafana_push import Push, Step, covers, span_ms, tags_of, text_of, with_datasource
from tests.service.grafana_running import TOKEN, GrafanaRunning, grafana

INCIDENT: Final[dict[str, Any]] = {
    "id": "0189aa",
    "at_ms": 1_700_000_010_000,
    "duration_s": 2.5,
    "rid": "r1",
    "level": "corrupt",
    "kind": "garbled",
    "detector": "replacement",
    "outcome": "recovered",
    "model": "m",
    "attempts": [{"worker": "http://w:1"}, {"worker": "http://w:2"}],
}


def pushed(running: GrafanaRunning, *, dry: bool = False, datasource: str | None = None) -> dict[str, str]:
    target = Grafana(running.url, TOKEN)
    push = Push(target, "ours", "Ours", datasource=datasource, message="test", dry=dry)
    steps = [*push.boards(), *push.incidents([INCIDENT])]
    target.close()
    return {step.name: step.did for step in steps}


def test_the_first_push_creates_and_the_second_writes_nothing() -> None:
    with grafana() as running:
        assert set(pushed(running).values()) == {"created"}
        assert set(running.dashboards) == {board.uid for board in BOARDS}
        assert set(running.homes.values()) == {"ours"}
        (annotation,) = running.annotations
        assert (annotation.time, annotation.time_end) == (1_700_000_007_500, 1_700_000_010_000)
        running.written.clear()
        assert set(pushed(running).values()) == {"unchanged"}
        assert running.written == []


def test_an_edit_or_a_move_by_hand_is_undone_and_nothing_else_is_touched() -> None:
    with grafana() as running:
        pushed(running)
        running.written.clear()
        running.dashboards[OVERVIEW.uid]["panels"][0]["title"] = "mine"
        running.homes["specguard-pd"] = "elsewhere"
        done = pushed(running)
        assert {name for name, did in done.items() if did == "updated"} == {OVERVIEW.uid, "specguard-pd"}
        assert running.written == [f"dashboard {OVERVIEW.uid}", "dashboard specguard-pd"]
        assert running.homes["specguard-pd"] == "ours"


def test_a_dry_run_tells_the_same_and_writes_nothing() -> None:
    with grafana() as running:
        would = pushed(running, dry=True)
        assert running.written == []
        assert pushed(running) == would


def test_a_datasource_is_where_the_variable_starts() -> None:
    with grafana() as running:
        pushed(running, datasource="prom-1")
        variable = running.dashboards[OVERVIEW.uid]["templating"]["list"][0]
        assert variable["current"] == {"text": "prom-1", "value": "prom-1"}
        assert pushed(running, datasource="prom-2")[OVERVIEW.uid] == "updated"


def test_no_datasource_leaves_the_board_as_it_is() -> None:
    made = rendered(OVERVIEW)
    assert with_datasource(made, None) == made


def test_a_dashboard_from_a_file_is_not_fought_over() -> None:
    with grafana() as running:
        pushed(running)
        running.provisioned.add(OVERVIEW.uid)
        assert pushed(running)[OVERVIEW.uid] == "unchanged"
        running.dashboards[OVERVIEW.uid]["title"] = "older"
        with pytest.raises(GrafanaProblem, match="specguard-overview: provisioned there from a file"):
            pushed(running)


@pytest.mark.parametrize(
    ("theirs", "ours", "covered"),
    [
        ({"a": 1, "b": 2}, {"a": 1}, True),
        ({"a": 1}, {"a": 1, "b": 2}, False),
        ([{"a": 1, "b": 2}], [{"a": 1}], True),
        ([1, 2], [1], False),
        ("a", {"a": 1}, False),
        (None, None, True),
    ],
)
def test_what_grafana_adds_makes_no_difference(theirs: object, ours: object, *, covered: bool) -> None:
    assert covers(theirs, ours) is covered


def test_an_annotation_is_found_by_the_dashboards_and_says_who_and_what() -> None:
    wanted = rendered(OVERVIEW)["annotations"]["list"][0]["target"]["tags"]
    tags = tags_of(INCIDENT)
    assert set(wanted) <= set(tags)
    assert tags[2:] == ("incident:0189aa", "kind:garbled", "model:m", "worker:http://w:1")
    assert text_of(INCIDENT) == "corrupt garbled by replacement: recovered (http://w:1 > http://w:2), r1"
    assert span_ms(INCIDENT)[1] == INCIDENT["at_ms"]


def test_tags_fit_what_grafana_keeps() -> None:
    long = INCIDENT | {"model": "m" * 256, "attempts": [{"worker": "w" * 256}]}
    assert max(map(len, tags_of(long))) <= 100
    assert tags_of(INCIDENT | {"attempts": []})[-1] == "worker:unknown"


def test_a_step_says_what_it_did() -> None:
    with grafana() as running:
        push = Push(Grafana(running.url, TOKEN), "ours", "Ours")
        assert next(push.boards()) == Step("folder", "ours", "created")
