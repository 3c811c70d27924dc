"""The runner alone: what it does when everything is under way and the ground gives way."""

import asyncio
import errno
import os
from pathlib import Path

from replay.mock import Mock, serve
from replay.outlook import look_over, sends_of
from replay.pacer import Pacer
from replay.results import Journal, RunHeader, Sync
from replay.run import nobody, raw_transport
from replay.runner import Runner, State, Summary
from tests.replay.runkit import evenly, options, plan_of


class Disk:
    """Writes until it is told to break."""

    def __init__(self) -> None:
        self.broken = False

    def __call__(self, file: int, data: bytes) -> int:
        if self.broken:
            raise OSError(errno.EIO, "broken")
        return os.write(file, data)


async def run(tmp_path: Path, count: int, at_start: str) -> tuple[Summary, list[State]]:
    disk, states = Disk(), list[State]()
    plan = plan_of(tmp_path / "p", evenly(count, 0.0001))
    outlook = look_over(plan)
    server = await serve(Mock(chunks=100, pace_ms=20))
    wishes = options(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}")
    with Journal(tmp_path / "r", Sync.NEVER, write=disk, reserve_bytes=0) as journal:
        journal.begin(RunHeader(plan_hash="", target="", started_at=""))
        carrier = raw_transport(wishes)
        runner = Runner(outlook, Pacer(sends_of(plan, outlook)), journal, carrier, wishes)
        runner.begin(0.0, 0.0)

        def strike() -> None:
            disk.broken = True
            if at_start == "stop":
                runner.stop("interrupted")

        asyncio.get_running_loop().call_later(0.7, strike)
        await asyncio.wait_for(runner.wait(states.append if at_start else nobody), 50)
        await carrier.close()
        server.close()
        return runner.summary(0), states


async def test_a_broken_disk_ends_hundreds_of_requests_without_a_word_too_many(tmp_path: Path) -> None:
    summary, states = await run(tmp_path, 1500, "stop")
    assert summary.stopped in {"interrupted", "disk"}
    assert summary.ended == summary.sent > 100
    assert states[-1].under_way == 0


async def test_options_do_not_show_their_keys() -> None:
    assert "secret" not in repr(options("http://h", headers={"authorization": "Bearer secret"}))
