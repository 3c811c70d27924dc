"""Counting: the keys of the JSON, each on a made run in which it would be wrong if counted otherwise."""

import msgspec
import pytest

from replay.demo.client import End
from replay.demo.score import FaultRow, Score, Spent, missed, tally
from replay.demo.truth import Reckoning
from service.core.events import Policy
from tests.replay.demo.made import WRONG, ask, attempt, delivery, line, one, seen

SPENT = Spent(seconds=70.04, traffic_seconds=60.0, cpu_seconds={"lab": 1.0})
MIX = ("nan", "random", "zero", "swap")


def clean(count: int = 1) -> list[Reckoning]:
    return [one(ask(f"c{at}"), delivery(f"c{at}"), [line(f"c{at}")]) for at in range(count)]


def escaped(kind: str, policy: Policy = Policy.PROTECT) -> Reckoning:
    return one(ask("e", policy), delivery("e", WRONG), [line("e", kind, changed=True, first=4, tokens=10)])


def recovered(kind: str) -> Reckoning:
    tried = seen("r", attempt("r", "corrupt"), attempt("r2"))
    return one(ask("r"), delivery("r", by="r2"), [line("r", kind, changed=True), line("r2")], tried)


def failed(kind: str) -> Reckoning:
    tried = seen("f", attempt("f", "corrupt"))
    got = delivery("f", "", by="", end=End.STATUS)
    return one(ask("f", Policy.STRICT), got, [line("f", kind, changed=True)], tried)


def unharmed(kind: str) -> Reckoning:
    return one(ask("u"), delivery("u"), [line("u", kind, changed=False)])


def false_alarm() -> Reckoning:
    tried = seen("x", attempt("x", "corrupt"), attempt("x2"))
    return one(ask("x"), delivery("x", by="x2"), [line("x"), line("x2")], tried)


def doubted(level: str = "suspect") -> Reckoning:
    tried = seen("d", attempt("d", level, second_opinion=True), attempt("d2"))
    return one(ask("d"), delivery("d", by="d2"), [line("d"), line("d2")], tried)


def scored(*reckonings: Reckoning) -> Score:
    return tally(reckonings, 7, SPENT)


def test_corrupted_requests_add_up() -> None:
    score = scored(*clean(3), escaped("swap"), recovered("nan"), failed("random"), unharmed("zero"))
    parts = score.recovered + score.failed_loudly + score.escaped + score.own_errors
    assert (score.requests, score.corrupted_upstream, parts) == (7, 3, 3)


def test_own_errors_are_part_of_the_corrupted() -> None:
    own = one(ask("o"), delivery("o", WRONG, by="p"), [line("o", "nan", changed=True), line("p")])
    score = scored(own, recovered("nan"))
    assert (score.corrupted_upstream, score.recovered, score.own_errors, score.escaped) == (2, 1, 1, 0)


def test_loud_ends_without_corruption_are_counted_apart() -> None:
    lost = one(ask("l"), delivery("l", "", end=End.BROKEN), [line("l")])
    score = scored(lost, failed("nan"))
    assert (score.failed_loudly, score.failed_clean) == (1, 1)


def test_escapes_on_strict_are_counted_apart() -> None:
    score = scored(escaped("zero"), escaped("zero", Policy.STRICT))
    assert (score.escaped, score.escaped_strict, score.by_fault["zero"].escaped_strict) == (2, 1, 1)


def test_a_false_alarm_needs_a_verdict_and_no_fault() -> None:
    score = scored(false_alarm(), doubted(), recovered("nan"), *clean(2))
    assert (score.false_alarms, score.clean_requests) == (1, 4)


def test_second_opinions_on_untouched_requests_are_no_false_alarms() -> None:
    score = scored(doubted(), *clean(2))
    assert (score.false_alarms, score.second_opinions, score.second_opinions_clean) == (0, 1, 1)


def test_a_verdict_on_a_request_whose_retry_was_hit_is_no_false_alarm_on_a_clean_one() -> None:
    tried = seen("x", attempt("x", "corrupt"), attempt("y", "corrupt"))
    lines = [line("x"), line("y", "nan", changed=True)]
    score = scored(one(ask("x"), delivery("x", "", end=End.STATUS), lines, tried))
    assert (score.false_alarms, score.clean_requests, score.detected) == (0, 0, 1)


def test_bad_tokens_add_up() -> None:
    assert scored(escaped("zero"), escaped("swap"), *clean()).delivered_bad_tokens == 12


def test_the_answer_check_is_of_untouched_clean_ends() -> None:
    wrong = one(ask("w"), delivery("w", WRONG), [line("w")])
    lost = one(ask("l"), delivery("l", "", end=End.BROKEN), [line("l")])
    assert scored(*clean(3), wrong, lost, escaped("swap")).answer_check_clean == 0.75
    assert scored(escaped("swap")).answer_check_clean is None


