"""A server of ours that answers as Grafana's API does, as far as a push goes, and refuses what Grafana would.

Written from Grafana's documentation of its API (folders, dashboards, annotations, 403 with the permissions
needed); it was never held against a real Grafana.
"""

import json
import re
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Final, TypeVar
from urllib.parse import parse_qs, urlsplit

import msgspec

TOKEN: Final = "glsa_ours"
UID: Final = r"[A-Za-z0-9_-]{1,40}"
EDITOR: Final = frozenset(
    {
        "folders:read", "folders:create", "dashboards:read", "dashboards:create", "dashboards:write",
        "annotations:read", "annotations:create",
    }
)  # fmt: skip

Answer = tuple[int, object]


class NewFolder(msgspec.Struct, forbid_unknown_fields=True, rename="camel"):
    title: str
    uid: str
    parent_uid: str | None = None


class SaveDashboard(msgspec.Struct, forbid_unknown_fields=True, rename="camel"):
    dashboard: dict[str, Any]
    folder_uid: str
    overwrite: bool = False
    message: str = ""


class NewAnnotation(msgspec.Struct, forbid_unknown_fields=True, rename="camel"):
    time: int
    time_end: int
    tags: list[str]
    text: str
    panel_id: int | None = None
    dashboard_uid: str | None = msgspec.field(default=None, name="dashboardUID")


