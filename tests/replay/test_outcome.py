"""A result has the run's times and the backend's names."""

from collections.abc import Mapping

import pytest

from replay.answer import Answer
from replay.outcome import result_of
from replay.pacer import Due
from replay.results import Ending
from tests.replay.runkit import send

MET = {"http://p/metrics": {"num_queue_reqs": 3.0}}


class FakeCall:
    """A call that has ended."""

    def __init__(self, sent_at: float | None = 101.5) -> None:
        self.answer = Answer()
        self.ending: Ending | None = "complete"
        self.error: str | None = None
        self.sent_at = sent_at
        self.ended_at = 104.0
        self.first_at: float | None = 102.0 if sent_at else None
        self.status: int | None = 200
        self.headers: Mapping[bytes, bytes] = {
            b"x-smg-routed-worker-id": b"http://d:1",
            b"x-specguard-attempts": b"2",
        }

    def stop(self, ending: Ending, error: str | None = None) -> None:
        raise AssertionError("it has ended")


def test_times_are_those_of_the_run_and_chunks_count_from_the_send() -> None:
    call = FakeCall()
    call.answer.said(0, "a", 102.0)
    call.answer.said(0, "b", 103.25)
    result = result_of(Due(1.25, send("r", 1.0, arm="peak", block=3)), call, 1.4, 100.0, MET)
    assert (result.scheduled_s, result.sent_s, result.first_byte_s, result.ended_s) == (1.25, 1.5, 2.0, 4.0)
    assert result.chunk_s == [0.5, 1.75]
    assert (result.arm, result.block, result.text) == ("peak", 3, "ab")
    assert result.met == MET
    assert (result.decode, result.attempts) == ("http://d:1", 2)


def test_what_was_never_connected_counts_from_its_start() -> None:
    result = result_of(Due(1.0, send("r", 1.0)), FakeCall(sent_at=None), 1.1, 100.0, {})
    assert (result.sent_s, result.first_byte_s) == (1.1, None)


@pytest.mark.parametrize("told", [b"two", "²".encode(), b""])
def test_a_header_that_is_no_number_is_none(told: bytes) -> None:
    call = FakeCall()
    call.headers = {b"x-specguard-attempts": told}
    assert result_of(Due(1.0, send("r", 1.0)), call, 1.1, 100.0, {}).attempts is None
