"""The data loop does not feel the store: lag p99 at most 5 ms while 10,000 incidents are written.

The lag is that of a timer due every millisecond on the loop that hands the incidents over. Other processes
make a lag of their own, so a control without the store runs first: where that alone is late, the limit is one
that a writer on the data loop (256 rows, about 40 ms) still breaks. The best of three rounds counts.
"""

import asyncio
import json
import sqlite3
import sys
from collections.abc import Iterator
from pathlib import Path
from time import perf_counter

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
BUSY_P99_S = 0.025
QUIET_S = 0.0005  # the control's p99 on a machine that is ours alone is 0.2 to 0.4 ms
CONTROL_TICKS = 500
ROUNDS = 3
BODY = json.dumps({"messages": [{"role": "user", "content": "edit this record, please. " * 80}]}).encode()


@pytest.fixture(autouse=True)
def _switching_as_the_app_does() -> Iterator[None]:
    before = sys.getswitchinterval()
    sys.setswitchinterval(SWITCH_S)
    yield
    sys.setswitchinterval(before)


async def tick() -> float:
    due = perf_counter() + 0.001
    await asyncio.sleep(0.001)
    return perf_counter() - due


def p99(late: list[float]) -> float:
    return sorted(late)[int(len(late) * 0.99)]


async def lags(store: Store) -> list[float]:
    """Hand everything over, and note how late each tick came."""
    late, left = [], INCIDENTS
    while left:
        late.append(await tick())
        for number in range(A_TICK if len(store) < 2_000 else 0):
            store.keep(incident(f"r{left}-{number}"), Kept(facts(), BODY))
            left -= 1
    return late


async def written_p99_s(path: Path) -> float:
    counts = Counts()
    url = f"sqlite+aiosqlite:///{path}"
    writer = Writer(url, counts, capture="hashes", salt=b"s", retention=Retention())
    store = Store(writer, counts, capture="hashes")
    store.start()
    await asyncio.wrap_future(store.forget(case="nobody"))  # opened and migrated
    late = await lags(store)
    await asyncio.to_thread(store.stop, 30.0)
    with sqlite3.connect(path) as connection:
        assert connection.execute("SELECT count(*) FROM cases").fetchone() == (INCIDENTS,)
    connection.close()
    return p99(late)


async def test_writing_ten_thousand_incidents_does_not_delay_the_loop(tmp_path: Path) -> None:
    control = p99([await tick() for _ in range(CONTROL_TICKS)])
    limit = P99_S if control <= QUIET_S else BUSY_P99_S
    best = limit + 1
    for number in range(ROUNDS):
        best = min(best, await written_p99_s(tmp_path / f"{number}.db"))
        if best <= limit:
            break
    told = f"loop lag p99 {best * 1e3:.2f} ms (control {control * 1e3:.2f}), {INCIDENTS} incidents written"
    sys.stdout.write(told + "\n")
    assert best <= limit, told
