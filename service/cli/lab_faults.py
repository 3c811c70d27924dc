"""`specguard lab faults`: the fault matrix, measured on requests whose right answers are known."""

import json
import sys
from typing import Annotated, Any

from cyclopts import Parameter
from cyclopts.validators import Number

from service.cli.exits import DONE, Unfit
from service.cli.options import JsonFlag, print_line

Count = Annotated[int, Parameter(validator=Number(gte=1, lte=1000))]


def faults(
    *,
    requests: Count | None = None,
    fault: list[str] | None = None,
    onset: list[int] | None = None,
    ngram: bool = False,
    seed: int | None = None,
    as_json: JsonFlag = False,
) -> int:
    """Measure what each KV fault does: is it touched, does the answer change, what acceptance and text say.

    Example: specguard lab faults --requests 4 --fault swap_both --fault zero/page

    The whole matrix (75 faults at 3 onsets, 12 requests each) takes about two minutes on one core. The same
    seed gives the same matrix. Exit codes: 0 done, 2 bad input.

    Parameters
    ----------
    requests
        Requests of each cell; 12 unless given.
    fault
        Only these faults, as SOURCE[@PLACE][/EXTENT][/transient]; can be given several times.
    onset
        Answer tokens that are out when the fault strikes; 1, 8 and 20 unless given.
    ngram
        Draft by n-grams of the request's own tokens in place of the draft model.
    seed
        Draws the requests.
    """
    from replay.lab import matrix
    from replay.lab.corruption import Fault, FaultSpecError
    from replay.lab.ngram import Drafter

    onsets = matrix.ONSETS_TOKENS if onset is None else tuple(onset)
    if any(not 1 <= tokens <= matrix.MAX_TOKENS for tokens in onsets):
        raise Unfit(f"an onset is between 1 and {matrix.MAX_TOKENS} answer tokens")
    try:
        chosen = [Fault.parse(name) for name in fault or ()]
    except FaultSpecError as error:
        raise Unfit(str(error)) from None
    measured = matrix.measure(
        requests or matrix.DEFAULT_REQUESTS,
        faults=chosen or None,
        onsets=onsets,
        seed=matrix.SEED if seed is None else seed,
        drafter=Drafter() if ngram else None,
        told=_tell,
    )
    _show(measured, as_json=as_json)
    return DONE


def _tell(done: int, of: int) -> None:
    if sys.stderr.isatty():
        sys.stderr.write(f"\r{done} of {of}")
        sys.stderr.flush()


def _show(measured: dict[str, Any], *, as_json: bool) -> None:
    if as_json:
        print_line(json.dumps(measured))
        return
    print_line(
        "fault                      onset  touched changed  accept before / 6 steps / end (clean)  text"
    )
    for cell in measured["cells"]:
        rates = " / ".join(_rate(cell[name]) for name in ("accept_before", "accept_6", "accept_end"))
        text = ", ".join(f"{name} {count}" for name, count in cell["text"].items() if count)
        counts = f"{cell['onset_tokens']:>5}  {cell['touched']:>7} {cell['answer_changed']:>7}"
        print_line(f"{cell['fault']:<26} {counts}  {rates} ({_rate(cell['clean_accept_end'])})  {text}")


def _rate(value: float | None) -> str:
    return "  - " if value is None else f"{value:.2f}"
