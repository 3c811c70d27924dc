"""`specguard lab`: the reference prefill-decode backend on its own."""

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final, Literal

from cyclopts import App, Parameter
from cyclopts.validators import Number

from service.cli.demo import NO_SETUP
from service.cli.exits import Unfit
from service.cli.lab_curve import curve
from service.cli.lab_faults import faults
from service.cli.lab_plan import layersplit, plan
from service.cli.lab_race import race
from service.cli.lab_scenario import scenario

if TYPE_CHECKING:
    from replay.lab.serve import Options

Count = Annotated[int, Parameter(validator=Number(gte=1))]
Share = Annotated[float, Parameter(validator=Number(gte=0, lte=1))]

app = App(
    name="lab", help="The reference prefill-decode backend: a small real engine with switchable faults."
)
app.command(curve)
app.command(race)
app.command(faults)
app.command(plan)
app.command(layersplit)
app.command(scenario)


@Parameter(name="*")
@dataclass(frozen=True)
class Wishes:
    """What the command line may say of a lab.

    Parameters
    ----------
    prefill
        Prefill workers.
    decode
        Decode workers.
    fault
        none, one of nan, random, zero, swap, swap_both, torn, stale, or weights such as nan:1,swap:0.5;
        in full SOURCE[@PLACE][/EXTENT][/transient], see specguard lab faults.
    fault_rate
        Share of requests that are hit.
    onset
        First and last answer token at which a fault strikes.
    seed
        Draws which requests are hit.
    step_ms
        Least time of a decode step.
    cache
        Keep computed prompts on prefill workers: a prefix cache.
    hicache
        Put a host tier under it, its sync point in place (fixed) or missing.
    host_pages
        Pages of the host tier; four times the pool unless given.
    ngram
        Draft by n-grams of a request's own tokens in place of the draft model.
    port_base
        First of consecutive ports; free ones unless given.
    log
        Where workers write the engine's log lines and what goes wrong; the latter to standard error unless
        given.
    """

    prefill: Count = 1
    decode: Count = 2
    fault: str = "none"
    fault_rate: Share | None = None
    onset: tuple[int, int] | None = None
    seed: int = 0
    step_ms: Annotated[float, Parameter(validator=Number(gte=0))] = 12.0
    cache: bool = False
    hicache: Literal["off", "fixed", "unfixed", "index_unfixed", "index_lost"] = "off"
    host_pages: Annotated[int, Parameter(validator=Number(gte=0))] | None = None
    ngram: bool = False
    port_base: Annotated[int, Parameter(validator=Number(gte=1, lte=65_000))] | None = None
    log: Path | None = None

    def options(self) -> "Options":
        """The lab that this asks for."""
        from replay.lab.faults import DEFAULT_ONSET_TOKENS, DEFAULT_RATE, FaultSpecError
        from replay.lab.hicache import Mode
        from replay.lab.serve import DEFAULT_PAGES, Options

        tiered = self.hicache != "off"
        try:
            return Options(
                prefill=self.prefill,
                decode=self.decode,
                fault=self.fault,
                fault_rate=DEFAULT_RATE if self.fault_rate is None else self.fault_rate,
                onset=self.onset or DEFAULT_ONSET_TOKENS,
                seed=self.seed,
                step_ms=self.step_ms,
                prefix_cache=self.cache or tiered,
                hicache=Mode(self.hicache),
                host_pages=(self.host_pages or 4 * DEFAULT_PAGES) if tiered else 0,
                drafter="ngram" if self.ngram else "model",
                engine_log=self.log is not None,
                port_base=self.port_base,
                log_path=self.log,
            )
        except (FaultSpecError, ValueError) as error:
            raise Unfit(str(error)) from None


AS_WISHED: Final = Wishes()


@app.command
def serve(*, wishes: Wishes = AS_WISHED) -> int:
    """Serve prefill and decode workers in SGLang's dialect until Ctrl-C; print where they are.

    Example: specguard lab serve --prefill 2 --decode 2 --fault nan --fault-rate 0.2

    Faults and pace can be changed while it runs: POST /lab/control on a decode worker. GET
    /lab/ledger?since=0 tells what was done to which request. Exit codes: 0 stopped, 1 every worker has
    ended, 2 bad input, 3 the lab could not start.
    """
    from replay.lab.serve import LabError, run

    options = wishes.options()
    try:
        return run(options, _say)
    except LabError as error:
        raise Unfit(str(error), NO_SETUP) from None


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()
