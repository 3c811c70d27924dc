from dataclasses import dataclass, field
from math import isnan
from typing import ClassVar

import pytest

from service.core.choice import PIECE_CHARS, SLACK_BYTES, STEPS_KEPT, TAIL_BYTES
from service.core.events import (
    UNKNOWN,
    Channel,
    Delta,
    Finding,
    Kind,
    Level,
    Look,
    RequestFacts,
    StepKind,
    WorkerFacts,
)
from service.core.fusion import Fusion
from service.core.inspector import Inspector

FUSION = Fusion({"word": 1.0}, 5.0, 1.0, 2.0, 3.0, 1.5, 2.5)


@dataclass
class Recorder:
    """Keeps every look; says nothing."""

    looks: list[Look] = field(default_factory=list)
    name: ClassVar[str] = "recorder"
    channel: ClassVar[Channel] = Channel.TEXT

    def start(self, facts: RequestFacts, worker: WorkerFacts) -> None:
        return None

    def look(self, state: None, look: Look) -> Finding | None:
        self.looks.append(look)
        return None


@dataclass(frozen=True)
class Word:
    """Says "garbled" once it sees the word."""

    word: str = "boom"
    name: ClassVar[str] = "word"
    channel: ClassVar[Channel] = Channel.TEXT

    def start(self, facts: RequestFacts, worker: WorkerFacts) -> None:
        return None

    def look(self, state: None, look: Look) -> Finding | None:
        if self.word.encode() not in look.tail:
            return None
        return Finding(self.name, self.channel, Kind.GARBLED, 6.0, look.tokens)


@dataclass(frozen=True)
class Broken:
    """Raises in `start` or at its first look."""

    at_start: bool = False
    name: ClassVar[str] = "broken"
    channel: ClassVar[Channel] = Channel.TEXT

    def start(self, facts: RequestFacts, worker: WorkerFacts) -> None:
        if self.at_start:
            raise KeyError(self.name)

    def look(self, state: None, look: Look) -> Finding | None:
        raise ZeroDivisionError


def inspector(*detectors: Recorder | Word | Broken, choices: int = 1, draft_tokens: int = 4) -> Inspector:
    facts = RequestFacts(dialect="test", choices=choices)
    return Inspector(facts, WorkerFacts(draft_tokens=draft_tokens), detectors, FUSION)


def test_one_batch_makes_one_look_of_all_its_text() -> None:
    seen = Recorder()
    inspector(seen).read([Delta(text="one ", tokens=1), Delta(text="two", tokens=3)], 1.0)
    (look,) = seen.looks
    assert (look.text, look.tail, look.chars, look.tokens, look.at) == ("one two", b"one two", 7, 3, 1.0)


def test_an_empty_batch_is_no_look() -> None:
    seen = Recorder()
    inspector(seen).read([], 1.0)
    assert seen.looks == []


def test_the_tail_is_bounded_and_ends_with_the_new_text() -> None:
    seen = Recorder()
    guard = inspector(seen)
    for turn in range(400):
        guard.read([Delta(text=f"{turn:04d}" * 100)], float(turn))
        assert min(seen.looks[-1].size, TAIL_BYTES) <= len(seen.looks[-1].tail)
        assert len(seen.looks[-1].tail) <= TAIL_BYTES + SLACK_BYTES + 400
    assert seen.looks[-1].size == 400 * 400
    assert seen.looks[-1].tail.endswith(b"0399" * 100)


def test_long_text_is_seen_in_pieces_that_leave_history() -> None:
    seen = Recorder()
    guard = inspector(seen)
    guard.read([Delta(text="字" * (3 * PIECE_CHARS), tokens=3000, finish="stop")], 1.0)
    assert [len(look.text) for look in seen.looks] == [PIECE_CHARS] * 3
    assert [look.tokens for look in seen.looks] == [1000, 2000, 3000]
    assert [look.ended for look in seen.looks] == [False, False, True]


def test_verify_steps_reach_the_look_and_the_incident() -> None:
    seen = Recorder()
    guard = inspector(seen)
    guard.read([Delta(text="a", tokens=1), Delta(text="b", tokens=4), Delta(text="c", tokens=5)], 1.0)
    guard.finish(2.0, clean=True)
    assert [step.accepted for look in seen.looks for step in look.steps] == [2]
    assert (seen.looks[0].step_kind, guard.steps, guard.accept_length) == (StepKind.UPPER, 2, 2.0)
    assert guard.accepted == (2,)


def test_the_last_steps_are_remembered_and_no_more() -> None:
    guard = inspector()
    for place in range(STEPS_KEPT + 50):
        guard.read([Delta(text="a", tokens=1 + 2 * place)], 0.1 * place)
    assert guard.accepted == (1,) * STEPS_KEPT
    assert inspector().accepted == ()


def test_the_engines_own_totals_win() -> None:
    guard = inspector()
    guard.read(
        [Delta(text="a", tokens=1), Delta(text="b", tokens=40, finish="length", accepted=11, steps=30)], 1.0
    )
    assert guard.steps == 30
    assert guard.accept_length == pytest.approx(1.3667, abs=1e-4)


def test_totals_that_come_after_the_finish_reason_win_too() -> None:
    guard = inspector()
    guard.read([Delta(text="a", tokens=1), Delta(text="b", tokens=4, finish="stop")], 1.0)
    guard.read([Delta(accepted=10, steps=4)], 1.0)
    assert (guard.steps, guard.accept_length) == (4, 3.5)


