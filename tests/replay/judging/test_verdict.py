"""The verdict: each of the five, and how often it is wrong."""

import msgspec
import numpy as np
import pytest

from replay.judging.levels import Level, Round
from replay.judging.verdict import Outcome, State, Verdict, decide, weigh
from replay.plan import Contrast

ASKED = Contrast(low="idle", high="peak", margin_per_10k=4, incident_window_s=5)
TRIALS, ROUNDS = 20_000, 10
LOADS = {"idle": 1.0, "peak": 4.0}


def _level(
    arm: str, events: int, incidents: int | None = None, trials: int = TRIALS, failed: int = 0
) -> Level:
    return Level(
        arm=arm,
        load=LOADS[arm],
        sent=trials + failed,
        trials=trials,
        events=events,
        incidents=events if incidents is None else incidents,
        per_10k=None,
        low_per_10k=None,
        high_per_10k=None,
        per_million_tokens=None,
        failures={"timeout": failed} if failed else {},
        kinds={},
        ttft_s=None,
        itl_s=None,
        total_s=None,
        accept_clean=[],
        accept_bad=[],
    )


def _rounds(low: list[int], high: list[int], trials: int = TRIALS) -> list[Round]:
    each = trials // len(low)
    return [
        Round(at, {"idle": (a, each), "peak": (b, each)})
        for at, (a, b) in enumerate(zip(low, high, strict=True))
    ]


