"""`specguard lab`: the reference prefill-decode backend on its own."""

import sys
from pathlib import Path
from typing import Annotated

from cyclopts import App, Parameter
from cyclopts.validators import Number

from service.cli.demo import NO_SETUP
from service.cli.exits import Unfit
from service.cli.lab_faults import faults
from service.cli.lab_plan import layersplit, plan

Count = Annotated[int, Parameter(validator=Number(gte=1))]
Share = Annotated[float, Parameter(validator=Number(gte=0, lte=1))]

app = App(
    name="lab", help="The reference prefill-decode backend: a small real engine with switchable faults."
)
app.command(faults)
app.command(plan)
app.command(layersplit)


@app.command
def serve(  # noqa: PLR0913 (a command's options)
    *,
    prefill: Count = 1,
    decode: Count = 2,
    fault: str = "none",
    fault_rate: Share | None = None,
    onset: tuple[int, int] | None = None,
    seed: int = 0,
    step_ms: Annotated[float, Parameter(validator=Number(gte=0))] = 12.0,
    port_base: Annotated[int, Parameter(validator=Number(gte=1, lte=65_000))] | None = None,
    log: Path | None = None,
) -> int:
    """Serve prefill and decode workers in SGLang's dialect until Ctrl-C; print where they are.

    Example: specguard lab serve --prefill 2 --decode 2 --fault nan --fault-rate 0.2

    Faults and pace can be changed while it runs: POST /lab/control on a decode worker. GET
    /lab/ledger?since=0 tells what was done to which request. Exit codes: 0 stopped, 1 every worker has
    ended, 2 bad input, 3 the lab could not start.

    Parameters
    ----------
    prefill
        Prefill workers.
    decode
        Decode workers.
    fault
        none, one of nan, random, zero, swap, swap_both, or weights such as nan:1,swap:0.5.
    fault_rate
        Share of requests that are hit.
    onset
        First and last answer token at which a fault strikes.
    seed
        Draws which requests are hit.
    step_ms
        Least time of a decode step.
    port_base
        First of consecutive ports; free ones unless given.
    log
        Where workers write what goes wrong; standard error unless given.
    """
    from replay.lab.faults import DEFAULT_ONSET_TOKENS, DEFAULT_RATE, FaultSpecError
    from replay.lab.serve import LabError, Options, run

    try:
        options = Options(
            prefill=prefill,
            decode=decode,
            fault=fault,
            fault_rate=DEFAULT_RATE if fault_rate is None else fault_rate,
            onset=onset or DEFAULT_ONSET_TOKENS,
            seed=seed,
            step_ms=step_ms,
            port_base=port_base,
            log_path=log,
        )
    except (FaultSpecError, ValueError) as error:
        raise Unfit(str(error)) from None
    try:
        return run(options, _say)
    except LabError as error:
        raise Unfit(str(error), NO_SETUP) from None


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()
