"""The data loop does not feel the store: lag p99 at most 5 ms while 10,000 incidents are written.

The lag is that of a timer due every millisecond on the loop that hands the incidents over, as far as it is
our own doing: less what this thread waited for a processor, by the kernel's account, and no more than the
process worked meanwhile. What is left of neighbours and of a machine that stands still is found beside a
thread that works and asks nothing of the interpreter, and taken off. A writer on the data loop (256 rows,
about 40 ms) or one that keeps the interpreter shows whole. The best of five rounds counts.
"""

import asyncio
import hashlib
import json
import os
import sqlite3
import sys
import threading
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from time import perf_counter, process_time

import pytest

from service.app import SWITCH_S
from service.config.settings import Retention
from service.edges.case import Kept
from service.edges.store import Store
from service.edges.writer import Writer
from tests.service.edges.kept import Counts, facts, incident

pytestmark = pytest.mark.anyio

INCIDENTS = 10_000
A_TICK = 4  # incidents handed over each millisecond-tick: faster than any fleet will make them
P99_S = 0.005
ROUNDS = 5
CONTROL_TICKS = 500
BODY = json.dumps({"messages": [{"role": "user", "content": "edit this record, please. " * 80}]}).encode()


@pytest.fixture(autouse=True)
def _switching_as_the_app_does() -> Iterator[None]:
    before = sys.getswitchinterval()
    sys.setswitchinterval(SWITCH_S)
    yield
    sys.setswitchinterval(before)


@pytest.fixture
def tick() -> Iterator[Callable[[], Awaitable[float]]]:
    """One timer of a millisecond; the answer: how late it came, as far as we are to blame."""
    account = os.open(f"/proc/self/task/{threading.get_native_id()}/schedstat", os.O_RDONLY)

    def waited_s() -> float:
        return int(os.pread(account, 100, 0).split()[1]) / 1e9

    async def one() -> float:
        waited, worked, due = waited_s(), process_time(), perf_counter() + 0.001
        await asyncio.sleep(0.001)
        late = perf_counter() - due
        return min(late - (waited_s() - waited), process_time() - worked)

    yield one
    os.close(account)


def p99(late: list[float]) -> float:
    return sorted(late)[int(len(late) * 0.99)]


async def lags(store: Store, tick: Callable[[], Awaitable[float]]) -> list[float]:
    """Hand everything over, and note how late each tick came."""
    late, left = [], INCIDENTS
    while left:
        late.append(await tick())
        for number in range(A_TICK if len(store) < 2_000 else 0):
            store.keep(incident(f"r{left}-{number}"), Kept(facts(), BODY))
            left -= 1
    return late


async def written_p99_s(path: Path, tick: Callable[[], Awaitable[float]]) -> float:
    counts = Counts()
    url = f"sqlite+aiosqlite:///{path}"
    writer = Writer(url, counts, capture="hashes", salt=b"s", retention=Retention())
    store = Store(writer, counts, capture="hashes")
    store.start()
    await asyncio.wrap_future(store.forget(case="nobody"))  # opened and migrated
    late = await lags(store, tick)
    await asyncio.to_thread(store.stop, 50.0)
    with sqlite3.connect(path) as connection:
        assert connection.execute("SELECT count(*) FROM cases").fetchone() == (INCIDENTS,)
    connection.close()
    return p99(late)


async def control_p99_s(tick: Callable[[], Awaitable[float]]) -> float:
    """The same beside a thread that only computes, outside the interpreter."""
    over, data = threading.Event(), bytes(1 << 20)

    def work() -> None:
        while not over.is_set():
            hashlib.sha256(data).digest()

    thread = threading.Thread(target=work)
    thread.start()
    late = [await tick() for _ in range(CONTROL_TICKS)]
    over.set()
    thread.join()
    return p99(late)


async def test_writing_ten_thousand_incidents_does_not_delay_the_loop(
    tmp_path: Path, tick: Callable[[], Awaitable[float]]
) -> None:
    best = P99_S + 1
    for number in range(ROUNDS):
        control = await control_p99_s(tick)
        best = min(best, await written_p99_s(tmp_path / f"{number}.db", tick) - control)
        if best <= P99_S:
            break
    told = f"loop lag p99 {best * 1e3:.2f} ms over the control's {control * 1e3:.2f}, {INCIDENTS} written"
    sys.stdout.write(told + "\n")
    assert best <= P99_S, told
