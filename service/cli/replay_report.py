"""`specguard replay report`: a judged run as one HTML file, and as JSON and JUnit for CI."""

from pathlib import Path
from typing import Annotated

import msgspec
from cyclopts import Parameter

from service.cli.exits import Unfit
from service.cli.options import print_line, read_or_not
from service.cli.replay_judge import code_of, judged


def report(
    plan: Path,
    results: Path,
    *,
    out: Path,
    json_file: Path | None = None,
    junit: Path | None = None,
    text_free: Annotated[bool, Parameter(negative=())] = False,
    rules: str = "default",
) -> int:
    """Write the report of a run: one HTML file that opens offline.

    Example: specguard replay report peak.plan peak.results --out peak.html --junit peak.xml

    Exit codes are those of `specguard replay judge`.

    Parameters
    ----------
    plan
        What `specguard replay plan` wrote.
    results
        What `specguard replay run` wrote.
    out
        The page. It holds prompts and answers of the cases that it shows.
    json_file
        The judgement as JSON; without any text.
    junit
        Four tests for a pipeline: the contrast, the schedule, the backend, cross-talk.
    text_free
        Show lengths in place of prompts and answers.
    rules
        A packaged rule set's name, or a file: its detectors read every answer.
    """
    from replay.report import report as page_of
    from replay.reporting.junit import junit as junit_of

    found = judged(plan, results, rules)
    _write(out, page_of(plan, results, found, text=not text_free).encode())
    if json_file is not None:
        _write(json_file, msgspec.json.encode(found))
    if junit is not None:
        _write(junit, junit_of(found).encode())
    with read_or_not():
        print_line(f"{found.verdict.verdict}: {found.verdict.why}")
        print_line(f"report in {out}")
    return code_of(found.verdict.verdict)


def _write(path: Path, data: bytes) -> None:
    """Whole or not at all, also where the disk is full."""
    beside = path.with_name(f".{path.name}.part")
    try:
        beside.write_bytes(data)
        beside.replace(path)
    except OSError as error:
        raise Unfit(f"report: {path}: {error.strerror}") from None
    finally:
        beside.unlink(missing_ok=True)
