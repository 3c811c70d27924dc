"""The simulator moves through the table, agrees with a hand-made race, and never corrupts under the fix."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from replay.lab.load import Load, Plan, PrefillTime, plan
from replay.lab.simulate import Engine, Hit, Outcome, simulate
from replay.lab.slot import Race

ENGINE = Engine(
    race=Race.UNFIXED,
    waiting_s=1.0,
    step_s=0.1,
    steps=(4,),
    slot_pages=4,
    prompt_pages=3,
    pages=64,
    transfer_s=0.01,
)


def planned(*requests: tuple[float, int, float], workers: int = 2) -> Plan:
    """A plan of (arrival, prefill worker, service time)."""
    at, worker, service = zip(*requests, strict=True)
    count = len(requests)
    return Plan(
        at_s=np.array(at),
        worker=np.array(worker),
        prompt=np.zeros(count, np.int64),
        room=np.arange(count, dtype=np.uint64),
        service_s=np.array(service),
        backlog_s=np.zeros(workers),
    )


RACE = planned((0.0, 0, 1.55), (1.1, 1, 0.1))
"""The first times out at 1.0 and is written at 1.56; the second has its pages from 1.1, its KV at 1.21, and
decodes from then on until 1.61."""


def test_a_late_write_hits_who_has_the_pages_now() -> None:
    outcome = simulate(RACE, ENGINE)
    assert (outcome.answered, outcome.timed_out, outcome.late_writes) == (1, 1, 1)
    assert outcome.hits == [Hit(victim=1, writer=0, steps_done=3, steps_left=1)]


@pytest.mark.parametrize("race", [Race.FIXED, Race.DEFERRED])
def test_with_an_abort_notice_there_is_no_late_write(race: Race) -> None:
    outcome = simulate(RACE, replace(ENGINE, race=race))
    assert (outcome.answered, outcome.timed_out, outcome.late_writes, outcome.hits) == (1, 1, 0, [])


@pytest.mark.parametrize(
    ("second", "why"),
    [
        ((1.1, 1, 0.5), "its own write comes after the late one"),
        ((1.1, 0, 0.1), "it queues behind the late writer"),
        ((0.5, 1, 0.1), "it had pages of its own before"),
    ],
)
def test_no_reordering_no_victim(second: tuple[float, int, float], why: str) -> None:
    assert simulate(planned((0.0, 0, 1.5), second), ENGINE).hits == [], why


def test_an_abort_gives_the_prefill_time_back_to_who_waits_behind() -> None:
    queue = planned((0.0, 0, 30.0), (0.5, 0, 0.1))
    assert simulate(queue, ENGINE).timed_out == 2
    assert simulate(queue, replace(ENGINE, race=Race.FIXED)).timed_out == 1


def test_a_full_pool_makes_requests_wait_before_their_timeout_begins() -> None:
    one_slot = replace(ENGINE, pages=4, waiting_s=5.0)
    outcome = simulate(planned((0.0, 0, 0.5), (0.0, 1, 0.5)), one_slot)
    assert (outcome.answered, outcome.timed_out) == (2, 0)
    assert outcome.ended_s == pytest.approx(2 * (0.5 + 0.01 + 0.4), abs=0.11)


def loaded(race: Race, utilisation: float, seed: int, requests: int = 1500) -> Outcome:
    engine = Engine(race, 1.0, 0.04, (4, 5), 4, 3, 512, 0.01)
    return simulate(plan(Load(requests, utilisation, 4, PrefillTime(1 / 60, seed=seed), 2)), engine)


@given(st.integers(0, 500), st.sampled_from([Race.FIXED, Race.DEFERRED]), st.floats(0.5, 0.97))
def test_under_the_fix_no_load_corrupts(seed: int, race: Race, utilisation: float) -> None:
    outcome = loaded(race, utilisation, seed, requests=200)
    assert (outcome.late_writes, outcome.hits) == (0, [])
    assert outcome.answered + outcome.timed_out == 200


def test_the_rate_grows_with_load_from_nothing() -> None:
    def hits(utilisation: float) -> int:
        return sum(len(loaded(Race.UNFIXED, utilisation, seed).hits) for seed in range(4))

    idle, busy, peak = hits(0.3), hits(0.75), hits(0.92)
    assert idle == 0
    assert busy < peak
    assert peak > 20


def test_every_request_is_accounted_for() -> None:
    outcome = loaded(Race.UNFIXED, 0.9, 1)
    assert outcome.answered + outcome.timed_out == outcome.requests
    assert outcome.late_writes == outcome.timed_out


@pytest.mark.parametrize(
    "wrong", [{"step_s": 0}, {"waiting_s": 0}, {"transfer_s": -1}, {"slot_pages": 65}, {"prompt_pages": 5}]
)
def test_an_engine_that_cannot_run_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"take|fit"):
        replace(ENGINE, **wrong)
