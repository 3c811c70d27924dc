"""The engine's log lines, word for word as SGLang 0.5.23 writes them, where the lab has the event.

    [2026-11-29 16:00:00] Decode batch, #running-req: 3, #token: 480, token usage: 0.03, accept len: 3.85, ...

A reader of real logs reads these with the same code. The prefix has no rank: there is one of each. Numbers
and rids only, never text.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime

from replay.lab.model import PAGE_TOKENS
from replay.lab.scheduler import Phase

Write = Callable[[str], object]


@dataclass(frozen=True, slots=True)
class Interval:
    """What a log interval of decode iterations came to."""

    accept_length: float
    accept_rate: float
    tokens_per_s: float


@dataclass(frozen=True, slots=True)
class PoolUse:
    """The pages of a worker: all, and those that requests hold."""

    pages: int
    used: int

    @property
    def usage(self) -> float:
        """Held share, 0 to 1."""
        return self.used / self.pages if self.pages else 0.0


def now() -> datetime:
    """The wall clock of log lines."""
    return datetime.now(UTC)


class EngineLog:
    """Writes lines in the engine's words; without a place to write to it costs nothing."""

    def __init__(self, write: Write | None = None, clock: Callable[[], datetime] = now) -> None:
        """Write whole lines with `write`."""
        self._write = write
        self._clock = clock

    def __repr__(self) -> str:
        """Say whether anybody reads."""
        return f"<EngineLog {'on' if self._write else 'off'}>"

    def decode_batch(self, interval: Interval, phases: Mapping[Phase, int], pool: PoolUse) -> None:
        """Report an interval of decode iterations."""
        running, waiting, transfer = (
            phases.get(at, 0) for at in (Phase.RUNNING, Phase.WAITING, Phase.TRANSFER)
        )
        self._say(
            f"Decode batch, #running-req: {running}, #token: {pool.used * PAGE_TOKENS},"
            f" token usage: {pool.usage:.2f},"
            f" accept len: {interval.accept_length:.2f}, accept rate: {interval.accept_rate:.2f},"
            f" pre-allocated usage: {pool.usage:.2f}, #prealloc-req: {phases.get(Phase.PREALLOC, 0)},"
            f" #transfer-req: {transfer}, #retracted-req: 0, cpu graph: False,"
            f" gen throughput (token/s): {interval.tokens_per_s:.2f}, #queue-req: {waiting}"
        )

    def prefill_batch(
        self, new_tokens: int, cached_tokens: int, seconds: float, phases: Mapping[Phase, int], pool: PoolUse
    ) -> None:
        """Report one prefill."""
        speed = new_tokens / seconds if seconds > 0 else 0.0
        self._say(
            f"Prefill batch, #new-seq: 1, #new-token: {new_tokens}, #cached-token: {cached_tokens},"
            f" token usage: {pool.usage:.2f}, #running-req: {phases.get(Phase.RUNNING, 0)},"
            f" #queue-req: {phases.get(Phase.WAITING, 0)}, #pending-token: 0,"
            f" #bootstrap-req: {phases.get(Phase.BOOTSTRAP, 0)},"
            f" #inflight-req: {phases.get(Phase.TRANSFER, 0)}, #optimistic-req: 0,"
            f" cpu graph: False, input throughput (token/s): {speed:.2f}"
        )

    def failed(self, text: str) -> None:
        """Report a hand-over that failed: the text of the request's HTTP 500."""
        self._say(text)

    def released_anyway(self, room: int, seconds: float) -> None:
        """Report pages given up without prefill's word."""
        self._say(
            f"Deferred KV release for room {room} timed out after {seconds:.1f}s without a full drain ack"
            " from prefill; releasing anyway."
        )

    def abort_unknown(self, rid: str) -> None:
        """Report an abort of a request that is not live."""
        text = f"Abort request for rid={rid} not found in rid_to_state; likely already finished/removed."
        self._say(text)

    def _say(self, text: str) -> None:
        if self._write is not None:
            self._write(f"[{self._clock():%Y-%m-%d %H:%M:%S}] {text}\n")
