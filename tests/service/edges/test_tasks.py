"""Tasks are kept, named, and never fail in silence."""

import asyncio
import gc

from structlog.testing import capture_logs

from service.edges.tasks import Tasks


async def test_a_task_that_nobody_else_holds_is_not_lost() -> None:
    tasks, done = Tasks(), asyncio.Event()

    async def work() -> None:
        await asyncio.sleep(0.01)
        done.set()

    tasks.spawn(work(), "work")
    gc.collect()
    await asyncio.wait_for(done.wait(), 50)
    await asyncio.sleep(0)
    assert len(tasks) == 0


async def test_a_failure_is_told_by_name_and_without_its_words() -> None:
    async def fail() -> None:
        raise ValueError("a prompt might stand here")

    tasks = Tasks()
    with capture_logs() as logs:
        tasks.spawn(fail(), "doomed")
        await asyncio.sleep(0.01)
    assert logs == [{"event": "task_failed", "task": "doomed", "error": "ValueError", "log_level": "error"}]


async def test_cancelling_stops_all_and_waits() -> None:
    tasks = Tasks()
    for name in ("a", "b"):
        tasks.spawn(asyncio.Event().wait(), name)  # type: ignore[arg-type]
    assert repr(tasks) == "<Tasks 2 running>"
    await tasks.cancel()
    assert len(tasks) == 0
