"""`specguard incidents`: on which requests of a running sidecar a verdict or a suspicion stood."""

from typing import Any, Final

import msgspec
from cyclopts import App

from service.cli.admin_port import AdminPort, Count, Where, hint_lines, identifier, table
from service.cli.exits import DONE
from service.cli.options import JsonFlag, print_json, print_line

app = App(name="incidents", help="Requests on which a verdict or a suspicion stood: list, show.")

HERE: Final = Where()
UNSAID: Final = "unknown"
HEAD: Final = ("at", "level", "kind", "detector", "outcome", "workers", "id")


@app.command(name="list")
def list_incidents(
    *,
    where: Where = HERE,
    kind: str | None = None,
    level: str | None = None,
    outcome: str | None = None,
    rid: str | None = None,
    limit: Count = 50,
    json_output: JsonFlag = False,
) -> int:
    """List incidents, newest first.

    Example: specguard incidents list --level corrupt --outcome recovered

    Exit codes: 0 done (also where there are none), 1 no sidecar or no store answers, 2 bad input.

    Parameters
    ----------
    where
        Which sidecar.
    kind
        Only this kind: garbled, repetition, rare_char, crosstalk, truncated, silent, low_acceptance.
    level
        Only this level: suspect or corrupt.
    outcome
        Only this outcome: recovered, marked, failed, ...
    rid
        Only the incidents of this request, by its own id or that of any attempt.
    """
    wanted = {"kind": kind, "level": level, "outcome": outcome, "rid": rid}
    with AdminPort(where) as port:
        found = list(port.rows("/api/incidents", wanted, most=limit))
    if json_output:
        print_json(found)
    else:
        print_line(table(HEAD, [_row(one) for one in found]) if found else "no incidents")
    return DONE


@app.command
def show(incident: str, *, where: Where = HERE, json_output: JsonFlag = False) -> int:
    """Show one incident with its attempts.

    Example: specguard incidents show ID

    Exit codes: 0 done, 1 no sidecar or no store answers, 2 bad input or no such incident.

    Parameters
    ----------
    incident
        Its id, as `list` prints it.
    where
        Which sidecar.
    """
    with AdminPort(where) as port:
        found = msgspec.json.decode(port.one(f"/api/incidents/{identifier(incident)}"))
    if json_output:
        print_json(found)
    else:
        print_line("\n".join(_told(found)))
    return DONE


def _row(one: dict[str, Any]) -> tuple[str, ...]:
    workers = " > ".join(attempt["worker"] for attempt in one["attempts"])
    return (one["at"], one["level"], one["kind"], one["detector"], one["outcome"], workers, one["id"])


def _told(one: dict[str, Any]) -> list[str]:
    """An incident in lines for a reader: every field that says something, then attempts and hints."""
    fields = {
        key: value for key, value in one.items() if isinstance(value, str | int | float) and value != ""
    }
    attempts = {f"attempt {attempt['ordinal']}": _attempt(attempt) for attempt in one["attempts"]}
    lines = [f"{key:<22}{value}" for key, value in (fields | attempts).items()]
    return lines + hint_lines(one, width=22)


def _attempt(attempt: dict[str, Any]) -> str:
    tokens = _count(attempt["tokens"])
    told = f"{attempt['level']} {attempt['kind']}, {tokens} tokens, {attempt['ending']}"
    said = attempt.get("engine_said", ())
    return f"{_place(attempt)}: {told}" + (f", the engine said {', '.join(said)}" if said else "")


def _place(attempt: dict[str, Any]) -> str:
    """Both legs, where a probe named them; an older sidecar tells of neither."""
    prefill = attempt.get("prefill", UNSAID)
    return attempt["worker"] if prefill == UNSAID else f"{prefill} -> {attempt['worker']}"


def _count(value: int | None) -> str:
    return "unknown" if value is None else str(value)
