"""Sends are due at absolute times; who comes after another waits for it and for nobody else."""

from collections.abc import Iterable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from replay.pacer import LATE_S, Lateness, Pacer, kept_limit_s
from replay.plan import Send


def send(name: str, at_s: float, after: str | None = None, gap_s: float = 0.0) -> Send:
    return Send(id=name, arm="idle", block=0, at_s=at_s, after=after, gap_s=gap_s)


def names(pacer: Pacer, now_s: float) -> list[str]:
    return [due.send.id for due in pacer.due(now_s)]


def pacer_of(*sends: Send, done: Iterable[str] = (), cap_per_s: float = float("inf")) -> Pacer:
    awaited = {one.after for one in sends if one.after is not None}
    return Pacer(iter(sends), awaited, done=frozenset(done), cap_per_s=cap_per_s)


def test_a_send_is_due_at_its_time_and_once() -> None:
    pacer = pacer_of(send("a", 0.0), send("b", 1.0), send("c", 1.0), send("d", 3.0))
    assert names(pacer, 0.0) == ["a"]
    assert pacer.next_s() == 1.0
    assert names(pacer, 0.99) == []
    assert names(pacer, 2.0) == ["b", "c"]
    assert names(pacer, 2.0) == []
    assert names(pacer, 10.0) == ["d"]
    assert pacer.exhausted
    assert pacer.next_s() is None


def test_a_slow_answer_delays_nobody_but_who_waits_for_it() -> None:
    pacer = pacer_of(send("a", 0.0), send("a2", 1.0, "a", gap_s=2.0), send("b", 1.5))
    assert names(pacer, 0.0) == ["a"]
    assert names(pacer, 2.0) == ["b"]
    assert not pacer.exhausted
    assert pacer.next_s() is None
    assert pacer.ended("a", 7.0)
    assert pacer.next_s() == 9.0
    assert pacer.due(8.9) == []
    assert [(due.at_s, due.send.id) for due in pacer.due(9.0)] == [(9.0, "a2")]
    assert pacer.exhausted


def test_a_quick_answer_brings_nobody_forward() -> None:
    pacer = pacer_of(send("a", 0.0), send("a2", 5.0, "a", gap_s=1.0))
    assert names(pacer, 0.0) == ["a"]
    assert not pacer.ended("a", 0.5)
    assert names(pacer, 4.9) == []
    assert names(pacer, 5.0) == ["a2"]


def test_what_was_sent_before_a_kill_is_not_due_again_and_keeps_nobody_waiting() -> None:
    pacer = pacer_of(send("a", 0.0), send("a2", 1.0, "a"), send("b", 2.0), done={"a", "b"})
    assert names(pacer, 9.0) == ["a2"]
    assert pacer.exhausted


def test_the_cap_holds_back_and_says_when_to_ask_again() -> None:
    pacer = pacer_of(*[send(f"{n}", 0.0) for n in range(5)], cap_per_s=2)
    assert names(pacer, 0.0) == ["0", "1"]
    assert pacer.next_s() == 1.0
    assert names(pacer, 0.5) == []
    assert names(pacer, 1.0) == ["2", "3"]
    assert names(pacer, 2.1) == ["4"]


@given(
    st.lists(st.floats(0, 100), min_size=1, max_size=50),
    st.lists(st.floats(0, 100), max_size=20),
)
def test_whenever_one_asks_every_send_comes_once_and_never_early(
    times: list[float], asked: list[float]
) -> None:
    pacer = pacer_of(*[send(f"{n}", at) for n, at in enumerate(sorted(times))])
    found = [(now, due) for now in [*sorted(asked), 101.0] for due in pacer.due(now)]
    assert [due.send.id for _, due in found] == [f"{n}" for n in range(len(times))]
    assert all(due.at_s <= now + 0.001 for now, due in found)


def lateness(gap_s: float, late_s: Iterable[float]) -> Lateness:
    late = Lateness()
    for number, one in enumerate(late_s):
        late.add("peak", number // 100, number * gap_s, number * gap_s + one)
    return late


def test_a_thousand_a_second_may_be_five_ms_late_and_ten_a_second_fifty() -> None:
    assert kept_limit_s(0.001) == LATE_S == 0.005
    assert kept_limit_s(0.1) == 0.05


@pytest.mark.parametrize(("gap_s", "late_s", "kept"), [(0.001, 0.006, False), (0.1, 0.006, True)])
def test_a_schedule_is_kept_or_not(gap_s: float, late_s: float, kept: bool) -> None:
    worst = lateness(gap_s, [late_s] * 300).worst()
    assert worst.kept is kept
    assert worst.p99_s == pytest.approx(late_s)


def test_one_late_send_in_two_hundred_is_no_broken_schedule() -> None:
    assert lateness(0.001, [0.0] * 399 + [2.0]).worst().kept


def test_the_worst_arm_speaks_for_the_run() -> None:
    late = lateness(0.001, [0.001] * 200)
    for number in range(200):
        late.add("idle", 9, float(number), number + 0.7)
    worst = late.worst()
    assert (worst.arm, worst.kept) == ("idle", False)
    assert worst.limit_s == pytest.approx(0.5)


def test_p99_is_that_of_numpy() -> None:
    late_s = np.random.default_rng(1).exponential(0.002, 500)
    assert lateness(0.001, late_s).worst().p99_s == pytest.approx(float(np.percentile(late_s, 99)))


def test_nothing_sent_is_nothing_late() -> None:
    assert Lateness().worst().kept
