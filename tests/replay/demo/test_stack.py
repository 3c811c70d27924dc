"""Up together and down together: nothing is left of a stack that could not be, or that broke."""

import asyncio
import os
import signal
import sys
from pathlib import Path

import pytest

from replay.demo.run import watched
from replay.demo.stack import Stack
from replay.lab.router import RouterError
from replay.lab.serve import LabError, Options
from tests.replay.demo.test_sidecar import READY

ONE_EACH = Options(prefill=1, decode=1)


async def lose_a_worker(stack: Stack) -> None:
    async with watched(stack):
        os.kill(stack.lab.decode[0].process.pid, signal.SIGKILL)
        await asyncio.sleep(50)


@pytest.mark.e2e
async def test_a_missing_router_says_what_to_do_and_leaves_nothing(tmp_path: Path) -> None:
    stack = Stack(ONE_EACH, ["none"], router_binary=tmp_path / "smg")
    with pytest.raises(RouterError, match="run `make setup`"):
        await stack.__aenter__()
    assert not stack.lab.workers
    assert not stack.folder.exists()


@pytest.mark.e2e
async def test_a_worker_that_dies_ends_the_run_by_name() -> None:
    async with Stack(ONE_EACH, [sys.executable, "-c", READY]) as stack:
        assert all(seconds >= 0 for seconds in stack.cpu_seconds().values())
        assert any(stack.sidecar.admin_url in line for line in stack.urls())
        with pytest.raises(LabError, match="decode-0 ended"):
            await lose_a_worker(stack)
        pids = [pid for pids in stack.pids.values() for pid in pids]
    assert not stack.folder.exists()
    for pid in pids:
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)
