"""What a push brings to Grafana: the folder, our dashboards, and incidents as annotations.

Idempotent: what is there already is let be. A dashboard is there if it says all that ours says; what Grafana
adds of its own (ids, versions, defaults) makes no difference, an edit by hand does and is overwritten. An
incident is there if an annotation bears its tag.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal, Protocol

from service.edges.boards import BOARDS
from service.edges.grafana import GrafanaProblem
from service.edges.grafana_board import TAG, Board, rendered

GRAFANAS_OWN: Final = frozenset({"id", "version", "schemaVersion"})
"""What Grafana counts up or migrates by itself."""
TAG_CHARS: Final = 90
"""Grafana keeps 100 of a tag's value."""

Did = Literal["created", "updated", "unchanged"]


class Target(Protocol):
    """What a push needs of Grafana."""

    def has_folder(self, uid: str) -> bool: ...

    def make_folder(self, uid: str, title: str) -> None: ...

    def dashboard(self, uid: str) -> dict[str, Any] | None: ...

    def save_dashboard(self, dashboard: Mapping[str, Any], folder: str, message: str) -> None: ...

    def has_annotation(self, tags: tuple[str, ...]) -> bool: ...

    def annotate(self, start_ms: int, end_ms: int, tags: tuple[str, ...], text: str) -> None: ...


@dataclass(frozen=True, slots=True)
class Step:
    """One thing that a push did, or in a dry run would do."""

    what: Literal["folder", "dashboard", "incident"]
    name: str
    did: Did


@dataclass(frozen=True, slots=True)
class Push:
    """Where dashboards go, and how."""

    target: Target
    folder: str
    title: str
    datasource: str | None = None  # uid that the dashboards' variable starts from
    message: str = ""
    dry: bool = False

    def boards(self, boards: Iterable[Board] = BOARDS) -> Iterator[Step]:
        """The folder, then the dashboards in it; nothing is written once one cannot be."""
        there = self.target.has_folder(self.folder)
        if not there and not self.dry:
            self.target.make_folder(self.folder, self.title)
        yield Step("folder", self.folder, "unchanged" if there else "created")
        for board in boards:
            yield Step("dashboard", board.uid, self._board(board))

    def incidents(self, incidents: Iterable[Mapping[str, Any]]) -> Iterator[Step]:
        """An annotation over the time of each incident, as the sidecar's /api/incidents tells them."""
        for incident in incidents:
            own = (TAG, f"incident:{incident['id']}")
            there = self.target.has_annotation(own)
            if not there and not self.dry:
                self.target.annotate(*span_ms(incident), tags_of(incident), text_of(incident))
            yield Step("incident", incident["id"], "unchanged" if there else "created")

    def _board(self, board: Board) -> Did:
        wanted = with_datasource(rendered(board), self.datasource)
        found = self.target.dashboard(board.uid)
        if found is not None:
            meta = found.get("meta", {})
            if meta.get("folderUid") == self.folder and covers(found["dashboard"], _ours(wanted)):
                return "unchanged"
            if meta.get("provisioned"):
                raise GrafanaProblem(
                    f"{board.uid}: provisioned there from a file, which Grafana lets nobody overwrite",
                    theirs=False,
                )
        if not self.dry:
            self.target.save_dashboard(wanted, self.folder, self.message)
        return "created" if found is None else "updated"


def with_datasource(dashboard: dict[str, Any], uid: str | None) -> dict[str, Any]:
    """The dashboard, its datasource variable starting from this one; else Grafana's default."""
    if uid is None:
        return dashboard
    variables = [
        one | {"current": {"text": uid, "value": uid}} if one["type"] == "datasource" else one
        for one in dashboard["templating"]["list"]
    ]
    return dashboard | {"templating": {"list": variables}}


def covers(theirs: object, ours: object) -> bool:
    """Whether theirs says all that ours says."""
    match ours:
        case dict():
            return isinstance(theirs, dict) and all(
                key in theirs and covers(theirs[key], value) for key, value in ours.items()
            )
        case list():
            return isinstance(theirs, list) and len(theirs) == len(ours) and all(map(covers, theirs, ours))
    return theirs == ours


def _ours(dashboard: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in dashboard.items() if key not in GRAFANAS_OWN}


def span_ms(incident: Mapping[str, Any]) -> tuple[int, int]:
    """When the request came and when it was over, which is when the incident was kept."""
    end_ms = int(incident["at_ms"])
    return end_ms - round(incident["duration_s"] * 1000), end_ms


def tags_of(incident: Mapping[str, Any]) -> tuple[str, ...]:
    """What the dashboards ask for, the incident's own, and what one filters by."""
    worker = incident["attempts"][0]["worker"] if incident["attempts"] else "unknown"
    named = {
        "incident": incident["id"],
        "kind": incident["kind"],
        "model": incident["model"],
        "worker": worker,
    }
    return (TAG, "incident", *(f"{key}:{str(value)[:TAG_CHARS]}" for key, value in named.items() if value))


def text_of(incident: Mapping[str, Any]) -> str:
    """What a reader sees; nothing of prompt or answer."""
    workers = " > ".join(attempt["worker"] for attempt in incident["attempts"])
    found = f"{incident['level']} {incident['kind']} by {incident['detector']}"
    return f"{found}: {incident['outcome']} ({workers}), {incident['rid']}"
