"""`specguard demo`: a guarded lab under agent-like load for a minute, and the score with the truth known."""

import asyncio
import signal
import sys
from collections.abc import Coroutine
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

from cyclopts import Parameter
from cyclopts.validators import Number
from rich.console import Console

from service.cli.exits import DONE, FOUND, INTERRUPTED, Unfit
from service.cli.options import JsonFlag

if TYPE_CHECKING:
    from replay.demo.run import Options, Result
    from replay.demo.stack import Stack

NO_SETUP: Final = 3
"""Something to run on is missing, or has broken."""

WIDTH: Final = 140
"""Of the table where no terminal says how wide it is."""

Share = Annotated[float, Parameter(validator=Number(gte=0, lte=1))]
Positive = Annotated[float, Parameter(validator=Number(gt=0))]
Count = Annotated[int, Parameter(validator=Number(gte=1))]
Port = Annotated[int, Parameter(validator=Number(gte=0, lte=65_535))]
Flag = Annotated[bool, Parameter(negative="")]


@Parameter(name="*")
@dataclass(frozen=True)
class Wishes:
    """What the command line may say of a run.

    Parameters
    ----------
    fault
        mix, none, one of nan, random, zero, swap, swap_both, or weights such as nan:1,swap:0.5.
    fault_rate
        Share of attempts that are hit.
    seed
        Draws sessions and faults.
    seconds
        How long agents begin new requests; unless told a minute, and on a busy machine up to 40 s more.
    requests
        Stop after so many requests, if that comes first.
    agents
        How many sessions run at once.
    router_port
        0 takes a free one, here and below.
    data_port
        The sidecar's port for clients.
    admin_port
        The sidecar's port for health, metrics and incidents.
    """

    fault: str = "mix"
    fault_rate: Share | None = None
    seed: int = 0
    seconds: Positive | None = None
    requests: Count | None = None
    agents: Count = 10
    router_port: Port = 0
    data_port: Port = 0
    admin_port: Port = 0

    def options(self) -> "Options":
        """The run that this asks for; refuses what makes no sense before anything starts."""
        from replay.demo.run import FAULT_RATE, Options
        from replay.demo.stack import Ports
        from replay.demo.traffic import A_MINUTE, Limits
        from replay.lab.faults import FaultSpecError

        seconds, requests, agents = self.seconds, self.requests, self.agents
        minute = replace(A_MINUTE, requests=requests, agents=agents)
        options = Options(
            serve=[str(Path(sys.prefix) / "bin" / "specguard"), "serve"],
            fault=self.fault,
            fault_rate=FAULT_RATE if self.fault_rate is None else self.fault_rate,
            seed=self.seed,
            limits=minute if seconds is None else Limits(seconds, requests, agents),
            ports=Ports(self.router_port, self.data_port, self.admin_port),
        )
        try:
            options.plan  # noqa: B018 (a property that raises)
        except FaultSpecError as error:
            raise Unfit(f"--fault: {error}") from None
        return options


AS_WISHED: Final = Wishes()


def demo(
    *,
    wishes: Wishes = AS_WISHED,
    json_output: JsonFlag = False,
    check: Flag = False,
    keep: Flag = False,
    trace: Path | None = None,
) -> int:
    """Run the guarded lab under agent-like load and print what was hit, caught and missed.

    Two prefill and two decode workers, the real router, the sidecar, and agents whose answers are known in
    advance; half of their sessions ask for `strict`, the others for `protect`. Faults strike the KV of
    running requests. The truth comes from the lab's own ledger.

    Example: specguard demo --fault nan --seconds 20 --json

    Exit codes: 0 done, 1 the bar was missed (with --check), 2 bad input, 3 something to run on is missing or
    has broken, 130 Ctrl-C.

    Parameters
    ----------
    json_output
        Print the score as one JSON line on standard output, and nothing else there.
    check
        Exit with 1 where the score misses the bar.
    keep
        Leave everything running afterwards and print where it is; Ctrl-C ends it.
    trace
        Write a JSON line for each request here: attempts, faults, verdicts, fate; no text.
    """
    result = _run(wishes.options(), Printer(as_json=json_output, keep=keep, trace=trace))
    return FOUND if check and result.score.bar_missed else DONE


class Printer:
    """What is said of a run that has its score, while everything still runs."""

    def __init__(self, *, as_json: bool, keep: bool, trace: Path | None) -> None:
        self.console = _console(to_stderr=True)
        self._as_json = as_json
        self._keep = keep
        self._trace = trace

    def __repr__(self) -> str:
        return f"<Printer json={self._as_json} keep={self._keep}>"

    async def __call__(self, stack: "Stack", result: "Result") -> None:
        """Print; with --keep stay until Ctrl-C."""
        from replay.demo.run import write_trace
        from replay.demo.table import render, to_json

        if self._trace is not None:
            write_trace(result, self._trace)
        if self._as_json:
            sys.stdout.write(to_json(result.score) + "\n")
            sys.stdout.flush()
        else:
            _console(to_stderr=False).print(render(result.score))
        if self._keep:
            await self._stay(stack)

    async def _stay(self, stack: "Stack") -> None:
        for line in (*stack.urls(), "Everything is left running; Ctrl-C ends it."):
            self.console.print(line, highlight=False, soft_wrap=True)
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            # The wished end of --keep, not an interruption. Only Ctrl-C cancels this task while it stays.
            if (task := asyncio.current_task()) is not None and task.uncancel():
                raise


def _console(*, to_stderr: bool) -> Console:
    stream = sys.stderr if to_stderr else sys.stdout
    return Console(stderr=to_stderr, width=None if stream.isatty() else WIDTH)


def _run(options: "Options", printer: Printer) -> "Result":
    from replay.demo.run import demo as run
    from replay.demo.stack import SetupError

    try:
        return asyncio.run(_stoppable(run(options, printer.console, printer)))
    except SetupError as error:
        raise Unfit(str(error), NO_SETUP) from None
    except asyncio.CancelledError:
        raise Unfit("interrupted; everything that the demo had started has ended", INTERRUPTED) from None


async def _stoppable(work: Coroutine[None, None, "Result"]) -> "Result":
    """Let Ctrl-C and SIGTERM cancel once; a second one must not cut the clearing up short."""
    loop, task = asyncio.get_running_loop(), asyncio.current_task()
    signals = (signal.SIGINT, signal.SIGTERM)

    def stop() -> None:
        for number in signals:
            loop.add_signal_handler(number, lambda: None)
        if task is not None:
            task.cancel()

    for number in signals:
        loop.add_signal_handler(number, stop)
    return await work
