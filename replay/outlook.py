"""A plan looked over from end to end before anything is sent: whole, in order, and within what is allowed."""

import re
from collections import deque
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import msgspec

from replay.plan import PlanError, PlanHeader, Send, read_plan
from replay.shard import Roots, Shard

WINDOW_S: Final = 1.0
_PATH: Final = re.compile(r"/[\x21-\x7e]*")


class Outlook(msgspec.Struct, frozen=True):
    """What a run needs to know of its plan."""

    header: PlanHeader
    ids: frozenset[str]  # of this shard
    awaited: frozenset[str]  # those that others come after
    last_s: float
    peak_per_s: float  # sends of this shard in the busiest second, those after others taken at their own time


def look_over(path: Path, shard: Shard | None = None) -> Outlook:
    """Read the whole plan once. Raises PlanError."""
    header, sends = read_plan(path)
    roots, ids, awaited = Roots(), set[str](), set[str]()
    recent: deque[float] = deque()
    seen: set[str] = set()
    at_s, peak = 0.0, 0
    for send in sends:
        _check(path, send, at_s, seen)
        at_s = send.at_s
        seen.add(send.id)
        try:
            ours = _is_ours(roots.add(send), shard)
        except KeyError:
            raise PlanError(
                f"{path.name}: {send.id} comes after {send.after}, which is not before it"
            ) from None
        if ours:
            ids.add(send.id)
            if send.after is not None:
                awaited.add(send.after)
            recent.append(at_s)
            while recent[0] <= at_s - WINDOW_S:
                recent.popleft()
            peak = max(peak, len(recent))
    return Outlook(header, frozenset(ids), frozenset(awaited), at_s, peak / WINDOW_S)


def sends_of(path: Path, outlook: Outlook) -> Iterator[Send]:
    """The sends of this shard, one at a time."""
    return (send for send in read_plan(path)[1] if send.id in outlook.ids)


def _is_ours(root: str, shard: Shard | None) -> bool:
    return shard is None or shard.holds(root)


def _check(path: Path, send: Send, before_s: float, seen: set[str]) -> None:
    if send.id in seen:
        raise PlanError(f"{path.name}: {send.id} is there twice")
    if not before_s <= send.at_s < float("inf"):
        raise PlanError(f"{path.name}: {send.id} is out of order")
    if not _PATH.fullmatch(send.path):
        raise PlanError(f"{path.name}: {send.id} has no path that can be asked for")
    if send.body is None and send.recipe is None:
        raise PlanError(f"{path.name}: {send.id} has neither a body nor a recipe")
