"""`specguard replay bisect`: which knob takes the bad answers away."""

from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from service.cli.exits import DONE, FOUND, Unfit
from service.cli.options import JsonFlag, print_line, read_or_not
from service.cli.replay_run import AS_WISHED, RunWishes, end_code, lines_of, to_the_end

if TYPE_CHECKING:
    from replay.bisect import Bisected


def bisect(
    plan: Path,
    results: Path,
    *,
    target: str = "",
    wishes: RunWishes = AS_WISHED,
    against: str = "",
    rules: str = "default",
    json_output: JsonFlag = False,
) -> int:
    """Name the knob that matters: arms that turn one knob each, held against a control that turns none.

    Example: specguard replay bisect knobs.plan knobs.results --target http://10.0.0.7:30000 --allow 10.0.0.7
    --control decode=http://10.0.0.7:30001/lab/control

    Such a plan is made by `specguard replay plan` with one --arm, at the load that breaks things, and a
    --turn for each knob. With --target it is run first; without, its results are there already. A cause takes
    the bad answers away while failures go on; a trigger takes failures away with them, as a lower load or a
    longer timeout would.

    Exit codes: 0 no knob matters beyond chance, 1 a knob is named, 2 bad input or a run that had to stop;
    with --target also 3 the schedule was not kept, 4 the backend fails, 5 target not allowed, 130 Ctrl-C.

    Parameters
    ----------
    plan
        What `specguard replay plan` wrote.
    results
        What `specguard replay run` wrote; with --target, where it goes.
    target
        Base URL of the test backend, to run the plan there first.
    wishes
        How it is run.
    against
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
    if target and (code := _run(plan, results, target, wishes)) != DONE:
        return code
    try:
        found = compare(plan, results, Rules(loaded.detectors, loaded.fusion), control=against)
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


def _run(plan: Path, results: Path, target: str, wishes: RunWishes) -> int:
    """Carry the plan out; what it came to is told where nothing is to be compared then."""
    summary = to_the_end(plan, results, wishes, wishes.options(target, None))
    code = end_code(summary)
    if code != DONE:
        for line in lines_of(summary, results):
            print_line(line)
    return code


def _show(found: "Bisected") -> None:
    print_line(f"{found.role}: {found.why}" if found.knob else found.why)
    for one in (found.control, *found.findings):
        counts = f"{one.events:>5} bad of {one.trials:>6}, {one.failures:>5} failed"
        print_line(f"{one.knob:<14} {one.role:<8} {counts}, p = {one.p_adjusted:.2g}")
