"""`specguard doctor`: examines what it is pointed at, and its exit code is the worst of what it found."""

import asyncio
import json
from pathlib import Path
from typing import Any

import httpx
import pytest

from replay.lab.router import Router
from replay.lab.serve import Lab, Options
from service.cli import run
from service.cli.exits import BAD_INPUT, DONE, FOUND
from tests.paths import paths

NOWHERE = "http://127.0.0.1:1"


def doctored(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, dict[str, Any]]:
    code = run(["doctor", *words, "--json"])
    return code, json.loads(capsys.readouterr().out)


def test_an_unreachable_worker_is_a_finding_and_ends_with_two(capsys: pytest.CaptureFixture[str]) -> None:
    code, told = doctored(capsys, "--worker", NOWHERE, "--router", NOWHERE)
    assert code == BAD_INPUT
    assert [finding["code"] for finding in told["findings"]] == ["unreachable", "unreachable"]
    assert told["workers"][0]["reachable"] is False


def test_the_text_names_reason_and_remedy(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["doctor", "--worker", NOWHERE]) == BAD_INPUT
    said = capsys.readouterr().out
    assert all(word in said for word in ("ERROR unreachable", "what", "why", "fix", "the worst: error"))


def test_the_matrix_needs_nobody(capsys: pytest.CaptureFixture[str]) -> None:
    code, told = doctored(capsys, "--capabilities")
    assert (code, set(told)) == (DONE, {"v", "capabilities"})
    assert {row["mode"] for row in told["capabilities"] if not row["supported"]} == {"grpc", "dp-aware"}
    assert run(["doctor", "--capabilities"]) == DONE
    assert "UNSUPPORTED" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "said"), [([], "name a router"), (["--worker", NOWHERE, "--router-flags", "'"], "router flags")]
)
def test_bad_input_is_named(words: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["doctor", *words]) == BAD_INPUT
    assert said in capsys.readouterr().err


def test_one_finding_is_counted_as_one_and_a_router_that_is_away_has_no_policy(
    capsys: pytest.CaptureFixture[str],
) -> None:
    run(["doctor", "--router", NOWHERE])
    said = capsys.readouterr().out
    assert f"router {NOWHERE}: cannot be asked (no connection)" in said
    assert "1 finding, the worst: error" in said


async def test_workers_of_a_pair_without_their_router_are_not_called_unsupported(
    capsys: pytest.CaptureFixture[str],
) -> None:
    decode = json.dumps({"version": "0.5.23", "disaggregation_mode": "decode", "host": "127.0.0.1"}).encode()
    async with paths({"/server_info": (200, decode), "/metrics": (200, b"")}) as worker:
        await asyncio.to_thread(run, ["doctor", "--worker", worker.url])
    said = capsys.readouterr().out
    assert "mode pd: not judged, the router is not named" in said
    assert "router_unnamed" in said


@pytest.mark.e2e
async def test_a_running_fleet_is_examined(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    async with (
        Lab(Options(prefill=1, decode=2, pages=64, step_ms=1)) as lab,
        Router(lab, tmp_path / "router.log") as router,
    ):
        chat = {
            "model": "specguard-lab",
            "messages": [{"role": "user", "content": "copy 1"}],
            "max_tokens": 4,
        }
        async with httpx.AsyncClient(trust_env=False, timeout=50) as client:
            (await client.post(f"{router.url}/v1/chat/completions", json=chat)).raise_for_status()
        words = ["--router", router.url, "--router-metrics", router.metrics_url]
        code, told = await asyncio.to_thread(doctored, capsys, *words)
        bad_code, bad = await asyncio.to_thread(
            doctored, capsys, "--router", router.url, "--router-flags", "smg launch --policy cache_aware"
        )
    assert (code, told["here"]["steering"], told["here"]["mode"]) == (DONE, "pinned", "pd")
    assert {worker["role"] for worker in told["workers"]} == {"prefill", "decode"}
    assert {finding["severity"] for finding in told["findings"]} == {"info"}
    assert bad_code == BAD_INPUT
    assert {finding["code"] for finding in bad["findings"]} >= {"retry_same_worker", "retries_multiply"}


async def test_a_warning_ends_with_one(capsys: pytest.CaptureFixture[str]) -> None:
    async with paths({}) as stranger:
        code = await asyncio.to_thread(run, ["doctor", "--worker", stranger.url])
    assert "unknown_engine" in capsys.readouterr().out
    assert code == FOUND
