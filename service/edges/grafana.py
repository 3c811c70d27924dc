"""Grafana's HTTP API, as far as we need it: a folder, dashboards, annotations.

What goes wrong is told in one line that names the guilty side: address, token, permission, or Grafana itself.
The client library (`specguard[grafana]`) is no part of the sidecar: it brings an HTTP stack of its own, which
puts itself in urllib3's place wherever it is installed.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final
from urllib.parse import urlsplit

from grafana_client.api import GrafanaApi
from grafana_client.client import GrafanaException, GrafanaTimeoutError
from niquests.exceptions import RequestException

TIMEOUT_S: Final = 10.0
UNAUTHORIZED: Final = 401
FORBIDDEN: Final = 403
NOT_THERE: Final = 404
TOLD_CHARS: Final = 200
"""Of what Grafana says of a failure; an HTML page of some proxy is longer."""


class GrafanaProblem(Exception):  # noqa: N818 - named for what it says
    """Grafana cannot do what it was asked; one line for the user. `theirs`: the command itself is right."""

    def __init__(self, line: str, *, theirs: bool = True) -> None:
        super().__init__(line)
        self.theirs = theirs


class Grafana:
    """One Grafana, as a service account's token sees it."""

    def __init__(self, url: str, token: str, *, timeout_s: float = TIMEOUT_S) -> None:
        self._url = _checked(url)
        self._timeout_s = timeout_s
        # Its own way of joining host, sub-path and "api" wants the slash at the end of a sub-path.
        self._api = GrafanaApi.from_url(f"{self._url.rstrip('/')}/", token, timeout_s)
        self._api.client.s.trust_env = False  # no proxy, no .netrc: the token goes where it was told to

    def __repr__(self) -> str:
        return f"<Grafana {self._url}>"

    def close(self) -> None:
        self._api.client.s.close()

    def has_folder(self, uid: str) -> bool:
        return self._ask("folders:read", lambda: self._api.folder.get_folder(uid)) is not None

    def make_folder(self, uid: str, title: str) -> None:
        self._must("folders:create", lambda: self._api.folder.create_folder(title, uid))

    def dashboard(self, uid: str) -> dict[str, Any] | None:
        """A dashboard with its `meta`, None where there is none."""
        found = self._ask("dashboards:read", lambda: self._api.dashboard.get_dashboard(uid))
        if found is None:
            return None
        if not isinstance(found, dict) or not isinstance(found.get("dashboard"), dict):
            raise self._foreign()
        return found

    def save_dashboard(self, dashboard: Mapping[str, Any], folder: str, message: str) -> None:
        """Write a dashboard over whatever has its uid."""
        body = {"dashboard": dict(dashboard), "folderUid": folder, "overwrite": True, "message": message}
        self._must(
            "dashboards:create or dashboards:write", lambda: self._api.dashboard.update_dashboard(body)
        )

    def has_annotation(self, tags: Sequence[str]) -> bool:
        """Whether an annotation bears all these tags."""
        found = self._must(
            "annotations:read",
            lambda: self._api.annotations.find_annotations(ann_type="annotation", tags=tags, limit=1),
            list,
        )
        return bool(found)

    def annotate(self, start_ms: int, end_ms: int, tags: Sequence[str], text: str) -> None:
        """Mark a time in every dashboard that asks for these tags."""
        self._must(
            "annotations:create",
            lambda: self._api.annotations.add_annotation(
                time_from=start_ms, time_to=end_ms, tags=list(tags), text=text
            ),
        )

    def _must(self, permission: str, call: Callable[[], Any], shape: type = dict) -> Any:  # noqa: ANN401 - JSON
        answer = self._ask(permission, call)
        if answer is None:
            raise GrafanaProblem(
                f"{self._url}: no Grafana API there (404): name its root, with its sub-path", theirs=False
            )
        if not isinstance(answer, shape):
            raise self._foreign()
        return answer

    def _ask(self, permission: str, call: Callable[[], Any]) -> Any:  # noqa: ANN401 - JSON
        """What Grafana answers; None where it has no such thing."""
        try:
            answer = call()
        except GrafanaTimeoutError:
            raise GrafanaProblem(f"{self._url}: no answer within {self._timeout_s:g} s") from None
        except GrafanaException as failed:
            if failed.status_code == NOT_THERE and isinstance(failed.response, dict):
                return None
            raise self._problem(failed, permission) from None
        except json.JSONDecodeError:
            raise self._foreign() from None
        except (RequestException, OSError) as failed:
            raise GrafanaProblem(f"{self._url}: no Grafana answers there ({type(failed).__name__})") from None
        if isinstance(answer, str):
            raise self._foreign()
        return answer

    def _problem(self, failed: GrafanaException, permission: str) -> GrafanaProblem:
        status = failed.status_code
        if status == UNAUTHORIZED:
            return GrafanaProblem(
                f"{self._url}: refused the token in GRAFANA_TOKEN: expired, or another Grafana's",
                theirs=False,
            )
        if status == FORBIDDEN:
            needed = _needed(failed.response) or permission
            return GrafanaProblem(f"{self._url}: the token in GRAFANA_TOKEN lacks {needed}", theirs=False)
        if status == NOT_THERE:
            return self._foreign()
        return GrafanaProblem(f"{self._url}: answered {status}: {_told(failed.response)}")

    def _foreign(self) -> GrafanaProblem:
        return GrafanaProblem(f"{self._url}: what answers there is not Grafana's API", theirs=False)


def _checked(url: str) -> str:
    """The URL; without a password, which would be told on, or a query, which could turn TLS checks off."""
    try:
        parts = urlsplit(url)
        fit = parts.scheme in {"http", "https"} and parts.hostname and parts.port != 0
    except ValueError:
        fit = False
    if not fit:
        raise GrafanaProblem("--url: expected a URL such as http://127.0.0.1:3000", theirs=False)
    if "@" in parts.netloc or parts.query or parts.fragment:
        raise GrafanaProblem(
            "--url: no password, query or fragment; the token is GRAFANA_TOKEN", theirs=False
        )
    return url


def _needed(response: object) -> str | None:
    """The permissions that Grafana names in a refusal."""
    message = response.get("message") if isinstance(response, dict) else None
    _, found, named = str(message).partition("Permissions needed: ")
    return _told(named) if found else None


def _told(response: object) -> str:
    message = response.get("message") if isinstance(response, dict) else response
    return " ".join(str(message).split())[:TOLD_CHARS]
