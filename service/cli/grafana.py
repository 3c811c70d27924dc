"""`specguard grafana`: dashboards, and incidents as annotations, brought to a Grafana."""

import os
import re
from collections.abc import Iterator
from contextlib import closing
from dataclasses import asdict
from importlib.metadata import version
from typing import TYPE_CHECKING, Annotated, Any, Final

from cyclopts import App, Parameter
from cyclopts.validators import Number

from service.cli.admin_port import AdminPort, Where
from service.cli.exits import BAD_INPUT, DONE, FOUND, Unfit
from service.cli.options import JsonFlag, print_json, print_line

if TYPE_CHECKING:
    from service.edges.grafana import Grafana
    from service.edges.grafana_push import Push, Step

app = App(name="grafana", help="Bring dashboards and incidents to a Grafana: push.")

HERE: Final = Where()
TOKEN: Final = "GRAFANA_TOKEN"
TITLE: Final = "SpecGuard"
"""Of a folder that is made; who calls it otherwise in Grafana keeps that."""
UID: Final = re.compile(r"[A-Za-z0-9_-]{1,40}")
"""What Grafana takes for a uid."""
WOULD: Final = {"created": "would be created", "updated": "would be updated"}


@app.command
def push(
    url: str,
    *,
    folder: str = "specguard",
    datasource_uid: str | None = None,
    incidents: Annotated[int, Parameter(validator=Number(gte=0))] = 0,
    where: Where = HERE,
    dry_run: bool = False,
    json_output: JsonFlag = False,
) -> int:
    """Bring SpecGuard's dashboards to a Grafana, and incidents as annotations; what is there is let be.

    The token is taken from the environment: GRAFANA_TOKEN, a service account's. It needs folders:read,
    folders:create, dashboards:read, dashboards:create, dashboards:write; for incidents annotations:read and
    annotations:create.

    Example: specguard grafana push http://127.0.0.1:3000 --incidents 50

    Exit codes: 0 done, 1 Grafana or the sidecar does not answer, 2 bad input, token or permission.

    Parameters
    ----------
    url
        Grafana's root, with its sub-path where it has one.
    folder
        Uid of the folder for the dashboards; made where it is missing.
    datasource_uid
        The Prometheus that dashboards open with; otherwise Grafana's default.
    incidents
        Annotate the newest so many incidents of the sidecar at --admin, with start and end.
    where
        Which sidecar's incidents.
    dry_run
        Read and tell, write nothing.
    """
    if not UID.fullmatch(folder):
        raise Unfit(f"--folder: a uid is letters, digits, - and _, 40 at most, not {folder!r}")
    with closing(_grafana(url)) as target:
        wanted = _wanted(target, folder, datasource_uid, dry=dry_run)
        steps = list(_steps(wanted, incidents, where))
    if json_output:
        print_json({"url": url, "dry_run": dry_run, "steps": [asdict(step) for step in steps]})
    else:
        print_line("\n".join(_told(step, dry=dry_run) for step in steps))
    return DONE


def _grafana(url: str) -> "Grafana":
    token = os.environ.get(TOKEN, "").strip()
    if not token:
        raise Unfit(f"{TOKEN} is not set: the token of a service account of that Grafana")
    try:
        from service.edges.grafana import Grafana, GrafanaProblem
    except ModuleNotFoundError:
        raise Unfit("grafana push needs grafana-client: pip install 'specguard[grafana]'") from None
    try:
        return Grafana(url, token)
    except GrafanaProblem as wrong:
        raise Unfit(str(wrong)) from None


def _wanted(target: "Grafana", folder: str, datasource: str | None, *, dry: bool) -> "Push":
    from service.edges.grafana_push import Push

    message = f"specguard {version('specguard')}"
    return Push(target, folder, TITLE, datasource=datasource, message=message, dry=dry)


def _steps(wanted: "Push", incidents: int, where: Where) -> Iterator["Step"]:
    """All of it; incidents are read before anything is written."""
    from service.edges.grafana import GrafanaProblem

    found = _incidents(where, incidents) if incidents else []
    try:
        yield from wanted.boards()
        yield from wanted.incidents(found)
    except GrafanaProblem as problem:
        raise Unfit(str(problem), FOUND if problem.theirs else BAD_INPUT) from None


def _incidents(where: Where, most: int) -> list[dict[str, Any]]:
    with AdminPort(where) as port:
        return list(port.rows("/api/incidents", {}, most=most))


def _told(step: "Step", *, dry: bool) -> str:
    did = WOULD.get(step.did, step.did) if dry else step.did
    return f"{step.what:<10} {step.name:<26} {did}"
