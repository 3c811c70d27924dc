"""Several agents at once: each runs session after session, turn by turn, until time or requests run out.

Closed loop on purpose: an agent waits for its answer, so load follows what two cores can carry. Time running
out starts nothing new; what is under way ends as it ends.
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import count
from time import monotonic

import httpx

from replay.demo.client import Delivery, End, http_client, send
from replay.demo.sessions import Ask, asks
from replay.lab.tasks import answer_ok

MINUTE_FEWEST = 700
"""Requests that a run of the usual length wants: a machine that is busy with other things gets longer, so
that the score still rests on some fifty requests that loud faults corrupted."""

MINUTE_STRETCH_S = 40.0

Exchange = tuple[Ask, Delivery]


@dataclass(frozen=True, slots=True)
class Limits:
    """Seconds or requests, whichever comes first; fewer than `fewest` by then buy up to `stretch_s` more."""

    seconds: float = 60.0
    requests: int | None = None
    agents: int = 10
    fewest: int = 0
    stretch_s: float = 0.0


A_MINUTE = Limits(fewest=MINUTE_FEWEST, stretch_s=MINUTE_STRETCH_S)


@dataclass(slots=True)
class Tally:
    """What can be told while it runs, from the client's side alone."""

    started: int = 0
    done: int = 0
    right: int = 0
    wrong: int = 0
    loud: int = 0
    again: int = 0

    def add(self, ask: Ask, delivery: Delivery) -> None:
        """Count one answer."""
        self.done += 1
        self.again += bool(delivery.answered_by) and delivery.answered_by != delivery.rid
        if delivery.end is not End.CLEAN:
            self.loud += 1
        elif answer_ok(ask.task, delivery.text):
            self.right += 1
        else:
            self.wrong += 1


@dataclass(slots=True)
class Traffic:
    """One run of the agents."""

    base: str
    seed: int
    limits: Limits
    clock: Callable[[], float] = monotonic
    tally: Tally = field(default_factory=Tally)
    exchanges: list[Exchange] = field(default_factory=list)
    _until: float = 0.0

    def __repr__(self) -> str:
        return f"<Traffic {self.tally.done} of {self.tally.started} answered>"

    async def run(self) -> list[Exchange]:
        """Send until the limits are reached; return every exchange, in the order of their ends."""
        numbers = count()
        async with http_client() as http, asyncio.TaskGroup() as agents:
            self._until = self.clock() + self.limits.seconds
            for at in range(self.limits.agents):
                agents.create_task(self._agent(http, numbers), name=f"agent-{at}")
        return self.exchanges

    async def _agent(self, http: httpx.AsyncClient, numbers: "count[int]") -> None:
        while self._goes_on():
            for ask in asks(self.seed, next(numbers)):
                if not self._goes_on():
                    return
                self.tally.started += 1
                delivery = await send(http, self.base, ask)
                self.exchanges.append((ask, delivery))
                self.tally.add(ask, delivery)
                await asyncio.sleep(ask.think_s)

    def _goes_on(self) -> bool:
        limits, started, now = self.limits, self.tally.started, self.clock()
        if limits.requests is not None and started >= limits.requests:
            return False
        return now < self._until or (started < limits.fewest and now < self._until + limits.stretch_s)
