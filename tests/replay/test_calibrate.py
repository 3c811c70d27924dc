"""The client is measured against a mock of its own, and a mock that loses streams is no measure."""

import pytest

from replay.calibrate import CalibrationError, _floor, _measure, calibrate, told
from replay.client import Call
from tests.replay.runkit import mocking
from tests.replay.test_outcome import FakeCall


@pytest.mark.e2e
async def test_the_floor_is_what_the_client_costs_and_adds() -> None:
    floor = await calibrate(streams=10, within_s=0.1)
    assert 0 < floor.cpu_us_per_chunk < 2000
    assert -15 < floor.ttft_p50_ms <= floor.ttft_p99_ms
    assert floor.safe_chunks_per_s == pytest.approx(0.7e6 / floor.cpu_us_per_chunk, rel=0.01)
    assert told(floor)["late_p99_ms"] == floor.late_p99_ms


async def test_streams_of_another_length_are_lost_streams() -> None:
    async with mocking(chunks=4, pace_ms=1) as (url, _):
        with pytest.raises(CalibrationError, match="3 of 3 streams"):
            await _measure(url, 3, 0.01)


def test_a_failed_call_is_a_lost_stream() -> None:
    call: Call = FakeCall()
    call.ending = "reset"
    with pytest.raises(CalibrationError):
        _floor([call], [0.0], 0.1)
