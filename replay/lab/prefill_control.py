"""`/lab/control` of a prefill worker: how fast it is, how much work it has, and which writes wait.

    GET  /lab/control    what holds now, and the queue
    POST /lab/control    any of the fields of `Change`; what is left out stays

    prefill_ms, tail_share, tail_factor, seed    service times, see `replay.lab.load`
    speed        prefills in the time of one; 0 stops the queue. The ratio of prefill to decode, live.
    backlog_ms   work put in front of the queue, once
    layer_ms     each layer's write is so long on the wire, where nothing can call it back
    hangup_ms    from the loss of a client to the abort of its request
    hicache      off, fixed, unfixed, index_unfixed or index_lost: see `replay.lab.hicache`
    load_page_ms each page of each layer takes so long to come back from the host
    hold         rooms whose first write waits until they are released
    release      rooms that wait no longer

`hold` and `release` are how a scenario decides which write is late instead of hoping for one.
"""

import asyncio
from dataclasses import replace
from typing import Any

import msgspec

from replay.lab.hicache import Mode, NoCache, PrefixCache
from replay.lab.intake import RequestError
from replay.lab.load import PrefillTime
from replay.lab.prefill import MAX_BACKLOG_S, PrefillWorker, Service
from replay.lab.scheduler import Phase

MAX_PAGE_MS = 100.0
"""A page that takes longer is a broken link: 60 pages of five layers would be half a minute."""

MAX_HELD = 4096
"""Rooms held at a time."""


class Holds:
    """The gate that holds chosen rooms."""

    def __init__(self) -> None:
        """Hold nothing."""
        self._doors: dict[int, asyncio.Event] = {}
        self.waiting: set[int] = set()
        """Rooms that stand at the gate now."""

    def __repr__(self) -> str:
        """Count them."""
        return f"<Holds {len(self._doors)} rooms, {len(self.waiting)} waiting>"

    @property
    def rooms(self) -> list[int]:
        """Rooms that will be held or are."""
        return sorted(self._doors)

    def hold(self, room: int) -> None:
        """Hold the room's first write."""
        if len(self._doors) >= MAX_HELD:
            raise ValueError(f"{MAX_HELD} rooms are held")
        self._doors.setdefault(room, asyncio.Event())

    def release(self, room: int) -> None:
        """Let it write."""
        door = self._doors.pop(room, None)
        if door is not None:
            door.set()

    async def gate(self, room: int, _model: str, _layer: int) -> None:
        """Wait while the room is held; let other tasks run in any case."""
        await asyncio.sleep(0)
        door = self._doors.get(room)
        if door is None:
            return
        self.waiting.add(room)
        try:
            await door.wait()
        finally:
            self.waiting.discard(room)


class Change(msgspec.Struct, forbid_unknown_fields=True):
    """What a POST may set."""

    prefill_ms: float | None = None
    tail_share: float | None = None
    tail_factor: float | None = None
    seed: int | None = None
    speed: float | None = None
    backlog_ms: float = 0.0
    layer_ms: float | None = None
    hangup_ms: float | None = None
    hicache: Mode | None = None
    load_page_ms: float | None = None
    hold: list[int] = []
    release: list[int] = []


_change = msgspec.json.Decoder(Change)


class PrefillControl:
    """The switches of one prefill worker."""

    def __init__(self, worker: PrefillWorker) -> None:
        """Stand at the worker's gate."""
        self._worker = worker
        self.holds = Holds()
        worker.gate = self.holds.gate

    def __repr__(self) -> str:
        """Show the worker."""
        return f"<PrefillControl {self._worker!r}>"

    def show(self) -> dict[str, Any]:
        """Return what holds now."""
        worker, service = self._worker, self._worker.service
        return {
            "prefill_ms": service.time.mean_s * 1e3,
            "tail_share": service.time.tail_share,
            "tail_factor": service.time.tail_factor,
            "seed": service.time.seed,
            "speed": service.speed,
            "backlog_ms": round(worker.backlog_s * 1e3, 3),
            "layer_ms": service.layer_s * 1e3,
            "hangup_ms": service.hangup_s * 1e3,
            **_cache_state(worker.cache),
            "hold": self.holds.rooms,
            "waiting": sorted(self.holds.waiting),
            "queued": worker.live.phases()[Phase.WAITING],
            "live": len(worker.live),
        }

    def change(self, body: bytes) -> dict[str, Any]:
        """Apply a POST whole or not at all; return what holds now."""
        try:
            asked = _change.decode(body)
            service = _changed(self._worker.service, asked)
            _check_backlog(asked.backlog_ms)
            _change_cache(self._worker.cache, asked)
        except (msgspec.DecodeError, ValueError) as error:
            raise RequestError(str(error)) from None
        self._worker.serve_at(service)
        self._worker.pile_up(asked.backlog_ms / 1e3)
        for room in asked.hold:
            self.holds.hold(room)
        for room in asked.release:
            self.holds.release(room)
        return self.show()


def _changed(old: Service, asked: Change) -> Service:
    time = old.time
    return replace(
        old,
        time=PrefillTime(
            mean_s=_seconds(asked.prefill_ms, time.mean_s),
            tail_share=_given(asked.tail_share, time.tail_share),
            tail_factor=_given(asked.tail_factor, time.tail_factor),
            seed=time.seed if asked.seed is None else asked.seed,
        ),
        speed=_given(asked.speed, old.speed),
        layer_s=_seconds(asked.layer_ms, old.layer_s),
        hangup_s=_seconds(asked.hangup_ms, old.hangup_s),
    )


def _cache_state(cache: PrefixCache | NoCache) -> dict[str, Any]:
    """Return the cache's mode and counts; without a cache, that there is none."""
    if not isinstance(cache, PrefixCache):
        return {"prefix_cache": False}
    counts, loader = cache.counts, cache.loader
    return {
        "prefix_cache": True,
        "hicache": cache.mode,
        "load_page_ms": loader.page_delay_s * 1e3 if loader else 0.0,
        "hit_rate": round(counts.hit_rate, 4),
        "device_hit_tokens": counts.device_hit,
        "host_hit_tokens": counts.host_hit,
        "tainted_requests": counts.tainted_requests,
    }


def _change_cache(cache: PrefixCache | NoCache, asked: Change) -> None:
    """Apply the switches of the cache; refuse them where there is none."""
    if asked.hicache is None and asked.load_page_ms is None:
        return
    if not isinstance(cache, PrefixCache):
        raise RequestError("this worker was started without a prefix cache")
    page_ms = asked.load_page_ms or 0.0
    if not 0 <= page_ms <= MAX_PAGE_MS:
        raise ValueError(f"load_page_ms {page_ms} is not between 0 and {MAX_PAGE_MS:g}")
    if asked.hicache is not None:
        cache.mode = asked.hicache
    if cache.loader is not None and asked.load_page_ms is not None:
        cache.loader.page_delay_s = page_ms / 1e3


def _check_backlog(backlog_ms: float) -> None:
    if not 0 <= backlog_ms <= MAX_BACKLOG_S * 1e3:
        raise ValueError(f"backlog_ms {backlog_ms} is not between 0 and {MAX_BACKLOG_S * 1e3:g}")


def _given(asked: float | None, old: float) -> float:
    return old if asked is None else asked


def _seconds(asked_ms: float | None, old_s: float) -> float:
    return old_s if asked_ms is None else asked_ms / 1e3
