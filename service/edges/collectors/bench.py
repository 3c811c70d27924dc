"""What reading the probes costs the sidecar; `python -m service.edges.collectors.bench` prints it as JSON.

Datagrams of 64 requests each, from 100 workers in turn, go through a real Unix socket, and UDP with a
MAC; the processor time of receiving, checking, decoding and appending is counted, sending is not.
`share_of_a_core` is that time at 10,000 scheduler steps a second; the budget is half a core.
"""

import asyncio
import json
import socket
import tempfile
import time
from pathlib import Path
from statistics import median
from typing import Final

from service.core.probe_feed import ProbeFeed
from service.edges.collectors.probe import ProbeReceiver
from service.probe.wire import NO_LOAD, Origin, Rows, key_of, sign, steps_datagram, u32_column

STEPS_A_SECOND: Final = 10_000
REQUESTS: Final = 64
WORKERS: Final = 100
"""Of 100 steps a second each: 6,400 streams are live at a time."""
ROUNDS: Final = 20
TURNS: Final = 1000  # of the loop, until a handful of datagrams has surely come
KEY: Final = b"bench-key-0123456789"


class Worker:
    """One worker's datagrams, step after step."""

    def __init__(self, number: int) -> None:
        self._origin = Origin(name=f"http://10.0.0.{number}:30000".encode(), depth=3, epoch=1)
        self._keys = b"".join([key_of(f"{number:016x}{place:016x}") for place in range(REQUESTS)])
        self._step = 0

    def datagram(self) -> bytes:
        self._step += 1
        steps = [self._step] * REQUESTS
        accepted = bytes((self._step + place) % 4 for place in range(REQUESTS))
        return steps_datagram(self._origin, NO_LOAD, 0, Rows(self._keys, b"", u32_column(steps), accepted))


async def measure(key: bytes) -> tuple[float, ProbeFeed]:
    """Microseconds of processor time a datagram, and the feed that took them."""
    feed = ProbeFeed()
    receiver = ProbeReceiver(feed)
    workers = [Worker(number) for number in range(WORKERS)]
    with tempfile.TemporaryDirectory() as folder:
        sink: str | tuple[str, int] = str(Path(folder) / "probe.sock")
        if key:
            sink = ("127.0.0.1", receiver.listen_udp("127.0.0.1", 0, key))
        else:
            receiver.listen_unix(Path(str(sink)))
        family = socket.AF_INET if key else socket.AF_UNIX
        with socket.socket(family, socket.SOCK_DGRAM) as source:
            source.connect(sink)
            spent = [await _round(source, workers, key, feed) for _ in range(ROUNDS)]
        receiver.close()
    return median(spent), feed


async def _round(source: socket.socket, workers: list[Worker], key: bytes, feed: ProbeFeed) -> float:
    """Ten datagrams wait at a time, as many as a Unix socket holds; only reading them is timed."""
    spent, expected = 0.0, feed.counts["datagrams"]
    for start in range(0, WORKERS, 10):
        for worker in workers[start : start + 10]:
            datagram = worker.datagram()
            source.send(sign(datagram, key) if key else datagram)
        expected += 10
        begun = time.thread_time()
        for _ in range(TURNS):
            await asyncio.sleep(0)
            if feed.counts["datagrams"] == expected:
                break
        spent += time.thread_time() - begun
    return spent / WORKERS * 1e6


async def bench() -> dict[str, float]:
    unix, _ = await measure(b"")
    udp, feed = await measure(KEY)
    return {
        "requests_a_step": REQUESTS,
        "live_streams": feed.counts["streams"],
        "us_a_datagram_unix": round(unix, 2),
        "us_a_datagram_udp": round(udp, 2),
        "share_of_a_core_unix": round(unix * STEPS_A_SECOND / 1e6, 3),
        "share_of_a_core_udp": round(udp * STEPS_A_SECOND / 1e6, 3),
        "gaps": feed.counts["gaps"],
    }


if __name__ == "__main__":
    print(json.dumps(asyncio.run(bench())))  # noqa: T201 - the figures are what the command is for
