"""The whole lab in processes: it answers exactly, survives a killed worker, and leaves nothing behind."""

import asyncio
import gc
import os
import shutil
import signal
import socket
import subprocess
import sys
from pathlib import Path
from random import Random
from typing import Any

import httpx
import pytest

from replay.lab.faults import FaultSpecError
from replay.lab.hicache import Mode as CacheMode
from replay.lab.serve import Endpoint, Lab, LabError, Options, describe
from replay.lab.speculation import reference_answer
from replay.lab.tokenizer import decode
from service.core.loglines import read
from tests.replay.lab.labkit import prompt

ROOT = Path(__file__).parents[3]
PROGRAM = """
from replay.lab.serve import Options, run
raise SystemExit(run(Options(prefill=1, decode=1, pages=64), lambda line: print(line, flush=True)))
"""
rooms = Random(1)


def request(prefill: Endpoint, seed: int) -> dict[str, object]:
    """Return the body that a router sends to both workers of a pair."""
    pair = {"bootstrap_host": "127.0.0.1", "bootstrap_port": prefill.bootstrap_port}
    return {"text": decode(prompt(seed)), **pair, "bootstrap_room": rooms.getrandbits(62)}


async def broken(client: httpx.AsyncClient, worker: Endpoint, body: dict[str, object]) -> bool:
    """Send one leg; tell whether the connection broke before an answer."""
    try:
        await client.post(f"{worker.url}/generate", json=body)
    except httpx.TransportError:
        return True
    return False


async def queued(client: httpx.AsyncClient, url: str, queue: str) -> int:
    """Return how many requests wait in one of a worker's queues."""
    (loads,) = (await client.get(f"{url}/v1/loads")).json()["loads"]
    return int(loads["disaggregation"][queue])


async def ask(
    client: httpx.AsyncClient, prefill: Endpoint, decode_worker: Endpoint, seed: int
) -> httpx.Response:
    """Send one request to a pair, as a router does; return decode's answer."""
    body = request(prefill, seed)
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(client.post(f"{prefill.url}/generate", json=body))
        answer = tasks.create_task(client.post(f"{decode_worker.url}/generate", json=body))
    return answer.result()


