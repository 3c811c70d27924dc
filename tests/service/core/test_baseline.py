import random

import msgspec
import pytest

from service.core.anchors import ANY
from service.core.baseline import (
    ANCHOR_MIN,
    ENOUGH,
    STRATA_MAX,
    WINDOW_STEPS,
    Baselines,
    Key,
    Sheet,
    anchor,
    key_of,
)

K = 3
WORKER = "http://decode-1"


def stream(rng: random.Random, hazards: tuple[float, ...], steps: int = 160) -> list[tuple[int, int]]:
    """Verify steps of a healthy stream."""
    out = []
    for _ in range(steps):
        accepted = 0
        while accepted < K and rng.random() < hazards[accepted]:
            accepted += 1
        out.append((K, accepted))
    return out


def learned(
    key: Key, hazards: tuple[float, ...], streams: int, baselines: Baselines | None = None
) -> Baselines:
    baselines, rng = baselines or Baselines(), random.Random(1)
    for _ in range(streams):
        assert baselines.learn(key, stream(rng, hazards))
    return baselines


WARM = key_of("m", WORKER, K, 0.8, grammar=False)
GREEDY = key_of("m", WORKER, K, 0.0, grammar=False)


def test_an_anchor_lies_below_what_was_seen_at_every_depth() -> None:
    hazards = (0.9, 0.8, 0.7)
    found = anchor(learned(WARM, hazards, 60).sheets[WARM], K)
    assert len(found) == K
    assert all(ANCHOR_MIN <= low < high for low, high in zip(found, hazards, strict=True))
    assert found[0] > found[2]


def test_too_little_is_no_baseline() -> None:
    few = ENOUGH * WINDOW_STEPS // 160 - 2
    assert learned(WARM, (0.9, 0.8, 0.7), few).anchors(WORKER, K) is None


def test_strata_have_anchors_of_their_own() -> None:
    baselines = learned(GREEDY, (0.95, 0.95, 0.95), 400)
    learned(WARM, (0.6, 0.6, 0.6), 400, baselines)
    anchors = baselines.anchors(WORKER, K)
    assert anchors is not None
    assert anchors.of("m", 0.0, grammar=False)[0] > anchors.of("m", 0.8, grammar=False)[0]
    assert anchors.of("m", 1.5, grammar=True) == anchors.by_kind["m", ANY]


def test_a_small_sample_shrinks_towards_its_parents() -> None:
    baselines = learned(key_of("m", "http://other", K, 0.8, grammar=False), (0.95, 0.95, 0.95), 400)
    learned(WARM, (0.8, 0.8, 0.8), 25, baselines)
    anchors = baselines.anchors(WORKER, K)
    own = anchor(baselines.sheets[WARM], K)
    assert anchors is not None
    low, high = sorted((own[0], anchors.by_kind["m", ANY][0]))
    assert low < anchors.of("m", 0.8, grammar=False)[0] < high


def test_chance_within_a_window_is_no_difference_between_requests() -> None:
    # requests that are all alike have an anchor near their mean, those that differ one far below
    alike = anchor(learned(WARM, (0.8, 0.8, 0.8), 400).sheets[WARM], K)
    rng, baselines = random.Random(3), Baselines()
    for _ in range(400):
        rate = rng.betavariate(8, 2)
        baselines.learn(WARM, stream(rng, (rate, rate, rate)))
    differing = anchor(baselines.sheets[WARM], K)
    assert alike[0] > 0.6
    assert differing[0] < 0.4


def test_what_changes_within_a_stream_does_not_show_in_its_mean_so_nothing_is_taken_off() -> None:
    known, means, rng = Baselines(), Baselines(), random.Random(4)
    for _ in range(400):
        steps = stream(rng, (0.8, 0.8, 0.8), WINDOW_STEPS)
        known.learn(WARM, steps)
        means.learn_mean(WARM, [(WINDOW_STEPS, sum(accepted for _, accepted in steps))], K)
    assert anchor(means.sheets[WARM], K)[0] < anchor(known.sheets[WARM], K)[0] - 0.1


def test_copied_answers_do_not_raise_the_anchor_of_others() -> None:
    copying = key_of("m", WORKER, K, 0.0, grammar=False, copying=True)
    baselines = learned(GREEDY, (0.6, 0.6, 0.6), 400)
    before = baselines.anchors(WORKER, K)
    learned(copying, (0.99, 0.99, 0.99), 400, baselines)
    after = baselines.anchors(WORKER, K)
    assert before is not None
    assert after is not None
    assert after.of("m", 0.0, grammar=False)[0] < 1.1 * before.of("m", 0.0, grammar=False)[0]


def test_old_streams_count_less_and_less() -> None:
    baselines = learned(WARM, (0.9, 0.9, 0.9), 50)
    assert 49 < baselines.sheets[WARM].streams < 50


def test_nothing_is_learned_of_a_worker_that_an_alert_stands_against() -> None:
    baselines = Baselines()
    baselines.freeze([WORKER])
    assert not baselines.learn(WARM, stream(random.Random(2), (0.1, 0.1, 0.1)))
    baselines.freeze([])
    assert baselines.learn(WARM, stream(random.Random(2), (0.9, 0.9, 0.9)))


def test_names_that_clients_make_up_do_not_grow_the_memory() -> None:
    baselines = learned(WARM, (0.9, 0.9, 0.9), 3)
    for number in range(2 * STRATA_MAX):
        baselines.learn(key_of(f"made up {number}", WORKER, K, 1.0, grammar=False), [(3, 3)] * 16)
    assert len(baselines.sheets) == STRATA_MAX
    assert WARM in baselines.sheets


def test_a_draft_that_is_hopeless_when_healthy_is_given_no_floor() -> None:
    found = anchor(learned(WARM, (0.12, 0.1, 0.1), 60).sheets[WARM], K)
    assert found[0] < ANCHOR_MIN


def test_what_is_written_reads_back_the_same() -> None:
    baselines = learned(GREEDY, (0.9, 0.8, 0.7), 30)
    again = Baselines.load(baselines.dump())
    assert again.sheets == baselines.sheets
    assert again.dump() == baselines.dump()


@pytest.mark.parametrize("data", [b"", b"{}", b'{"strata": [{}]}', b'{"strata": [1]}'])
def test_what_is_no_baseline_is_refused(data: bytes) -> None:
    with pytest.raises(msgspec.DecodeError):
        Baselines.load(data)


def test_a_sheet_of_another_shape_is_refused() -> None:
    odd = Baselines()
    odd.sheets[WARM] = Sheet([1.0], [1.0], [1.0])
    with pytest.raises(msgspec.ValidationError):
        Baselines.load(odd.dump())


def test_means_alone_give_an_anchor_that_every_depth_shares() -> None:
    baselines = Baselines()
    for _ in range(120):
        baselines.learn_mean(Key("", WORKER, K, "live"), [(20.0, 30.0), (16.0, 25.0)], K)
    anchors = baselines.anchors(WORKER, K)
    assert anchors is not None
    found = anchors.of("m", 0.7, grammar=False)
    assert found[0] == pytest.approx(found[2], rel=0.01)
    assert 0.4 < found[0] < 0.75
