"""`specguard replay run`, `worker` and `merge`: a plan carried out, by one machine or by several."""

import asyncio
import os
import signal
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Annotated, Final, Literal

from cyclopts import Parameter
from cyclopts.validators import Number

from service.cli.exits import BAD_INPUT, DONE, FAILING, FOUND, INTERRUPTED, NOT_ALLOWED, NOT_KEPT, Unfit
from service.cli.options import JsonFlag, print_json, print_line, read_or_not

if TYPE_CHECKING:
    from rich.console import Console

    from replay.calibrate import Floor
    from replay.client_aiohttp import AiohttpClient
    from replay.runner import Options, Runner, State, Summary
    from replay.shard import Shard

TELL_S: Final = 10.0
"""Between two lines of progress where no terminal shows one that changes."""

Positive = Annotated[float, Parameter(validator=Number(gt=0))]
Share = Annotated[float, Parameter(validator=Number(gte=0, lte=1))]
Flag = Annotated[bool, Parameter(negative="")]
Several = Annotated[list[str] | None, Parameter(negative="")]


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class RunWishes:
    """What the command line may say of a run.

    Parameters
    ----------
    allow
        A host that may be sent to, as HOST or HOST:PORT. Several times. No host is allowed by itself.
    model
        Takes the place of the plan's model.
    metrics
        A /metrics page of a prefill or decode worker or the router, read each second. Several times.
    control
        Where knobs of the plan are posted, as ROLE=URL. Several times.
    max_rate
        Requests a second at most; a plan whose busiest second has more is refused.
    max_errors
        Share of failed requests within 10 s at which the run is stopped.
    timeout_s
        For a whole answer.
    first_byte_s
        For its first byte.
    key_env
        Name of the environment variable with a key to send as `Authorization: Bearer`.
    ca
        CA certificates, PEM, for an https target.
    transport
        raw is the fast one; aiohttp for servers that it does not get on with.
    sync
        When results must be on the disk itself: never, every few seconds, or each.
    resume
        Go on with a run that was killed or stopped: send what has not been sent.
    start_at
        When time begins, ISO 8601; for shards that run together.
    quick
        Begin without measuring this client first.
    """

    allow: Several = None
    model: str = ""
    metrics: Several = None
    control: Several = None
    max_rate: Positive = 2000.0
    max_errors: Share = 0.2
    timeout_s: Positive = 600.0
    first_byte_s: Positive = 120.0
    key_env: str | None = None
    ca: Path | None = None
    transport: Literal["raw", "aiohttp"] = "raw"
    sync: Literal["never", "interval", "each"] = "interval"
    resume: Flag = False
    start_at: datetime | None = None
    quick: Flag = False

    def options(self, target: str, shard: "Shard | None") -> "Options":
        """The run that this asks for."""
        from replay.results import Sync
        from replay.runner import Options

        start_at = self.start_at
        if start_at is not None and start_at.tzinfo is None:
            start_at = start_at.replace(tzinfo=UTC)
        return Options(
            target=target,
            allow=tuple(self.allow or ()),
            model=self.model,
            headers=_key(self.key_env),
            authorities=str(self.ca) if self.ca else None,
            error_share=self.max_errors,
            cap_per_s=self.max_rate,
            timeout_s=self.timeout_s,
            first_byte_s=self.first_byte_s,
            metrics=tuple(self.metrics or ()),
            controls=_controls(self.control or ()),
            sync=Sync(self.sync),
            resume=self.resume,
            shard=shard,
            start_at=start_at,
        )


AS_WISHED: Final = RunWishes()


def run(
    plan: Path,
    *,
    target: str,
    out: Path,
    wishes: RunWishes = AS_WISHED,
    json_output: JsonFlag = False,
) -> int:
    """Send a plan to a backend on its own schedule and keep every answer.

    Example: specguard replay run peak.plan --target http://10.0.0.7:30000 --allow 10.0.0.7 --out peak.results

    Results are appended as they come: a run that was killed goes on with --resume, with nothing lost and
    nothing sent twice. Ctrl-C stops the sending and waits 10 s for what is under way.

    Exit codes: 0 done, 1 stopped by a full disk or a refused knob, 2 bad input, 3 the schedule was not kept,
    4 the backend fails, 5 target not allowed or plan too fast (nothing was sent), 130 Ctrl-C.

    Parameters
    ----------
    plan
        What `specguard replay plan` wrote.
    target
        Base URL of SpecGuard, a router, an engine or the lab.
    out
        Where results go, JSON lines.
    """
    return _carried_out(plan, out, wishes, wishes.options(target, None), json_output=json_output)


