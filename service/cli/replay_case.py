"""`specguard replay case` and `watch`: kept cases, idle and under load, and the verdict told back."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from time import monotonic, sleep
from typing import TYPE_CHECKING, Annotated, Any, Final

from cyclopts import Parameter
from cyclopts.validators import Number

from service.cli.admin_port import AdminPort, Where, identifier
from service.cli.exits import BAD_INPUT, DONE, FOUND, NOT_ALLOWED, Unfit
from service.cli.options import JsonFlag, print_json, print_line
from service.cli.replay_judge import code_of, judged, show
from service.cli.replay_run import AS_WISHED, RunWishes, end_code, lines_of, to_the_end

if TYPE_CHECKING:
    from replay.judge import Judged
    from replay.reproduce import CaseWishes, Price, Reproduction

HERE: Final = Where()
TOLD: Final = "untold.json"
"""In a case's folder: a verdict that the sidecar has not got yet."""
SEEN_MAX: Final = 500
"""Cases looked through for one that has not been replayed."""

Count = Annotated[int, Parameter(validator=Number(gte=1))]
Positive = Annotated[float, Parameter(validator=Number(gt=0))]
Flag = Annotated[bool, Parameter(negative=())]


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class Load:
    """What a case is put under.

    Parameters
    ----------
    requests
        How often it is asked, an arm: idle and peak.
    rate
        Requests a second of the idle arm.
    peak
        The peak arm's rate, as a multiple of the idle one.
    rounds
        Each arm runs once a round, in an order drawn by lot.
    margin
        A difference below so many per 10,000 does not matter.
    pause_s
        Between two blocks, for queues to run empty.
    seed
        Draws everything that is drawn.
    """

    requests: Count = 2000
    rate: Positive = 2.0
    peak: Positive = 8.0
    rounds: Count = 8
    margin: Positive = 20.0
    pause_s: Annotated[float, Parameter(validator=Number(gte=0))] = 5.0
    seed: int = 0

    def wishes(self, model: str) -> "CaseWishes":
        from replay.reproduce import CaseWishes

        return CaseWishes(
            requests=self.requests,
            rate_per_s=self.rate,
            peak=self.peak,
            rounds=self.rounds,
            margin_per_10k=self.margin,
            pause_s=self.pause_s,
            seed=self.seed,
            model=model,
        )


AS_LOADED: Final = Load()


def case(  # noqa: PLR0913 - one option each
    case_id: str,
    *,
    target: str = "",
    out: Path = Path("replays"),
    where: Where = HERE,
    load: Load = AS_LOADED,
    wishes: RunWishes = AS_WISHED,
    rules: str = "default",
    dry_run: Flag = False,
    keep_to_yourself: Flag = False,
    json_output: JsonFlag = False,
) -> int:
    """Replay one kept case against a test backend, idle and under load, and tell the verdict to the case.

    Example: specguard replay case ID --target http://10.0.0.7:30000 --allow 10.0.0.7

    With --dry-run it only says what that would cost, in requests and time.

    Exit codes: 0 not load-dependent (or priced), 1 load-dependent, 2 bad input, 3 the schedule was not kept,
    4 the backend fails, 5 target not allowed (nothing was sent), 6 undecided.

    Parameters
    ----------
    case_id
        The case's id, as `specguard cases list` prints it.
    target
        Base URL of the test backend. Never production: the case is asked thousands of times.
    out
        Folder for plan, answers and verdict, one folder a case.
    where
        Which sidecar kept the case.
    load
        What the case is put under.
    wishes
        How the run is carried out.
    rules
        A packaged rule set's name, or a file: its detectors read every answer.
    dry_run
        Price it and stop.
    keep_to_yourself
        Do not tell the verdict to the sidecar.
    """
    with AdminPort(where) as port, _no_verdict():
        made = _planned(port, identifier(case_id), out, load.wishes(wishes.model))
        if dry_run:
            _show_price(made.price, json_output=json_output)
            return DONE
        if not target:
            raise Unfit("case: name a test backend with --target, or price it with --dry-run")
        found = _replayed(made, target, wishes, rules)
        show(found, json_output=json_output)
        _tell_or_not(port, case_id, made.plan.parent, tell=not keep_to_yourself)
    return code_of(found.verdict.verdict)


