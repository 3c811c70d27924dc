"""`specguard cases`: the kept cases of a running sidecar, to look at, take away and delete."""

from hashlib import sha256
from pathlib import Path
from typing import Annotated, Any, Final

import msgspec
from cyclopts import App, Parameter

from service.cli.admin_port import AdminPort, Count, Where, hint_lines, identifier, table
from service.cli.exits import DONE, FOUND, Unfit
from service.cli.options import JsonFlag, print_json, print_line

app = App(name="cases", help="Bad cases that a sidecar kept: list, show, export, delete.")

HERE: Final = Where()
HEAD: Final = ("at", "kind", "capture", "bytes", "replay", "rid", "id")

TextFree = Annotated[
    bool, Parameter(help="Without text: lengths and salted block hashes, which keep who shares a prefix.")
]


@app.command(name="list")
def list_cases(
    *,
    where: Where = HERE,
    kind: str | None = None,
    rid: str | None = None,
    capture: str | None = None,
    limit: Count = 50,
    json_output: JsonFlag = False,
) -> int:
    """List kept cases, newest first.

    Example: specguard cases list --kind repetition --limit 20

    Exit codes: 0 done (also where there are none), 1 no sidecar or no store answers, 2 bad input.

    Parameters
    ----------
    where
        Which sidecar.
    kind
        Only this kind: garbled, repetition, rare_char, crosstalk, truncated, silent.
    rid
        Only the case of this request, by its own id or that of any attempt.
    capture
        Only cases kept in this mode: off, hashes, full.
    """
    with AdminPort(where) as port:
        found = list(port.rows("/api/cases", {"kind": kind, "rid": rid, "capture": capture}, most=limit))
    if json_output:
        print_json(found)
    else:
        rows = [_row(case) for case in found]
        print_line(table(HEAD, rows) if rows else "no cases")
    return DONE


@app.command
def show(
    case: str, *, where: Where = HERE, text_free: TextFree = False, json_output: JsonFlag = False
) -> int:
    """Show one case: what was judged, on which workers, and what became of it. Of its text only lengths.

    Example: specguard cases show ID --json

    Exit codes: 0 done, 1 no sidecar or no store answers, 2 bad input or no such case.

    Parameters
    ----------
    case
        Its id, as `list` prints it.
    where
        Which sidecar.
    json_output
        Print the whole bundle.
    """
    with AdminPort(where) as port:
        bundle = msgspec.json.decode(_bundle(port, case, text_free=text_free))
    if json_output:
        print_json(bundle)
    else:
        print_line("\n".join(_told(bundle)))
    return DONE


@app.command
def export(
    *cases: str,
    where: Where = HERE,
    out: Path = Path(),
    text_free: TextFree = False,
    json_output: JsonFlag = False,
) -> int:
    """Write cases to files that stand for themselves, each named by the hash of its content.

    Example: specguard cases export ID --out bundles --text-free

    Exit codes: 0 done, 1 no sidecar or no store answers, 2 bad input or no such case.

    Parameters
    ----------
    cases
        Their ids, as `list` prints them.
    where
        Which sidecar.
    out
        The folder to write to; made where it is missing.
    """
    if not cases:
        raise Unfit("name the cases to export; `specguard cases list` prints their ids")
    with AdminPort(where) as port:
        written = [_written(out, _bundle(port, case, text_free=text_free)) for case in cases]
    if json_output:
        print_json([{"id": path.stem.removeprefix("case-"), "file": str(path)} for path in written])
    else:
        print_line("\n".join(map(str, written)))
    return DONE


@app.command
def delete(*cases: str, where: Where = HERE, json_output: JsonFlag = False) -> int:
    """Delete cases from the sidecar's store; its log keeps a line for each, without text.

    Example: specguard cases delete ID

    Exit codes: 0 done, 1 no sidecar or no store answers, 2 bad input or no such case.
    What stands before a case that is not there is deleted.

    Parameters
    ----------
    cases
        Their ids, as `list` prints them.
    where
        Which sidecar.
    """
    if not cases:
        raise Unfit("name the cases to delete; `specguard cases list` prints their ids")
    with AdminPort(where) as port:
        for case in cases:
            port.forget(f"/api/cases/{identifier(case)}")
    if json_output:
        print_json({"deleted": list(cases)})
    else:
        print_line(f"deleted {len(cases)}")
    return DONE


def _row(case: dict[str, Any]) -> tuple[str, ...]:
    replay = case.get("replay") or "none yet"
    return (
        case["at"], case["kind"], case["capture"], str(case["size_bytes"]), replay, case["rid"], case["id"]
    )  # fmt: skip


def _bundle(port: AdminPort, case: str, *, text_free: bool) -> bytes:
    """The bytes of a bundle; those of a whole one must hash to its id."""
    bundle = port.one(f"/api/cases/{identifier(case)}", **({"text_free": "true"} if text_free else {}))
    if not text_free and sha256(bundle).hexdigest() != case:
        raise Unfit(f"case {case}: what came does not hash to its id; was it cut on its way?", FOUND)
    return bundle


def _written(folder: Path, bundle: bytes) -> Path:
    path = folder / f"case-{sha256(bundle).hexdigest()}.json"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        path.write_bytes(bundle)
    except OSError as error:
        raise Unfit(f"{path}: cannot be written ({error.strerror})") from None
    return path


def _told(case: dict[str, Any]) -> list[str]:
    """A bundle in lines for a reader."""
    judged, request = case["judgement"], case["request"]
    said = (
        ("at", f"{case['at']}, after {case['duration_s']} s"),
        ("request", f"{case['rid']}, {case['model'] or 'unknown model'}, {request['dialect']}"),
        ("judged", f"{judged['level']}: {judged['kind']} by {judged['detector']}"),
        ("tokens", f"found at {_known(judged['at_token'])}, begun at {_known(judged['onset_token'])}"),
        ("outcome", f"{case['outcome']}, {case['delivered_bad_tokens']} bad tokens delivered"),
        ("route", f"{case['route']} ({case['policy']})"),
        ("kept", case["capture"]),
        *((f"attempt {place}", _attempt(one)) for place, one in enumerate(case["attempts"], 1)),
    )
    return [f"{name:<12}{value}" for name, value in said] + hint_lines(case, width=12)


def _attempt(attempt: dict[str, Any]) -> str:
    judged = attempt["judgement"]
    return (
        f"{attempt['worker']}: {judged['level']} {judged['kind']}, {_known(attempt['tokens'])} tokens,"
        f" accept length {_known(attempt['accept_length'])}, {attempt['ending']}"
    )


def _known(value: Any) -> str:  # noqa: ANN401 - a number or null
    return "unknown" if value is None else str(value)
