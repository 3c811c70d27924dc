"""One run on the loop: sends what is due, keeps what came of it, and knows when it is over.

A timer fires at the next due time, writes down what is going out, sends it, and is set again; a call that
ends is written down from inside its last read. Beside it a watch looks four times a second for what takes
too long. Nothing here waits for anything else.
"""

import asyncio
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from datetime import datetime
from functools import partial
from itertools import takewhile
from math import inf
from time import monotonic
from typing import Any, Final, Literal

import msgspec

from replay.client import Call, Transport
from replay.errors import FAILURES, WINDOW_S, ErrorLimit
from replay.outcome import result_of
from replay.outlook import Outlook
from replay.pacer import Due, Lateness, Pacer
from replay.plan import PlanError
from replay.planning.bodies import body_of
from replay.results import CUT_OFF, AnyLine, Closing, Journal, Metric, Result, ResultsError, Sent, Sync
from replay.scrape import Latest
from replay.shard import Shard

CAP_PER_S: Final = 2000.0
ERROR_SHARE: Final = 0.2
TIMEOUT_S: Final = 600.0
FIRST_BYTE_S: Final = 120.0
TICK_S: Final = 0.25
SYNC_S: Final = 5.0
GATE_S: Final = 0.001
"""What is due at a closed gate's very time stays behind it."""
DRAIN_S: Final = 10.0
"""What is under way may take this long when a run is told to stop, or its disk is full."""

Stopped = Literal["errors", "disk", "interrupted", "control", "plan"]


class Options(msgspec.Struct, frozen=True, kw_only=True):
    """How a plan is carried out."""

    target: str
    allow: tuple[str, ...] = ()
    model: str = ""  # takes the place of the plan's
    headers: dict[str, str] = {}
    authorities: str | None = None  # CA certificates
    error_share: float = ERROR_SHARE
    cap_per_s: float = CAP_PER_S
    timeout_s: float = TIMEOUT_S
    first_byte_s: float = FIRST_BYTE_S
    metrics: tuple[str, ...] = ()
    controls: dict[str, tuple[str, ...]] = {}  # role -> URLs
    sync: Sync = Sync.INTERVAL
    resume: bool = False
    shard: Shard | None = None
    start_at: datetime | None = None
    calibration: dict[str, Any] = {}

    def __repr__(self) -> str:
        """Leave the headers out: they hold keys."""
        return f"<Options for {self.target}>"


class Summary(msgspec.Struct, frozen=True):
    """What a run came to; with a resumption, this part of it."""

    sent: int
    ended: int
    failures: int
    left: int  # never sent
    by_ending: dict[str, int]
    kept: bool
    late_arm: str
    late_p99_ms: float
    late_limit_ms: float
    stopped: Stopped | None
    failing: bool
    seconds: float
    told: str = ""  # why it was stopped
    earlier: int = 0  # results that were there before a resumption


class State(msgspec.Struct, frozen=True):
    """Where a run stands, for people."""

    at_s: float
    last_s: float
    sent: int
    total: int
    under_way: int
    ended: int
    failures: int


class Flight:
    """A send on its way."""

    __slots__ = ("call", "due", "met", "started_s", "timer")

    def __init__(self, due: Due, started_s: float, met: dict[str, dict[str, float]]) -> None:
        self.due = due
        self.started_s = started_s
        self.met = met
        self.call: Call | None = None
        self.timer: asyncio.TimerHandle | None = None  # of a client that gives up


