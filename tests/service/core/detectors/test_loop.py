import random
from time import thread_time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.core.detectors.loop import NEEDLE, Loop, collapsed, recurs
from service.core.events import Finding, Kind, Level, RequestFacts, WorkerFacts
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


@pytest.mark.parametrize("words", [1, 2, 3, 4, 7, 13, 40, 120, 500, 1100])
def test_words_are_found_within_four_copies_or_96_tokens(words: int) -> None:
    before = prose(1, 120) + " "
    one = unit(words, words) + " "
    period = len(deltas(one))
    found = delay(before + one * (600 // words + 8), len(before))
    assert 0.7 * max(RULE.word_tokens, 3 * period) <= found <= max(96, 4 * period)


@pytest.mark.parametrize("words", [1, 2, 3, 10, 100, 400])
def test_loops_of_any_period_are_found(words: int) -> None:
    text = prose(2, 80) + " " + (unit(words, words) + " ") * max(5, 200 // words)
    assert judged(text).kind is Kind.REPETITION


def test_fewer_copies_than_the_limit_are_at_most_suspected() -> None:
    after = " " + prose(3, 40)
    assert judged(loop(3, 12, 3) + after).level < Level.CORRUPT
    assert judged(loop(3, 12, 2) + after).level is Level.CLEAN


def test_where_the_text_ends_in_a_loop_half_the_limit_is_enough() -> None:
    text = loop(20, 4, 8)
    assert judged(text + " " + prose(21, 30)).level < Level.CORRUPT
    assert judged(text).kind is Kind.REPETITION


def test_a_paragraph_said_twice_at_the_end_is_one_too_many() -> None:
    paragraph = unit(22, 120) + ". "
    assert judged(prose(22, 40) + " " + paragraph * 2).kind is Kind.REPETITION
    assert judged(prose(22, 40) + " " + paragraph * 2 + prose(23, 60)).level is Level.CLEAN


def test_a_text_that_is_nothing_but_a_loop_needs_little() -> None:
    assert judged("K" * 120).kind is Kind.REPETITION
    assert judged("!" * 40).kind is Kind.REPETITION
    assert judged("I see. " * 14).kind is Kind.REPETITION


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


def test_rows_of_code_and_tables_take_more() -> None:
    rows = '        "EDT",\n        "EST",\n'
    assert judged("zones = [\n" + rows * 50).level is Level.CLEAN
    assert judged("zones = [\n" + rows * 400).level is Level.CORRUPT
    assert judged("    push(stack, value);\n" * 8).level is Level.CLEAN
    assert judged("    push(stack, value);\n" * 14).level is Level.CORRUPT


def test_no_object_holds_a_key_twice() -> None:
    assert judged('{"width": 3.0, ' + '"height": 4.5, ' * 20).kind is Kind.REPETITION


def test_what_the_prompt_holds_or_counts_takes_twice_as_much() -> None:
    text = loop(11, 12, 6)
    assert judged(text, prompt="Say " + unit(11, 12)).level is Level.SUSPECT
    assert judged(text, prompt="Say that 40 times, please.").level is Level.SUSPECT
    assert judged(text, prompt="把这句话重复四十遍").level is Level.SUSPECT
    assert judged(text, prompt="Tell me about bridges.").level is Level.CORRUPT


def test_one_word_of_a_long_prompt_excuses_no_stutter() -> None:
    text = prose(12, 30) + " closed" * 90
    assert judged(text, prompt=prose(13, 300)).level is Level.CORRUPT
    assert judged(text, prompt="It said:" + " closed" * 9).level < Level.CORRUPT


def test_refrains_are_chants_and_take_twice_as_much() -> None:
    chant = "Na na na na, na na na na, hey hey, we are one!\n"
    assert judged(prose(14, 12) + "\n" + chant * 6 + "Good night.").level < Level.CORRUPT


def test_filler_takes_fifteen_hundred_tokens() -> None:
    assert judged("0, " * 700).level is Level.CLEAN
    assert judged("0, " * 900).level is Level.CORRUPT


@pytest.mark.parametrize(
    "text",
    [" \n" * 90, "\t" * 600, "\u2697\n" * 40, "<|>\n" * 40, "}" * 60, "=-" * 120, "\U0001f602" * 200],
)
def test_filler_that_no_table_and_no_drawing_has_takes_less(text: str) -> None:
    assert judged(prose(24, 20) + " " + text).kind is Kind.REPETITION


def test_a_table_of_zeros_one_a_line_is_data() -> None:
    assert judged("{\n" + "    0,\n" * 60).level is Level.CLEAN


def test_a_short_run_of_filler_seconds_collapsed_acceptance() -> None:
    (finding,) = findings(prose(15, 10) + " =" * 80)
    assert finding.log10_e == RULE.witness_log10


def test_blank_lines_at_the_end_need_not_go_on_as_long() -> None:
    text = prose(24, 40) + "\n" * 48
    assert judged(text).kind is Kind.REPETITION
    assert judged(prose(24, 40) + "\n" * 32).level is Level.CLEAN
    assert judged(text + prose(25, 40)).level is Level.CLEAN


def test_nans_exclamation_marks_are_no_filler() -> None:
    assert judged(prose(16, 20) + "!" * 100).kind is Kind.REPETITION


COUNTED = " the tank is checked for leaks and the valve is closed again before the next turn begins;"


@pytest.mark.parametrize("label", ["Attempt {:02d}:", "{}.", "Step {}:"])
def test_a_counter_before_the_same_prose_is_a_loop(label: str) -> None:
    text = prose(17, 20) + "".join("\n" + label.format(n) + COUNTED for n in range(1, 9))
    assert judged(text).kind is Kind.REPETITION


def test_numbered_rows_that_the_prompt_holds_may_be_copied() -> None:
    rows = "".join(f"Attempt {n:02d}:{COUNTED}\n" for n in range(1, 40))
    ask = "Put this log in order and keep every row:\n"
    assert judged(rows, prompt=ask + rows).level < Level.CORRUPT
    assert judged(rows, prompt=ask + prose(26, 400)).kind is Kind.REPETITION


def test_counters_are_found_as_soon_as_exact_loops() -> None:
    before = prose(25, 60) + "\n"
    copies = [f"Attempt {n:02d}:{COUNTED}\n" for n in range(12)]
    period = len(deltas(copies[0]))
    assert delay(before + "".join(copies), len(before)) <= max(96, 4 * period) + 128


def test_a_short_counter_on_one_line_is_a_loop_if_it_does_not_stop() -> None:
    rows = [f" row {n:04d};" for n in range(600)]
    assert judged(prose(17, 20) + "".join(rows[:30])).level is Level.CLEAN
    assert judged(prose(17, 20) + "".join(rows)).level is Level.CORRUPT


@pytest.mark.parametrize(
    "row",
    [
        "{n:04d},ok,us-east-1,retry\n",
        "assert square({n}) == {m}\n",
        "  case {n}:\n    return handle({n});\n",
        'Step {n}: Click the "Next" button to continue to page {m}.\n',
        "2025-03-12T10:00:{n:02d}Z INFO worker: heartbeat ok (lag=0ms, queue=0)\n",
        "      ULong guest_D{n};\n",
        "INSERT INTO users (id, name, active) VALUES ({n}, 'user_{n}', TRUE);\n",
    ],
)
def test_lists_with_something_to_tell_stay_silent(row: str) -> None:
    assert judged("".join(row.format(n=n, m=n * n) for n in range(40))).level is Level.CLEAN


def test_units_of_wide_characters_are_cut_between_characters() -> None:
    assert judged("讨论" + "至" * 80).kind is Kind.REPETITION
    assert judged("把面粉和水按比例混合" + "再检查一遍日志，" * 40).kind is Kind.REPETITION


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


@given(
    pieces=st.lists(st.sampled_from([b"a", b"ab c ", b"0", b"17", b"x" * 30, b"9" * 70, b"\n"]), max_size=40),
    start=st.integers(0, 60),
)
def test_the_glance_before_a_look_for_counters_never_hides_one(pieces: list[bytes], start: int) -> None:
    tail = bytearray(b"".join(pieces))
    text = collapsed(tail[start:])
    there = len(text) > 0 and text.rfind(text[-NEEDLE:], 0, len(text) - 1) >= 0
    assert recurs(tail, min(start, len(tail)), len(tail)) or not there
