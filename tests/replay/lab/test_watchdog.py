"""A loop that stands still ends its process and names the place; one that turns is left alone."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[3]
PROGRAM = """
import asyncio, time
from replay.lab import watchdog

async def main():
    async with asyncio.TaskGroup() as tasks:
        beat = tasks.create_task(watchdog.watch(2.5))
        await asyncio.sleep(3.0)
        print("turning", flush=True)
        {then}
        beat.cancel()
    {last}
    watchdog.disarm()
    print("ended", flush=True)

def stand_still():
    time.sleep(45)

asyncio.run(main())
"""


def run(then: str = "pass", last: str = "pass") -> subprocess.CompletedProcess[str]:
    program = PROGRAM.format(then=then, last=last)
    return subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, cwd=ROOT, timeout=50, check=False
    )


def test_a_loop_that_turns_lives_on() -> None:
    ended = run()
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "turning\nended\n", "")


def test_a_loop_that_stands_still_is_ended_and_the_place_named() -> None:
    ended = run(then="stand_still()")
    assert (ended.returncode, ended.stdout) == (1, "turning\n")
    assert "in stand_still" in ended.stderr


def test_the_last_deadline_is_not_put_off() -> None:
    ended = run(last="watchdog.arm(0.3); await asyncio.sleep(45)")
    assert (ended.returncode, ended.stdout) == (1, "turning\n")