def watch(  # noqa: PLR0913 - one option each
    *,
    target: str,
    out: Path = Path("replays"),
    where: Where = HERE,
    load: Load = AS_LOADED,
    wishes: RunWishes = AS_WISHED,
    rules: str = "default",
    every_s: Positive = 10.0,
    most: Annotated[int | None, Parameter(validator=Number(gte=1))] = None,
    json_output: JsonFlag = False,
) -> int:
    """Take new cases as a sidecar keeps them, replay each, and tell the verdict to the case.

    Example: specguard replay watch --target http://10.0.0.7:30000 --allow 10.0.0.7 --admin http://gw:8401

    Oldest first, one at a time. What has a verdict is not replayed again; a case that cannot be replayed is
    told and passed over until the next start. While the sidecar is away it is waited for, and a verdict is
    told when it is back; a replay that was killed goes on where it stopped. Ctrl-C ends it.

    Exit codes: 0 done (with --most), 2 bad input, 5 target not allowed, 130 Ctrl-C.

    Parameters
    ----------
    target
        Base URL of the test backend.
    out
        Folder for plans, answers and verdicts, one folder a case.
    where
        Which sidecar.
    load
        What each case is put under.
    wishes
        How the runs are carried out.
    rules
        A packaged rule set's name, or a file.
    every_s
        How often the sidecar is asked for new cases.
    most
        End after so many cases.
    """
    _allowed(target, wishes)
    passed: set[str] = set()
    with AdminPort(where) as port:
        list(port.rows("/api/cases", {}, most=1))  # a wrong address is told at once
        for own_id in _waiting(port, passed, every_s):
            line = _watched(port, own_id, out, load, wishes, target, rules)
            if line is None:
                continue
            passed.add(own_id)
            if json_output:
                print_json(line)
            else:
                print_line("  ".join(f"{value}" for value in line.values() if value is not None))
            if most is not None and len(passed) >= most:
                break
    return DONE


@contextmanager
def _no_verdict() -> Iterator[None]:
    """What a sidecar that is away ends with is no verdict: 1 would be one here."""
    try:
        yield
    except Unfit as error:
        raise Unfit(str(error), BAD_INPUT if error.code == FOUND else error.code) from None


def _allowed(target: str, wishes: RunWishes) -> None:
    """Refuse at once, not at the first case."""
    from replay.target import NotAllowedError, TargetError, check_allowed, target_of

    try:
        check_allowed(target_of(target), tuple(wishes.allow or ()))
    except NotAllowedError as error:
        raise Unfit(f"watch: {error}", NOT_ALLOWED) from None
    except TargetError as error:
        raise Unfit(f"watch: {error}") from None


def _waiting(
    port: AdminPort, passed: set[str], every_s: float, rest: Callable[[float], None] = sleep
) -> Iterator[str]:
    """Ids of cases without a verdict, oldest first, for ever; one that has not been passed comes again."""
    while True:
        fresh = next(_fresh(port, passed), None)
        if fresh is not None:
            yield fresh
        if fresh is None or fresh not in passed:
            rest(every_s)


def _fresh(port: AdminPort, passed: set[str]) -> Iterator[str]:
    try:
        listed = list(port.rows("/api/cases", {}, most=SEEN_MAX))
    except Unfit as error:
        if error.code != FOUND:
            raise
        _say(f"watch: {error}")
        return
    yield from (one["id"] for one in reversed(listed) if one["replay"] is None and one["id"] not in passed)


