"""Runs from plan to results: kept, stopped, refused, gone on with after a kill."""

import asyncio
import signal
import sys
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from replay.client import Done, RawCall, RawClient
from replay.errors import FAILURES_MIN
from replay.plan import Arm, Block, PlanError
from replay.results import CUT_OFF, Metric, ResultsError, Resumed, closing_of, read, read_results
from replay.run import run_plan
from replay.runner import Runner
from replay.shard import Shard
from replay.target import NotAllowedError, target_of
from tests.fakes import ScriptedUpstream, Stop, answer, stream
from tests.replay.runkit import BODY, by_id, evenly, mocking, options, plan_of, send

GOOD = stream(b'data: {"choices":[{"index":0,"delta":{"content":"ok"},"finish_reason":"stop"}]}\n\n')
JSON = b"application/json"


async def test_every_send_goes_out_at_its_time_and_comes_back_whole(tmp_path: Path) -> None:
    plan, out = plan_of(tmp_path / "p", evenly(20, 0.02)), tmp_path / "r"
    async with mocking() as (url, mock):
        summary = await run_plan(plan, out, options(url))
    found = by_id(out)
    assert (summary.sent, summary.ended, summary.failures, summary.left) == (20, 20, 0, 0)
    assert (summary.stopped, summary.by_ending, mock.requests) == (None, {"complete": 20}, 20)
    assert {one.text for one in found.values()} == {"the seven engineers read "}
    for number in range(20):
        one = found[f"r{number}"]
        assert one.scheduled_s == pytest.approx(number * 0.02)
        assert one.sent_s - one.scheduled_s > -0.002
        assert len(one.chunk_s) == 4
        assert one.first_byte_s is not None
        assert one.sent_s < one.first_byte_s < one.ended_s
        assert (one.completion_tokens, one.finish_reason, one.rid) == (4, "stop", "cmpl-1")
    closing = closing_of(out)
    assert closing is not None
    assert closing.kept is summary.kept


async def test_a_turn_waits_for_the_turn_before_and_its_pause(tmp_path: Path) -> None:
    sends = [send("a", 0.0), send("a2", 0.01, after="a", gap_s=0.1), send("b", 0.02)]
    out = tmp_path / "r"
    async with mocking(chunks=20, pace_ms=10) as (url, _):
        await run_plan(plan_of(tmp_path / "p", sends), out, options(url))
    found = by_id(out)
    assert found["a2"].scheduled_s >= found["a"].ended_s + 0.099
    assert found["a2"].sent_s >= found["a"].ended_s + 0.099
    assert found["b"].sent_s < found["a"].ended_s


async def test_a_host_that_nobody_has_named_gets_nothing(tmp_path: Path) -> None:
    plan = plan_of(tmp_path / "p", evenly(3, 0.01))
    async with ScriptedUpstream([GOOD]) as server:
        for wrong in (
            {"target": server.url},
            {"target": server.url, "allow": ("localhost",)},
            {"target": "http://10.0.0.1:1", "allow": ("127.0.0.1",)},
        ):
            with pytest.raises(NotAllowedError):
                await run_plan(plan, tmp_path / "r", type(options(""))(**wrong))
        with pytest.raises(NotAllowedError):
            await run_plan(plan, tmp_path / "r", options(server.url, metrics=("http://prod/metrics",)))
        assert server.connections == 0
    assert not (tmp_path / "r").exists()


async def test_a_plan_faster_than_the_cap_is_refused(tmp_path: Path) -> None:
    plan = plan_of(tmp_path / "p", evenly(30, 0.01))
    with pytest.raises(NotAllowedError, match="30 requests in its busiest second"):
        await run_plan(plan, tmp_path / "r", options("http://127.0.0.1:9", cap_per_s=29))


@pytest.mark.parametrize(
    ("script", "ending"),
    [
        ([answer(b'{"error":{"type":"Oops"}}', b"HTTP/1.1 500 X\r\n", JSON)], "error"),
        ([Stop.CLOSE], "refused"),
        ([GOOD[:-5], Stop.RESET], "reset"),
        ([Stop.FOREVER], "timeout"),
    ],
)
async def test_a_failing_backend_ends_the_run_within_ten_seconds(
    tmp_path: Path, script: list[bytes | Stop], ending: str
) -> None:
    plan, out = plan_of(tmp_path / "p", evenly(3000, 0.01)), tmp_path / "r"
    first_byte_s = 0.3 if ending == "timeout" else 60.0
    async with ScriptedUpstream(script) as server:
        summary = await run_plan(plan, out, options(server.url, first_byte_s=first_byte_s))
    ended = sorted(one.ended_s for one in by_id(out).values())
    assert ended[-1] - ended[FAILURES_MIN - 1] < 10
    assert (summary.stopped, summary.failing) == ("errors", True)
    assert summary.left > 2000
    assert summary.by_ending[ending] >= 5
    assert len(by_id(out)) == summary.sent
    closing = closing_of(out)
    assert closing is not None
    assert closing.stopped == "errors"


