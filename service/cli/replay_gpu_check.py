"""`specguard replay gpu-check`: ten minutes with a real prefill/decode pair, and a JSON report."""

import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter
from cyclopts.validators import Number

from service.cli.exits import DONE, FOUND, NOT_ALLOWED, Unfit
from service.cli.options import JsonFlag, print_line

if TYPE_CHECKING:
    from replay.gpu_check import Report, Wanted

Positive = Annotated[float, Parameter(validator=Number(gt=0))]
Several = Annotated[list[str], Parameter(negative="")]


def gpu_check(  # noqa: PLR0913 - options of a command
    *,
    target: str,
    prefill: Several,
    decode: Several,
    out: Path,
    allow: Annotated[list[str] | None, Parameter(negative="")] = None,
    minutes: Positive = 10.0,
    rate: Positive = 1.0,
    rules: str = "default",
    json_output: JsonFlag = False,
) -> int:
    """Look at a GPU pair for ten minutes: what it is, whether it answers, whether load changes answers.

    Example: specguard replay gpu-check --target http://127.0.0.1:30000 --allow 127.0.0.1 --prefill
    http://127.0.0.1:30100 --decode http://127.0.0.1:30200 --out gpu-check.json

    docker/gpu-pd has such a pair for Docker Compose. Its authors never ran it on a GPU: tried on the lab.

    Exit codes: 0 all is well, 1 something was found or failed (the report says what), 2 bad input, 5 a host
    is not allowed (nothing was sent).

    Parameters
    ----------
    target
        The router in front of the pair.
    prefill
        Base URL of a prefill worker. Several times.
    decode
        Base URL of a decode worker. Several times.
    out
        Where the report goes, JSON.
    allow
        A host that may be sent to. Several times. No host is allowed by itself.
    minutes
        How long it may take.
    rate
        Requests a second when idle; the peak is four times that.
    rules
        A packaged rule set's name, or a file: its detectors read every answer.
    """
    from replay.gpu_check import Wanted
    from replay.runner import Options

    options = Options(target=target, allow=tuple(allow or ()))
    wanted = Wanted(
        options=options, prefill=tuple(prefill), decode=tuple(decode), minutes=minutes, rate_per_s=rate
    )
    report = _checked(wanted, rules)
    _write(report, out)
    if json_output:
        print_line(out.read_text(encoding="utf-8").rstrip("\n"))
    else:
        for line in lines_of(report, out):
            print_line(line)
    return DONE if report.ok else FOUND


def lines_of(report: "Report", out: Path) -> list[str]:
    """For people."""
    lines = [f"{step.name:<8} {'ok' if step.ok else 'FAILED: ' + step.wrong}" for step in report.steps]
    return [*lines, f"{out}: {'all is well' if report.ok else 'not well'}, {report.seconds:.0f} s"]


def _checked(wanted: "Wanted", rules: str) -> "Report":
    import uvloop

    from replay.gpu_check import check
    from replay.plan import PlanError
    from replay.results import ResultsError
    from replay.target import NotAllowedError, TargetError
    from service.config import load_rules
    from service.core.recorded import Rules

    loaded = load_rules(rules)
    judged_by = Rules(loaded.detectors, loaded.fusion)
    try:
        with tempfile.TemporaryDirectory(prefix="specguard-") as home:
            return uvloop.run(check(wanted, judged_by, Path(home), _tell))
    except NotAllowedError as error:
        raise Unfit(f"gpu-check: {error}", NOT_ALLOWED) from None
    except (TargetError, PlanError, ResultsError) as error:
        raise Unfit(f"gpu-check: {error}") from None


def _write(report: "Report", out: Path) -> None:
    import msgspec

    data = msgspec.json.format(msgspec.json.encode(report), indent=2)
    try:
        out.write_bytes(data + b"\n")
    except OSError as error:
        raise Unfit(f"gpu-check: {error.filename}: {error.strerror}") from None


def _tell(line: str) -> None:
    sys.stderr.write(f"{line}\n")
    sys.stderr.flush()
