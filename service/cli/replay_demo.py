"""`specguard replay demo`: the tool against a fault whose cause is known."""

import os
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from time import monotonic

import msgspec

from service.cli.demo import NO_SETUP
from service.cli.exits import DONE, FOUND, Unfit
from service.cli.options import JsonFlag, print_line


def demo(*, out: Path | None = None, seed: int | None = None, json_output: JsonFlag = False) -> int:
    """Show the verdict on a race that is known: load-dependent unfixed, not so fixed, and the fence named.

    Example: specguard replay demo --json --out proof

    Starts a prefill-decode lab with the real router in front, and needs nine minutes and two cores that have
    little else to do. The last line of --json is {"unfixed": {"verdict", "p", "per_10k", ...}, "fixed":
    {...}, "bisect": {"knob", ...}, "seconds"}. Exit codes: 0 the tool has said what is so, 1 it has not, 2
    bad input, 3 lab or router could not start.

    Parameters
    ----------
    out
        Where plans, results and HTML reports are left; nowhere unless given.
    seed
        Draws the prompts, their arrivals and the order of the arms.
    """
    # One thread for matrices this small, and before numpy is there.
    os.environ |= {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
    if out is None:
        with TemporaryDirectory(prefix="specguard-") as home:
            return _shown(Path(home), seed, json_output=json_output)
    try:
        out.mkdir(parents=True)
    except OSError as error:
        raise Unfit(f"demo: {out}: {error.strerror}") from None
    return _shown(out, seed, json_output=json_output)


def _shown(home: Path, seed: int | None, *, json_output: bool) -> int:
    from replay.lab.router import RouterError
    from replay.lab.serve import LabError
    from replay.proving.demo import Size, run
    from service.config import load_rules
    from service.core.recorded import Rules

    loaded = load_rules("default")
    size = Size() if seed is None else Size(seed=seed)
    try:
        shown = run(home, Rules(loaded.detectors, loaded.fusion), size, _say, monotonic)
    except (LabError, RouterError) as error:
        raise Unfit(f"demo: {error}", NO_SETUP) from None
    if json_output:
        print_line(msgspec.json.encode(shown).decode())
    else:
        for name, part in (("unfixed", shown.unfixed), ("fixed", shown.fixed)):
            print_line(
                f"{name:<8} {part.verdict}, p = {part.p:.2g}, {part.per_10k or 0:.0f} per 10,000 at peak"
            )
        print_line(f"bisect   {shown.bisect.knob}, a {shown.bisect.role}, p = {shown.bisect.p:.2g}")
    return DONE if shown.held else FOUND


def _say(line: str) -> None:
    sys.stderr.write(f"{line}\n")
    sys.stderr.flush()
