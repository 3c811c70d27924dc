"""The bench's client: so many streams at once, each asked for anew when it ends, checked in passing.

    python -m replay.bench.load PORT PATH STREAMS SECONDS [asked] [policy=NAME]     -> one JSON object

It counts chunks, reads off each read's first `created` how long that chunk took, and holds every stream to
its whole length and its end, so that a proxy that drops, doubles or leaks what it asked for is found out.
"""

import asyncio
import json
import sys
from time import monotonic, monotonic_ns
from typing import Final, NamedTuple, cast

import uvloop

from replay.bench.texts import PIECES

PROMPT: Final = "Explain, with an example, how a cache page is handed from prefill to decode. " * 8
EVENT: Final = b'"choices":[{'
CREATED: Final = b'"created":'
STREAM_S: Final = PIECES * 0.005
"""How long one stream lasts at the worker's pace; starts are spread over it, as those of real clients are."""
STAMP_DIGITS: Final = 19
"""Of the monotonic clock in ns, at most."""
END: Final = b"data: [DONE]\n\n\r\n0\r\n\r\n"


class Timing(NamedTuple):
    """Two quantiles, in ms."""

    p50_ms: float
    p99_ms: float


def quantiles(values_ns: list[int]) -> Timing:
    ordered = sorted(values_ns)
    if not ordered:
        return Timing(float("nan"), float("nan"))
    last = len(ordered) - 1
    return Timing(*(ordered[min(last, int(len(ordered) * q))] / 1e6 for q in (0.50, 0.99)))


class Tally:
    """What all streams of a run saw."""

    def __init__(self, *, asked: bool) -> None:
        self.asked = asked
        self.chunks = self.streams = self.errors = self.broken = self.leaks = self.reads = self.bytes = 0
        self.sojourn_ns: list[int] = []
        self.first_byte_ns: list[int] = []

    def report(self, seconds: float) -> dict[str, float]:
        sojourn, first = quantiles(self.sojourn_ns), quantiles(self.first_byte_ns)
        return {
            "seconds": round(seconds, 2),
            "chunks": self.chunks,
            "streams": self.streams,
            "errors": self.errors,  # streams of another length, or without their end
            "broken": self.broken,  # those without their end
            "leaks": self.leaks,
            "reads": self.reads,
            "bytes_per_chunk": round(self.bytes / max(self.chunks, 1), 1),
            "sojourn_p50_ms": round(sojourn.p50_ms, 4),
            "sojourn_p99_ms": round(sojourn.p99_ms, 4),
            "first_byte_p50_ms": round(first.p50_ms, 4),
            "first_byte_p99_ms": round(first.p99_ms, 4),
        }


def request(path: str, *, asked: bool = False, policy: str = "", max_tokens: int = PIECES) -> bytes:
    """A chat request as an agent sends it; `asked` if it wants usage in every chunk itself."""
    value: dict[str, object] = {
        "model": "zai-org/GLM-4.6-FP8",
        "messages": [{"role": "user", "content": PROMPT}],
        "stream": True,
        "max_tokens": max_tokens,
    }
    if asked:
        value["stream_options"] = {"include_usage": True, "continuous_usage_stats": True}
    body = json.dumps(value).encode()
    lines = [f"POST {path} HTTP/1.1", "host: bench", "content-type: application/json"]
    lines += [f"x-specguard-policy: {policy}"] if policy else []
    return "\r\n".join([*lines, f"content-length: {len(body)}", "", ""]).encode() + body


class Client(asyncio.Protocol):
    """One stream after the other on one connection."""

    def __init__(self, tally: Tally, wire: bytes, until: float, done: "asyncio.Future[None]") -> None:
        self._tally = tally
        self._wire = wire
        self._until = until
        self._done = done
        self._tail = b""
        self._chunks = 0
        self._asked_at = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        self._next()

    def _next(self) -> None:
        if monotonic() > self._until:
            self._done.set_result(None)
            self._transport.close()
            return
        self._tail, self._chunks, self._asked_at = b"", 0, monotonic_ns()
        self._transport.write(self._wire)

    def data_received(self, data: bytes) -> None:
        now, tally = monotonic_ns(), self._tally
        tally.reads += 1
        tally.bytes += len(data)
        place = data.find(CREATED)
        if place >= 0:
            self._note(data[place + len(CREATED) : place + len(CREATED) + STAMP_DIGITS + 1], now)
        self._chunks += data.count(EVENT)
        if not tally.asked and b'"usage"' in data:
            tally.leaks += 1
        self._tail = data[-len(END) :] if len(data) >= len(END) else (self._tail + data)[-len(END) :]
        if self._tail == END:
            self._ended()

    def _note(self, digits: bytes, now: int) -> None:
        stamp = digits.partition(b",")[0]
        if stamp.isdigit():
            self._tally.sojourn_ns.append(now - int(stamp))
        if self._asked_at:
            self._tally.first_byte_ns.append(now - self._asked_at)
            self._asked_at = 0

    def _ended(self) -> None:
        tally = self._tally
        tally.chunks += self._chunks
        tally.streams += 1
        tally.errors += self._chunks != PIECES + 1  # and the last, with the finish reason
        self._next()

    def connection_lost(self, exc: Exception | None) -> None:
        if not self._done.done():
            self._tally.errors += 1
            self._tally.broken += 1
            self._done.set_result(None)


async def run(port: int, wire: bytes, streams: int, seconds: float) -> dict[str, float]:
    """So many streams for so long; the last of each runs to its end."""
    loop = asyncio.get_running_loop()
    tally, started = Tally(asked=b"continuous_usage_stats" in wire), monotonic()
    ends: list[asyncio.Future[None]] = []
    for _ in range(streams):
        done = loop.create_future()
        ends.append(done)
        await loop.create_connection(
            lambda done=done: Client(tally, wire, started + seconds, done),  # type: ignore[misc]
            "127.0.0.1",
            port,
        )
        await asyncio.sleep(min(STREAM_S, seconds) / streams)  # so that they end one after the other
    await asyncio.wait(ends, timeout=seconds + 30)
    return tally.report(monotonic() - started)


def main() -> None:
    port, path, streams, seconds, *more = sys.argv[1:]
    policy = next((word.partition("=")[2] for word in more if word.startswith("policy=")), "")
    wire = request(path, asked="asked" in more, policy=policy)
    print(json.dumps(uvloop.run(run(int(port), wire, int(streams), float(seconds)))))


if __name__ == "__main__":
    main()