async def test_a_few_failures_end_no_run(tmp_path: Path) -> None:
    bad = answer(b"{}", b"HTTP/1.1 500 X\r\n", JSON)
    plan, out = plan_of(tmp_path / "p", evenly(30, 0.01)), tmp_path / "r"
    async with ScriptedUpstream([bad], [bad], [GOOD]) as server:
        summary = await run_plan(plan, out, options(server.url))
    assert (summary.stopped, summary.failing, summary.failures, summary.left) == (None, False, 2, 0)


async def test_failures_that_end_first_do_not_end_a_run_that_goes_well(tmp_path: Path) -> None:
    """Eight of forty are refused at once, and all others are still being answered then."""
    bad: list[bytes | float] = [answer(b"{}", b"HTTP/1.1 500 X\r\n", JSON)]
    good: list[bytes | float] = [2.0, GOOD]
    scripts = [bad if number % 5 == 4 else good for number in range(40)]
    plan, out = plan_of(tmp_path / "p", evenly(40, 0.01)), tmp_path / "r"
    async with ScriptedUpstream(*scripts) as server:
        summary = await run_plan(plan, out, options(server.url, error_share=0.25))
    assert (summary.stopped, summary.failures, summary.left) == (None, 8, 0)


async def test_a_client_that_gave_up_gives_up_again_at_the_same_point(tmp_path: Path) -> None:
    sends = [send("a", 0.0, abort_after_s=0.15), send("b", 0.0)]
    out = tmp_path / "r"
    async with mocking(chunks=60, pace_ms=10) as (url, _):
        summary = await run_plan(plan_of(tmp_path / "p", sends), out, options(url))
    found = by_id(out)
    assert (found["a"].ending, found["a"].error) == ("aborted", "as recorded")
    assert found["a"].ended_s - found["a"].scheduled_s >= 0.149
    assert found["b"].ending == "complete"
    assert found["a"].ended_s < found["b"].ended_s
    assert summary.failures == 0


async def test_a_run_told_to_stop_lets_what_is_under_way_end_for_a_while(tmp_path: Path) -> None:
    plan, out = plan_of(tmp_path / "p", evenly(200, 0.01)), tmp_path / "r"

    def soon(runner: Runner) -> None:
        asyncio.get_running_loop().call_later(0.6, lambda: runner.stop("interrupted", within_s=30))

    async with mocking(chunks=10, pace_ms=10) as (url, mock):
        summary = await run_plan(plan, out, options(url), begun=soon)
        assert summary.stopped == "interrupted"
        assert summary.by_ending == {"complete": summary.sent}
        rest = await run_plan(plan, out, options(url, resume=True))
    assert (rest.earlier, rest.left, rest.stopped) == (summary.sent, 0, None)
    assert len(by_id(out)) == mock.requests == 200


async def test_resuming_a_run_that_has_ended_sends_nothing(tmp_path: Path) -> None:
    plan, out = plan_of(tmp_path / "p", evenly(3, 0.01)), tmp_path / "r"
    async with mocking() as (url, mock):
        await run_plan(plan, out, options(url))
        summary = await run_plan(plan, out, options(url, resume=True))
    assert (summary.sent, summary.earlier, mock.requests) == (0, 3, 3)
    assert summary.seconds >= 0


async def test_a_file_of_another_run_is_neither_written_over_nor_resumed(tmp_path: Path) -> None:
    one, two = plan_of(tmp_path / "p", evenly(2, 0.01)), plan_of(tmp_path / "q", evenly(3, 0.01))
    out = tmp_path / "r"
    async with mocking() as (url, mock):
        await run_plan(one, out, options(url))
        for plan, more, told in (
            (one, {}, "already holds a run"),
            (two, {"resume": True}, "another plan"),
            (one, {"resume": True, "shard": Shard(0, 2)}, "shard"),
        ):
            with pytest.raises(ResultsError, match=told):
                await run_plan(plan, out, options(url, **more))
        with pytest.raises(ResultsError, match="its own target"):
            await run_plan(one, out, options("http://127.0.0.1:9", resume=True))
        assert mock.requests == 2