def running(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except FileNotFoundError:
        return False


async def gone(pids: list[int]) -> None:
    async with asyncio.timeout(50):
        while any(running(pid) for pid in pids):  # noqa: ASYNC110 (strange processes have no event)
            await asyncio.sleep(0.02)


def shared_memory() -> set[str]:
    return {entry.name for entry in Path("/dev/shm").iterdir()}  # noqa: S108 (looking, not writing)


def free(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) != 0


def descriptors() -> int:
    gc.collect()  # what earlier tests left goes now, and not between two counts
    return len(list(Path("/proc/self/fd").iterdir()))


@pytest.mark.e2e
async def test_every_pair_answers_as_the_model_alone_and_nothing_is_left() -> None:
    before, opened = shared_memory(), descriptors()
    async with Lab(Options(prefill=2, decode=2, pages=64, step_ms=1)) as lab:
        pids = [worker.process.pid for worker in lab.workers]
        async with httpx.AsyncClient(trust_env=False, timeout=50) as client:
            for seed, (prefill, decoder) in enumerate((p, d) for p in lab.prefill for d in lab.decode):
                answer = await ask(client, prefill, decoder, seed)
                assert answer.json()["output_ids"] == reference_answer(prompt(seed), 128)
        await lab.control(fault="nan", rate=1, onset=[2, 2])
        async with httpx.AsyncClient(trust_env=False, timeout=50) as client:
            await ask(client, lab.prefill[0], lab.decode[1], 1)
        lines = await lab.ledger()
        assert [line["answer_changed"] for line in lines].count(True) == 1
        assert len(lines) == 5
        assert shared_memory() <= before
    assert not any(running(pid) for pid in pids)
    assert shared_memory() <= before
    assert descriptors() == opened
    assert repr(lab) == "<Lab not started>"


@pytest.mark.e2e
async def test_a_killed_worker_is_missed_the_others_serve_on_and_the_end_is_clean() -> None:
    before = shared_memory()
    async with Lab(Options(prefill=1, decode=2, pages=64, step_ms=1)) as lab:
        pids = [worker.process.pid for worker in lab.workers]
        os.kill(lab.decode[0].process.pid, signal.SIGKILL)
        await gone([lab.decode[0].process.pid])
        async with asyncio.timeout(50):
            while "decode-0 gone" not in repr(lab):  # noqa: ASYNC110 (the loop reaps its child when it may)
                await asyncio.sleep(0.02)
        assert "decode-0 gone, decode-1 up" in repr(lab)
        async with httpx.AsyncClient(trust_env=False, timeout=50) as client:
            answer = await ask(client, lab.prefill[0], lab.decode[1], 3)
            with pytest.raises(httpx.ConnectError):
                await client.get(f"{lab.decode[0].url}/health")
        assert answer.json()["output_ids"] == reference_answer(prompt(3), 128)
        assert len(await lab.ledger()) == 1
    assert not any(running(pid) for pid in pids)
    assert shared_memory() <= before


@pytest.mark.e2e
async def test_requests_of_a_killed_prefill_worker_fail_and_give_their_pages_back() -> None:
    before = shared_memory()
    async with Lab(Options(prefill=2, decode=1, pages=64, step_ms=1)) as lab:
        lost, url = lab.prefill[0], lab.decode[0].url
        async with httpx.AsyncClient(trust_env=False, timeout=50) as client:
            await client.post(f"{lost.url}/lab/control", json={"prefill_ms": 60_000})
            body = request(lost, 1)
            async with asyncio.TaskGroup() as tasks:
                leg = tasks.create_task(broken(client, lost, body))
                answer = tasks.create_task(client.post(f"{url}/generate", json=body))
                while not await queued(client, url, "decode_transfer_queue_reqs"):  # noqa: ASYNC110 (another process has no event)
                    await asyncio.sleep(0.01)
                os.kill(lost.process.pid, signal.SIGKILL)
            assert leg.result()
            assert answer.result().status_code == 500
            assert "Lost connection with prefill instance" in answer.result().text
            other = await ask(client, lab.prefill[1], lab.decode[0], 3)
            loads = (await client.get(f"{url}/v1/loads")).json()["loads"][0]
        assert other.json()["output_ids"] == reference_answer(prompt(3), 128)
        assert loads["num_used_tokens"] == 0
    assert shared_memory() <= before


def start_program() -> tuple[subprocess.Popen[str], list[str]]:
    """Start `run` in a process of its own; return it and its first lines."""
    process = subprocess.Popen(
        [sys.executable, "-c", PROGRAM], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=ROOT
    )
    assert process.stdout is not None
    return process, [process.stdout.readline() for _ in range(4)]


def children(pid: int) -> list[int]:
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


@pytest.mark.e2e
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
async def test_ctrl_c_ends_everything_without_a_word(number: signal.Signals) -> None:
    process, lines = start_program()
    workers = children(process.pid)
    assert [line.split()[0] for line in lines] == ["prefill-0", "decode-0", "faults", "router"]
    process.send_signal(number)
    _, errors = process.communicate(timeout=50)
    assert (process.returncode, errors) == (0, "")
    assert len(workers) == 2
    assert not any(running(pid) for pid in workers)


@pytest.mark.e2e
async def test_workers_do_not_outlive_a_killed_supervisor() -> None:
    process, _ = start_program()
    workers = children(process.pid)
    assert len(workers) == 2
    process.kill()
    process.communicate()
    await gone(workers)


@pytest.mark.e2e
async def test_a_taken_port_is_named_and_nothing_is_started() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        lab = Lab(Options(port_base=port))
        with pytest.raises(LabError, match=f"port {port} on 127.0.0.1 cannot be used"):
            await lab.start()
    assert lab.workers == []


@pytest.mark.e2e
async def test_ports_follow_the_base_in_the_order_that_is_documented() -> None:
    base = next(port for port in range(21_000, 30_000, 3) if all(free(port + at) for at in range(3)))
    async with Lab(Options(prefill=1, decode=1, pages=64, port_base=base)) as lab:
        assert (lab.prefill[0].port, lab.decode[0].port) == (base, base + 1)
        assert lab.prefill[0].bootstrap_port == base + 2
        assert f"--prefill {lab.prefill[0].url} {base + 2} --decode" in describe(lab)[-1]


@pytest.mark.e2e
async def test_a_worker_that_dies_at_start_is_named_and_the_rest_is_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "uvloop.py").write_text("raise SystemExit('no event loop on this machine')")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    log = tmp_path / "lab.log"
    lab = Lab(Options(prefill=1, decode=1, log_path=log))
    with pytest.raises(LabError, match=r"prefill-0 ended with status 1 at start; see .*lab.log"):
        await lab.start()
    assert "no event loop on this machine" in log.read_text()
    assert lab.workers == []


