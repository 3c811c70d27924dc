"""What `/v1/loads` tells is read; what it does not tell stays untold, whatever stands in its place."""

import json
import math
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.core.loads import RANKS_MAX, Loads, loads_of

FIXTURES = Path(__file__).parents[2] / "fixtures" / "telemetry"


def body(*ranks: object) -> bytes:
    return json.dumps({"timestamp": "2026-01-01T00:00:00", "version": "0.5.23", "loads": ranks}).encode()


def rank(**other: object) -> dict[str, Any]:
    """As SGLang 0.5.23 answers, the fields that nobody reads left out."""
    return {
        "dp_rank": 0,
        "num_running_reqs": 3,
        "num_waiting_reqs": 2,
        "total_prefill_uncached_tokens": 1200,
        "decode_moments": [40.0, 3.1, 0.2, 120.0, 480.0, 9.0],
        "speculative": {"accept_length": 3.1, "accept_rate": 0.5},
    } | other


def test_ranks_are_one_worker() -> None:
    loads = loads_of(body(rank(), rank(dp_rank=1, num_running_reqs=1, speculative={"accept_rate": 0.7})))
    assert loads == Loads(4, 4, 0.6, {"decode_steps": 80, "prefill_tokens": 2400})


def test_a_real_worker_is_read() -> None:
    """SGLang 0.5.23 with n-gram drafts, after one short answer."""
    loads = loads_of((FIXTURES / "sgl-v1-loads.json").read_bytes())
    assert loads == Loads(0, 0, 0.0, {"decode_steps": 12, "prefill_tokens": 37})


def test_a_worker_that_has_decoded_nothing_tells_no_decode_steps() -> None:
    loads = loads_of(body(rank(decode_moments=None, speculative=None)))
    assert loads is not None
    assert loads.progress == {"prefill_tokens": 1200}
    assert math.isnan(loads.accept_rate)


@pytest.mark.parametrize(
    "answer",
    [
        b"",
        b"half {",
        b"[]",
        b"3",
        b'{"loads": {}}',
        b'{"loads": []}',
        b"\xff",
        b"[" * 100_000,
        b'{"detail":"no"}',
    ],
)
def test_another_answer_is_none(answer: bytes) -> None:
    assert loads_of(answer) is None


@pytest.mark.parametrize("wrong", ["3", None, True, [], {}])
def test_a_number_that_is_none_was_not_told(wrong: object) -> None:
    ill = rank(
        num_running_reqs=wrong, decode_moments=wrong, total_prefill_uncached_tokens=wrong, speculative=wrong
    )
    loads = loads_of(body(ill, 7))
    assert loads is not None
    assert math.isnan(loads.running)
    assert loads.progress == {}


def test_a_flood_of_ranks_is_read_to_the_bound() -> None:
    loads = loads_of(body(*[rank()] * (RANKS_MAX + 5)))
    assert loads is not None
    assert loads.running == 3 * RANKS_MAX


@given(st.binary(max_size=60))
def test_no_bytes_raise(noise: bytes) -> None:
    loads_of(noise)
    loads_of(b'{"loads": [' + noise + b"]}")