def _spread(events: int, rounds: int = ROUNDS) -> list[int]:
    return [events // rounds + (at < events % rounds) for at in range(rounds)]


def _decided(low: int, high: int, trials: int = TRIALS) -> Verdict:
    by_round = _rounds(_spread(low), _spread(high), trials)
    return decide(
        ASKED,
        _level("idle", low, trials=trials),
        _level("peak", high, trials=trials),
        by_round,
        [1] * (low + high),
    )


def test_more_under_load_is_the_load() -> None:
    found = _decided(0, 8)
    assert found.verdict is Outcome.LOAD_DEPENDENT
    assert found.p == pytest.approx(2**-8)
    assert found.reproduced


def test_a_backend_whose_every_answer_is_bad_is_judged_all_the_same() -> None:
    found = _decided(30, 30, trials=30)
    assert found.verdict is Outcome.UNDECIDED
    assert found.more_requests == 15


def test_nothing_anywhere_is_not_the_load_and_not_reproduced() -> None:
    found = _decided(0, 0)
    assert found.verdict is Outcome.NOT_LOAD_DEPENDENT
    assert not found.reproduced
    assert found.upper_per_10k == pytest.approx(1.5, abs=0.01)


def test_the_same_at_every_level_is_not_the_load_once_there_is_enough() -> None:
    assert _decided(16, 16).verdict is Outcome.UNDECIDED
    assert _decided(20, 18, 100_000).verdict is Outcome.NOT_LOAD_DEPENDENT
    assert _decided(20, 18, 100_000).reproduced


def test_too_little_is_undecided_and_says_how_much_more() -> None:
    found = _decided(0, 0, 5_000)
    assert found.verdict is Outcome.UNDECIDED
    assert found.more_requests == pytest.approx(15_012, abs=60)
    assert _decided(0, 4).more_requests == TRIALS // 2


def test_a_cluster_in_one_block_is_no_proof() -> None:
    by_round = _rounds([0] * ROUNDS, [12] + [0] * 9)
    found = decide(ASKED, _level("idle", 0), _level("peak", 12, incidents=12), by_round, [1] * 12)
    assert (found.p_incidents < 0.001, found.p_blocks) == (True, 0.5)
    assert found.verdict is Outcome.UNDECIDED
    grouped = decide(ASKED, _level("idle", 0), _level("peak", 12, incidents=1), by_round, [12])
    assert grouped.p_incidents == 0.5
    assert grouped.design_effect == 12


def test_a_late_client_and_a_failing_backend_come_before_any_number() -> None:
    by_round = _rounds([0] * ROUNDS, _spread(30))
    late = decide(ASKED, _level("idle", 0), _level("peak", 30), by_round, [1] * 30, state=State(late="late"))
    assert (late.verdict, late.why) == (Outcome.SCHEDULE_NOT_KEPT, "late")
    failed = decide(ASKED, _level("idle", 0), _level("peak", 30, failed=9_000), by_round, [1] * 30)
    assert failed.verdict is Outcome.BACKEND_FAILING
    assert "31% of peak failed" in failed.why


def test_a_level_without_answers_gives_no_verdict_on_the_load() -> None:
    dead = decide(ASKED, _level("idle", 0), _level("peak", 0, trials=0, failed=50), [], [])
    assert dead.verdict is Outcome.BACKEND_FAILING
    empty = decide(ASKED, _level("idle", 0, trials=0), _level("peak", 0), [], [])
    assert (empty.verdict, empty.why) == (Outcome.UNDECIDED, "idle has no whole answer")


@pytest.mark.parametrize("seen_by_window", [True, False])
def test_clusters_of_four_give_a_false_load_dependent_at_most_once_in_twenty(seen_by_window: bool) -> None:
    """Equal rates, three clusters an arm on average, geometric sizes of mean 4, all within a block."""
    rng, runs = np.random.default_rng(11), 600
    clusters = rng.poisson(3 / ROUNDS, (runs, ROUNDS, 2))
    counts = np.where(clusters > 0, rng.negative_binomial(np.maximum(clusters, 1), 0.25) + clusters, 0)
    wrong = 0
    for grouped, events in zip(clusters.tolist(), counts.tolist(), strict=True):
        by_round = _rounds([low for low, _ in events], [high for _, high in events])
        low, high = (sum(pair[at] for pair in events) for at in (0, 1))
        low_seen, high_seen = (sum(pair[at] for pair in grouped) for at in (0, 1))
        sides = (
            _level("idle", low, low_seen if seen_by_window else low),
            _level("peak", high, high_seen if seen_by_window else high),
        )
        wrong += weigh(ASKED, *sides, by_round, [1] * (low + high)).p <= ASKED.alpha
    assert wrong / runs <= 0.05


def test_a_real_effect_is_found_about_as_often_as_planned() -> None:
    """0 against 4 per 10,000 with 20,000 an arm: 90 % for the plain test; dealing blocks costs a little."""
    rng, runs = np.random.default_rng(12), 300
    counts = rng.poisson(8 / 20, (runs, 20))
    found = [
        decide(ASKED, _level("idle", 0), _level("peak", sum(high)), _rounds([0] * 20, high), [1] * sum(high))
        for high in counts.tolist()
    ]
    assert np.mean([one.verdict is Outcome.LOAD_DEPENDENT for one in found]) > 0.8
    assert not any(one.verdict is Outcome.NOT_LOAD_DEPENDENT for one in found if one.p_events < 0.05)


def test_a_run_that_is_not_over_is_judged_by_its_e_value_alone() -> None:
    by_round = _rounds([0] * ROUNDS, _spread(30))
    sides = (_level("idle", 0), _level("peak", 30), by_round, [1] * 30)
    early = decide(ASKED, *sides, State(over=False, e_value=19.9))
    assert (early.verdict, early.p < 0.001) == (Outcome.UNDECIDED, True)
    assert "not over (so far)" in early.why
    shown = decide(ASKED, *sides, State(over=False, e_value=20, stopped="interrupted"))
    assert shown.verdict is Outcome.LOAD_DEPENDENT
    assert "interrupted" in shown.why


def test_a_run_that_was_stopped_for_its_errors_has_a_failing_backend() -> None:
    by_round = _rounds([0] * ROUNDS, _spread(30))
    found = decide(
        ASKED, _level("idle", 0), _level("peak", 30), by_round, [], State(stopped="errors", over=False)
    )
    assert found.verdict is Outcome.BACKEND_FAILING


def test_arms_of_one_load_differ_in_a_knob_and_the_verdict_says_so() -> None:
    low, high = _level("idle", 0), msgspec.structs.replace(_level("peak", 12), load=LOADS["idle"])
    found = decide(ASKED, low, high, _rounds(_spread(0), _spread(12)), [1] * 12)
    assert found.verdict is Outcome.LOAD_DEPENDENT
    assert "it is the knob" in found.why
    assert "knob" not in _decided(0, 12).why
