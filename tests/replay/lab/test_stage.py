"""The stage throws a scenario's switches, shows what its agents see, and leaves nothing behind."""

import asyncio
import contextlib
from collections.abc import Callable

import httpx
import pytest

from replay.lab.scenario import SCENARIOS, Phase, Scenario
from replay.lab.serve import Options
from replay.lab.stage import Seen, Stage

SMALL = Options(prefill=1, decode=1, pages=64, step_ms=1)


@pytest.mark.e2e
async def test_a_broken_draft_costs_acceptance_and_no_answer() -> None:
    phases = (Phase("calm", "fine", pause_s=0.01), *SCENARIOS["draft-broken"].phases[1:2])
    scenario = Scenario("small", "a test", phases, SMALL)
    async with Stage(scenario, 3, enough=lambda seen: seen.answered >= 5) as stage:
        workers = [worker.process for worker in stage.lab.workers]
        calm, broken = await stage.play(lambda _line: None)
        async with httpx.AsyncClient(trust_env=False) as http:
            state = (await http.get(f"{stage.lab.decode[0].url}/lab/control")).json()
    assert state["fault"] == "none"
    assert calm.accept_length is not None
    assert broken.accept_length is not None
    assert broken.accept_length < 0.6 * calm.accept_length
    assert broken.answered > 0
    spoilt = broken.text["leak"] + broken.text["loop"] + broken.text["silent"]
    assert spoilt <= 1 + broken.answered // 20  # the model itself loops in one answer of a hundred
    assert all(process.poll() is not None for process in workers)


@pytest.mark.e2e
async def test_clients_that_leave_and_a_stuck_worker_end_with_the_phase() -> None:
    phases = (
        Phase("storm", "clients leave", agents=4, pause_s=0.01, leave_share=1.0),
        Phase("stuck", "nothing moves", agents=2, decode={"stuck": True}),
        Phase("after", "all moves again", agents=2, pause_s=0.01),
    )
    enough: dict[str, Callable[[Seen], bool]] = {
        "storm": lambda seen: seen.left > 0,
        "stuck": lambda seen: seen.sent > 0,
        "after": lambda seen: seen.answered > 0,
    }
    scenario = Scenario("small", "a test", phases, SMALL)
    async with asyncio.timeout(55), Stage(scenario, 3, enough=lambda seen: enough[seen.phase](seen)) as stage:
        storm, stuck, after = await stage.play(lambda _line: None)
    assert storm.left > 0
    assert storm.answered == 0
    assert stuck.answered == 0 < stuck.sent
    assert after.answered > 0


@pytest.mark.e2e
async def test_candidates_and_branches_are_answered_mostly_from_the_cache() -> None:
    options = Options(prefill=1, decode=1, pages=128, step_ms=1, prefix_cache=True)
    many = Phase("many", "four at once", agents=1, pause_s=0.01, candidates=4, branches=2)
    scenario = Scenario("small", "a test", (many,), options)
    async with Stage(scenario, 2, enough=lambda seen: seen.answered >= 12) as stage:
        (seen,) = await stage.play(lambda _line: None)
    assert seen.answered % 4 == 0 or seen.sent > seen.answered
    assert seen.cached_tokens > 0.5 * seen.prompt_tokens
    assert seen.text["leak"] == 0
    assert seen.text["loop"] <= 1 + seen.answered // 20  # as above


@pytest.mark.e2e
async def test_an_agent_waits_for_its_tool() -> None:
    slow = Phase("slow", "no tool ends in this phase", agents=2, pause_s=0.01, tool_pace=1_000.0)
    scenario = Scenario("small", "a test", (slow,), SMALL)
    async with Stage(scenario, 2, enough=lambda seen: seen.answered >= 2) as stage:
        (seen,) = await stage.play(lambda _line: None)
    assert seen.sent == seen.answered == 2


def test_a_phase_is_told_in_one_line() -> None:
    seen = Seen(
        "calm", "fine", sent=3, answered=2, verify_steps=10, accepted=25, text={"right": 2, "leak": 0}
    )
    assert seen.accept_length == 3.5
    assert "accept length 3.50" in seen.line()
    assert "1 cut off by the phase's end, of 3" in seen.line()
    assert "right 2" in seen.line()
    assert "leak" not in seen.line()
    assert Seen("x", "y").accept_length is None


@pytest.mark.e2e
async def test_an_answer_that_breaks_off_is_a_failed_one_and_the_play_goes_on() -> None:
    async def broken(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        # The phase's end cuts connections off at any point.
        with contextlib.closing(writer), contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
            await reader.readuntil(b"\r\n\r\n")
            writer.write(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n6\r\ndata: \r\n")
            await writer.drain()

    async with await asyncio.start_server(broken, "127.0.0.1", 0) as server:
        target = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        phases = (Phase("broken", "no answer ends", agents=2, pause_s=0.05),)
        scenario = Scenario("small", "a test", phases, SMALL)
        async with Stage(scenario, 1, target=target, enough=lambda seen: seen.failed > 2) as stage:
            (seen,) = await stage.play(lambda _line: None)
    assert seen.answered == seen.left == 0
    assert seen.cut_off <= 2, "what the phase's end cuts off is no failure: at most one for each agent"