class Refused(Exception):  # noqa: N818 - named for what it says
    """An answer that is no success."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


@dataclass
class GrafanaRunning:
    """What it holds, and what was written to it."""

    url: str = ""
    prefix: str = ""
    may: frozenset[str] = EDITOR
    folders: dict[str, str] = field(default_factory=dict)
    dashboards: dict[str, dict[str, Any]] = field(default_factory=dict)
    homes: dict[str, str] = field(default_factory=dict)  # dashboard -> folder
    provisioned: set[str] = field(default_factory=set)
    annotations: list[NewAnnotation] = field(default_factory=list)
    written: list[str] = field(default_factory=list)

    def answer(self, method: str, target: str, token: str, body: bytes) -> Answer:
        parts = urlsplit(target)
        if not parts.path.startswith(f"{self.prefix}/api/"):
            raise Refused(404, "Not found")
        if token != f"Bearer {TOKEN}":
            raise Refused(401, "Invalid API key")
        path = parts.path.removeprefix(f"{self.prefix}/api")
        for verb, pattern, permission, handle in self._routes():
            if verb == method and (found := re.fullmatch(pattern, path)):
                self._need(permission)
                return 200, handle("".join(found.groups()), parts.query, body)
        raise Refused(404, "Not found")

    def _need(self, permission: str) -> None:
        if permission not in self.may:
            raise Refused(
                403,
                f"You'll need additional permissions to perform this action. "
                f"Permissions needed: {permission}",
            )

    def _routes(self) -> list[tuple[str, str, str, Callable[[str, str, bytes], object]]]:
        return [
            ("GET", f"/folders/({UID})", "folders:read", self._folder),
            ("POST", "/folders", "folders:create", self._new_folder),
            ("GET", f"/dashboards/uid/({UID})", "dashboards:read", self._dashboard),
            ("POST", "/dashboards/db", "dashboards:create", self._save),
            ("GET", "/annotations", "annotations:read", self._find),
            ("POST", "/annotations", "annotations:create", self._annotate),
        ]

    def _folder(self, uid: str, _query: str, _body: bytes) -> object:
        if uid not in self.folders:
            raise Refused(404, "folder not found")
        return {"id": 1, "uid": uid, "title": self.folders[uid], "url": f"/dashboards/f/{uid}", "version": 1}

    def _new_folder(self, _: str, _query: str, body: bytes) -> object:
        new = read(body, NewFolder)
        if new.uid in self.folders:
            raise Refused(412, "the folder has been changed by someone else")
        if not new.title or not re.fullmatch(UID, new.uid):
            raise Refused(400, "invalid uid or title")
        self.folders[new.uid] = new.title
        self.written.append(f"folder {new.uid}")
        return self._folder(new.uid, "", b"")

    def _dashboard(self, uid: str, _query: str, _body: bytes) -> object:
        if uid not in self.dashboards:
            raise Refused(404, "Dashboard not found")
        meta = {"folderUid": self.homes[uid], "provisioned": uid in self.provisioned, "canSave": True}
        return {"meta": meta, "dashboard": self.dashboards[uid]}

    def _save(self, _: str, _query: str, body: bytes) -> object:
        asked = read(body, SaveDashboard)
        uid, before = asked.dashboard["uid"], self.dashboards.get(asked.dashboard["uid"])
        if not re.fullmatch(UID, uid) or not asked.dashboard["title"] or asked.dashboard["id"] is not None:
            raise Refused(400, "bad dashboard")
        if asked.folder_uid not in self.folders:
            raise Refused(400, "folder not found")
        if uid in self.provisioned:
            raise Refused(400, "Cannot save provisioned dashboard")
        if before is not None and not asked.overwrite:
            raise Refused(412, "The dashboard has been changed by someone else")
        version = 1 if before is None else before["version"] + 1
        # Grafana keeps what it was given, counts versions, and newer ones migrate the schema.
        self.dashboards[uid] = asked.dashboard | {"id": len(self.dashboards) + 1, "version": version}
        self.dashboards[uid] |= {"schemaVersion": 41, "preload": False}
        self.homes[uid] = asked.folder_uid
        self.written.append(f"dashboard {uid}")
        return {
            "id": 1,
            "uid": uid,
            "url": f"/d/{uid}/x",
            "status": "success",
            "version": version,
            "slug": "x",
        }

    def _find(self, _: str, query: str, _body: bytes) -> object:
        asked = parse_qs(query, strict_parsing=True)
        assert set(asked) <= {"from", "to", "type", "tags", "limit", "matchAny", "dashboardUID"}
        wanted = set(asked["tags"])
        found = [one for one in self.annotations if wanted <= set(one.tags)]
        return [{"id": at, **msgspec.to_builtins(one)} for at, one in enumerate(found, 1)]

    def _annotate(self, _: str, _query: str, body: bytes) -> object:
        new = read(body, NewAnnotation)
        if not new.text:
            raise Refused(400, "Failed to save annotation: text field should not be empty")
        assert new.time <= new.time_end
        assert len(json.dumps(new.tags)) <= 500
        self.annotations.append(new)
        self.written.append(f"annotation {new.tags[2]}")
        return {"message": "Annotation added", "id": len(self.annotations)}


Shape = TypeVar("Shape", NewFolder, SaveDashboard, NewAnnotation)


def read(body: bytes, shape: type[Shape]) -> Shape:
    try:
        return msgspec.json.decode(body, type=shape)
    except msgspec.MsgspecError as wrong:
        raise Refused(400, f"bad request data: {wrong}") from None


@contextmanager
def grafana(*, prefix: str = "", html: bool = False) -> Iterator[GrafanaRunning]:
    """One that runs; `html` makes it a login page that answers everything."""
    running = GrafanaRunning(prefix=prefix)

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self._serve("GET")

        def do_POST(self) -> None:
            self._serve("POST")

        def log_message(self, *_: object) -> None:
            """Say nothing."""

        def _serve(self, method: str) -> None:
            body = self.rfile.read(int(self.headers.get("content-length", 0)))
            if html:
                self._send(200, "text/html", b"<html>log in</html>")
                return
            try:
                status, answer = running.answer(
                    method, self.path, self.headers.get("authorization", ""), body
                )
            except Refused as refused:
                status, answer = refused.status, {"message": str(refused)}
            self._send(status, "application/json", json.dumps(answer).encode())

        def _send(self, status: int, kind: str, body: bytes) -> None:
            self.send_response(status)
            self.send_header("content-type", kind)
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        running.url = f"http://127.0.0.1:{server.server_port}{prefix}"
        serving = threading.Thread(target=server.serve_forever, args=(0.02,), name="grafana")
        serving.start()
        try:
            yield running
        finally:
            server.shutdown()
            serving.join()