def worker(
    plan: Path,
    *,
    shard: str,
    target: str,
    out: Path,
    wishes: RunWishes = AS_WISHED,
    json_output: JsonFlag = False,
) -> int:
    """Send one shard of a plan: whole sessions, always the same ones.

    Example: specguard replay worker peak.plan --shard 0/4 --start-at 2026-01-31T12:00:00Z --target
    http://10.0.0.7:30000 --allow 10.0.0.7 --out peak.0.results

    Exit codes: as of `specguard replay run`.

    Parameters
    ----------
    plan
        What `specguard replay plan` wrote; the same file on every machine.
    shard
        K/N, the Kth of N from 0, as an Indexed Job counts.
    target
        Base URL of SpecGuard, a router, an engine or the lab.
    out
        Where this shard's results go.
    """
    from replay.shard import shard_of

    try:
        ours = shard_of(shard)
    except ValueError as error:
        raise Unfit(f"worker: --shard {shard}: {error}") from None
    return _carried_out(plan, out, wishes, wishes.options(target, ours), json_output=json_output)


def merge(results: list[Path], *, out: Path, apart: Flag = False) -> int:
    """Make one results file of those of all shards.

    Example: specguard replay merge peak.0.results peak.1.results --out peak.results

    Exit codes: 0 done, 2 the files are not the shards of one run.

    Parameters
    ----------
    results
        One file a shard.
    out
        Where the whole goes.
    apart
        Merge shards that did not start together all the same.
    """
    from replay.results import ResultsError
    from replay.shard import merge as merged

    try:
        header = merged(results, out, apart=apart)
    except ResultsError as error:
        raise Unfit(f"merge: {error}") from None
    except OSError as error:
        raise Unfit(f"merge: {error.filename or out}: {error.strerror}") from None
    print_line(f"{out}: {len(results)} shards of plan {header.plan_hash[:12]}")
    return DONE


def exit_code(summary: "Summary") -> int:
    """How a run ends for a shell."""
    if summary.stopped == "interrupted":
        return INTERRUPTED
    if summary.failing:
        return FAILING
    if summary.stopped is not None:
        return FOUND
    return DONE if summary.kept else NOT_KEPT


def end_code(summary: "Summary") -> int:
    """The same for a command whose own 1 is a verdict: a run that had to stop is none."""
    code = exit_code(summary)
    return BAD_INPUT if code == FOUND else code


def _carried_out(plan: Path, out: Path, wishes: RunWishes, options: "Options", *, json_output: bool) -> int:
    summary = to_the_end(plan, out, wishes, options)
    with read_or_not():
        if json_output:
            print_json(_told(summary))
        else:
            for line in lines_of(summary, out):
                print_line(line)
    return exit_code(summary)


def to_the_end(plan: Path, out: Path, wishes: RunWishes, options: "Options") -> "Summary":
    """Run, with progress for people; raises Unfit for what could not be begun."""
    import uvloop

    from replay.calibrate import CalibrationError
    from replay.control import ControlError
    from replay.plan import PlanError
    from replay.results import ResultsError
    from replay.target import NotAllowedError, TargetError

    try:
        return uvloop.run(_calibrated(plan, out, wishes, options))
    except NotAllowedError as error:
        raise Unfit(f"run: {error}", NOT_ALLOWED) from None
    except (PlanError, ResultsError, TargetError, ControlError, CalibrationError) as error:
        raise Unfit(f"run: {error}") from None
    except OSError as error:
        raise Unfit(f"run: {error.filename or out}: {error.strerror}") from None


