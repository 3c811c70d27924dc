"""The join by rid: each definition of the demo's score, on made ledgers and incidents."""

import pytest

from replay.demo.client import End
from replay.demo.truth import Fate
from replay.lab.tokenizer import decode
from tests.replay.demo.made import RIGHT, TASK, WRONG, ask, attempt, delivery, line, one, planned, seen

LOUD_ENDS = (End.STATUS, End.ERROR, End.BROKEN, End.GAVE_UP)


def test_an_untouched_right_answer_is_right() -> None:
    reckoning = one(ask("a"), delivery("a"), [line("a")])
    assert (reckoning.fate, reckoning.corrupted, reckoning.faults) == (Fate.RIGHT, False, frozenset())


def test_an_untouched_wrong_answer_is_the_models_own() -> None:
    assert one(ask("a"), delivery("a", WRONG), [line("a")]).fate is Fate.WRONG


def test_a_loud_end_without_a_fault_is_no_credit() -> None:
    assert one(ask("a"), delivery("a", "", end=End.STATUS), [line("a")]).fate is Fate.FAILED


def test_a_clean_end_with_a_changed_answer_has_escaped() -> None:
    reckoning = one(ask("a"), delivery("a", WRONG), [line("a", "swap", changed=True)])
    assert (reckoning.fate, reckoning.answer.fault) == (Fate.ESCAPED, "swap")


def test_an_escape_is_one_even_if_a_verdict_stood() -> None:
    marked = seen("a", attempt("a", "corrupt"))
    reckoning = one(ask("a"), delivery("a", WRONG), [line("a", "nan", changed=True)], marked)
    assert reckoning.fate is Fate.ESCAPED
    assert reckoning.detected_faults == {"nan"}


def test_a_fault_that_changed_nothing_corrupts_nothing() -> None:
    reckoning = one(ask("a"), delivery("a"), [line("a", "zero", changed=False)])
    assert reckoning.fate is Fate.RIGHT
    assert not reckoning.corrupted
    assert reckoning.faults == {"zero"}


def test_a_fault_that_was_planned_and_never_struck_touches_nothing() -> None:
    reckoning = one(ask("a"), delivery("a", WRONG), [planned("a", "nan")])
    assert reckoning.fate is Fate.WRONG
    assert not reckoning.faults


@pytest.mark.parametrize("end", LOUD_ENDS)
def test_a_corrupted_request_without_a_clean_end_failed_loudly(end: End) -> None:
    reckoning = one(ask("a"), delivery("a", "", by="", end=end), [line("a", "random", changed=True)])
    assert reckoning.fate is Fate.FAILED_LOUDLY


def test_a_right_answer_from_another_attempt_is_a_recovery() -> None:
    lines = [line("a", "nan", changed=True), line("b")]
    tried = seen("a", attempt("a", "corrupt"), attempt("b"))
    reckoning = one(ask("a"), delivery("a", by="b"), lines, tried)
    assert reckoning.fate is Fate.RECOVERED
    assert reckoning.changing_faults == reckoning.detected_faults == {"nan"}


def test_a_wrong_answer_from_an_unchanged_attempt_is_no_recovery() -> None:
    lines = [line("a", "nan", changed=True), line("b")]
    assert one(ask("a"), delivery("a", WRONG, by="b"), lines).fate is Fate.OWN_ERROR


def test_a_retry_that_a_fault_changed_is_an_escape_by_the_retrys_fault() -> None:
    lines = [line("a", "nan", changed=True), line("b", "swap", changed=True)]
    tried = seen("a", attempt("a", "corrupt"), attempt("b"))
    reckoning = one(ask("a"), delivery("a", WRONG, by="b"), lines, tried)
    assert (reckoning.fate, reckoning.answer.fault) == (Fate.ESCAPED, "swap")
    assert reckoning.detected_faults == {"nan"}


def test_attempts_known_from_the_incident_alone_are_part_of_the_request() -> None:
    lines = [line("a"), line("b", "random", changed=True), line("c")]
    tried = seen("a", attempt("a", "corrupt"), attempt("b", "corrupt"), attempt("c"))
    reckoning = one(ask("a"), delivery("a", by="c"), lines, tried)
    assert [each.rid for each in reckoning.attempts] == ["a", "b", "c"]
    assert reckoning.fate is Fate.RECOVERED


def test_the_attempt_that_answered_is_known_without_an_incident() -> None:
    lines = [line("a"), line("b", "swap", changed=True)]
    assert one(ask("a"), delivery("a", WRONG, by="b"), lines).fate is Fate.ESCAPED


def test_a_verdict_on_a_clean_attempt_detects_nothing() -> None:
    lines = [line("a", "nan", changed=True), line("b")]
    tried = seen("a", attempt("a"), attempt("b", "corrupt"))
    assert one(ask("a"), delivery("a", by="b"), lines, tried).detected_faults == frozenset()


def test_a_second_opinion_is_a_detection_and_a_bare_suspicion_is_none() -> None:
    lines = [line("a", "swap", changed=True), line("b")]
    asked_again = seen("a", attempt("a", "suspect", second_opinion=True), attempt("b"))
    left_alone = seen("a", attempt("a", "suspect"))
    assert one(ask("a"), delivery("a", by="b"), lines, asked_again).detected_faults == {"swap"}
    assert one(ask("a"), delivery("a", WRONG), lines, left_alone).detected_faults == frozenset()


def test_without_an_audit_the_delivered_answer_tells() -> None:
    unaudited = [line("a", "zero", changed=None)]
    assert one(ask("a"), delivery("a", WRONG), unaudited).fate is Fate.ESCAPED
    assert one(ask("a"), delivery("a"), unaudited).fate is Fate.RIGHT


def test_an_answer_that_the_ledger_does_not_know_is_not_judged() -> None:
    assert not one(ask("a"), delivery("a"), []).judged
    assert one(ask("a"), delivery("a"), [line("a")]).judged


def test_the_line_of_the_touched_try_counts_where_a_rid_came_twice() -> None:
    lines = [line("a", "nan", changed=True), line("a")]
    assert one(ask("a"), delivery("a", "", end=End.BROKEN), lines).fate is Fate.FAILED_LOUDLY


def test_bad_tokens_of_an_escape_run_from_the_first_changed_one_to_the_end() -> None:
    lines = [line("a", "zero", changed=True, first=4, tokens=32)]
    assert one(ask("a"), delivery("a", WRONG), lines).bad_tokens == 28


def test_bad_tokens_of_a_loud_end_are_those_that_had_reached_the_client() -> None:
    lines = [line("a", "random", changed=True, first=4, tokens=99)]
    got = delivery("a", decode(TASK.answer_ids[:10]), end=End.ERROR)
    assert one(ask("a"), got, lines).bad_tokens == 6


def test_nothing_bad_reached_a_client_that_got_nothing() -> None:
    lines = [line("a", "random", changed=True)]
    assert one(ask("a"), delivery("a", "", by="", end=End.STATUS), lines).bad_tokens == 0


def test_a_taken_back_attempt_has_delivered_no_bad_tokens() -> None:
    lines = [line("a", "random", changed=True), line("b")]
    assert one(ask("a"), delivery("a", by="b"), lines).bad_tokens == 0


def test_a_reckoning_carries_no_text() -> None:
    reckoning = one(ask("a"), delivery("a"), [line("a")])
    assert RIGHT not in repr(reckoning)
    assert WRONG not in repr(one(ask("a"), delivery("a", WRONG), [line("a")]))
