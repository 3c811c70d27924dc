"""`specguard replay judge`: the verdict on a run."""

from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from service.cli.exits import DONE, FAILING, FOUND, NOT_KEPT, UNDECIDED, Unfit
from service.cli.options import JsonFlag, print_line, read_or_not

if TYPE_CHECKING:
    from replay.judge import Judged
    from replay.judging.levels import Level
    from replay.judging.verdict import Outcome


def judge(
    plan: Path,
    results: Path,
    *,
    rules: str = "default",
    json_output: JsonFlag = False,
) -> int:
    """Judge a run: count what went wrong at each level, and say whether it is the load.

    Example: specguard replay judge peak.plan peak.results

    Exit codes: 0 not load-dependent, 1 load-dependent, 2 bad input, 3 the client did not keep the schedule,
    4 the backend failed too many requests, 6 undecided (it says how many more requests).

    Parameters
    ----------
    plan
        What `specguard replay plan` wrote.
    results
        What `specguard replay run` wrote.
    rules
        A packaged rule set's name, or a file: its detectors read every answer.
    """
    found = judged(plan, results, rules)
    show(found, json_output=json_output)
    return code_of(found.verdict.verdict)


def show(found: "Judged", *, json_output: bool) -> None:
    """Print it."""
    with read_or_not():
        if json_output:
            print_line(msgspec.json.encode(found).decode())
            return
        for line in told(found):
            print_line(line)


def judged(plan: Path, results: Path, rules: str) -> "Judged":
    """The judgement, or one line of what is wrong with the files."""
    from replay.judge import judge as judge_run
    from replay.plan import PlanError
    from replay.results import ResultsError
    from service.config import load_rules
    from service.core.recorded import Rules

    loaded = load_rules(rules)
    try:
        return judge_run(plan, results, Rules(loaded.detectors, loaded.fusion))
    except (PlanError, ResultsError) as error:
        raise Unfit(f"judge: {error}") from None
    except OSError as error:
        raise Unfit(f"judge: {error.filename}: {error.strerror}") from None


def code_of(outcome: "Outcome") -> int:
    from replay.judging.verdict import Outcome

    codes = {
        Outcome.NOT_LOAD_DEPENDENT: DONE,
        Outcome.LOAD_DEPENDENT: FOUND,
        Outcome.SCHEDULE_NOT_KEPT: NOT_KEPT,
        Outcome.BACKEND_FAILING: FAILING,
        Outcome.UNDECIDED: UNDECIDED,
    }
    return codes[outcome]


def told(found: "Judged") -> list[str]:
    """The judgement in lines for people."""
    verdict = found.verdict
    head = f"{verdict.verdict}: {verdict.why}"
    if not verdict.reproduced:
        head += "; not reproduced: no event in any arm"
    if verdict.more_requests is not None:
        head += f"; some {verdict.more_requests} more requests an arm would decide"
    lines = [head, *_table(found.levels)]
    if verdict.ratio_low is not None:
        ratio = "infinite" if verdict.ratio is None else f"{verdict.ratio:.1f}"
        high = "" if verdict.ratio_high is None else f"{verdict.ratio_high:.1f}"
        lines.append(f"rate ratio {ratio}, 95 % {verdict.ratio_low:.2f} to {high or 'infinity'}")
    p = f"p incidents {verdict.p_incidents:.2g}, blocks {verdict.p_blocks:.2g}, e-value {found.e_value:.3g}"
    lines.append(f"{p}, design effect {verdict.design_effect:.2f}")
    if found.trend is not None:
        lines.append(f"trend over all levels: p = {found.trend.p:.2g}")
    lines += [
        f"{one.name}: {one.low} against {one.high}, p = {one.p_adjusted:.2g} adjusted"
        for one in found.questions
    ]
    if found.canaries.leaks:
        lines.append(f"cross-talk: {len(found.canaries.leaks)} answers hold another request's mark")
    return lines


def _table(levels: "list[Level]") -> list[str]:
    rows = [f"{'':<10} {'load':>6} {'answers':>8} {'bad':>5} {'incidents':>9} {'per 10k':>8}  95 %"]
    for one in levels:
        rate = "" if one.per_10k is None else f"{one.per_10k:.1f}"
        bounds = "" if one.low_per_10k is None else f"  {one.low_per_10k:.1f} - {one.high_per_10k:.1f}"
        failed = f"  {sum(one.failures.values())} failed" if one.failures else ""
        counts = f"{one.trials:>8} {one.events:>5} {one.incidents:>9}"
        rows.append(f"{one.arm:<10} {one.load:>6g} {counts} {rate:>8}{bounds}{failed}")
    return rows
