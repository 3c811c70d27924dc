from service.core.commoncause import STREAMS, CommonCause

A, B = "http://decode-1", "http://decode-2"


def run(cause: CommonCause, worker: str, streams: int, every: int, *, found: bool = False) -> list[bool]:
    """So many streams, of which each so-manieth trips."""
    return [cause.over(worker, low=place % every == 0, found=found) for place in range(streams)]


def test_a_broken_draft_is_told_once_and_of_its_worker_only() -> None:
    cause = CommonCause()
    run(cause, B, 100, 1000)
    assert sum(run(cause, A, 200, 2)) == 1
    assert cause.is_broken(A)
    assert not cause.is_broken(B)
    assert cause.broken() == (A,)


def test_now_and_then_is_no_common_cause() -> None:
    cause = CommonCause()
    run(cause, A, 3000, 40)
    assert not cause.is_broken(A)
    assert 0.01 < cause.share(A) < 0.05


def test_a_race_that_strikes_one_in_ten_is_no_fault_of_the_draft() -> None:
    cause = CommonCause()
    run(cause, A, 3000, 10)
    assert not cause.is_broken(A)


def test_streams_whose_text_was_found_bad_do_not_count() -> None:
    cause = CommonCause()
    run(cause, A, 300, 1, found=True)
    assert not cause.is_broken(A)


def test_a_few_streams_prove_nothing() -> None:
    cause = CommonCause()
    run(cause, A, int(STREAMS) - 5, 1)
    assert not cause.is_broken(A)


def test_it_ends_when_the_draft_works_again() -> None:
    cause = CommonCause()
    run(cause, A, 200, 1)
    run(cause, A, 2000, 10_000)
    assert not cause.is_broken(A)


def test_a_worker_that_left_is_forgotten() -> None:
    cause = CommonCause()
    run(cause, A, 200, 1)
    cause.forget(A)
    assert not cause.is_broken(A)
    assert cause.share(A) == 0
    assert repr(cause) == "<CommonCause 0 workers, broken: 0>"
