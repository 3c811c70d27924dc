"""A plan of faults: who is hit, by what and when, is drawn from numbers alone; nonsense is refused."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from replay.lab.faults import KINDS, FaultPlan, FaultSpecError, parse_mix


def test_the_first_slices_faults_keep_their_names() -> None:
    assert tuple(kind for kind, _ in parse_mix(",".join(KINDS))) == KINDS


@given(st.integers(0, 9), st.integers(0, 3), st.integers(0, 200))
def test_a_draw_depends_on_seed_worker_and_number_alone(seed: int, worker: int, number: int) -> None:
    plan = FaultPlan(parse_mix("nan,swap:2"), rate=0.5, onset_tokens=(3, 9), seed=seed)
    order = plan.draw(worker, number)
    assert order == plan.draw(worker, number)
    if order is not None:
        assert 3 <= order.at_token <= 9
        assert order.kind in {"nan", "swap"}


def test_rate_and_weights_are_kept_in_the_long_run() -> None:
    plan = FaultPlan(parse_mix("nan:1,zero:3"), rate=0.2, seed=4)
    drawn = [order for number in range(4000) if (order := plan.draw(0, number))]
    assert 0.17 < len(drawn) / 4000 < 0.23
    assert 0.68 < sum(order.kind == "zero" for order in drawn) / len(drawn) < 0.82


def test_two_workers_are_not_hit_in_step() -> None:
    plan = FaultPlan(parse_mix("nan"), rate=0.5)
    assert [plan.draw(0, at) is None for at in range(40)] != [plan.draw(1, at) is None for at in range(40)]


def test_rates_at_the_ends_mean_never_and_always() -> None:
    assert not any(FaultPlan(parse_mix("nan"), rate=0).draw(0, at) for at in range(50))
    assert all(FaultPlan(parse_mix("nan"), rate=1).draw(0, at) for at in range(50))
    assert FaultPlan.parse("none", rate=1).draw(0, 0) is None


@pytest.mark.parametrize(
    ("spec", "text"),
    [
        ("nan:1,zero:0.5", "nan:1,zero:0.5"),
        ("swap_both", "swap_both:1"),
        ("swap@both:2", "swap_both:2"),
        ("stale/page,torn@both/late/transient:3", "stale/page:1,torn@both/late/transient:3"),
        ("none", "none"),
        (" nan , zero ", "nan:1,zero:1"),
    ],
)
def test_a_mix_reads_back_what_it_prints(spec: str, text: str) -> None:
    plan = FaultPlan.parse(spec)
    assert plan.spec == text
    assert parse_mix(plan.spec) == plan.mix


@pytest.mark.parametrize(
    "spec",
    ["nann", "nan:x", "nan:0", "nan:-1", "nan:inf", "nan,nan", "nan,,zero", "nan:nan", "swap_both,swap@both"],
)
def test_a_mix_that_makes_no_sense_is_refused_by_name(spec: str) -> None:
    with pytest.raises(FaultSpecError):
        parse_mix(spec)


@pytest.mark.parametrize(
    "wrong", [{"rate": 1.5}, {"rate": -0.1}, {"onset_tokens": (5, 4)}, {"onset_tokens": (0, 4)}]
)
def test_a_plan_that_makes_no_sense_is_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(FaultSpecError):
        FaultPlan.parse("nan", **wrong)
