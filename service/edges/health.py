"""Alive and ready: what an orchestrator may ask, and what follows from the policies.

Alive is the data loop's heartbeat and nothing else: a dead router is no reason to restart us. Ready is the
data port, not draining; and where some route is `strict`, a router that accepts connections. With `observe`
and `protect` alone we stay ready while the router is away: its absence is then told with a 503 a request.
"""

from time import monotonic
from typing import Any, Final

STALE_S: Final = 5.0
"""The ticker beats every 250 ms; a loop that missed twenty beats hangs."""


class Health:
    """Written by the data loop and the router's watch, read by the admin loop; plain assignments only."""

    def __init__(self, *, fails_closed: bool) -> None:
        self.fails_closed = fails_closed
        self.accepting = False
        self.router_up: bool | None = None  # None: not tried yet
        self._beat_at = monotonic()

    def __repr__(self) -> str:
        return f"<Health accepting={self.accepting} router_up={self.router_up}>"

    def beat(self, now: float) -> None:
        self._beat_at = now

    @property
    def alive(self) -> bool:
        return monotonic() - self._beat_at < STALE_S

    @property
    def ready(self) -> bool:
        return self.alive and self.accepting and (self.router_up is True or not self.fails_closed)

    def describe(self) -> dict[str, Any]:
        router = {None: "unknown", True: "reachable", False: "unreachable"}[self.router_up]
        return {
            "ready": self.ready,
            "data_plane": "accepting" if self.accepting else "not accepting",
            "router": router,
            "without_router": "not ready" if self.fails_closed else "ready",
        }
