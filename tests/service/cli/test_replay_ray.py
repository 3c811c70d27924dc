"""`specguard replay ray`: what shards came to, and mistakes in one line."""

import asyncio
from pathlib import Path

import pytest

from service.cli import run
from service.cli.exits import BAD_INPUT, DONE, NOT_ALLOWED, NOT_KEPT
from service.cli.replay_ray import launched
from tests.replay.runkit import by_id, evenly, mocking, options, plan_of
from tests.replay.test_launch_ray import Threads


async def test_each_shard_is_told_and_the_whole(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    plan, out = plan_of(tmp_path / "p", evenly(10, 0.01)), tmp_path / "r"
    async with mocking() as (url, mock):
        code = await asyncio.to_thread(launched, plan, out, options(url), 1, Threads())
    said = capsys.readouterr().out
    assert code in {DONE, NOT_KEPT}  # the machine may be busy
    assert "shard 0/1: 10 sent" in said
    assert "1 shards of plan" in said
    assert mock.requests == len(by_id(out)) == 10


@pytest.mark.parametrize(
    ("words", "code", "named"),
    [
        (["PLAN"], NOT_ALLOWED, "nothing was sent"),
        (["absent", "--allow", "127.0.0.1"], BAD_INPUT, "absent: No such file"),
    ],
)
def test_mistakes_are_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], words: list[str], code: int, named: str
) -> None:
    plan = str(plan_of(tmp_path / "p", evenly(2, 0.01)))
    given = [plan if word == "PLAN" else word for word in words]
    rest = ["--shards", "2", "--target", "http://127.0.0.1:9", "--out", str(tmp_path / "r")]
    assert run(["replay", "ray", *given, *rest]) == code
    assert named in capsys.readouterr().err
