"""The dashboards' panels, asked as Grafana would ask."""

from collections.abc import Collection, Iterator
from typing import Final

from service.edges.boards import BOARDS
from service.edges.grafana_board import Panel
from tests.observed.observatory import Observatory

TITLES: Final = frozenset(panel.title for board in BOARDS for panel in board.panels)


def asked(expr: str) -> str:
    """A panel's expression as Grafana would send it, for all jobs and a scrape a second."""
    return expr.replace("$job", ".*").replace("$__rate_interval", "30s")


def panels(titles: Collection[str]) -> Iterator[Panel]:
    return (panel for board in BOARDS for panel in board.panels if panel.title in titles)


async def silent(observatory: Observatory, titles: Collection[str]) -> list[str]:
    """Of these panels, those with a query that no series answers."""
    found = []
    for panel in panels(titles):
        answers = [await observatory.query(asked(one.expr)) for one in panel.queries]
        if not all(answers):
            found.append(panel.title)
    return found
