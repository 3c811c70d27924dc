import random
from time import thread_time

import pytest

from service.core.detectors.loop import BLOCK, Loop
from service.core.events import Delta, Finding, Kind, Level, RequestFacts, WorkerFacts
from service.core.inspector import Inspector
from tests.service.core.detectors.texts import RULES, deltas, judged, loop, prose, unit

RULE = next(detector for detector in RULES.detectors if isinstance(detector, Loop))


def findings(text: str, prompt: str = "") -> list[Finding]:
    """Every finding, event by event."""
    inspector = Inspector(RequestFacts(dialect="t", prompt=prompt), WorkerFacts(), [RULE], RULES.fusion)
    out: list[Finding] = []
    for delta in deltas(text):
        inspector.read([delta], 0.0)
        out += [finding for finding in inspector.findings() if finding not in out]
    return out


def delay(text: str, onset: int) -> int:
    """Tokens from the onset (in characters) to the finding that acts."""
    acting = [finding for finding in findings(text) if finding.log10_e >= RULE.acts_log10]
    return acting[0].at_token - len(deltas(text[:onset]))


@pytest.mark.parametrize("words", [4, 7, 13, 40, 120])
def test_the_delay_is_the_classes_limit_and_a_block(words: int) -> None:
    before = prose(1, 120) + " "
    one = unit(words, words) + " "
    period = len(deltas(one))
    copies = 4 if period <= RULE.long_tokens else 3
    limit = max(RULE.word_tokens, copies * period)
    assert 0.97 * limit <= delay(before + one * (600 // words + 8), len(before)) <= limit + BLOCK // 2


@pytest.mark.parametrize("words", [1, 2, 3, 10, 100, 400])
def test_loops_of_any_period_are_found(words: int) -> None:
    text = prose(2, 80) + " " + (unit(words, words) + " ") * max(5, 200 // words)
    assert judged(text).kind is Kind.REPETITION


def test_fewer_copies_than_the_limit_are_at_most_suspected() -> None:
    assert judged(loop(3, 30, 3)).level is Level.SUSPECT
    assert judged(loop(3, 30, 2)).level is Level.CLEAN


def test_a_loop_that_ended_before_the_limit_is_forgotten() -> None:
    text = " ".join(loop(seed, 9, 2) for seed in range(20))
    assert judged(text).level is Level.CLEAN


def test_the_onset_is_where_the_first_copy_began() -> None:
    before = prose(4, 100) + " "
    found = findings(before + (unit(5, 12) + " ") * 20)[-1]
    assert abs(found.onset_token - len(deltas(before))) <= 12


def test_the_unit_has_one_name_wherever_the_cut_falls() -> None:
    names = {findings(prose(6, words) + " " + (unit(7, 12) + " ") * 20)[-1].unit for words in range(20, 30)}
    assert len(names) == 1
    assert names != {findings(loop(8, 12, 20))[-1].unit}


def test_in_a_code_fence_it_takes_twice_as_much() -> None:
    text = loop(9, 12, 6)
    assert judged(text).level is Level.CORRUPT
    assert judged("```\n" + text).level is Level.SUSPECT
    assert judged("```\ncode\n```\n" + text).level is Level.CORRUPT


def test_in_a_table_it_takes_twice_as_much() -> None:
    row = "| alpha beta | gamma delta | epsilon zeta | eta theta |\n"
    assert judged(prose(10, 20) + "\n" + row * 8).level is Level.SUSPECT
    assert judged(prose(10, 20) + "\n" + row * 30).level is Level.CORRUPT


def test_what_the_prompt_holds_or_counts_takes_twice_as_much() -> None:
    text = loop(11, 12, 6)
    assert judged(text, prompt="Say " + unit(11, 12)).level is Level.SUSPECT
    assert judged(text, prompt="Say that 40 times, please.").level is Level.SUSPECT
    assert judged(text, prompt="把这句话重复四十遍").level is Level.SUSPECT
    assert judged(text, prompt="Tell me about bridges.").level is Level.CORRUPT


def test_one_word_of_a_long_prompt_excuses_no_stutter() -> None:
    text = prose(12, 30) + " closed" * 90
    assert judged(text, prompt=prose(13, 300)).level is Level.CORRUPT
    assert judged(text, prompt="It said: closed closed closed").level is Level.SUSPECT


def test_refrains_are_chants_and_take_twice_as_much() -> None:
    chant = "Na na na na, na na na na, hey hey, we are one!\n"
    assert judged(prose(14, 12) + "\n" + chant * 6 + "Good night.").level < Level.CORRUPT


def test_filler_takes_fifteen_hundred_tokens() -> None:
    assert judged("0, " * 700).level is Level.CLEAN
    assert judged("0, " * 900).level is Level.CORRUPT


def test_a_short_run_of_filler_seconds_collapsed_acceptance() -> None:
    (finding,) = findings(prose(15, 10) + " =" * 200)
    assert finding.log10_e == RULE.witness_log10


def test_nans_exclamation_marks_are_no_filler() -> None:
    assert judged(prose(16, 20) + "!" * 100).kind is Kind.REPETITION


def test_a_counter_in_running_text_is_a_second_witness_only() -> None:
    text = prose(17, 20) + "".join(f" row {n:04d};" for n in range(600))
    (finding,) = findings(text)
    assert finding.log10_e == RULE.counter_log10
    assert judged(text).level is Level.CLEAN


def test_numbered_rows_are_lists() -> None:
    assert findings("".join(f"{n:04d},ok,us-east-1,retry\n" for n in range(400))) == []


def test_units_of_wide_characters_are_cut_between_characters() -> None:
    assert judged("讨论" + "至" * 80).kind is Kind.REPETITION
    assert judged("把面粉和水按比例混合" + "再检查一遍日志，" * 40).kind is Kind.REPETITION


def test_the_engines_tokens_count_where_they_are_known() -> None:
    # one token a sentence: 20 copies are 20 tokens, far from 96
    sentence = unit(18, 12) + " "
    inspector = Inspector(RequestFacts(dialect="t"), WorkerFacts(), [RULE], RULES.fusion)
    for count in range(1, 21):
        inspector.read([Delta(text=sentence, tokens=count)], 0.0)
    assert inspector.judgement.level is Level.CLEAN


def test_random_text_costs_no_finding() -> None:
    rng = random.Random(19)
    text = "".join(rng.choice("abcdefghij klmnop") for _ in range(20_000))
    assert findings(text) == []


@pytest.mark.parametrize(
    "text",
    ["a" + " " * 4000 + "z", "0x" * 3000, "1" * 6000 + "x", ("ab, " * 40 + "\t" * 300) * 9, "<" * 5000],
)
def test_hostile_text_costs_no_more_than_any_other(text: str) -> None:
    started = thread_time()
    judged(text * 3, prompt=text + "1" * 60_000)
    assert thread_time() - started < 2
