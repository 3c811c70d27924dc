"""LayerSplit in processes: the unsplit run's bits, 1/R of the KV, and what the missing wait does."""

import gc
import os
import signal
import subprocess
import sys
from pathlib import Path
from time import monotonic, sleep

import pytest

from replay.lab.layersplit_group import LayerSplitError, RankGroup, check
from replay.lab.speculation import reference_answer
from tests.replay.lab.labkit import prompt

ROOT = Path(__file__).parents[3]
PROGRAM = """
from replay.lab.layersplit_group import RankGroup
group = RankGroup(2)
group.start()
print(*(process.pid for process in group.processes), flush=True)
input()
"""


def descriptors() -> int:
    gc.collect()  # what earlier tests left goes now, and not between two counts
    return len(list(Path("/proc/self/fd").iterdir()))


@pytest.mark.e2e
@pytest.mark.parametrize("ranks", [2, 4])
def test_split_is_bit_for_bit_unsplit_and_without_the_wait_it_is_not(ranks: int) -> None:
    opened = descriptors()
    found = check(ranks, 4)
    assert found.identical == found.kv_bitwise == found.requests == 4
    assert found.awaited == found.unready_without_wait == 4
    assert found.wrong_without_wait >= 1
    assert found.kept_bytes_a_rank * ranks == found.unsplit_bytes
    assert descriptors() == opened


@pytest.mark.e2e
def test_a_killed_rank_is_missed_and_nothing_is_left() -> None:
    with RankGroup(2) as group:
        pids = [process.pid for process in group.processes]
        assert group.prefill(prompt(1)).token == reference_answer(prompt(1), 120)[0]
        with pytest.raises(ValueError, match="too few"):
            group.prefill(prompt(1), len(prompt(1)) - 1)
        with pytest.raises(ValueError, match="do not fit"):
            group.prefill(prompt(1), first_page=60)
        os.kill(pids[1], signal.SIGKILL)
        group.processes[1].wait()
        with pytest.raises(LayerSplitError, match="gone"):
            group.prefill(prompt(1))
    assert not any(Path(f"/proc/{pid}").exists() for pid in pids)
    assert repr(group) == "<RankGroup 0 of 2 ranks>"


def test_more_ranks_than_layers_are_refused_before_anything_starts() -> None:
    with pytest.raises(ValueError, match="cannot share"):
        RankGroup(5)


@pytest.mark.e2e
def test_ranks_end_with_a_supervisor_that_is_killed() -> None:
    with subprocess.Popen(
        [sys.executable, "-c", PROGRAM], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=ROOT
    ) as process:
        assert process.stdout is not None
        pids = [int(pid) for pid in process.stdout.readline().split()]
        process.kill()
    deadline = monotonic() + 50
    while any(Path(f"/proc/{pid}").exists() for pid in pids) and monotonic() < deadline:
        sleep(0.01)
    assert len(pids) == 2
    assert not any(Path(f"/proc/{pid}").exists() for pid in pids)
