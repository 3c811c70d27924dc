"""`specguard replay bisect`: which knob takes the bad answers away."""

from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from service.cli.exits import DONE, FOUND, Unfit
from service.cli.options import JsonFlag, print_line, read_or_not

if TYPE_CHECKING:
    from replay.bisect import Bisected


def bisect(
    plan: Path,
    results: Path,
    *,
    control: str = "",
    rules: str = "default",
    json_output: JsonFlag = False,
) -> int:
    """Name the knob that matters, from a run whose arms turn one knob each beside a control.

    Example: specguard replay bisect knobs.plan knobs.results --control control

    Such a plan is made by `specguard replay plan` with an --arm and --knobs for each setting, all at the load
    that breaks things, and an arm that turns nothing. A cause takes the bad answers away while failures go
    on; a trigger takes failures away with them, as a lower load or a longer timeout would.

    Exit codes: 0 no knob matters beyond chance, 1 a knob is named, 2 bad input.

    Parameters
    ----------
    plan
        What `specguard replay plan` wrote.
    results
        What `specguard replay run` wrote.
    control
        The arm that turns no knob; the contrast's high arm unless named.
    rules
        A packaged rule set's name, or a file.
    """
    from replay.bisect import bisect as compare
    from replay.plan import PlanError
    from replay.results import ResultsError
    from service.config import load_rules
    from service.core.recorded import Rules

    loaded = load_rules(rules)
    try:
        found = compare(plan, results, Rules(loaded.detectors, loaded.fusion), control=control)
    except (PlanError, ResultsError) as error:
        raise Unfit(f"bisect: {error}") from None
    except OSError as error:
        raise Unfit(f"bisect: {error.filename}: {error.strerror}") from None
    with read_or_not():
        if json_output:
            print_line(msgspec.json.encode(found).decode())
        else:
            _show(found)
    return FOUND if found.knob else DONE


def _show(found: "Bisected") -> None:
    print_line(f"{found.role}: {found.why}" if found.knob else found.why)
    for one in (found.control, *found.findings):
        counts = f"{one.events:>5} bad of {one.trials:>6}, {one.failures:>5} failed"
        print_line(f"{one.knob:<14} {one.role:<8} {counts}, p = {one.p_adjusted:.2g}")
