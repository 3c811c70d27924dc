"""Our side of the bench: a plan of a load, run and judged."""

import asyncio
from pathlib import Path
from threading import Thread

import pytest

from replay.bench.replaying import Pace, judged, main, make_plan
from replay.mock import Mock, serve
from replay.plan import read_plan


def test_a_plan_has_its_rate(tmp_path: Path) -> None:
    waves = list(read_plan(make_plan(tmp_path / "e", Pace(10, 5.0, at_once=4)))[1])
    assert [one.at_s for one in waves] == pytest.approx([0.0] * 4 + [0.8] * 4 + [1.6] * 2)
    poisson = list(read_plan(make_plan(tmp_path / "p", Pace(2000, 100.0)))[1])
    assert poisson[-1].at_s == pytest.approx(20, rel=0.1)


def test_a_plan_is_run_and_its_texts_are_judged(tmp_path: Path) -> None:
    loop = asyncio.new_event_loop()
    thread = Thread(target=loop.run_forever)
    thread.start()
    server = asyncio.run_coroutine_threadsafe(serve(Mock(chunks=20, pace_ms=1)), loop).result(5)
    try:
        url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        plan, results = make_plan(tmp_path / "p", Pace(10, 200.0)), tmp_path / "r"
        found = main(url, plan, results, judge=True)
    finally:
        loop.call_soon_threadsafe(server.close)
        asyncio.run_coroutine_threadsafe(asyncio.sleep(0.05), loop).result(5)
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()
    assert (found["requests"], found["failures"], found["found"]) == (10, 0, 0)
    assert judged(results) == 0