@pytest.mark.e2e
def test_truncated_weights_are_named_before_any_worker_exists(tmp_path: Path) -> None:
    shutil.copytree(ROOT / "replay", tmp_path / "replay", ignore=shutil.ignore_patterns("__pycache__"))
    weights = tmp_path / "replay/lab/weights/target.npz"
    weights.write_bytes(weights.read_bytes()[:10_000])
    ended = subprocess.run(
        [sys.executable, "-P", "-c", PROGRAM],
        capture_output=True,
        text=True,
        check=False,
        env={"PYTHONPATH": str(tmp_path)},
    )
    assert ended.returncode == 1
    assert ended.stdout == ""
    last = ended.stderr.strip().splitlines()[-1]
    assert last.startswith(f"replay.lab.serve.LabError: {weights}: truncated or not a weights file")


@pytest.mark.parametrize(
    ("wrong", "error"),
    [
        ({"prefill": 0}, LabError),
        ({"decode": 0}, LabError),
        ({"pages": 63}, LabError),
        ({"seed": -1}, FaultSpecError),
        ({"fault": "nann"}, FaultSpecError),
        ({"fault_rate": 2}, FaultSpecError),
        ({"step_ms": -1}, ValueError),
    ],
)
def test_options_that_no_worker_could_serve_are_refused(
    wrong: dict[str, object], error: type[Exception]
) -> None:
    with pytest.raises(error):
        Options(**wrong)  # type: ignore[arg-type]  # (wrong on purpose)


@pytest.mark.e2e
async def test_a_lab_with_a_cache_says_what_it_had_and_writes_the_engines_log(tmp_path: Path) -> None:
    log = tmp_path / "engine.log"
    options = Options(
        prefill=1,
        decode=1,
        pages=64,
        step_ms=1,
        prefix_cache=True,
        host_pages=64,
        hicache=CacheMode.FIXED,
        drafter="ngram",
        engine_log=True,
        log_path=log,
    )
    async with Lab(options) as lab, httpx.AsyncClient(trust_env=False, timeout=50) as client:
        answers = [(await ask(client, lab.prefill[0], lab.decode[0], 1)).json() for _ in range(2)]
        state = (await client.get(f"{lab.prefill[0].url}/lab/control")).json()
        drafter = (await client.get(f"{lab.decode[0].url}/lab/control")).json()["drafter"]
    assert [answer["output_ids"] for answer in answers] == [reference_answer(prompt(1), 128)] * 2
    first, second = (answer["meta_info"]["cached_tokens"] for answer in answers)
    assert first == 0 < second
    assert (state["hicache"], state["device_hit_tokens"], drafter) == ("fixed", second, "ngram")
    events = [read(line) for line in log.read_text().splitlines()]
    cached = [event.numbers["cached_tokens"] for event in events if event is not None]
    assert cached == [0, second]


@pytest.mark.parametrize(
    ("fields", "named"),
    [
        ({"drafter": "oracle"}, "oracle"),
        ({"host_pages": 4}, "prefix cache"),
        ({"prefix_cache": True, "hicache": CacheMode.FIXED}, "host pages"),
    ],
)
def test_a_cache_that_makes_no_sense_is_refused_before_anything_starts(
    fields: dict[str, Any], named: str
) -> None:
    with pytest.raises(LabError, match=named):
        Options(**fields)
