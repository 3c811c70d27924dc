"""The whole of it, small: real lab, real router, real sidecar, and a score that adds up."""

import asyncio
import json
import os
import sys
from pathlib import Path

import msgspec
import pytest

from replay.demo.evidence import Evidence
from replay.demo.run import MIX, Options, judge, write_trace
from replay.demo.score import Spent
from replay.lab.faults import FaultSpecError
from tests.replay.demo.made import ask, attempt, delivery, line, seen

COMMAND = Path(sys.prefix) / "bin" / "specguard"
WANTED = 20


def test_mix_is_a_plan_of_all_kinds_mostly_loud() -> None:
    plan = Options(serve=[]).plan
    weights = dict(plan.mix)
    assert set(weights) == {"nan", "random", "zero", "swap", "swap_both"}
    assert weights["nan"] + weights["random"] > 0.5
    assert Options(serve=[], fault=MIX).lab == Options(serve=[]).lab


def test_none_plans_nothing_and_nonsense_is_refused() -> None:
    assert Options(serve=[], fault="none").plan.mix == ()
    with pytest.raises(FaultSpecError):
        Options(serve=[], fault="gremlins").plan  # noqa: B018


def test_the_score_is_of_this_runs_exchanges_and_the_trace_has_no_text(tmp_path: Path) -> None:
    exchanges = [(ask("a"), delivery("a", by="b"))]
    evidence = Evidence({"a": seen("a", attempt("a", "corrupt"), attempt("b"))}, cases=1)
    ledger = [line("a", "nan", changed=True), line("b"), line("somebody-else", "nan", changed=True)]
    plan = Options(serve=[], fault="none").plan
    result = judge(exchanges, ledger, evidence, Spent(1.0, 1.0, {}), plan)
    assert (result.score.requests, result.score.recovered, result.score.cases_saved) == (1, 1, 1)
    assert "at least 300 requests" in result.score.bar_missed

    write_trace(result, tmp_path / "trace.jsonl")
    (told,) = (tmp_path / "trace.jsonl").read_text().splitlines()
    assert [one["fault"] for one in msgspec.json.decode(told)["attempts"]] == ["nan", ""]
    assert not any(word in told for word in exchanges[0][0].task.answer.split() if len(word) > 5)


def leftovers(folder: Path) -> list[Path]:
    return list(folder.iterdir())


@pytest.mark.e2e
async def test_a_small_demo_takes_corrupted_answers_back_and_knows_the_truth(tmp_path: Path) -> None:
    demo = await asyncio.create_subprocess_exec(
        *(str(COMMAND), "demo", "--json", "--fault", "nan:1,random:1", "--fault-rate", "0.4"),
        *("--requests", str(WANTED), "--seconds", "15", "--agents", "6", "--seed", "7"),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        env={**os.environ, "TMPDIR": str(tmp_path)},
    )
    out, errors = await demo.communicate()
    assert demo.returncode == 0, errors.decode()
    (told,) = out.decode().splitlines()
    score = json.loads(told)
    parts = ("recovered", "failed_loudly", "escaped", "own_errors")
    assert score["requests"] == WANTED
    assert score["corrupted_upstream"] == sum(score[part] for part in parts)
    assert score["recovered"] > 0
    assert score["detected"] > 0
    assert score["cases_saved"] >= score["recovered"]
    assert (score["without_truth"], score["false_alarms"], score["failed_clean"]) == (0, 0, 0)
    assert set(score["by_fault"]) <= {"nan", "random"}
    assert all(seconds > 0 for seconds in score["cpu_seconds"].values())
    assert not leftovers(tmp_path)
