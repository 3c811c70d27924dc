"""A Grafana dashboard from a few words a panel: what it asks, in which unit, and what it is for.

Every panel takes its datasource from the dashboard's variable, so that a file can be imported anywhere;
`$__rate_interval` fits a rate to the scrape. Engine metrics are asked for in both spellings.
"""

from dataclasses import dataclass
from typing import Any, Final

import msgspec

SCHEMA: Final = 39
WIDTH: Final = 24
HEIGHT: Final = 8
PER_ROW: Final = 2
DATASOURCE: Final = {"type": "prometheus", "uid": "${datasource}"}
BOTH: Final = '{{__name__=~"sglang[:_]{}"}}'
OWN: Final = '{job=~"$job"}'
TAG: Final = "specguard"


@dataclass(frozen=True, slots=True)
class Query:
    """One expression and how its series are called."""

    expr: str
    legend: str = ""


@dataclass(frozen=True, slots=True)
class Panel:
    """One picture."""

    title: str
    says: str
    unit: str
    queries: tuple[Query, ...]
    limit: float | None = None  # drawn in red from here on


@dataclass(frozen=True, slots=True)
class Board:
    """One dashboard."""

    uid: str
    title: str
    panels: tuple[Panel, ...]


def rate(name: str, by: str, more: str = "") -> str:
    """The rate of one of our counters."""
    return f'sum by ({by}) (rate(specguard_{name}_total{{job=~"$job"{more}}}[$__rate_interval]))'


def engine(name: str, by: str = "instance") -> str:
    """A gauge of the engines, in either spelling."""
    return f"max by ({by}) ({BOTH.format(name)})"


def engine_rate(name: str, by: str = "instance") -> str:
    """The rate of a counter of the engines, in either spelling."""
    return f"sum by ({by}) (rate(sglang:{name}[$__rate_interval]) or rate(sglang_{name}[$__rate_interval]))"


def quantile(share: float, name: str, by: str = "") -> str:
    """A quantile of one of our histograms."""
    labels = f"le, {by}" if by else "le"
    buckets = f'sum by ({labels}) (rate(specguard_{name}_bucket{{job=~"$job"}}[$__rate_interval]))'
    return f"histogram_quantile({share}, {buckets})"


def rendered(board: Board) -> dict[str, Any]:
    """A dashboard as Grafana reads it."""
    return {
        "id": None,
        "uid": board.uid,
        "title": board.title,
        "tags": [TAG],
        "schemaVersion": SCHEMA,
        "version": 1,
        "editable": True,
        "refresh": "30s",
        "time": {"from": "now-6h", "to": "now"},
        "templating": {"list": [_datasource(), _job()]},
        "annotations": {"list": [_incidents()]},
        "panels": [_panel(number, panel) for number, panel in enumerate(board.panels)],
    }


def file_of(board: Board) -> str:
    return f"{board.uid.removeprefix('specguard-')}.json"


def text_of(board: Board) -> bytes:
    return msgspec.json.format(msgspec.json.encode(rendered(board)), indent=2) + b"\n"


def _panel(number: int, panel: Panel) -> dict[str, Any]:
    width = WIDTH // PER_ROW
    steps: list[dict[str, Any]] = [{"color": "green", "value": None}]
    if panel.limit is not None:
        steps.append({"color": "red", "value": panel.limit})
    custom = {"thresholdsStyle": {"mode": "off" if panel.limit is None else "line"}, "fillOpacity": 10}
    return {
        "id": number + 1,
        "type": "timeseries",
        "title": panel.title,
        "description": panel.says,
        "datasource": DATASOURCE,
        "gridPos": {
            "h": HEIGHT,
            "w": width,
            "x": number % PER_ROW * width,
            "y": number // PER_ROW * HEIGHT,
        },
        "fieldConfig": {
            "defaults": {
                "unit": panel.unit,
                "thresholds": {"mode": "absolute", "steps": steps},
                "custom": custom,
            },
            "overrides": [],
        },
        "options": {
            "legend": {"displayMode": "list", "placement": "bottom"},
            "tooltip": {"mode": "multi", "sort": "desc"},
        },
        "targets": [
            {
                "refId": chr(ord("A") + place),
                "datasource": DATASOURCE,
                "expr": one.expr,
                "legendFormat": one.legend,
            }
            for place, one in enumerate(panel.queries)
        ],
    }


def _datasource() -> dict[str, Any]:
    return {"name": "datasource", "label": "Data source", "type": "datasource", "query": "prometheus"}


def _job() -> dict[str, Any]:
    return {
        "name": "job",
        "label": "Job",
        "type": "query",
        "datasource": DATASOURCE,
        "query": {"query": "label_values(specguard_build_info, job)", "refId": "job"},
        "includeAll": True,
        "allValue": ".*",
        "multi": True,
        "current": {"text": "All", "value": "$__all"},
    }


def _incidents() -> dict[str, Any]:
    """Incidents that `specguard grafana` writes, with their start and end."""
    return {
        "name": "Incidents",
        "enable": True,
        "iconColor": "red",
        "datasource": {"type": "grafana", "uid": "-- Grafana --"},
        "target": {"type": "tags", "tags": [TAG, "incident"], "matchAny": False, "limit": 100},
    }