def test_without_steps_the_accept_length_is_unknown() -> None:
    guard = inspector()
    guard.read([Delta(text="a")], 1.0)
    assert (guard.steps, guard.tokens) == (0, UNKNOWN)
    assert isnan(guard.accept_length)


def test_a_detector_that_raises_is_counted_once_and_the_others_go_on() -> None:
    guard = inspector(Broken(), Word())
    for turn in range(5):
        guard.read([Delta(text="fine ")], float(turn))
    assert guard.faults == {"broken": 1}
    assert guard.read([Delta(text="boom")], 9.0).level is Level.CORRUPT


def test_a_detector_that_cannot_start_is_off_too() -> None:
    guard = inspector(Broken(at_start=True), Word())
    assert guard.read([Delta(text="boom")], 1.0).level is Level.CORRUPT
    assert guard.faults == {"broken": 1}


def test_every_choice_is_judged_by_itself_and_the_worst_counts() -> None:
    guard = inspector(Word(), choices=3)
    guard.read([Delta(0, "bo"), Delta(2, "fine"), Delta(1, "bo")], 1.0)
    judgement = guard.read([Delta(2, "boom"), Delta(0, "at")], 1.1)
    assert (judgement.level, judgement.choice) == (Level.CORRUPT, 2)
    assert len(guard.findings()) == 1


def test_a_choice_that_nobody_asked_for_is_ignored() -> None:
    guard = inspector(Word(), choices=2)
    assert guard.read([Delta(7, "boom"), Delta(-1, "boom")], 1.0).level is Level.CLEAN


def test_a_verdict_stands() -> None:
    guard = inspector(Word())
    guard.read([Delta(text="boom")], 1.0)
    assert guard.read([Delta(text="calm " * 4000)], 2.0).level is Level.CORRUPT
    assert guard.finish(3.0, clean=True).level is Level.CORRUPT


def test_quiet_is_shown_with_the_median_gap() -> None:
    seen = Recorder()
    guard = inspector(seen)
    for at in (0.0, 0.1, 0.2, 0.3, 5.3, 5.4):
        guard.read([Delta(text="a")], at)
    guard.quiet(2.5, 8.0)
    assert (seen.looks[-1].quiet_s, seen.looks[-1].text) == (2.5, "")
    assert seen.looks[-1].gap_s == pytest.approx(0.1)


def test_quiet_before_any_event_is_shown_too() -> None:
    seen = Recorder()
    inspector(seen).quiet(40.0, 40.0)
    assert (seen.looks[0].quiet_s, seen.looks[0].gap_s) == (40.0, 0.0)


def test_a_choice_that_has_ended_is_not_silent() -> None:
    seen = Recorder()
    guard = inspector(seen)
    guard.read([Delta(text="a", finish="stop")], 0.0)
    guard.quiet(60.0, 60.0)
    assert len(seen.looks) == 1


def test_tokens_beyond_the_last_text_are_counted() -> None:
    seen = Recorder()
    guard = inspector(seen)
    guard.read([Delta(text="a" * 40, tokens=5)], 0.0)
    guard.read([Delta(tokens=30)], 0.1)
    guard.read([Delta(text="b", tokens=31), Delta(tokens=40)], 0.2)
    assert [look.grown for look in seen.looks] == [0, 25, 9]


def test_tokens_that_no_byte_of_text_can_stand_for_are_counted() -> None:
    seen = Recorder()
    inspector(seen).read([Delta(text="ten bytes.", tokens=256, finish="length")], 0.0)
    assert seen.looks[0].grown == 246


def test_a_final_count_alone_says_nothing_of_growth_without_text() -> None:
    seen = Recorder()
    guard = inspector(seen)
    guard.read([Delta(text="a long answer " * 40)], 0.0)
    guard.read([Delta(tokens=400)], 0.1)
    assert seen.looks[-1].grown == 0


def test_no_text_leaks_into_the_repr() -> None:
    guard = inspector(Recorder())
    guard.read([Delta(text="secret", tokens=2)], 0.0)
    assert "secret" not in repr(guard)
    assert "tokens=2" in repr(guard)


def test_of_several_choices_the_least_known_tells_how_well_steps_are_known() -> None:
    facts = RequestFacts("chat", choices=2)
    inspector = Inspector(facts, WorkerFacts(draft_tokens=4), (), FUSION)
    kinds = [inspector.step_kind]
    inspector.read([Delta(exact=(3,))], 0.0)
    kinds.append(inspector.step_kind)
    inspector.read([Delta(1, tokens=1), Delta(1, tokens=3)], 0.0)
    kinds.append(inspector.step_kind)
    assert kinds == [StepKind.NONE, StepKind.EXACT, StepKind.UPPER]


def test_exact_steps_have_no_error_against_the_engines_totals() -> None:
    inspector = Inspector(RequestFacts("chat"), WorkerFacts(draft_tokens=4), (), FUSION)
    assert inspector.errors() == []
    inspector.read([Delta(exact=(3, 0, 2)), Delta(accepted=5, steps=3)], 0.0)
    assert inspector.errors() == [(StepKind.EXACT, 0.0)]


def test_a_worker_known_late_holds_for_choices_that_have_not_begun() -> None:
    inspector = Inspector(RequestFacts("chat"), WorkerFacts(), (), FUSION)
    inspector.answered_by(WorkerFacts("http://d:1", draft_tokens=2))
    inspector.read([Delta(exact=(2, 2)), Delta(tokens=7)], 0.0)
    assert inspector.accept_length == 3.0
