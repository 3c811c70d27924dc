"""`specguard replay case` and `watch`: kept cases, idle and under load, and the verdict told back."""

from collections.abc import Callable, Iterator
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
from service.cli.replay_run import RunWishes, end_code, lines_of, to_the_end

if TYPE_CHECKING:
    from replay.judge import Judged
    from replay.reproduce import CaseWishes, Price, Reproduction

HERE: Final = Where()
AS_WISHED: Final = RunWishes()
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
    with AdminPort(where) as port:
        made = _planned(port, identifier(case_id), out, load.wishes(wishes.model))
        if dry_run:
            _show_price(made.price, json_output=json_output)
            return DONE
        if not target:
            raise Unfit("case: name a test backend with --target, or price it with --dry-run")
        found = _replayed(port, case_id, made, target, wishes, rules, tell=not keep_to_yourself)
    show(found, json_output=json_output)
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
    told and passed over until the next start. Ctrl-C ends it after the run that is under way.

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
        for own_id in _waiting(port, passed, every_s, most):
            passed.add(own_id)
            line = _watched(port, own_id, out, load, wishes, target, rules)
            if json_output:
                print_json(line)
            else:
                print_line("  ".join(f"{value}" for value in line.values() if value is not None))
    return DONE


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
    port: AdminPort, passed: set[str], every_s: float, most: int | None, rest: Callable[[float], None] = sleep
) -> Iterator[str]:
    """Ids of cases without a verdict, oldest first, for ever or as many as wished."""
    count = 0
    while most is None or count < most:
        listed = list(port.rows("/api/cases", {}, most=SEEN_MAX))
        fresh = [one["id"] for one in reversed(listed) if one["replay"] is None and one["id"] not in passed]
        if not fresh:
            rest(every_s)
            continue
        count += 1
        yield fresh[0]


def _watched(
    port: AdminPort, own_id: str, out: Path, load: Load, wishes: RunWishes, target: str, rules: str
) -> dict[str, Any]:
    try:
        made = _planned(port, own_id, out, load.wishes(wishes.model))
        found = _replayed(port, own_id, made, target, wishes, rules, tell=True)
    except Unfit as error:
        if error.code not in {FOUND, BAD_INPUT}:
            raise
        return {"case": own_id, "verdict": None, "why": str(error)}
    return {"case": own_id, "verdict": found.verdict.verdict.value, "why": found.verdict.why}


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


def _replayed(
    port: AdminPort,
    own_id: str,
    made: "Reproduction",
    target: str,
    wishes: RunWishes,
    rules: str,
    *,
    tell: bool,
) -> "Judged":
    import msgspec

    from replay.reproduce import told_of

    folder = made.plan.parent
    results = folder / "case.results"
    results.unlink(missing_ok=True)
    began = monotonic()
    summary = to_the_end(made.plan, results, wishes, wishes.options(target, None))
    if summary.stopped is not None and not summary.failing:
        raise Unfit("case: " + "; ".join(lines_of(summary, results)), end_code(summary))
    found = judged(made.plan, results, rules)
    (folder / "verdict.json").write_bytes(msgspec.json.encode(found))
    if tell:
        port.tell(f"/api/cases/{own_id}/replays", told_of(found, made.price, monotonic() - began))
    return found


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
