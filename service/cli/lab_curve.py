"""`specguard lab curve`: corrupted answers by load, with and without the fix of the transfer race."""

import json
import os
import sys
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Final, Literal

from cyclopts import Parameter
from cyclopts.validators import Number

from service.cli.demo import NO_SETUP
from service.cli.exits import DONE, FOUND, Unfit
from service.cli.options import JsonFlag, print_line

FULL_STATE: Final = Path("lab-curve-full.jsonl")
"""Where a long run keeps the blocks that are done, unless told otherwise."""


def curve(
    *,
    full: Annotated[bool, Parameter(negative=())] = False,
    state: Path | None = None,
    seed: Annotated[int, Parameter(validator=Number(gte=0))] | None = None,
    simulate: Annotated[int, Parameter(validator=Number(gte=1000))] | None = None,
    transfer: Literal["shm", "mooncake"] = "shm",
    as_json: JsonFlag = False,
) -> int:
    """Race a prefill-decode lab at four loads, and once more with the fix; tell how many answers break.

    Example: specguard lab curve --json

    Takes about twelve minutes on two cores that have nothing else to do; progress goes to stderr. The last
    line of --json is one object with idle_per_10k, peak_per_10k, fixed_per_10k, p_peak_above_idle, requests.
    Exit codes: 0 the race shows at peak and not with the fix, 1 it does not, 2 bad input, 3 the lab could
    not start or broke.

    Parameters
    ----------
    full
        30,000 answers a load at the rates of production: hours. Goes on where it was cut off.
    state
        File of the blocks that are done; what is in it is not run again. With --full: lab-curve-full.jsonl.
    seed
        Draws arrivals, service times, prompts.
    simulate
        Start no lab: simulate so many requests at each load.
    transfer
        How KV gets to decode: shared memory, or Mooncake over TCP (make lab-mooncake).
    """
    # One thread for matrices this small, and before numpy is there: a second one costs more than it gives.
    os.environ |= {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
    from replay.lab.curve import DEFAULT_SEED, Settings, as_data, run, table
    from replay.lab.curve import full as full_settings
    from replay.lab.longrun import long_run
    from replay.lab.serve import LabError

    seed = DEFAULT_SEED if seed is None else seed
    settings = replace(full_settings(seed) if full else Settings(seed=seed), transfer=transfer)
    if simulate is not None:
        print_line(json.dumps(long_run(settings, simulate, _progress)))
        return DONE
    try:
        measured = run(settings, state or (FULL_STATE if full else None), _progress)
    except OSError as error:
        raise Unfit(f"{error.filename}: {error.strerror}") from None
    except LabError as error:
        raise Unfit(str(error), NO_SETUP) from None
    if as_json:
        print_line(json.dumps(as_data(measured)))
    else:
        for line in table(measured):
            print_line(line)
    return DONE if measured.held else FOUND


def _progress(line: str) -> None:
    sys.stderr.write(f"{line}\n")
    sys.stderr.flush()
