"""`specguard doctor`: what of this fleet's settings makes corruption unseen, unretried or unexplained."""

import asyncio
import os
from typing import TYPE_CHECKING, Annotated, Any, Final

import msgspec
from cyclopts import Parameter

from service.cli.exits import BAD_INPUT, DONE, FOUND, Unfit
from service.cli.options import JsonFlag, print_json, print_line

if TYPE_CHECKING:
    from collections.abc import Iterable

    from service.core.doctor.capabilities import Here
    from service.core.doctor.facts import Facts, RouterFlags
    from service.core.doctor.finding import Finding
    from service.core.doctor.judge import Diagnosis
    from service.core.doctor.workers import PublicRule

KEY_VARIABLE: Final = "SPECGUARD_WORKER_API_KEY"
VERSION: Final = 1
"""Of the JSON."""

Workers = Annotated[tuple[str, ...], Parameter(name="--worker", negative=(), show_default=False)]
Flag = Annotated[bool, Parameter(negative=())]


def doctor(
    *,
    router: str | None = None,
    workers: Workers = (),
    router_metrics: str | None = None,
    router_flags: str | None = None,
    capabilities: Flag = False,
    json_output: JsonFlag = False,
) -> int:
    """Ask router and workers how they are set up, and name what is risky, why, and what to do.

    Example: specguard doctor --router http://127.0.0.1:30000 --router-flags "smg launch --policy round_robin"

    Sends no prompt and changes nothing. Workers that the router lists are asked, too. A key that workers want
    is read from SPECGUARD_WORKER_API_KEY.

    Exit codes: 0 nothing to mend, 1 warnings, 2 errors (an unreachable router or worker is one) or bad input.

    Parameters
    ----------
    router
        URL of the router.
    workers
        URL of a worker; may be given several times.
    router_metrics
        URL of the router's own metrics, which tell its policy once it has chosen workers.
    router_flags
        The router's command line, in one argument: its policy and its retries stand nowhere else.
    capabilities
        Print which routers, modes, dialects and telemetry work together.
    json_output
        Print everything as one JSON object.
    """
    if router is None and not workers and not capabilities:
        raise Unfit("doctor: name a router (--router URL), workers (--worker URL), or --capabilities")
    flags = _flags(router_flags)
    facts = asyncio.run(_ask(router or "", workers, router_metrics or "", flags))
    diagnosis = _diagnose(facts)
    asked = router is not None or bool(workers)
    if json_output:
        print_json(report(facts, diagnosis, asked=asked, matrix=capabilities))
    else:
        _print(facts, diagnosis, asked=asked, matrix=capabilities)
    return exit_code(diagnosis) if asked else DONE


def exit_code(diagnosis: "Diagnosis") -> int:
    from service.core.doctor.finding import Severity

    return {Severity.INFO: DONE, Severity.WARNING: FOUND, Severity.ERROR: BAD_INPUT}[diagnosis.worst]


def report(facts: "Facts", diagnosis: "Diagnosis", *, asked: bool, matrix: bool) -> dict[str, Any]:
    """The JSON."""
    told: dict[str, Any] = {"v": VERSION}
    if asked:
        told |= {
            "worst": diagnosis.worst.name.lower(),
            "here": msgspec.to_builtins(diagnosis.here),
            "router": _router(facts),
            "workers": [_worker(worker) for worker in facts.workers],
            "findings": [
                msgspec.to_builtins(finding) | {"severity": finding.severity.name.lower()}
                for finding in diagnosis.findings
            ],
        }
    if matrix:
        told["capabilities"] = msgspec.to_builtins(diagnosis.capabilities)
    return told


def _router(facts: "Facts") -> dict[str, Any] | None:
    router = facts.router
    if not router.url:
        return None
    return {
        "url": router.url,
        "kind": router.kind,
        "reachable": not router.trouble,
        "policy": router.policy or "unknown",
        "workers": [worker.url for worker in router.workers],
    }


def _worker(worker: Any) -> dict[str, Any]:  # noqa: ANN401 - a WorkerSeen, imported when the command runs
    info = worker.info
    return {
        "url": worker.url,
        "reachable": not worker.trouble,
        "engine": worker.engine,
        "version": worker.version or "unknown",
        "role": worker.part,
        "speculation": (info.speculative_algorithm or "none") if info is not None else "unknown",
        "draft_tokens": info.steps if info is not None and info.steps > 0 else None,
        "metrics": worker.metrics is not None,
    }