async def test_a_plan_that_was_changed_sends_nothing(tmp_path: Path) -> None:
    plan = plan_of(tmp_path / "p", evenly(3, 0.01))
    plan.write_bytes(plan.read_bytes().replace(b'"hi"', b'"ho"'))
    async with mocking() as (url, mock):
        with pytest.raises(PlanError, match="changed"):
            await run_plan(plan, tmp_path / "r", options(url))
        assert mock.requests == 0


async def test_a_plan_that_changes_under_way_ends_the_run_and_hangs_nobody(tmp_path: Path) -> None:
    plan, out = plan_of(tmp_path / "p", evenly(2000, 0.001)), tmp_path / "r"

    def change(_: Runner) -> None:
        plan.write_bytes(plan.read_bytes()[:-20])

    async with mocking() as (url, _):
        summary = await run_plan(plan, out, options(url), begun=change)
    assert summary.stopped == "plan"
    assert 0 < summary.sent < 2000
    assert len(by_id(out)) == summary.sent


async def test_a_start_in_the_past_is_refused_and_one_to_come_is_kept(tmp_path: Path) -> None:
    plan, out = plan_of(tmp_path / "p", evenly(2, 0.01)), tmp_path / "r"
    async with mocking() as (url, mock):
        past = datetime.now(UTC) - timedelta(seconds=1)
        with pytest.raises(ResultsError, match="was to start"):
            await run_plan(plan, out, options(url, start_at=past))
        assert mock.requests == 0
        for lead_s in (3, 60):  # a machine that is busy for so long gets more
            soon = datetime.now(UTC) + timedelta(seconds=lead_s)
            with suppress(ResultsError):
                await run_plan(plan, out, options(url, start_at=soon))
                break
        again = await run_plan(plan, out, options(url, start_at=past, resume=True))
    assert read_results(out)[0].started_at == soon.isoformat()
    assert (again.earlier, mock.requests) == (2, 2)


async def test_shards_send_every_request_once_and_sessions_whole(tmp_path: Path) -> None:
    sends = [send(f"s{n}", n * 0.005, session=f"u{n % 7}") for n in range(40)]
    plan = plan_of(tmp_path / "p", sends)
    async with mocking() as (url, mock):
        for number in range(3):
            await run_plan(plan, tmp_path / f"r{number}", options(url, shard=Shard(number, 3)))
    parts = [set(by_id(tmp_path / f"r{number}")) for number in range(3)]
    assert sum(map(len, parts)) == len(set.union(*parts)) == mock.requests == 40
    homes = {
        f"u{k}": {n for n in range(3) if parts[n] & {f"s{i}" for i in range(k, 40, 7)}} for k in range(7)
    }
    assert all(len(home) == 1 for home in homes.values())


async def test_metrics_are_kept_and_joined_to_each_request(tmp_path: Path) -> None:
    page = b"# TYPE sglang:token_usage gauge\nsglang:token_usage 0.5\nsglang:token_usage 0.7\n"
    plan, out = plan_of(tmp_path / "p", evenly(2, 3.0)), tmp_path / "r"
    async with mocking() as (url, _), ScriptedUpstream([answer(page, kind=b"text/plain")]) as pages:
        metrics = (pages.url + "/metrics", "http://127.0.0.1:9/metrics")
        await run_plan(plan, out, options(url, metrics=metrics))
        assert pages.requests[0].startswith(b"GET /metrics HTTP/1.1\r\n")
    kept = [line for line in read(out) if isinstance(line, Metric)]
    assert kept[0].url == pages.url + "/metrics"
    assert kept[0].values == {"token_usage": pytest.approx(0.6)}
    assert by_id(out)["r1"].met == {pages.url + "/metrics": {"token_usage": pytest.approx(0.6)}}


KNOBS = {"control": {"decode": {"fault": "none"}}}


def turned(path: Path) -> Path:
    """A plan whose second block turns a knob."""
    sends = [send("a", 0.0), send("b", 0.6, arm="peak", block=1)]
    blocks = [
        Block(index=0, arm="idle", start_s=0.0, end_s=0.5),
        Block(index=1, arm="peak", start_s=0.6, end_s=1.0),
    ]
    return plan_of(path, sends, arms=[Arm(name="idle"), Arm(name="peak", knobs=KNOBS)], blocks=blocks)


