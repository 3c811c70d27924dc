"""One plan on several machines: shards that nobody has to hand out, and one results file again.

Shard k of n sends what hashes to k: whole sessions, with all that waits for one of their sends, so that no
shard ever waits for another. It depends on nothing but the plan and n. Shards that start at the same time
(`--start-at`) make the load that was planned, since sends are due at absolute times.
"""

import re
from collections.abc import Iterator, Sequence
from datetime import datetime
from hashlib import blake2b
from heapq import merge as merge_sorted
from pathlib import Path
from typing import Final

import msgspec

from replay.plan import Send
from replay.results import (
    Closing,
    Journal,
    Metric,
    Result,
    ResultsError,
    RunHeader,
    Sync,
    closing_of,
    look_back,
    read_results,
)

TOGETHER_S: Final = 1.0
"""Shards that start further apart did not make the planned load."""
BATCH_LINES: Final = 256
_SHARD: Final = re.compile(r"(\d{1,5})/(\d{1,5})")


class Shard(msgspec.Struct, frozen=True):
    """The `number`th of `count` shards, from 0 as Kubernetes' Indexed Jobs count."""

    number: int
    count: int

    def __str__(self) -> str:
        return f"{self.number}/{self.count}"

    def holds(self, root: str) -> bool:
        """Whether this session is ours."""
        digest = blake2b(root.encode(), digest_size=8).digest()
        return int.from_bytes(digest, "big") % self.count == self.number


def shard_of(text: str) -> Shard:
    """Read k/n; raises ValueError."""
    found = _SHARD.fullmatch(text)
    if found is None or not int(found[1]) < int(found[2]):
        raise ValueError("a shard is K/N with K from 0 to N - 1")
    return Shard(int(found[1]), int(found[2]))


class Roots:
    """Which session a send belongs to, by the first of all sends that it waits for."""

    def __init__(self) -> None:
        self._roots: dict[str, str] = {}

    def __repr__(self) -> str:
        return f"<Roots of {len(self._roots)} sends>"

    def add(self, send: Send) -> str:
        """The root of a send; sends come in order. Raises KeyError where it waits for none before it."""
        root = self._roots[send.after] if send.after is not None else send.session or send.id
        self._roots[send.id] = root
        return root


def merge(paths: Sequence[Path], out: Path, *, apart: bool = False) -> RunHeader:
    """Write the results of all shards of one run as one file; its header."""
    headers = [read_results(path)[0] for path in paths]
    header = _one_header(headers, apart=apart)
    _all_there(headers)
    if look_back(out) is not None:
        raise ResultsError(f"{out} already holds a run: name another file")
    with Journal(out, Sync.INTERVAL, reserve_bytes=0) as journal:
        journal.begin(header)
        seen: set[str] = set()
        for lines in _batches(merge_sorted(*map(_lines_of, paths), key=_at_s)):
            for line in lines:
                _note(line, seen)
            journal.add(*lines)
        if (closing := _one_closing(paths)) is not None:
            journal.add(closing)
    return header


def _note(line: Result | Metric, seen: set[str]) -> None:
    if isinstance(line, Result):
        if line.id in seen:
            raise ResultsError(f"{line.id} is in two of these files: they are not shards of one run")
        seen.add(line.id)


def _one_header(headers: Sequence[RunHeader], *, apart: bool) -> RunHeader:
    if len({header.plan_hash for header in headers}) != 1:
        raise ResultsError("these files are of different plans")
    if len({header.target for header in headers}) != 1:
        raise ResultsError("these shards had different targets")
    starts = sorted(datetime.fromisoformat(header.started_at) for header in headers)
    spread_s = (starts[-1] - starts[0]).total_seconds()
    if spread_s > TOGETHER_S and not apart:
        raise ResultsError(
            f"the shards started {spread_s:.0f} s apart, so the load was not the plan's;"
            " --apart merges them all the same"
        )
    first = min(headers, key=lambda header: header.started_at)
    return msgspec.structs.replace(first, shard="")


def _all_there(headers: Sequence[RunHeader]) -> None:
    shards = [shard_of(header.shard) for header in headers if header.shard]
    counts = {shard.count for shard in shards}
    if len(shards) != len(headers) or len(counts) != 1:
        raise ResultsError("these are not the shards of one run")
    missing = sorted(set(range(counts.pop())) - {shard.number for shard in shards})
    if missing:
        raise ResultsError(f"shards are missing: {', '.join(map(str, missing))}")


def _one_closing(paths: Sequence[Path]) -> Closing | None:
    """The worst of all; none where a shard has not ended."""
    found = [closing_of(path) for path in paths]
    closings = [one for one in found if one is not None]
    if len(closings) < len(found):
        return None
    worst = max(closings, key=lambda one: one.late_p99_ms / one.late_limit_ms)
    stopped = next((one.stopped for one in closings if one.stopped), None)
    return msgspec.structs.replace(worst, kept=all(one.kept for one in closings), stopped=stopped)


def _lines_of(path: Path) -> Iterator[Result | Metric]:
    return read_results(path)[1]


def _at_s(line: Result | Metric) -> float:
    return line.ended_s if isinstance(line, Result) else line.at_s


def _batches(lines: Iterator[Result | Metric]) -> Iterator[list[Result | Metric]]:
    batch: list[Result | Metric] = []
    for line in lines:
        batch.append(line)
        if len(batch) == BATCH_LINES:
            yield batch
            batch = []
    if batch:
        yield batch