def _watched(
    port: AdminPort, own_id: str, out: Path, load: Load, wishes: RunWishes, target: str, rules: str
) -> dict[str, Any] | None:
    """What became of a case; None where the sidecar is away, and it is to come again."""
    folder = out / own_id
    try:
        if not (folder / TOLD).exists():
            _replayed(_planned(port, own_id, out, load.wishes(wishes.model)), target, wishes, rules)
        verdict = _tell(port, own_id, folder)
    except Unfit as error:
        if error.code == FOUND:
            _say(f"watch: {error}")
            return None
        if error.code != BAD_INPUT:
            raise
        return {"case": own_id, "verdict": None, "why": str(error)}
    return {"case": own_id, **verdict}


def _planned(port: AdminPort, own_id: str, out: Path, wishes: "CaseWishes") -> "Reproduction":
    from replay.importers import SourceError
    from replay.plan import PlanError
    from replay.reproduce import reproduction

    folder = out / own_id
    bundle = folder / "case.json"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        bundle.write_bytes(port.one(f"/api/cases/{own_id}"))
        return reproduction(bundle, folder, wishes)
    except (SourceError, PlanError) as error:
        raise Unfit(f"case: {error}") from None
    except OSError as error:
        raise Unfit(f"case: {error.filename or folder}: {error.strerror}") from None


def _replayed(made: "Reproduction", target: str, wishes: RunWishes, rules: str) -> "Judged":
    """Run, and judge; what is to be told to the case lies beside the results."""
    import msgspec

    from replay.reproduce import told_of

    folder = made.plan.parent
    results = folder / "case.results"
    options = wishes.options(target, None)
    if _was_killed(results, made, target):
        options = msgspec.structs.replace(options, resume=True)
    elif not wishes.resume:
        results.unlink(missing_ok=True)
    began = monotonic()
    summary = to_the_end(made.plan, results, wishes, options)
    if summary.stopped is not None and not summary.failing:
        raise Unfit("case: " + "; ".join(lines_of(summary, results)), end_code(summary))
    found = judged(made.plan, results, rules)
    (folder / "verdict.json").write_bytes(msgspec.json.encode(found))
    told = {"why": found.verdict.why, "body": told_of(found, made.price, monotonic() - began)}
    (folder / TOLD).write_bytes(msgspec.json.encode(told))
    return found


def _was_killed(results: Path, made: "Reproduction", target: str) -> bool:
    """Whether the file is of this very run and has no end."""
    from replay.results import ResultsError, closing_of, look_back

    try:
        past = look_back(results)
        same = past is not None and (past.header.plan_hash, past.header.target) == (made.header.hash, target)
        return same and closing_of(results) is None
    except ResultsError:
        return False


def _tell(port: AdminPort, own_id: str, folder: Path) -> dict[str, Any]:
    """Post the verdict that lies in a case's folder; verdict and reason."""
    import msgspec

    told = msgspec.json.decode((folder / TOLD).read_bytes())
    port.tell(f"/api/cases/{own_id}/replays", told["body"])
    (folder / TOLD).unlink()
    return {"verdict": told["body"]["verdict"], "why": told["why"]}


def _tell_or_not(port: AdminPort, own_id: str, folder: Path, *, tell: bool) -> None:
    """A verdict that cannot be told is one all the same."""
    if not tell:
        (folder / TOLD).unlink()
        return
    try:
        _tell(port, own_id, folder)
    except Unfit as error:
        _say(f"case: the verdict is not told to the case: {error}")


def _say(line: str) -> None:
    sys.stderr.write(f"{line}\n")


def _show_price(price: "Price", *, json_output: bool) -> None:
    if json_output:
        import msgspec

        print_json(msgspec.to_builtins(price))
        return
    output = "unknown" if price.output_tokens is None else f"{price.output_tokens:,} at most"
    print_line(f"requests       {price.requests:,}")
    print_line(f"time           {price.seconds / 60:,.1f} min")
    print_line(f"prompt tokens  {price.prompt_tokens:,}")
    print_line(f"output tokens  {output}")
    print_line(f"power          {price.power:.0%} to see {price.margin_per_10k:g} per 10,000 at peak")
    for note in price.notes:
        print_line(f"note           {note}")
