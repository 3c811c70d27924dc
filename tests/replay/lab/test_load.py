"""A load is a function of its seed: the same numbers wherever and in whatever order they are drawn."""

import numpy as np
import pytest

from replay.lab.load import Load, PrefillTime, plan, uniforms

TIME = PrefillTime(mean_s=0.04, seed=3)


def load(requests: int = 50_000, utilisation: float = 0.5, **rest: int) -> Load:
    return Load(requests, utilisation, 4, TIME, 64, **rest)


def test_a_worker_draws_for_one_room_what_the_plan_says() -> None:
    drawn = plan(load(40, first_room=1 << 40))
    assert [TIME.of(int(room)) for room in drawn.room] == drawn.service_s.tolist()


def test_the_first_requests_do_not_depend_on_how_many_follow() -> None:
    short, long = plan(load(100)), plan(load(1000))
    for name in ("at_s", "worker", "prompt", "room", "service_s"):
        np.testing.assert_array_equal(getattr(short, name), getattr(long, name)[:100])


def test_uniforms_fill_the_unit_interval_evenly_and_streams_are_apart() -> None:
    numbers = np.arange(200_000, dtype=np.uint64)
    first, second = uniforms(1, 1, numbers), uniforms(1, 2, numbers)
    assert 0 < first.min() < 1e-4
    assert 1 - 1e-4 < first.max() < 1
    counts = np.histogram(first, 100, (0, 1))[0]
    assert ((counts - 2000) ** 2 / 2000).sum() < 160  # chi-square, 99 degrees: beyond .9999
    assert abs(np.corrcoef(first, second)[0, 1]) < 0.01
    assert abs(np.corrcoef(first[:-1], first[1:])[0, 1]) < 0.01


def test_service_times_have_the_moments_that_the_queue_is_computed_with() -> None:
    drawn = plan(load(400_000)).service_s
    assert drawn.mean() == pytest.approx(TIME.expected_s, rel=0.02)
    assert (drawn**2).mean() == pytest.approx(TIME.second_moment, rel=0.05)
    assert TIME.expected_s == pytest.approx(0.04 * 1.72)


def test_arrivals_come_at_the_rate_and_spread_over_workers_and_prompts() -> None:
    asked = load()
    drawn = plan(asked)
    assert drawn.at_s[-1] == pytest.approx(asked.requests / asked.rate_per_s, rel=0.02)
    assert asked.rate_per_s == pytest.approx(0.5 * 4 / (0.04 * 1.72))
    assert np.bincount(drawn.worker).tolist() == pytest.approx([12_500] * 4, rel=0.05)
    assert set(drawn.prompt) == set(range(64))


def test_queues_begin_as_full_as_they_are_on_average() -> None:
    parts = [load(1, 0.8, part=part, parts=500) for part in range(500)]
    begins = np.concatenate([plan(part).backlog_s for part in parts])
    assert begins.mean() == pytest.approx(parts[0].mean_wait_s, rel=0.01)
    assert (begins > 0).mean() == pytest.approx(0.8, abs=0.001)
    assert len(set(begins[begins > 0])) == (begins > 0).sum()
    assert (begins[:1000] > 0).mean() == pytest.approx(0.8, rel=0.1)


def test_a_part_that_is_none_is_refused() -> None:
    with pytest.raises(ValueError, match="part 3 of 3"):
        load(1, part=3, parts=3)


def test_a_mean_of_zero_takes_no_time() -> None:
    assert PrefillTime().of(7) == 0


@pytest.mark.parametrize(
    "wrong",
    [{"mean_s": -1}, {"mean_s": float("nan")}, {"tail_share": 2}, {"tail_factor": 0.5}, {"seed": -1}],
)
def test_times_that_are_none_are_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(ValueError, match=r"prefill time|tail|seed"):
        PrefillTime(**wrong)  # type: ignore[arg-type]  # (wrong on purpose)


@pytest.mark.parametrize(
    ("requests", "utilisation", "prompts"), [(0, 0.5, 1), (1, 0, 1), (1, 1, 1), (1, 0.5, 0)]
)
def test_loads_that_never_end_or_begin_are_refused(requests: int, utilisation: float, prompts: int) -> None:
    with pytest.raises(ValueError, match=r"needs|utilisation"):
        Load(requests, utilisation, 1, TIME, prompts)
