"""Clients as processes: what they cost, and that all their requests came."""

import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from replay.bench.client_arms import ARMS, Arm, ArmError, Field, asked, finished


def test_a_command_is_told_by_cpu_memory_and_its_last_word(tmp_path: Path) -> None:
    code = "sum(range(3_000_000)); print('x'); print('{\"a\": 1}')"
    spent = finished([sys.executable, "-c", code], tmp_path)
    assert 0.01 < spent.cpu_s < 20
    assert spent.peak_mb > 5  # at most is no promise: a child starts with what its parent holds
    assert spent.told == {"a": 1}


@pytest.mark.parametrize(
    ("command", "told"),
    [(["./no-such-client"], "bench-replay"), ([sys.executable, "-c", "raise SystemExit('why')"], "why")],
)
def test_a_client_that_fails_is_no_figure(tmp_path: Path, command: list[str], told: str) -> None:
    with pytest.raises(ArmError, match=told):
        finished(command, tmp_path)


@pytest.mark.e2e
def test_our_arm_sends_what_it_is_asked_for_and_the_mock_counts(tmp_path: Path) -> None:
    with Field(tmp_path) as field:
        spent = field.run(ARMS[0], 20)
        assert (spent.requests, spent.told["failures"], asked(field.url)) == (20, 0, 20)
        assert field.cpu_s == spent.cpu_s


def idle(_: Field, __: int) -> Sequence[str | Path]:
    return [sys.executable, "-c", "pass"]


@pytest.mark.e2e
def test_requests_that_never_came_are_told(tmp_path: Path) -> None:
    with Field(tmp_path) as field, pytest.raises(ArmError, match="0 of 5"):
        field.run(Arm("lazy", idle), 5)


def test_a_quick_look_has_fewer_requests() -> None:
    small, large = ARMS[0].sizes(quick=True)
    assert (small, large) < ARMS[0].sizes(quick=False)
    assert small < large
