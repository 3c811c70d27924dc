"""The probe at work in one scheduler process: what the hooks call, and who is told.

None of what the hooks call raises. At the first surprise (a missing attribute, a wrong type, a count that is
none) the probe stands aside for good; it says so once in the log and once to the sidecars, and the engine
goes on as if it had never been there.
"""

import logging
import time
from collections.abc import Callable, Sequence
from typing import Any, Final

from service.probe.engine import Engine, answers
from service.probe.ledger import Ledger, Mark
from service.probe.sender import Sender
from service.probe.settings import Settings
from service.probe.wire import NO_ROOM, Origin, Rows, key_of, rows_at_most, status_datagram, steps_datagram

META_KEY: Final = "specguard_accepted"
STATUS_EVERY_S: Final = 10.0
_log: Final = logging.getLogger("specguard.probe")


class Taps:
    """The probe of one scheduler process."""

    __slots__ = (
        "_carries",
        "_clock",
        "_ledger",
        "_origin",
        "_rows",
        "_sender",
        "_status_at",
        "_wall_ns",
        "engine",
        "live",
        "settings",
        "version",
    )

    def __init__(
        self,
        settings: Settings,
        sender: Sender,
        clock: Callable[[], float] = time.monotonic,
        wall_ns: Callable[[], int] = time.time_ns,
    ) -> None:
        self.live = True
        self.settings = settings
        self.engine = Engine()
        self.version = ""  # of SGLang
        self._sender = sender
        self._clock = clock
        self._wall_ns = wall_ns
        self._carries = False  # chunks carry counts
        self._ledger = Ledger(self._mark, keeps=False)
        self._origin: Origin | None = None  # not before the first step
        self._rows = 0  # that fit a datagram; 0: nobody listens to this rank
        self._status_at = float("-inf")

    # --- called by the hooks: none of these raises ---

    def step(self, streamer: Any, reqs: Sequence[Any]) -> None:  # noqa: ANN401 - the engine's own objects
        """A scheduler step's requests, before their chunks go out."""
        if not self.live:
            return
        try:
            self._step(streamer, reqs)
        except Exception as error:  # noqa: BLE001 - the engine goes on whatever it is
            self.stand_aside(_told(error))

    def wants_meta(self) -> bool:
        """Whether chunks are to carry counts."""
        return self.live and self._carries

    def counts(self, reqs: Sequence[Any]) -> dict[str, list[Sequence[int]]]:
        """For the chunks that go out now: the counts of each request, none for "no step"."""
        if not self.live or not reqs:
            return {}
        try:
            return {META_KEY: self._ledger.take(reqs)}
        except Exception as error:  # noqa: BLE001
            self.stand_aside(_told(error))
            return {}

    def stand_aside(self, reason: str) -> None:
        """Do nothing from here on; say so once."""
        self.live = False
        try:
            _log.warning("specguard probe: standing aside, the engine is untouched: %s", reason)
            origin = self._origin or self._nobody()
            self._sender.send(status_datagram(origin, self._sender.lost, reason, aside=True))
        except Exception:  # noqa: BLE001 - nobody is left to tell
            _log.debug("specguard probe: could not be reported")

    def close(self) -> None:
        self._sender.close()

    # --- inside ---

    def _step(self, streamer: Any, reqs: Sequence[Any]) -> None:  # noqa: ANN401
        if self._origin is None:
            self._open(streamer)
        if self._rows or self._carries:
            rows = self._ledger.read(reqs)
            if self._rows and rows.accepted:
                self._send(rows)

    def _open(self, streamer: Any) -> None:  # noqa: ANN401
        """Who we are and what is wanted of us; not before the first step, when ranks are known."""
        origin = self._origin = self.engine.origin(streamer, self._nobody())
        if not answers(streamer):
            return
        self._rows = rows_at_most(origin) if self._sender else 0
        # The engine refuses fields of our own beside its Rust frontend.
        drafts = not streamer.spec_algorithm.is_none()
        self._carries = self.settings.meta and drafts and streamer.rust_server is None
        self._ledger = Ledger(self._mark, keeps=self._carries)
        # Not when it is loaded: the engine sets up its log after its plugins.
        _log.info("specguard probe: watching the scheduler, %d sidecars", len(self.settings.targets))

    def _send(self, rows: Rows) -> None:
        origin, most = self._origin, self._rows
        assert origin is not None  # noqa: S101 - _open has been here
        origin.depth = self.engine.depth()
        load, lost = self.engine.load(origin.role), self._sender.lost
        if len(rows.accepted) <= most:
            self._sender.send(steps_datagram(origin, load, lost, rows))
        else:
            for start in range(0, len(rows.accepted), most):
                self._sender.send(steps_datagram(origin, load, lost, rows.part(start, start + most)))
        now = self._clock()
        if now >= self._status_at:
            self._status_at = now + STATUS_EVERY_S
            self._sender.send(status_datagram(origin, lost, self.version, aside=False))

    def _mark(self, req: Any) -> Mark:  # noqa: ANN401
        if self._origin is None or not self._origin.role:
            return Mark(key_of(req.rid), b"")
        room = req.bootstrap_room
        return Mark(key_of(req.rid), (NO_ROOM if room is None else room).to_bytes(8, "little"))

    def _nobody(self) -> Origin:
        return Origin(name=self.settings.name.encode(), epoch=self._wall_ns())


def _told(error: Exception) -> str:
    """The error's type and where it happened; its text may hold what is not ours to send."""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    place = f" in {trace.tb_frame.f_code.co_name}" if trace is not None else ""
    missing = f" {error.name}" if isinstance(error, AttributeError) else ""
    return f"{type(error).__name__}{missing}{place}"
