"""What has changed lately: what the fleet shows by itself, and what operators and deploys tell.

A worker came or went, drafts otherwise or more: seen from look to look. A deploy, a flag, a route, a client's
new version: somebody says so (`POST /api/changes`). Near the onset of trouble a change is the first suspect.

Bounds: the newest `CHANGES_MAX`, of `WHAT_CHARS` each.
"""

from collections import deque
from collections.abc import Iterable
from typing import Final

import msgspec

from service.core.events import UNKNOWN, Drafter, WorkerFacts

CHANGES_MAX: Final = 256
WHAT_CHARS: Final = 200


class Change(msgspec.Struct, frozen=True):
    """One change."""

    at: float  # s, monotonic
    what: str
    worker: str = ""  # "" for all of them
    told: bool = False  # by somebody, rather than seen


class Changes:
    """The newest changes; may be told from any thread."""

    __slots__ = ("_changes", "_known")

    def __init__(self) -> None:
        self._changes: deque[Change] = deque(maxlen=CHANGES_MAX)
        self._known: dict[str, WorkerFacts] | None = None  # None before the first look

    def __repr__(self) -> str:
        return f"<Changes {len(self._changes)}>"

    def tell(self, at: float, what: str, worker: str = "") -> Change:
        """Somebody says that something was changed."""
        change = Change(at, what[:WHAT_CHARS], worker, told=True)
        self._changes.append(change)
        return change

    def see(self, workers: Iterable[WorkerFacts], at: float) -> None:
        """What the workers are now, against what they were; an empty list is a router that is away."""
        now = {one.url: one for one in workers}
        before = self._known
        if not now:
            return
        self._known = now
        if before is None:
            return
        for url in now.keys() - before.keys():
            self._note(at, "the worker was added", url)
        for url in before.keys() - now.keys():
            self._note(at, "the worker was removed", url)
        for url in now.keys() & before.keys():
            self._compare(before[url], now[url], at)

    def since(self, at: float) -> tuple[Change, ...]:
        return tuple(change for change in tuple(self._changes) if change.at >= at)

    def _compare(self, before: WorkerFacts, now: WorkerFacts, at: float) -> None:
        """To learn of a worker what was not known is no change."""
        if before.drafter != now.drafter and Drafter.UNKNOWN not in {before.drafter, now.drafter}:
            self._note(at, f"its drafter is {now.drafter}, and was {before.drafter}", now.url)
        if before.draft_tokens != now.draft_tokens and UNKNOWN not in {before.draft_tokens, now.draft_tokens}:
            self._note(at, f"it drafts {now.draft_tokens} tokens, and drafted {before.draft_tokens}", now.url)

    def _note(self, at: float, what: str, worker: str) -> None:
        self._changes.append(Change(at, what, worker))
