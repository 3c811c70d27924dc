"""Two ranks in threads: each keeps its layers, both exchange new places, a late broadcast is awaited."""

import os
import socket
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from replay.lab.layersplit import Job, Rank, Report, gathered
from replay.lab.layersplit_group import unsplit
from replay.lab.speculation import load_models
from replay.lab.splitmap import Board, Geometry, RankMemory, make_rank_memory
from tests.replay.lab.labkit import prompt

TOKENS = prompt(1)
CACHED = 64


def ranks() -> list[Rank]:
    model, _ = load_models()
    geometry = Geometry(model.shape, 2, pages=16)
    descriptors = [make_rank_memory(geometry, rank) for rank in (0, 1)]
    memory = [RankMemory(fd, geometry, rank) for rank, fd in enumerate(descriptors)]
    for fd in descriptors:
        os.close(fd)
    ends = socket.socketpair()
    return [Rank(at, geometry, memory, Board({1 - at: ends[at]}), model) for at in (0, 1)]


def run(group: list[Rank], job: Job) -> list[Report]:
    with ThreadPoolExecutor(2) as pool:
        return list(pool.map(lambda rank: rank.prefill(job), group))


def job(number: int, start: int, **rest: object) -> Job:
    return Job(number, list(TOKENS), start, list(range(16)), **rest)  # type: ignore[arg-type]  # (a test names its fields)


@pytest.mark.parametrize("late", [0, 1, 2, 3])
def test_a_late_broadcast_is_awaited_and_every_bit_is_as_unsplit(late: int) -> None:
    group = ranks()
    run(group, job(1, 0))
    reports = run(group, job(2, CACHED, late_layer=late))
    whole = unsplit(2, (TOKENS, 0), (TOKENS, CACHED))
    kv = gathered(group[0].geometry, group[0].memory, range(whole.kv.shape[2]))
    assert np.array_equal(kv, whole.kv)
    assert [report.token for report in reports] == [None, whole.token]
    assert late in [layer for report in reports for layer in report.awaited_layers]
    assert not any(report.unready_layers for report in reports)


def test_without_the_wait_the_late_layer_is_read_before_it_is_there() -> None:
    group = ranks()
    run(group, job(1, 0))
    reports = run(group, job(2, CACHED, wait_for_broadcast=False, late_layer=2))
    assert [report.unready_layers for report in reports][1][-1:] == [2]
    assert 2 not in reports[0].unready_layers


def test_each_rank_keeps_half() -> None:
    group = ranks()
    (first, second) = run(group, job(1, 0))
    assert first.kept_bytes == second.kept_bytes == group[0].memory[0].kept.nbytes
    assert group[0].memory[0].kept.any()
    assert group[1].memory[1].kept.shape[0] == 2
