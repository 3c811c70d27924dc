"""What an engine says of its own corruption finds the requests and the workers that it is about."""

import pytest

from service.core.groundtruth import NEAR_S, PLACES_MAX, WORDS_MAX, GroundTruth, Word
from service.core.loglines import LogKind, read

MISMATCH = "[t] KV checksum mismatch req=r-1 bootstrap_room=5 expected=0x1 got=0x2"
CANARY = "kv_canary violation: launch_tag=head fail_reason=token+hash slot_idx=7 position=9"
DEFERRED = (
    "[t] Deferred KV release for room 5 timed out after 30.0s without a full drain ack; releasing anyway."
)


def heard(line: str, worker: str = "http://d:1", now: float = 100.0) -> GroundTruth:
    truth, event = GroundTruth(), read(line)
    assert event is not None
    assert truth.read(event, worker, now) is not None
    return truth


@pytest.mark.parametrize(
    ("line", "kind"),
    [
        (MISMATCH, LogKind.CHECKSUM_MISMATCH),
        (CANARY, LogKind.CANARY_VIOLATION),
        (DEFERRED, LogKind.DEFERRED_RELEASE_TIMEOUT),
        ("NaN detected in logits; values were sanitized before sampling", LogKind.NAN),
    ],
)
def test_each_of_the_engines_checks_is_a_word(line: str, kind: LogKind) -> None:
    truth = heard(line)
    assert truth.counts == {(kind, "http://d:1"): 1}
    (word,) = truth.about(workers=["http://d:1"], since=100.0)
    assert (word.kind, word.at) == (kind, 100.0)


def test_other_lines_are_no_evidence() -> None:
    truth, event = GroundTruth(), read("[t] Decode batch, #running-req: 1, #token: 57")
    assert event is not None
    assert truth.read(event, "http://d:1", 0.0) is None
    assert not truth.counts


def test_a_word_that_names_a_request_is_about_that_request() -> None:
    truth = heard(MISMATCH)
    assert truth.said("r-1", (), 0.0) == ("checksum_mismatch",)
    assert truth.said("r-2", (), 0.0) == ()
    assert [word.room for word in truth.about(rooms=[5])] == [5]


def test_a_workers_word_is_about_streams_that_ran_then_or_shortly_after() -> None:
    truth = heard(CANARY, now=100.0)
    assert truth.said("r", ["http://d:1"], 100.0 + NEAR_S) == ("worker:canary_violation",)
    assert truth.said("r", ["http://d:1"], 101.0 + NEAR_S) == ()
    assert truth.said("r", ["http://d:2"], 100.0) == ()


def test_an_unknown_worker_is_everybodys_and_therefore_nobodys() -> None:
    truth = heard(CANARY, worker="")
    assert truth.about(workers=[""]) == ()
    assert truth.counts == {("canary_violation", ""): 1}


def test_what_was_counted_is_drained_once() -> None:
    truth = heard(MISMATCH)
    truth.hear(Word(LogKind.DEFERRED_RELEASE_TIMEOUT, 0.0, "http://d:1", times=3))
    assert truth.drain() == {
        ("checksum_mismatch", "http://d:1"): 1,
        ("deferred_release_timeout", "http://d:1"): 3,
    }
    assert not truth.drain()


def test_a_flood_stays_within_its_bounds() -> None:
    truth = GroundTruth()
    for number in range(WORDS_MAX + PLACES_MAX):
        truth.hear(Word(LogKind.NAN, 0.0, f"http://w:{number}", rid=str(number)))
    assert len(truth.counts) == PLACES_MAX + 1
    assert truth.counts["nan", "other"] == WORDS_MAX
    assert truth.about(rid="0") == ()
    assert len(truth.about(rid=str(WORDS_MAX + PLACES_MAX - 1))) == 1