def test_rows_count_requests_under_each_fault_that_hit_them() -> None:
    lines = [line("a", "nan", changed=True), line("b", "swap", changed=True)]
    both = one(
        ask("a"), delivery("a", WRONG, by="b"), lines, seen("a", attempt("a", "corrupt"), attempt("b"))
    )
    rows = scored(both, unharmed("zero"), *clean()).by_fault
    assert rows == {
        "nan": FaultRow(hit=1, answer_changed=1, detected=1),
        "zero": FaultRow(hit=1),
        "swap": FaultRow(hit=1, answer_changed=1, escaped=1),
    }


def test_a_row_tells_recovered_from_failed() -> None:
    row = scored(recovered("nan"), failed("nan"), escaped("nan"), unharmed("nan")).by_fault["nan"]
    assert row == FaultRow(
        hit=4, answer_changed=3, detected=2, recovered=1, failed_loudly=1, escaped=1, escaped_strict=0
    )


def test_faults_that_hit_nobody_have_no_row() -> None:
    assert scored(*clean(2)).by_fault == {}


def test_a_fault_that_nobody_planned_has_its_row_behind_the_others() -> None:
    assert list(scored(escaped("late_write"), recovered("swap"), recovered("nan")).by_fault) == [
        "nan",
        "swap",
        "late_write",
    ]


def test_loud_faults_are_nan_and_random() -> None:
    score = scored(recovered("nan"), failed("random"), escaped("random"), recovered("zero"), escaped("swap"))
    assert (score.loud_corrupted, score.loud_caught, score.loud_escaped) == (3, 2, 1)


def test_a_quiet_fault_that_strikes_the_retry_is_a_miss_and_no_loud_escape() -> None:
    lines = [line("a", "nan", changed=True), line("b", "swap", changed=True)]
    tried = seen("a", attempt("a", "corrupt"), attempt("b"))
    score = scored(one(ask("a"), delivery("a", WRONG, by="b"), lines, tried))
    assert (score.loud_corrupted, score.loud_caught, score.loud_escaped) == (1, 0, 0)


def test_escapes_tell_what_was_known_and_what_had_been_tried() -> None:
    marked = one(
        ask("m"), delivery("m", WRONG), [line("m", "nan", changed=True)], seen("m", attempt("m", "corrupt"))
    )
    lines = [line("a", "nan", changed=True), line("b", "swap", changed=True)]
    again = one(
        ask("a"), delivery("a", WRONG, by="b"), lines, seen("a", attempt("a", "corrupt"), attempt("b"))
    )
    score = scored(marked, again, escaped("swap"))
    assert (score.escaped, score.escaped_marked, score.escaped_hit_again) == (3, 1, 1)


def test_retries_on_the_same_worker_are_counted() -> None:
    elsewhere = msgspec.structs.replace(line("r2"), worker="decode-1")
    tried = seen("r", attempt("r", "corrupt"), attempt("r2"))
    moved = one(ask("r"), delivery("r", by="r2"), [line("r", "nan", changed=True), elsewhere], tried)
    score = scored(moved, recovered("nan"), *clean())
    assert (score.retries, score.retries_same_worker) == (2, 1)


def test_answers_unknown_to_the_ledger_are_counted() -> None:
    assert scored(one(ask("a"), delivery("a"), [])).without_truth == 1


GOOD = msgspec.structs.replace(
    scored(*clean()), requests=400, clean_requests=300, loud_corrupted=50, loud_caught=49, seconds=90.0
)


def test_a_good_run_reaches_the_bar() -> None:
    assert missed(GOOD, MIX) == ()


@pytest.mark.parametrize(
    ("change", "word"),
    [
        ({"seconds": 150.0}, "150 s"),
        ({"requests": 299}, "300 requests"),
        ({"false_alarms": 2}, "false alarm"),
        ({"nan_escaped_strict": 1}, "nan escape"),
        ({"loud_corrupted": 39, "loud_caught": 39}, "40 requests"),
        ({"loud_caught": 47}, "95%"),
        ({"without_truth": 1}, "truth"),
    ],
)
def test_each_bar_can_be_missed(change: dict[str, int], word: str) -> None:
    (name,) = missed(msgspec.structs.replace(GOOD, **change), MIX)
    assert word in name


def test_a_run_without_loud_faults_owes_no_loud_requests() -> None:
    assert missed(msgspec.structs.replace(GOOD, loud_corrupted=0, loud_caught=0), ()) == ()


def test_more_clean_requests_allow_more_false_alarms() -> None:
    assert missed(msgspec.structs.replace(GOOD, clean_requests=1000, false_alarms=2), MIX) == ()
    assert missed(msgspec.structs.replace(GOOD, clean_requests=999, false_alarms=2), MIX)