async def _calibrated(plan: Path, out: Path, wishes: RunWishes, options: "Options") -> "Summary":
    """Measure the client, then run."""
    from msgspec.structs import replace as with_
    from rich.console import Console

    from replay.calibrate import calibrate, told
    from replay.run import raw_transport, run_plan
    from replay.target import check_allowed, target_of

    check_allowed(target_of(options.target), options.allow)
    console = Console(stderr=True)
    if not wishes.quick:
        floor = await calibrate()
        console.print(_floor_line(floor), highlight=False, soft_wrap=True)
        options = with_(options, calibration=told(floor))
    carrier = raw_transport if wishes.transport == "raw" else _aiohttp
    progress = Progress(console)
    summary = await run_plan(plan, out, options, tell=progress, begun=_stoppable, transport=carrier)
    progress.done()
    return summary


def _aiohttp(options: "Options") -> "AiohttpClient":
    from replay.client_aiohttp import AiohttpClient
    from replay.target import target_of

    return AiohttpClient(target_of(options.target), headers=options.headers, authorities=options.authorities)


def _stoppable(runner: "Runner") -> None:
    """Ctrl-C and SIGTERM stop the sending; a second one leaves at once."""
    from replay.runner import DRAIN_S

    loop, pressed = asyncio.get_running_loop(), 0

    def stop() -> None:
        nonlocal pressed
        pressed += 1
        runner.stop("interrupted", within_s=DRAIN_S if pressed == 1 else 0.0)

    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop)


class Progress:
    """One line that changes on a terminal, a line now and then elsewhere."""

    def __init__(self, console: "Console") -> None:
        self._console = console
        self._told_at = monotonic()

    def __repr__(self) -> str:
        return "<Progress>"

    def __call__(self, state: "State") -> None:
        terminal = self._console.is_terminal
        if not terminal and monotonic() - self._told_at < TELL_S:
            return
        self._told_at = monotonic()
        end = "\r" if terminal else "\n"
        self._console.print(progress_line(state), end=end, highlight=False, soft_wrap=True)

    def done(self) -> None:
        """Leave the last line where it is."""
        if self._console.is_terminal:
            self._console.print()


def progress_line(state: "State") -> str:
    return (
        f"{state.at_s:6.0f} of {state.last_s:.0f} s  sent {state.sent} of {state.total}"
        f"  under way {state.under_way}  ended {state.ended}  failed {state.failures}"
    )


def lines_of(summary: "Summary", out: Path) -> list[str]:
    """For people."""
    earlier = f" ({summary.earlier} earlier)" if summary.earlier else ""
    endings = ", ".join(f"{count} {ending}" for ending, count in sorted(summary.by_ending.items())) or "none"
    late = f"99 % of the sends within {summary.late_p99_ms:g} ms, allowed {summary.late_limit_ms:g} ms"
    arm = f" ({summary.late_arm})" if summary.late_arm else ""
    lines = [
        f"{out}: {summary.sent} sent{earlier}, {summary.left} left, in {summary.seconds:.0f} s",
        f"  ended: {endings}",
        f"  schedule {'kept' if summary.kept else 'NOT KEPT'}: {late}{arm}",
    ]
    if summary.failing:
        lines.append(f"  BACKEND FAILING: {summary.failures} of {summary.ended} requests failed")
    if summary.stopped is not None:
        lines.append(f"  stopped: {summary.told or summary.stopped}; go on with --resume")
    return lines


def _told(summary: "Summary") -> object:
    import msgspec

    return msgspec.to_builtins(summary)


def _floor_line(floor: "Floor") -> str:
    return (
        f"this client adds {floor.ttft_p50_ms:g} ms to a first token (p99 {floor.ttft_p99_ms:g}),"
        f" {floor.cpu_us_per_chunk:g} us of CPU a chunk: good for {floor.safe_chunks_per_s:g} chunks/s"
    )


def _key(variable: str | None) -> dict[str, str]:
    if variable is None:
        return {}
    key = os.environ.get(variable, "")
    if not key or not key.isascii() or not key.isprintable():
        raise Unfit(f"run: the variable {variable} holds no key")
    return {"authorization": f"Bearer {key}"}


def _controls(words: Sequence[str]) -> dict[str, tuple[str, ...]]:
    found: dict[str, tuple[str, ...]] = {}
    for word in words:
        role, equals, url = word.partition("=")
        if not equals or not role:
            raise Unfit(f"run: --control {word}: name it as ROLE=URL")
        found[role] = (*found.get(role, ()), url)
    return found
