"""`specguard lab race`: the transfer races with chosen writes held back; the same victims every time."""

import asyncio
import json
import os
from typing import Annotated, Any, Literal

from cyclopts import Parameter

from service.cli.demo import NO_SETUP
from service.cli.exits import DONE, Unfit
from service.cli.options import JsonFlag, print_line


def race(
    *,
    protocol: Annotated[Literal["unfixed", "deferred", "fixed"] | None, Parameter(name="--race")] = None,
    transfer: Literal["shm", "mooncake"] = "shm",
    as_json: JsonFlag = False,
) -> int:
    """Play a late write, and cancel and retry on a shared prefix; tell whose answers it changes.

    Example: specguard lab race --race unfixed

    Takes seconds and leaves nothing to luck: a chosen write is held until its victim decodes. Exit codes:
    0 played, 2 bad input, 3 the lab could not start or broke.

    Parameters
    ----------
    protocol
        How decode gives up pages that prefill may still write; all three unless given.
    transfer
        How KV gets to decode: shared memory, or Mooncake over TCP (make lab-mooncake).
    """
    # One thread for matrices this small, and before numpy is there: a second one costs more than it gives.
    os.environ |= {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
    from replay.lab.held import play_all
    from replay.lab.serve import LabError, Options
    from replay.lab.slot import Race

    races = list(Race) if protocol is None else [Race(protocol)]
    options = Options(prefill=1, decode=1, prefix_cache=True, transfer=transfer)
    try:
        told = asyncio.run(play_all(options, races))
    except LabError as error:
        raise Unfit(str(error), NO_SETUP) from None
    if as_json:
        print_line(json.dumps(told))
    else:
        for one in told:
            print_line(_line(one))
    return DONE


def _line(one: dict[str, Any]) -> str:
    victims, changed = ", ".join(one["victims"]) or "nobody", ", ".join(one["changed"]) or "none"
    released = ", ".join(f"{name} {how}" for name, how in one["releases"].items())
    return (
        f"{one['play']:<13} {one['race']:<9} {released}; written into: {victims}; answers changed: {changed}"
    )
