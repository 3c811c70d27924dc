"""SGLang fixes that corruption depends on, each named by what it prevents.

`since` is the first release that certainly holds the fix: read in 0.5.23, and for older releases by the
merge date of the pull request against the release date. An older one may lack it.
"""

import re
from typing import Final

import msgspec

Version = tuple[int, ...]


class Fix(msgspec.Struct, frozen=True):
    """A pull request of SGLang's."""

    number: int
    since: Version
    effect: str  # what happens without it
    needs: str = ""  # "pd" or "hicache": where it matters; "" everywhere


FIXES: Final = (
    Fix(
        22811,
        (0, 5, 15),
        "sparse-attention index buffers are read before their load-back from the host tier has ended: a few"
        " in ten thousand answers garbled, repeating or in rare characters",
        "hicache",
    ),
    Fix(
        24522,
        (0, 5, 15),
        "an abort is not passed on to the KV transfer: the other side goes on writing into pages that"
        " the next request gets",
        "pd",
    ),
    Fix(
        8352,
        (0, 5, 1),
        "an abort does not reach requests that wait for their KV: they are prefilled, transferred and kept"
        " for nobody, and their pages are written late",
        "pd",
    ),
)

_NUMBERS: Final = re.compile(r"\d+(?:\.\d+)+")


def parsed(version: str) -> Version | None:
    """The numbers in front of a version; None where there are none."""
    found = _NUMBERS.match(version.strip().lstrip("v"))
    return tuple(int(number) for number in found[0].split(".")[:3]) if found else None


def missing(version: Version, *, pd: bool, hicache: bool) -> tuple[Fix, ...]:
    """Fixes that this version is not known to hold, of those that matter in this setup."""
    here = {"": True, "pd": pd, "hicache": hicache}
    return tuple(fix for fix in FIXES if version < fix.since and here[fix.needs])
