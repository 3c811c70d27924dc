"""Ratios out of rows."""

import math

from replay.bench.figures import ARMS, LOCKSTEP, STAGGERED, Probe, Row, by_round, ratio, summary, table

LOAD = {
    "errors": 0.0,
    "reads": 990.0,
    "chunks": 1000.0,
    "leaks": 0.0,
    "bytes_per_chunk": 284.0,
    "sojourn_p50_ms": 0.5,
    "sojourn_p99_ms": 2.0,
    "first_byte_p50_ms": 1.0,
}
COSTS = {"smg": 20.0, "specguard": 30.0, "bare": 15.0}
ROWS = [
    Row(number, arm, arrivals, cost + number, 0.25, LOAD)
    for number in range(2)
    for arrivals in (STAGGERED, LOCKSTEP)
    for arm, cost in COSTS.items()
]


def test_a_ratio_is_that_of_the_means() -> None:
    assert ratio(ROWS, "specguard", "smg", STAGGERED) == 30.5 / 20.5
    assert by_round(ROWS, "specguard", "smg", STAGGERED) == [1.5, round(31 / 21, 3)]


def test_the_last_line_has_what_is_promised() -> None:
    told = summary(ROWS, Probe(0.1, 0.6, 0.7), verdicts=0)
    assert told["ratio_smg"] == 1.488
    assert told["ratio_smg_lockstep"] == 1.488
    assert told["ratio_bare"] == round(30.5 / 15.5, 3)
    assert (told["sojourn_p50_ms"], told["sojourn_p99_ms"]) == (0.5, 2.0)
    assert told["ttfb_ratio_smg"] == 1.2
    assert told["others_share"] == 0.25
    assert told["proxies"]["bare lockstep"]["reads_per_chunk"] == 0.99
    assert (told["rounds"], told["errors"], told["verdicts"]) == (2, 0, 0)
    assert told["proxies"]["smg staggered"]["cpu_s_per_1000_chunks"] == 0.0205


def test_added_time_is_unknown_where_the_router_adds_none() -> None:
    assert math.isnan(Probe(0.5, 0.5, 0.7).ratio)
    assert summary(ROWS, Probe(0.5, 0.5, 0.7), 0)["ttfb_ratio_smg"] is None


def test_the_table_has_a_line_for_each_kind() -> None:
    lines = table(ROWS).splitlines()
    assert len(lines) == 1 + len(COSTS) * 2
    assert lines[1].split()[:4] == ["smg", "staggered", "20.5", "1.00"]


def test_every_arm_that_is_compared_is_measured() -> None:
    assert {"smg", "specguard", "bare"} <= {arm.name for arm in ARMS if not arm.extra}