async def test_a_block_begins_when_its_knobs_are_turned(tmp_path: Path) -> None:
    out = tmp_path / "r"
    slow: list[bytes | float] = [0.8, answer(b"{}", kind=JSON)]
    async with mocking() as (url, _), ScriptedUpstream(slow) as knobs:
        control = {"decode": (knobs.url + "/lab/control",)}
        await run_plan(turned(tmp_path / "p"), out, options(url, controls=control))
        assert knobs.requests[0].endswith(b'{"fault":"none"}')
        assert len(knobs.requests) == 1
    found = by_id(out)
    assert found["a"].sent_s < found["b"].sent_s
    assert found["b"].sent_s > 0.8


async def test_a_knob_that_is_refused_ends_the_run(tmp_path: Path) -> None:
    out = tmp_path / "r"
    async with (
        mocking() as (url, mock),
        ScriptedUpstream([answer(b"{}", b"HTTP/1.1 400 X\r\n", JSON)]) as knobs,
    ):
        control = {"decode": (knobs.url + "/lab/control",)}
        summary = await run_plan(turned(tmp_path / "p"), out, options(url, controls=control))
    assert (summary.stopped, summary.left, mock.requests) == ("control", 1, 1)
    assert "http 400" in summary.told


async def test_a_full_disk_stops_the_sending_and_loses_nothing(tmp_path: Path) -> None:
    plan, out = plan_of(tmp_path / "p", evenly(300, 0.005)), tmp_path / "r"

    runners: list[Runner] = []

    class Filling(RawClient):
        """The disk is full when the fiftieth request goes out."""

        def start(self, path: str, body: bytes, done: Done) -> RawCall:
            if (runner := runners[0])._sent == 50:
                runner._journal.full = True
            return super().start(path, body, done)

    async with mocking(chunks=20, pace_ms=5) as (url, mock):
        filling = Filling(target_of(url))
        summary = await run_plan(plan, out, options(url), begun=runners.append, transport=lambda _: filling)
        assert (summary.stopped, summary.told) == ("disk", "the disk is full")
        assert summary.by_ending == {"complete": summary.sent}
        assert 50 <= summary.sent < 300
        await run_plan(plan, out, options(url, resume=True))
        assert len(by_id(out)) == mock.requests == 300


CHILD = """
import asyncio, sys
from pathlib import Path
from replay.run import run_plan
from replay.runner import Options
plan, out, url, resume = sys.argv[1:]
options = Options(target=url, allow=("127.0.0.1",), resume=resume == "yes")
asyncio.run(run_plan(Path(plan), Path(out), options))
"""


async def many(server: ScriptedUpstream, count: int) -> None:
    """Wait until so many requests have come."""
    while len(server.requests) < count:  # noqa: ASYNC110 - the fake has no event for it
        await asyncio.sleep(0.005)


@pytest.mark.e2e
async def test_a_run_killed_in_the_middle_goes_on_with_nothing_lost_or_sent_twice(tmp_path: Path) -> None:
    bodies = [{**BODY, "user": f"r{n}"} for n in range(150)]
    sends = [send(f"r{n}", n * 0.01, body=body) for n, body in enumerate(bodies)]
    plan, out = plan_of(tmp_path / "p", sends), tmp_path / "r"
    slow: list[bytes | float] = [0.1, GOOD]

    async def child(url: str, resume: str) -> asyncio.subprocess.Process:
        return await asyncio.create_subprocess_exec(
            *(sys.executable, "-c", CHILD, str(plan), str(out), url, resume), cwd=Path(__file__).parents[2]
        )

    async with ScriptedUpstream(slow) as server:
        killed = await child(server.url, "no")
        await many(server, 60)
        killed.send_signal(signal.SIGKILL)
        await killed.wait()
        assert closing_of(out) is None
        assert await (await child(server.url, "yes")).wait() == 0
        came = [request.rpartition(b'"user":"')[2].rstrip(b'"}').decode() for request in server.requests]
    found = by_id(out)
    planned = {one.id for one in sends}
    cut = {one.id for one in found.values() if one.error == CUT_OFF}
    assert found.keys() == planned
    assert len(came) == len(set(came)), "sent twice"
    assert planned - set(came) <= cut, (
        "lost: what the kernel threw away with the killed client is told as cut off"
    )
    assert 0 < len(cut) < len(sends)
    assert all(one.text == "ok" for one in found.values() if one.error is None)
    assert len([line for line in read(out) if isinstance(line, Resumed)]) == 1
