"""`specguard replay size`: how many requests a verdict needs, and how long they take."""

from typing import Annotated

from cyclopts import Parameter
from cyclopts.validators import Number

from service.cli.exits import DONE, Unfit
from service.cli.options import JsonFlag, print_json, print_line

PerTenThousand = Annotated[float, Parameter(validator=Number(gte=0, lte=10_000))]
Count = Annotated[int, Parameter(validator=Number(gte=1))]


def size(
    *,
    low: PerTenThousand = 0.0,
    high: PerTenThousand = 4.0,
    requests: Count | None = None,
    rate: Annotated[float, Parameter(validator=Number(gt=0))] | None = None,
    json_output: JsonFlag = False,
) -> int:
    """Say how many requests an arm it takes to tell two anomaly rates apart, and what a given number can do.

    Example: specguard replay size --low 0 --high 4 --requests 10000 --rate 50

    The test is the exact conditional one at 5 %, one-sided; sizes are for a power of 90 %. Exit codes: 0
    done, 2 bad input.

    Parameters
    ----------
    low
        Anomalies per 10,000 without load.
    high
        Anomalies per 10,000 under load.
    requests
        Tell the power of so many requests an arm, too.
    rate
        Requests a second that the backend takes: tells how long two arms last.
    """
    from replay.stats.exact import PER
    from replay.stats.power import power, requests_clean, requests_needed

    try:
        needed = requests_needed(low / PER, high / PER)
    except ValueError as error:
        raise Unfit(f"size: {error}") from None
    answer = {
        "low_per_10k": low,
        "high_per_10k": high,
        "requests_an_arm": needed,
        "requests_clean": requests_clean(high / PER),
        "hours": round(2 * needed / rate / 3600, 2) if rate else None,
        "power": round(power(low / PER, high / PER, requests), 3) if requests else None,
    }
    if json_output:
        print_json(answer)
        return DONE
    takes = f", {answer['hours']} h at {rate:g} requests a second" if rate else ""
    print_line(f"to tell {high:g} from {low:g} per 10,000: {needed} requests an arm, two arms{takes}")
    print_line(f"to show fewer than {high:g} per 10,000: {answer['requests_clean']} without one")
    if requests:
        print_line(f"with {requests} an arm the power is {answer['power']:.0%}")
    return DONE
