"""`specguard lab plan` and `specguard lab layersplit`: what LayerSplit would gain, and that it is right."""

import json
from dataclasses import asdict
from typing import Annotated

from cyclopts import Parameter
from cyclopts.validators import Number

from service.cli.exits import DONE, FOUND, Unfit
from service.cli.options import JsonFlag, print_line

Ranks = Annotated[int, Parameter(validator=Number(gte=1, lte=1024))]
Count = Annotated[int, Parameter(validator=Number(gte=1, lte=1000))]


def plan(
    *,
    layersplit: bool = False,
    ranks: Ranks | None = None,
    tokens: list[int] | None = None,
    as_json: JsonFlag = False,
) -> int:
    """Say what LayerSplit would gain at a prompt length: a model fitted to published points, no measurement.

    Example: specguard lab plan --layersplit --ranks 8 --tokens 60000 --tokens 100000

    Exit codes: 0 done, 2 bad input.

    Parameters
    ----------
    layersplit
        Plan for LayerSplit; the only plan there is.
    ranks
        Context-parallel ranks; 8 unless given.
    tokens
        Prompt lengths; the published ones unless given.
    """
    from replay.lab.capacity import DEFAULT_RANKS, PlanError
    from replay.lab.capacity import plan as make_plan

    if not layersplit:
        raise Unfit("say what to plan for: --layersplit")
    try:
        made = make_plan(ranks or DEFAULT_RANKS, tokens or ())
    except PlanError as error:
        raise Unfit(str(error)) from None
    if as_json:
        print_line(json.dumps(made))
        return DONE
    print_line(f"LayerSplit over {made['ranks']} ranks: {made['what']}")
    for point in made["published"]:
        print_line(
            f"  published {point['tokens']:>7} tokens: +{point['gain']:.0%}, model +{point['gain_model']:.0%}"
        )
    for row in made["plan"]:
        memory = f"{row['memory_unsplit']:.0%} of a rank's KV memory unsplit, {row['memory_split']:.0%} split"
        print_line(f"{row['tokens']:>9} tokens: +{row['gain']:.0%} throughput, {memory}")
    return DONE


def layersplit(
    *,
    ranks: Ranks = 2,
    requests: Count = 8,
    late_layer: Annotated[int, Parameter(validator=Number(gte=0))] = 0,
    as_json: JsonFlag = False,
) -> int:
    """Run split prefill beside the unsplit one: the same bits, a share of the memory, the missing wait.

    Example: specguard lab layersplit --ranks 4 --json

    The second turn of each agent session is computed with its prefix broadcast layer by layer; one broadcast
    is held back, first with the wait for it and then without. Exit codes: 0 split equals unsplit, 1 it does
    not, 2 bad input.

    Parameters
    ----------
    ranks
        Context-parallel ranks, one process each.
    requests
        Sessions.
    late_layer
        The layer whose broadcast is held back.
    """
    from replay.lab.layersplit_group import check

    try:
        found = check(ranks, requests, late_layer=late_layer)
    except ValueError as error:
        raise Unfit(str(error)) from None
    share = found.kept_bytes_a_rank / found.unsplit_bytes
    if as_json:
        print_line(json.dumps({**asdict(found), "kept_share": share}))
    else:
        print_line(
            f"{found.identical} of {found.requests} answers as unsplit, {found.kv_bitwise} with the same bits"
        )
        print_line(f"{share:.1%} of the KV a rank ({found.kept_bytes_a_rank} of {found.unsplit_bytes} bytes)")
        wrong = f"{found.wrong_without_wait} of {found.unready_without_wait}"
        print_line(f"without the wait: {wrong} requests that read layer {late_layer} too early are wrong")
    return DONE if found.identical == found.requests else FOUND
