"""`specguard lab scenario NAME`: play a named situation on a lab of its own, and say what was seen."""

import asyncio
import json
import sys
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

from cyclopts import Parameter
from cyclopts.validators import Number

from service.cli.demo import NO_SETUP
from service.cli.exits import DONE, Unfit
from service.cli.options import JsonFlag, print_line

Seconds = Annotated[float, Parameter(validator=Number(gte=1, lte=86_400))]
Port = Annotated[int, Parameter(validator=Number(gte=1, lte=65_000))]


def scenario(
    name: str | None = None,
    /,
    *,
    seconds: Seconds = 60.0,
    target: str | None = None,
    port_base: Port | None = None,
    seed: int = 1,
    log: Path | None = None,
    as_json: JsonFlag = False,
) -> int:
    """Play a named situation on a lab of its own; without a name, list the situations.

    Example: specguard lab scenario loadback-collapse --seconds 60 --log engine.log

    Nothing is scripted: switches are thrown, agents send work, and the mechanism does the rest. Exit codes:
    0 played, 2 bad input, 3 the lab could not start, 130 Ctrl-C.

    Parameters
    ----------
    name
        Which situation.
    seconds
        How long all phases take together.
    target
        Send the requests to this router or sidecar, not to the workers; it must know the workers.
    port_base
        First of consecutive ports of the workers: prefill, decode, bootstrap.
    seed
        Draws the sessions.
    log
        Where the workers write the engine's log lines.
    """
    from replay.lab.scenario import SCENARIOS
    from replay.lab.serve import LabError

    if name is None:
        for one in SCENARIOS.values():
            print_line(f"{one.name:<18} {one.about}")
        return DONE
    if name not in SCENARIOS:
        raise Unfit(f"unknown scenario {name!r}; there are {', '.join(SCENARIOS)}")
    chosen = SCENARIOS[name]
    options = replace(chosen.options, port_base=port_base, log_path=log, engine_log=log is not None)
    say = _to_stderr if as_json else print_line
    try:
        phases = asyncio.run(_play(replace(chosen, options=options), seconds, target, seed, say))
    except LabError as error:
        raise Unfit(str(error), NO_SETUP) from None
    if as_json:
        print_line(json.dumps({"scenario": name, "seconds": seconds, "seed": seed, "phases": phases}))
    return DONE


async def _play(
    chosen: Any,  # noqa: ANN401 (a Scenario, imported when the command runs)
    seconds: float,
    target: str | None,
    seed: int,
    say: Any,  # noqa: ANN401 (a callable)
) -> list[dict[str, Any]]:
    import msgspec

    from replay.lab.serve import describe
    from replay.lab.stage import Stage

    async with Stage(chosen, seconds, target=target, seed=seed) as stage:
        for line in describe(stage.lab):
            say(line)
        seen = await stage.play(say)
    return [{**msgspec.to_builtins(one), "accept_length": one.accept_length} for one in seen]


def _to_stderr(line: str) -> None:
    sys.stderr.write(f"{line}\n")
