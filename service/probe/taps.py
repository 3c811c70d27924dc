"""What is read of the scheduler at each step, and what is made of it.

A request's `spec_verify_ct` and `spec_num_correct_drafts` grow by one verify step at a time; their growth
since the last look is that step's accepted draft tokens. How far we have read, a `Mark` on the request itself
knows, so nothing here outlives a request. The counts of a step go through `bytes`: what is no small integer
raises there, and what comes out again is plain integers. Output is valid by construction, not by checking.

At the first surprise (a missing attribute, a wrong type, a count that is none) it stands aside for good.
"""

import logging
import time
from collections.abc import Callable, Sequence
from typing import Any, Final

from service.probe.engine import Engine, answers, role_of
from service.probe.sender import Sender
from service.probe.settings import Settings
from service.probe.wire import NO_ROOM, NO_STEP, Origin, key_of, rows_at_most, status_datagram, steps_datagram

META_KEY: Final = "specguard_accepted"
STATUS_EVERY_S: Final = 10.0
_log: Final = logging.getLogger("specguard.probe")


class Mark:
    """How far one request has been read."""

    __slots__ = ("accepted", "head", "next", "pending")

    def __init__(self, head: bytes) -> None:
        self.head = head
        self.next = 1  # the verify step that comes next
        self.accepted = 0  # draft tokens of all steps before
        self.pending: list[int] = []  # counts that no chunk has carried yet


class Taps:
    """The probe of one scheduler process."""

    __slots__ = (
        "_clock",
        "_meta",
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
        self._meta = settings.meta
        self._origin: Origin | None = None  # not before the first step: ranks are not known earlier
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

    def wants_meta(self, streamer: Any) -> bool:  # noqa: ANN401
        """Whether chunks are to carry counts. The engine refuses such fields beside its Rust frontend."""
        try:
            return (
                self.live
                and self._meta
                and streamer.rust_server is None
                and not streamer.spec_algorithm.is_none()
            )
        except Exception as error:  # noqa: BLE001
            self.stand_aside(_told(error))
            return False

    def counts(self, reqs: Sequence[Any]) -> dict[str, list[list[int]]]:
        """For the chunks that go out now: one list a request, `[]` for "no step"."""
        if not self.live or not reqs:
            return {}
        try:
            marks = [req.specguard_mark for req in reqs]
            taken = [mark.pending for mark in marks]
            for mark in marks:
                mark.pending = []
        except Exception as error:  # noqa: BLE001
            self.stand_aside(_told(error))
            return {}
        return {META_KEY: taken}

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
        seen: list[Mark] = []  # for the first time
        moved: list[Mark] = []
        counts: list[int] = []
        for req in reqs:
            try:
                mark = req.specguard_mark
            except AttributeError:
                mark = req.specguard_mark = _marked(streamer, req)
                seen.append(mark)
            verified = req.spec_verify_ct
            if verified == mark.next:
                total = req.spec_num_correct_drafts
                counts.append(total - mark.accepted)
                moved.append(mark)
                mark.accepted = total
                mark.next = verified + 1
            elif verified != mark.next - 1:  # steps went by unseen: a gap, and nothing is invented
                mark.accepted = req.spec_num_correct_drafts
                mark.next = verified + 1
        accepted = bytes(counts)
        if self._meta:
            for mark, count in zip(moved, accepted, strict=True):
                mark.pending.append(count)
        if self._sender and (moved or seen):
            fresh = [mark for mark in seen if mark.next == 1]
            self._send(streamer, moved + fresh, accepted + bytes([NO_STEP]) * len(fresh))

    def _send(self, streamer: Any, marks: list[Mark], accepted: bytes) -> None:  # noqa: ANN401
        origin = self._origin
        if origin is None:
            origin = self._origin = self.engine.origin(streamer, self._nobody())
            self._rows = rows_at_most(origin) if answers(streamer) else 0
        if not self._rows or not marks:
            return
        origin.depth = self.engine.depth()
        load, lost, most = self.engine.load(origin.role), self._sender.lost, self._rows
        heads = [mark.head for mark in marks]
        steps = [mark.next - 1 for mark in marks]
        for start in range(0, len(marks), most):
            part = slice(start, start + most)
            self._sender.send(steps_datagram(origin, load, lost, heads[part], steps[part], accepted[part]))
        now = self._clock()
        if now >= self._status_at:
            self._status_at = now + STATUS_EVERY_S
            self._sender.send(status_datagram(origin, lost, self.version, aside=False))

    def _nobody(self) -> Origin:
        return Origin(name=self.settings.name.encode(), epoch=self._wall_ns())


def _marked(streamer: Any, req: Any) -> Mark:  # noqa: ANN401
    head = key_of(req.rid)
    if role_of(streamer):
        room = req.bootstrap_room
        head += (NO_ROOM if room is None else room).to_bytes(8, "little")
    return Mark(head)


def _told(error: Exception) -> str:
    """The error's type and where it happened; its text may hold what is not ours to send."""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    place = f" in {trace.tb_frame.f_code.co_name}" if trace is not None else ""
    missing = f" {error.name}" if isinstance(error, AttributeError) else ""
    return f"{type(error).__name__}{missing}{place}"
