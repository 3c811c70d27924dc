"""A dashboard is built so that it can be imported anywhere."""

from service.edges.grafana_board import Board, Panel, Query, engine, engine_rate, quantile, rate, rendered

PANEL = Panel("Title", "What it is for.", "s", (Query("up", "{{instance}}"), Query("down")), limit=2.0)


def test_panels_lie_side_by_side_and_their_queries_have_letters() -> None:
    made = rendered(Board("specguard-x", "X", (PANEL, PANEL, PANEL)))
    assert [(one["gridPos"]["x"], one["gridPos"]["y"]) for one in made["panels"]] == [(0, 0), (12, 0), (0, 8)]
    assert [one["refId"] for one in made["panels"][0]["targets"]] == ["A", "B"]
    assert len({one["id"] for one in made["panels"]}) == 3


def test_a_limit_is_drawn_where_there_is_one() -> None:
    panel = rendered(Board("specguard-x", "X", (PANEL,)))["panels"][0]["fieldConfig"]["defaults"]
    assert panel["thresholds"]["steps"][-1] == {"color": "red", "value": 2.0}
    assert panel["custom"]["thresholdsStyle"] == {"mode": "line"}


def test_engines_are_asked_in_both_spellings() -> None:
    assert engine("token_usage") == 'max by (instance) ({__name__=~"sglang[:_]token_usage"})'
    assert "sglang:x_total" in engine_rate("x_total")
    assert "sglang_x_total" in engine_rate("x_total")


def test_our_own_are_asked_for_the_chosen_job() -> None:
    assert rate("streams", "route", ', policy="strict"') == (
        'sum by (route) (rate(specguard_streams_total{job=~"$job", policy="strict"}[$__rate_interval]))'
    )
    assert quantile(0.99, "loop_lag_seconds") == (
        "histogram_quantile(0.99, sum by (le) "
        '(rate(specguard_loop_lag_seconds_bucket{job=~"$job"}[$__rate_interval])))'
    )