def _flags(command: str | None) -> "RouterFlags | None":
    from service.core.doctor.facts import router_flags

    if command is None:
        return None
    flags = router_flags(command)
    if isinstance(flags, str):
        raise Unfit(flags)
    return flags


async def _ask(router: str, workers: tuple[str, ...], metrics: str, flags: "RouterFlags | None") -> "Facts":
    from service.edges.doctor import Questions
    from service.edges.router_admin import admin_client

    async with admin_client() as client:
        questions = Questions(client, api_key=os.environ.get(KEY_VARIABLE, ""))
        return await questions.ask(router, workers, router_metrics=metrics, flags=flags)


def _diagnose(facts: "Facts") -> "Diagnosis":
    from service.core.doctor.judge import diagnose
    from service.core.policy import RoutePolicy
    from service.probe.hooks import COMPATIBLE

    return diagnose(
        facts, _public_rule(), probe_versions=COMPATIBLE, generations=RoutePolicy().max_generations
    )


def _public_rule() -> "PublicRule":
    """The published thresholds, from the rule set that holds them."""
    from service.config import load_rules
    from service.core.detectors.zai import Zai
    from service.core.doctor.workers import PublicRule

    (rule,) = (one for one in load_rules("zai").detectors if isinstance(one, Zai))
    return PublicRule(rule.length_min, rule.rate_max)


# --- for people ---


def _print(facts: "Facts", diagnosis: "Diagnosis", *, asked: bool, matrix: bool) -> None:
    if asked:
        _print_fleet(facts, diagnosis)
        _print_findings(diagnosis)
    if matrix:
        _print_matrix(diagnosis)


def _print_fleet(facts: "Facts", diagnosis: "Diagnosis") -> None:
    here = diagnosis.here
    if facts.router.url:
        print_line(f"router {facts.router.url}: {_router_line(facts, here)}")
    rows = [[_word(value) for value in _worker(worker).values()] for worker in facts.workers]
    if rows:
        heads = [
            "worker",
            "reachable",
            "engine",
            "version",
            "role",
            "speculation",
            "drafts a step",
            "metrics",
        ]
        _table(heads, rows)
    if not here.engines:
        return
    if not here.rows:
        print_line(
            f"mode {here.mode}: not judged, the router is {'unknown' if facts.router.url else 'not named'}"
        )
        return
    telemetry = ", ".join(f"{row.dialect} {row.telemetry}" for row in here.rows)
    supported = "supported" if here.supported else "NOT supported"
    print_line(f"mode {here.mode}: {supported}; verify steps without the probe: {telemetry}")


def _word(value: object) -> str:
    match value:
        case bool():
            return "yes" if value else "no"
        case None:
            return "-"
        case _:
            return str(value)


def _router_line(facts: "Facts", here: "Here") -> str:
    if facts.router.trouble:
        return f"cannot be asked ({facts.router.trouble})"
    return f"{here.router}, policy {here.policy}, retries {here.steering}"


def _print_findings(diagnosis: "Diagnosis") -> None:
    for alike in _alike(diagnosis.findings):
        finding = alike[0]
        print_line(f"\n{finding.severity.name} {finding.code} ({', '.join(one.subject for one in alike)})")
        for name in ("what", "why", "fix"):
            print_line(f"  {name:<5}{getattr(finding, name)}")
    print_line(f"\n{_counted(len(diagnosis.findings))}, the worst: {diagnosis.worst.name.lower()}")


def _counted(findings: int) -> str:
    return "1 finding" if findings == 1 else f"{findings} findings"


def _alike(findings: "Iterable[Finding]") -> "list[list[Finding]]":
    """Findings that differ in their subject only, together."""
    groups: dict[tuple[str, str], list[Finding]] = {}
    for finding in findings:
        groups.setdefault((finding.code, finding.what), []).append(finding)
    return list(groups.values())


def _print_matrix(diagnosis: "Diagnosis") -> None:
    heads = ["router", "mode", "dialect", "telemetry", "with the probe", "retries pinned by", "", "note"]
    rows = [
        [
            row.router,
            row.mode,
            row.dialect,
            row.telemetry,
            row.with_probe,
            row.pins or "-",
            "" if row.supported else "UNSUPPORTED",
            row.note,
        ]
        for row in diagnosis.capabilities
    ]
    _table(heads, rows)


def _table(heads: list[str], rows: list[list[str]]) -> None:
    from rich.console import Console
    from rich.table import Table

    table = Table(*heads, box=None)
    for row in rows:
        table.add_row(*row)
    console = Console(markup=False, highlight=False)
    Console(markup=False, highlight=False, width=None if console.is_terminal else 160).print(table)
