"""The life of a request, and what /abort_request may end."""

import pytest

from replay.lab.intake import RequestError, Submission
from replay.lab.scheduler import Aborted, Generation, LengthReached, LiveRequests, Phase, SpecCounts, Stopped
from replay.lab.speculation import StepResult
from replay.lab.tokenizer import EOS, encode


def asked(rid: str, **rest: object) -> Submission:
    fields: dict[str, object] = {
        "rid": rid,
        "prompt": (1, 5),
        "max_new_tokens": 8,
        "ignore_eos": False,
        "stream": True,
        "model": "lab",
        "bootstrap": None,
    }
    return Submission(**(fields | rest))  # type: ignore[arg-type]  # (a test names its fields)


def live(*rids: str) -> LiveRequests:
    made = LiveRequests()
    for rid in rids:
        made.admit(asked(rid), Phase.WAITING)
    return made


@pytest.mark.parametrize(
    ("rid", "ended"),
    [
        ("job", ["job", "job-1", "job-2"]),
        ("job-1", ["job-1"]),
        ("jo", []),
        ("", []),
        ("other", ["other"]),
        ("unknown", []),
    ],
)
def test_a_live_rid_ends_all_that_start_with_it_and_a_dead_one_nothing(rid: str, ended: list[str]) -> None:
    hit: list[str] = []
    count = live("job", "job-1", "job-2", "other").abort(rid, lambda one: hit.append(one.asked.rid))
    assert hit == ended
    assert count == len(ended)


def test_abort_all_ends_all() -> None:
    hit: list[Generation] = []
    assert live("a", "b").abort("", hit.append, abort_all=True) == 2


def test_a_live_rid_cannot_be_taken_twice_and_is_free_again_afterwards() -> None:
    table = live("job")
    with pytest.raises(RequestError, match="Duplicate request ID detected: job") as refused:
        table.admit(asked("job"), Phase.WAITING)
    assert refused.value.status == 400
    table.forget(Generation(asked("job"), Phase.WAITING))
    assert table.admit(asked("job"), Phase.PREALLOC).phase is Phase.PREALLOC


def test_a_full_queue_answers_503() -> None:
    table = LiveRequests(limit=1)
    table.admit(asked("a"), Phase.WAITING)
    with pytest.raises(RequestError, match="The request queue is full") as refused:
        table.admit(asked("b"), Phase.WAITING)
    assert refused.value.status == 503


def test_an_answer_ends_at_eos_and_nothing_behind_it_is_said() -> None:
    generation = Generation(asked("a"), Phase.RUNNING)
    words = encode("set the record")
    generation.say((*words, EOS, *words))
    assert generation.output == [*words, EOS]
    assert generation.finish == Stopped(EOS)
    assert generation.text == "set the record"


def test_an_answer_ends_at_its_limit() -> None:
    generation = Generation(asked("a", max_new_tokens=2, ignore_eos=True), Phase.RUNNING)
    generation.say((EOS, 7, 8))
    assert generation.output == [EOS, 7]
    assert generation.finish == LengthReached(2)


def test_the_first_reason_to_end_stands() -> None:
    generation = Generation(asked("a"), Phase.RUNNING)
    generation.say((EOS,))
    generation.end(Aborted("late"))
    assert generation.finish == Stopped(EOS)
    assert generation.phase is Phase.FINISHED


def test_a_prefill_reports_one_token_and_length_0() -> None:
    generation = Generation(asked("a"), Phase.TRANSFER)
    generation.hand_over(EOS)
    assert generation.output == [EOS]
    assert generation.finish == LengthReached(0)


def test_counts_are_of_whole_verify_steps() -> None:
    counts = SpecCounts()
    for accepted in (0, 3, 3, 4):
        counts.add(StepResult(4, accepted, (0,) * (accepted + 1)))
    assert (counts.verify_steps, counts.accepted, counts.proposed) == (4, 10, 16)
    assert counts.histogram == [1, 0, 0, 2, 1]


def test_no_text_in_a_repr() -> None:
    generation = Generation(asked("a"), Phase.RUNNING)
    generation.say(tuple(encode("set the record")))
    assert "record" not in repr(generation)
    assert "3 tokens" in repr(generation)
