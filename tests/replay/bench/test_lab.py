"""The lab bench counts the right multiplications and tells shares of a speed measured beside them."""

from replay.bench.lab import measure, multiplications, times_s
from replay.lab.model import Shape

SHAPE = Shape(layers=2, width=8, heads=2, hidden=16, previous_at=0, second_at=1, second_width=0)


def test_the_operations_of_a_pass_are_counted() -> None:
    _, flops = multiplications(SHAPE, rows=3, length=10)
    weights = 2 * 3 * (8 * 24 + 8 * 8 + 8 * 16 + 16 * 8) * 2
    attention = 2 * (2 * 2 * 3 * 10 * 4) * 2
    assert flops == weights + attention + 2 * 3 * 8 * 512


def test_each_round_times_every_act() -> None:
    times = times_s([lambda: None, lambda: sum(range(20_000))], rounds=2)
    assert times.shape == (2, 2)
    assert (times[:, 0] > 0).all()
    assert (times[:, 0] < times[:, 1]).all()


def test_a_steps_share_lies_between_those_of_its_parts() -> None:
    figures = measure(rounds=1)
    parts = sorted((figures["verify_share"], figures["draft_share"]))
    assert 0 < parts[0] <= figures["step_share"] <= parts[1]
    assert figures["prefill_share"] > 0
    assert figures["step_ms"] > figures["verify_ms"]
