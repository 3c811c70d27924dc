"""What the gateway bench measured, and the ratios it is for."""

from collections.abc import Iterable, Sequence
from math import nan
from statistics import fmean
from typing import Any, Final

import msgspec

STAGGERED: Final = "staggered"
LOCKSTEP: Final = "lockstep"


class Arm(msgspec.Struct, frozen=True):
    """One way through one proxy."""

    name: str
    proxy: str  # smg | specguard
    path: str = "/v1/chat/completions"
    options: tuple[str, ...] = ()  # of the load client
    arrivals: tuple[str, ...] = (STAGGERED, LOCKSTEP)
    extra: bool = False  # told beside the headline; left out of a quick look


ARMS: Final = (
    Arm("smg", "smg"),
    Arm("specguard", "specguard"),
    Arm("bare", "specguard", path="/v1/completions"),
    Arm("protect", "specguard", options=("policy=protect",), extra=True),
    Arm("smg asked", "smg", options=("asked",), arrivals=(STAGGERED,), extra=True),
    Arm("specguard asked", "specguard", options=("asked",), arrivals=(STAGGERED,), extra=True),
)
"""`bare` is the same server and upstream client on a path that nobody looks into. `asked`: the client itself
asks for usage in every chunk, so that nothing is cut; else SpecGuard asks, and cuts it out again."""


class Row(msgspec.Struct, frozen=True):
    """One phase: one arm, one kind of arrivals, one round."""

    round: int
    arm: str
    arrivals: str
    cpu_us_per_chunk: float
    others_share: float  # of the machine's CPU, what neither the bench nor its processes used
    load: dict[str, float]  # as the load client told it


class Probe(msgspec.Struct, frozen=True):
    """Medians of first-byte times of single requests, ms."""

    direct_ms: float
    smg_ms: float
    specguard_ms: float

    @property
    def ratio(self) -> float:
        """What SpecGuard adds over what smg adds."""
        added = self.smg_ms - self.direct_ms
        return (self.specguard_ms - self.direct_ms) / added if added > 0 else nan


def of(rows: Iterable[Row], arm: str, arrivals: str) -> list[Row]:
    return [row for row in rows if (row.arm, row.arrivals) == (arm, arrivals)]


def cpu_us(rows: Iterable[Row], arm: str, arrivals: str) -> float:
    spent = [row.cpu_us_per_chunk for row in of(rows, arm, arrivals)]
    return fmean(spent) if spent else nan


def told(rows: Iterable[Row], arm: str, arrivals: str, key: str) -> float:
    values = [row.load[key] for row in of(rows, arm, arrivals)]
    return fmean(values) if values else nan


def ratio(rows: Sequence[Row], arm: str, other: str, arrivals: str) -> float:
    """CPU of one arm over another's, means of the same rounds."""
    return cpu_us(rows, arm, arrivals) / cpu_us(rows, other, arrivals)


def by_round(rows: Sequence[Row], arm: str, other: str, arrivals: str) -> list[float]:
    """The same ratio round by round: how sure the figure is."""
    pairs = zip(of(rows, arm, arrivals), of(rows, other, arrivals), strict=False)
    return [round(one.cpu_us_per_chunk / two.cpu_us_per_chunk, 3) for one, two in pairs]


def summary(rows: Sequence[Row], probe: Probe, verdicts: int) -> dict[str, Any]:
    """The bench's last line."""
    return {
        "ratio_smg": _short(ratio(rows, "specguard", "smg", STAGGERED)),
        "ratio_smg_lockstep": _short(ratio(rows, "specguard", "smg", LOCKSTEP)),
        "ratio_bare": _short(ratio(rows, "specguard", "bare", STAGGERED)),
        "sojourn_p50_ms": _short(told(rows, "specguard", STAGGERED, "sojourn_p50_ms")),
        "sojourn_p99_ms": _short(told(rows, "specguard", STAGGERED, "sojourn_p99_ms")),
        "smg_sojourn_p50_ms": _short(told(rows, "smg", STAGGERED, "sojourn_p50_ms")),
        "smg_sojourn_p99_ms": _short(told(rows, "smg", STAGGERED, "sojourn_p99_ms")),
        "ttfb_ratio_smg": _short(probe.ratio),
        "ttfb_ms": {name: _short(value) for name, value in msgspec.structs.asdict(probe).items()},
        "others_share": _short(fmean(row.others_share for row in rows)),
        "rounds": len({row.round for row in rows}),
        "ratio_smg_by_round": by_round(rows, "specguard", "smg", STAGGERED),
        "ratio_smg_lockstep_by_round": by_round(rows, "specguard", "smg", LOCKSTEP),
        "errors": sum(int(row.load["errors"]) for row in rows),
        "leaks": sum(int(row.load["leaks"]) for row in rows),
        "verdicts": verdicts,
        "proxies": {f"{arm} {arrivals}": _figures(rows, arm, arrivals) for arm, arrivals in kinds(rows)},
    }


def kinds(rows: Iterable[Row]) -> list[tuple[str, str]]:
    """Every pair of arm and arrivals, in the order of first appearance."""
    return list(dict.fromkeys((row.arm, row.arrivals) for row in rows))


def _figures(rows: Sequence[Row], arm: str, arrivals: str) -> dict[str, Any]:
    spent = [_short(row.cpu_us_per_chunk) for row in of(rows, arm, arrivals)]
    keys = ("bytes_per_chunk", "sojourn_p50_ms", "sojourn_p99_ms", "first_byte_p50_ms")
    return {
        "cpu_s_per_1000_chunks": round(cpu_us(rows, arm, arrivals) / 1000, 5),
        "cpu_us_per_chunk_by_round": spent,
        "errors": sum(int(row.load["errors"]) for row in of(rows, arm, arrivals)),
        "reads_per_chunk": _short(told(rows, arm, arrivals, "reads") / told(rows, arm, arrivals, "chunks")),
        **{key: _short(told(rows, arm, arrivals, key)) for key in keys},
    }


def _short(value: float) -> float | None:
    return round(value, 3) if value == value else None  # noqa: PLR0124 - nan is not itself, and no JSON


def table(rows: Sequence[Row]) -> str:
    """For people."""
    head = "arm              arrivals    us/chunk  / smg  sojourn p50  p99 ms  B/chunk  reads/chunk"
    return "\n".join(
        [head, *[_line(rows, arm, arrivals) for arm, arrivals in sorted(kinds(rows), key=_order)]]
    )


def _order(kind: tuple[str, str]) -> tuple[bool, int]:
    arm, arrivals = kind
    return arrivals == LOCKSTEP, [one.name for one in ARMS].index(arm)


def _line(rows: Sequence[Row], arm: str, arrivals: str) -> str:
    over = ratio(rows, arm, "smg", arrivals)
    p50, p99 = (told(rows, arm, arrivals, f"sojourn_{q}_ms") for q in ("p50", "p99"))
    size = told(rows, arm, arrivals, "bytes_per_chunk")
    spent = cpu_us(rows, arm, arrivals)
    reads = told(rows, arm, arrivals, "reads") / told(rows, arm, arrivals, "chunks")
    line = f"{arm:<16} {arrivals:<10} {spent:>9.1f} {over:>6.2f}  {p50:>11.3f} {p99:>7.2f}  {size:>7.0f}"
    return f"{line}  {reads:>11.2f}"