class Runner:
    """One run on the loop."""

    def __init__(
        self,
        outlook: Outlook,
        pacer: Pacer,
        journal: Journal,
        transport: Transport,
        options: Options,
    ) -> None:
        self._outlook = outlook
        self._pacer = pacer
        self._journal = journal
        self._transport = transport
        self._options = options
        self._base = self._began_s = 0.0
        self._flights: dict[str, Flight] = {}
        self._late = Lateness()
        self._limit = ErrorLimit(options.error_share)
        self._latest = Latest()
        self._endings: Counter[str] = Counter()
        self._sent = 0
        self._timer: asyncio.TimerHandle | None = None
        self._over = asyncio.Event()
        self._stopped: Stopped | None = None
        self._told = ""
        self._broken = False  # nothing can be written any more
        self._leave_by = inf
        self.gate_s: Callable[[], float] = lambda: inf

    def __repr__(self) -> str:
        return f"<Runner {self._sent} sent, {len(self._flights)} under way, {self._stopped}>"

    def now_s(self) -> float:
        """Run time."""
        return monotonic() - self._base

    def begin(self, shift_s: float, in_s: float) -> None:
        """Time starts: it will be `shift_s` in so many seconds."""
        self._base = monotonic() + in_s - shift_s
        self._began_s = shift_s
        self._arm()

    async def wait(self, tell: Callable[[State], None]) -> None:
        """Until all has ended."""
        synced_s = self.now_s()
        while not self._over.is_set():
            with suppress(TimeoutError):
                async with asyncio.timeout(TICK_S):
                    await self._over.wait()
            self._watch()
            tell(self.state())
            if self.now_s() - synced_s > SYNC_S:
                await asyncio.to_thread(self._journal.sync)
                synced_s = self.now_s()

    def stop(self, why: Stopped, told: str = "", *, within_s: float = 0.0) -> None:
        """Send no more; what is under way may end within so long."""
        if self._stopped is None:
            self._stopped, self._told = why, told
        self._leave_by = min(self._leave_by, self.now_s() + within_s)
        self._disarm()
        asyncio.get_running_loop().call_soon(self._watch)

    def fire(self) -> None:
        """Send what is due."""
        self._disarm()
        if self._stopped is not None:
            return
        try:
            due = self._pacer.due(min(self.now_s(), self.gate_s() - GATE_S))
        except PlanError as changed:  # it was whole when it was looked over
            self.stop("plan", str(changed), within_s=DRAIN_S)
            return
        if self._write(*[_sent(one) for one in due]):
            for one in due:
                self._send(one)
        self._look_at_disk()
        self._arm()

    def state(self) -> State:
        outlook, limit = self._outlook, self._limit
        return State(
            self.now_s(),
            outlook.last_s,
            self._sent,
            len(outlook.ids),
            len(self._flights),
            limit.ended,
            limit.failures,
        )

    def keep(self, metric: Metric) -> None:
        """Write what a page said, and join it to what goes out from now on."""
        self._latest.note(metric)
        self._write(metric)

    def summary(self, earlier: int) -> Summary:
        """What it came to; `earlier`: sends of the plan that were done before a resumption."""
        worst, limit = self._late.worst(), self._limit
        return Summary(
            sent=self._sent,
            ended=limit.ended,
            failures=limit.failures,
            left=len(self._outlook.ids) - self._sent - earlier,
            by_ending=dict(self._endings),
            kept=worst.kept,
            late_arm=worst.arm,
            late_p99_ms=round(worst.p99_s * 1e3, 3),
            late_limit_ms=round(worst.limit_s * 1e3, 3),
            stopped=self._stopped,
            failing=self._stopped == "errors" or limit.passed_in_all,
            seconds=round(max(0.0, self.now_s() - self._began_s), 3),
            told=self._told,
            earlier=earlier,
        )

    def close(self) -> None:
        """The last line."""
        worst = self._late.worst()
        closing = Closing(
            kept=worst.kept,
            late_p99_ms=round(worst.p99_s * 1e3, 3),
            late_limit_ms=round(worst.limit_s * 1e3, 3),
            stopped=self._stopped,
        )
        self._write(closing)

    def abandon(self) -> None:
        """Leave at once what has not ended."""
        if self._over.is_set():
            return
        self._disarm()
        self._stopped = self._stopped or "interrupted"
        self._leave_by = -inf
        self._watch()

    # --- within ---

    def _send(self, due: Due) -> None:
        send, started_s = due.send, self.now_s()
        flight = self._flights[send.id] = Flight(due, started_s, self._latest.met)
        body = msgspec.json.encode(body_of(send, self._options.model))
        self._sent += 1
        flight.call = self._transport.start(send.path, body, partial(self._ended, flight))
        if send.abort_after_s is not None and flight.call.ending is None:
            loop = asyncio.get_running_loop()
            flight.timer = loop.call_later(send.abort_after_s, flight.call.stop, "aborted", "as recorded")

    def _ended(self, flight: Flight, call: Call) -> None:
        due = flight.due
        self._flights.pop(due.send.id, None)
        if flight.timer is not None:
            flight.timer.cancel()
        result = result_of(due, call, flight.started_s, self._base, flight.met)
        self._endings[result.ending] += 1
        self._limit.add(result.ending, result.ended_s, self._sent_with(flight, result))
        if call.sent_at is not None:
            self._late.add(result.arm, result.block, result.scheduled_s, result.sent_s)
        self._write(result)
        self._look_at_disk()
        if self._limit.passed and self._stopped is None:
            self.stop("errors", f"{self._limit.failures} of {self._limit.ended} requests failed")
        if self._pacer.ended(due.send.id, self.now_s()):
            self._arm()
        self._check_over()

    def _sent_with(self, flight: Flight, result: Result) -> int:
        """Of a failure: how many went out shortly before it and are still under way."""
        if result.ending not in FAILURES:
            return 0
        since_s = flight.started_s - WINDOW_S
        earlier = takewhile(lambda one: one.started_s <= flight.started_s, self._flights.values())
        return sum(one.started_s >= since_s for one in earlier)

    def _write(self, *lines: AnyLine) -> bool:
        """Whether the lines are kept."""
        if self._broken or not lines:
            return False
        try:
            self._journal.add(*lines)
        except ResultsError as error:
            self._broken = True
            self.stop("disk", str(error))
        return not self._broken

    def _look_at_disk(self) -> None:
        if self._journal.full and self._stopped is None:
            self.stop("disk", "the disk is full", within_s=DRAIN_S)

    def _watch(self) -> None:
        """Leave what takes too long."""
        now_s, options = self.now_s(), self._options
        for flight in list(self._flights.values()):
            call, waited_s = flight.call, now_s - flight.started_s
            if call is None:
                continue
            if now_s >= self._leave_by:
                call.stop("aborted", CUT_OFF)
            elif waited_s > options.timeout_s:
                call.stop("timeout", "no end in time")
            elif call.first_at is None and waited_s > options.first_byte_s:
                call.stop("timeout", "no first byte in time")
        self._check_over()

    def _check_over(self) -> None:
        if not self._flights and (self._stopped is not None or self._pacer.exhausted):
            self._over.set()

    def _arm(self) -> None:
        """Set the timer to what is due next."""
        self._disarm()
        next_s = self._pacer.next_s()
        if next_s is None or self._stopped is not None or next_s >= self.gate_s():
            self._check_over()
            return
        loop = asyncio.get_running_loop()
        self._timer = loop.call_later(max(0.0, next_s - self.now_s()), self.fire)

    def _disarm(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


def _sent(due: Due) -> Sent:
    send = due.send
    return Sent(id=send.id, at_s=due.at_s, arm=send.arm, block=send.block)
