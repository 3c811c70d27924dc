"""Hints are ranked, say both sides, and end in "no evidence" rather than in a guess."""

from service.core.events import Kind
from service.core.hints.rank import HINTS_MAX, POINTS_MIN
from service.core.hints.signs import ABORTS, LOADED_BACK, RELEASES, TRANSFERS, Cause
from tests.service.core.hints.scenes import CACHED_HOST, bad, good, seen, told


def test_the_likeliest_comes_first_and_few_are_told() -> None:
    everything = {ABORTS: 9.0, TRANSFERS: 9.0, RELEASES: 9.0, LOADED_BACK: 9.0}
    attempt = bad(
        prefill="http://p1", cached=CACHED_HOST, unit="replacement", engine_said=("checksum_mismatch", "nan")
    )
    hints = list(told(attempt, workers=(seen(trouble=everything),)).values())
    assert len(hints) == HINTS_MAX
    assert [hint.points for hint in hints] == sorted((hint.points for hint in hints), reverse=True)
    assert all(hint.points >= POINTS_MIN for hint in hints)
    assert hints[0].strength == "likely"


def test_a_quiet_fault_ends_as_no_evidence_and_never_as_healthy() -> None:
    """Another request's valid KV: fluent text, acceptance as ever, nobody's check speaks."""
    quiet = bad(Kind.CROSSTALK, "crosstalk", "other", accept_length=3.14)
    (hint,) = told(quiet, good()).values()
    assert (hint.cause, hint.strength) == (Cause.NONE, "none")
    assert "acceptance of these workers is as it was" in hint.against
    assert "no check of the engine has spoken" in hint.against
    assert "healthy" not in repr(hint)


def test_what_cannot_be_seen_is_said() -> None:
    (hint,) = told(bad(), workers=()).values()
    assert "these workers are not scraped" in hint.against


def test_a_hint_says_what_speaks_against_it() -> None:
    hint = told(bad(engine_said=("checksum_mismatch",)))[Cause.TRANSFER]
    assert hint.against == ("no transfer failed there within ten minutes",)


def test_aborts_on_the_same_worker_alone_are_no_hint() -> None:
    """A loop of ordinary acceptance where prefill and decode are apart: somebody always aborts there."""
    loop = bad(Kind.REPETITION, "loop", "ab12", prefill="http://p1")
    workers = (seen(trouble={ABORTS: 40.0}), seen(url="http://p1", trouble={ABORTS: 40.0}))
    assert Cause.ABORT_RACE not in told(loop, workers=workers, prefills=["http://p1"])


def test_prefill_and_decode_apart_count_where_the_acceptance_fell_with_the_text() -> None:
    fallen = bad(Kind.REPETITION, "loop", "ab12", prefill="http://p1", accept_length=1.3)
    workers = (seen(trouble={ABORTS: 40.0}), seen(url="http://p1"))
    hint = told(fallen, workers=workers)[Cause.ABORT_RACE]
    assert "prefill and decode are apart" in hint.evidence
