"""The pulse: what the ticker carries from the data loop to metrics, health and the live board.

Runs after everything else in a tick. Reads plain ints and lengths; the dearest part is one Prometheus child
a counted key.
"""

from collections.abc import Collection, Sized
from typing import Final

from service.core.desk import Desk
from service.edges.fleet_gauges import FleetGauges
from service.edges.guard import Guard
from service.edges.health import Health
from service.edges.live import LiveBoard
from service.edges.metrics import Metrics
from service.edges.relay import Relay
from service.edges.telemetry_gauges import TelemetryGauges
from service.edges.ticker import Ticker

REMEMBERED_S: Final = 60.0
"""A detector fault or an overflow is over in microseconds; the gauge must outlive a scrape interval."""


class Pulse:
    """Call it with the time, each tick."""

    def __init__(
        self,
        desk: Desk,
        metrics: Metrics,
        health: Health,
        board: LiveBoard,
        *,
        streams_max: int,
        waiting: Sized,
    ) -> None:
        self._desk = desk
        self._metrics = metrics
        self._health = health
        self._board = board
        self._streams_max = streams_max
        self._waiting = waiting
        self._telemetry = TelemetryGauges(desk, metrics)
        self._fleet = FleetGauges(desk.watch, metrics)
        self._live: Collection[Relay] = ()
        self._ticker: Ticker | None = None
        self._last_seen = {"detector": -REMEMBERED_S, "memory": -REMEMBERED_S, "streams": -REMEMBERED_S}

    def __repr__(self) -> str:
        return f"<Pulse {len(self._live)} live>"

    def watch(self, live: Collection[Relay], ticker: Ticker) -> None:
        """Once the data plane stands: what is in flight, and whose lag is told."""
        self._live, self._ticker = live, ticker

    def __call__(self, now: float) -> None:
        self._health.beat(now)
        counts, samples = self._desk.drain()
        self._metrics.flush(counts, samples)
        self._notice({key[0] for key in counts}, now)
        self._gauges(now)
        self._telemetry(now)
        self._fleet()
        guards = (relay.seen for relay in self._live if isinstance(relay, Guard))
        self._board.publish(now, len(self._live), guards)

    def _notice(self, counted: set[str], now: float) -> None:
        """Remember what makes the guard fail open."""
        if "detector_faults" in counted:
            self._last_seen["detector"] = now
        if "hold_overflow" in counted or self._desk.held_bytes >= self._desk.held_max > 0:
            self._last_seen["memory"] = now
        if len(self._live) >= self._streams_max:
            self._last_seen["streams"] = now

    def _gauges(self, now: float) -> None:
        put = self._metrics.set
        put("held_bytes", value=self._desk.held_bytes)
        put("open_streams", value=len(self._live))
        put("retry_budget_ratio", value=self._desk.budget.left(now))
        put("store_queue_length", value=len(self._waiting))
        put("router_up", value=float(self._health.router_up is True))
        for reason, at in self._last_seen.items():
            put("failopen_active", reason, value=float(now - at < REMEMBERED_S))
        if self._ticker is not None:
            self._metrics.sample("loop_lag_seconds", self._ticker.lag_s)
