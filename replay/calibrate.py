"""How good this client is on this machine just now, measured before a run against a mock of our own.

A hundred streams of 64 chunks, one each 15 ms, begin within half a second; the mock is a process of its own,
so that what is counted is the client's. Told are the floor of the time to first token (what the client and
the machine add to a server's), the lateness of sends, the CPU a chunk, and the rate of chunks at which one
core is `SAFE_SHARE` busy: a plan beyond it measures the client. Takes two seconds.
"""

import asyncio
import sys
import time
from collections.abc import Sequence
from random import Random
from typing import Any, Final

import msgspec
import numpy as np

from replay.client import Call, RawClient
from replay.mock import CHUNKS, PACE_MS
from replay.target import target_of

STREAMS: Final = 100
WITHIN_S: Final = 0.5
SAFE_SHARE: Final = 0.7
START_S: Final = 60.0
LIMIT_S: Final = 60.0
"""A machine that takes longer is told so; one that is merely busy is measured as it is."""
PATH: Final = "/v1/chat/completions"
BODY: Final = msgspec.json.encode({"model": "mock", "stream": True, "messages": []})


class CalibrationError(RuntimeError):
    """The mock did not come up, or lost streams."""


class Floor(msgspec.Struct, frozen=True):
    """What the client costs and adds."""

    ttft_p50_ms: float
    ttft_p99_ms: float
    late_p99_ms: float
    cpu_us_per_chunk: float
    safe_chunks_per_s: float


async def calibrate(streams: int = STREAMS, within_s: float = WITHIN_S) -> Floor:
    """Measure."""
    mock = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "replay.mock"),
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
    )
    try:
        if mock.stdout is None:
            raise CalibrationError("the mock says nothing")
        async with asyncio.timeout(START_S):
            url = (await mock.stdout.readline()).decode().strip()
        async with asyncio.timeout(LIMIT_S):
            return await _measure(url, streams, within_s)
    except (TimeoutError, ValueError):
        raise CalibrationError("the mock did not come up, or was too slow") from None
    finally:
        if mock.returncode is None:
            mock.kill()
        await mock.wait()


def told(floor: Floor) -> dict[str, Any]:
    """For the header of the results."""
    return msgspec.structs.asdict(floor)


async def _measure(url: str, streams: int, within_s: float) -> Floor:
    loop, client = asyncio.get_running_loop(), RawClient(target_of(url))
    over: asyncio.Future[None] = loop.create_future()
    calls: list[Call] = []
    lates: list[float] = []

    def ended(call: Call) -> None:
        calls.append(call)
        if len(calls) == streams:
            over.set_result(None)

    def send(due: float) -> None:
        lates.append(time.monotonic() - due)
        client.start(PATH, BODY, ended)

    random = Random(1)
    began, spent = time.monotonic(), time.process_time()
    for delay_s in [random.uniform(0, within_s) for _ in range(streams)]:
        loop.call_later(delay_s, send, began + delay_s)
    await over
    spent = time.process_time() - spent
    await client.close()
    return _floor(calls, lates, spent)


def _floor(calls: Sequence[Call], lates: Sequence[float], spent_s: float) -> Floor:
    whole = [call for call in calls if call.ending == "complete" and len(call.answer.times) == CHUNKS]
    if len(whole) < len(calls):
        raise CalibrationError(f"{len(calls) - len(whole)} of {len(calls)} streams of the mock were lost")
    first_ms = [(call.answer.times[0] - (call.sent_at or 0.0)) * 1e3 - PACE_MS for call in whole]
    a_chunk_s = spent_s / (len(calls) * CHUNKS)
    return Floor(
        ttft_p50_ms=round(float(np.percentile(first_ms, 50)), 2),
        ttft_p99_ms=round(float(np.percentile(first_ms, 99)), 2),
        late_p99_ms=round(float(np.percentile(lates, 99)) * 1e3, 2),
        cpu_us_per_chunk=round(a_chunk_s * 1e6, 2),
        safe_chunks_per_s=round(SAFE_SHARE / a_chunk_s),
    )
