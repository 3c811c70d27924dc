"""How many tokens a loop runs before it is found: by period, exact and with counters, and by class."""

import random
from collections.abc import Sequence
from typing import Any, Final

from replay.bench.made import clean
from service.core.detectors.loop import Loop
from service.core.events import Delta, RequestFacts, WorkerFacts
from service.core.fusion import Fusion
from service.core.inspector import Inspector
from service.core.recorded import PSEUDO_TOKEN

PERIODS: Final = (1, 2, 3, 5, 8, 13, 21, 34, 55, 89, 144, 233, 377, 610, 987, 1500)
COUNTED: Final = (8, 13, 21, 34, 55, 89, 144, 233, 377, 610, 987, 1500)
SYLLABLES: Final = ("ka", "lo", "mi", "ren", "tu", "sab", "vel", "qui", "dor", "nes", "pha", "zin")
CLASSES: Final = {
    "word in a code fence": ("```\n", " tested and closed again by the keeper of keys"),
    "chant": ("", " na na hey na na ho"),
    "one row of code": ("", "    push(stack, value);\n"),
    "two rows of data": ("[\n", '    "EDT",\n    "EST",\n'),
    "filler of a table": ("", "0, "),
    "dashes": ("", "-"),
    "blank lines": ("", " \n"),
    "exclamation marks": ("", "!"),
    "emoji, one a line": ("", "\u2697\n"),
}


def delay(text: str, onset: int, rules: Sequence[Any], fusion: Fusion) -> int | None:
    """Tokens from the onset (in characters) to the finding that acts; None for never."""
    inspector = Inspector(RequestFacts(dialect="bench"), WorkerFacts(), rules, fusion)
    done, tokens = 0, 0
    for piece in PSEUDO_TOKEN.findall(text):
        done += len(piece)
        tokens += done > onset
        if inspector.read([Delta(text=piece)], 0.0).log10_e >= fusion.act:
            return tokens
    return None


def words(seed: int, tokens: int) -> str:
    """A unit of just so many pseudo-tokens, none twice."""
    rng = random.Random(seed)
    made = [f" {rng.choice(SYLLABLES)}{rng.choice(SYLLABLES)}" for _ in range(tokens)]
    return "".join(made) if tokens > 1 else " kalo"


def table(rules: Sequence[Any], fusion: Fusion) -> dict[str, Any]:
    """Delays of word units by period, and of the other classes."""
    loops = [detector for detector in rules if isinstance(detector, Loop)]
    before = clean(random.Random(1), "en", 6) + "\n"
    exact = {
        period: delay(before + words(period, period) * max(6, 200 // period), len(before), loops, fusion)
        for period in PERIODS
    }
    counted = {period: delay(before + _counted(period), len(before), loops, fusion) for period in COUNTED}
    classes = {
        name: delay(before + head + unit * 1600, len(before), loops, fusion)
        for name, (head, unit) in CLASSES.items()
    }
    return {
        "exact": exact,
        "counted": counted,
        "late": [period for period, found in exact.items() if found is None or found > max(96, 4 * period)],
        "classes": classes,
    }


def _counted(period: int) -> str:
    """Numbered lines of so many tokens, the number included."""
    unit = words(period, period - 4)
    return "".join(f"Step {10 + n}:{unit}\n" for n in range(max(6, 300 // period)))
